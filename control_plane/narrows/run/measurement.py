# SPDX-License-Identifier: Apache-2.0
"""The part of a run that needs the testbed: set up, let traffic flow, read the counters, take everything down.

However it ends, the testbed is gone afterwards. Once traffic has flowed, what was measured is kept and says how it
ended: complete, partial (interrupted) or failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from narrows_formats.target_profile import TargetProfile
from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import ETHERNET_HEADER_BYTES, Link, Plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.run import disturbances, draining
from narrows.run.changes import Changes, Made
from narrows.run.collector import TelemetryCollector
from narrows.run.collector_figures import ce_marks_at
from narrows.run.conductor import Action, Conductor, Driver
from narrows.run.figures import SHOWN_AFTER_S, Figures
from narrows.run.observer import Observer
from narrows.run.results import RunDirectory
from narrows.run.sampler import Snapshot
from narrows.run.standing import set_up
from narrows.run.stop_signals import already_ending, stop_signals_call
from narrows.switch.readings import DIGEST_WAIT_NS, Balance, FlowDrops, FlowTotals, PortStats, QueueStats, by_place
from narrows.targets.base import AppliedSettings, Target
from narrows.traffic.connection import Connection
from narrows.traffic.sockets import Readings
from narrows.traffic.traffic import Traffic

# The phase in which flows run.
TRAFFIC = "traffic"
POLL_S = 0.5
# A switch in real time that does not answer for so long, while this process runs, stands still.
STANDSTILL_S, TICK_S = 1.0, 0.1
CLOCK_READINGS = 5
# Not those of the system's services.
FIRST_USER_PORT, LAST_PORT = 1024, 65535

Status = Literal["complete", "partial", "failed"]


class Progress(Protocol):
    """Follows the progress of a run."""

    def phase(self, text: str, total_s: float | None = None) -> None:
        """A phase begins; ``total_s`` is how long it will take, if that is known."""

    def show(self, snapshot: Snapshot) -> None:
        """Figures of the moment."""

    def note(self, text: str) -> None:
        """Something that the user should know."""


@dataclass(frozen=True)
class LinkCounters:
    """What the switch had counted at a link: drops of its queue (None where it cannot tell), and by flow index.

    ``totals`` are of all flow indices that it has reported and of those with drops.
    """

    port_drops: int | None
    drops: list[FlowDrops]
    totals: list[FlowTotals]


@dataclass(frozen=True)
class Counters:
    """What the switch had counted when nothing moved any more; ``links`` are those with a rate, by name."""

    queues: list[QueueStats]
    ports: list[PortStats]
    links: dict[str, LinkCounters]
    packet_conservation: list[Balance]
    lost_reports: dict[str, int]


@dataclass(frozen=True)
class Measured:
    """What a measurement has found, beside the files in the run's directory: all that run.json is written from.

    ``reasons`` say why ``status`` is not complete; ``notes`` are for the user. ``origin_s`` is the monotonic time of
    the experiment's start, ``origin_unix_ns`` the same by the calendar of where it was measured, and
    ``clock_offset_ns`` the switch's clock minus the monotonic one, where it can be read.
    ``counters`` and ``unexpected_losses`` are None if there was no time to read them. ``changes`` are the
    experiment's that were made while traffic flowed, ``by_driver`` is what a driver had done then.
    """

    status: Status
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    started: datetime
    ended: datetime
    profile: TargetProfile
    applied: AppliedSettings
    rate_steps: dict[str, dict[str, Any]]
    queue_updates: dict[str, dict[str, Any]]
    testbed: dict[str, Any]
    origin_s: float
    origin_unix_ns: int
    clock_offset_ns: int | None
    connections: list[Connection]
    sockets: tuple[Readings, ...]
    learned: list[dict[str, Any]]
    counters: Counters | None
    unexpected_losses: list[str] | None
    changes: tuple[Made, ...] = ()
    by_driver: tuple[Action, ...] = ()


def with_reports_of_its_own(plan: Plan) -> Plan:
    """The plan with a source port for its reports that no other process knows; the collector accepts only this one."""
    port = FIRST_USER_PORT + secrets.randbelow(1 + LAST_PORT - FIRST_USER_PORT)
    return replace(plan, collector=replace(plan.collector, src_port=port))


class Measurement:
    """One run on one testbed."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        state: RunState,
        results: RunDirectory,
        socket_interval_ns: int,
        figures: Figures | None = None,
        driver: Driver | None = None,
        counts_marks: bool = False,
    ) -> None:
        """Nothing is created before `run`; ``results`` is there. Sockets are read at that interval, or never if 0.

        A ``driver`` changes links while traffic flows, starts and stops flows, and says when it ends. ``counts_marks``:
        the collector is asked for CE marks meanwhile, where links mark and every packet is reported.
        """
        mtu = plan.frame_bytes - ETHERNET_HEADER_BYTES
        plan = with_reports_of_its_own(plan)
        self._plan = plan
        self._target = target
        self._state = state
        self._results = results
        self._testbed = target.testbed(plan, state, mtu)
        self._traffic = Traffic(plan, self._testbed, results.hosts, socket_interval_ns)
        self._collector = TelemetryCollector(self._testbed, plan.collector, results.telemetry)
        self._observer = Observer(plan, target)
        self._figures = figures
        self._counts_marks = counts_marks and plan.marks_ecn and not any(link.sample_shift for link in plan.links)
        self._collected: Path | None = None
        self._changes = Changes(plan, target)
        self._stream = results.reports_stream if plan.shows_reports else None
        self._conductor = (
            None
            if driver is None
            else Conductor(plan, target, self._observer, self._traffic, self._show_reports, driver)
        )
        self._applied: AppliedSettings | None = None
        self._clock_offset_ns: int | None = None
        self._counters: Counters | None = None
        self._losses: list[str] | None = None
        self._tcp_counters: dict[str, dict[str, int]] = {}
        self._ending = False
        self._signal: signal.Signals | None = None
        self._unanswered_s = 0.0
        self._reasons: list[str] = []
        self._status: Status = "complete"

    async def run(self, progress: Progress) -> Measured:
        """Measure; telemetry and what the hosts say is in the result directory afterwards.

        Raises:
            RunError: it failed before any traffic flowed, or the testbed cannot be removed.
            asyncio.CancelledError: a signal stopped it before any traffic flowed.
        """
        started = datetime.now(UTC)
        with self._cancelled_by_signals(progress):
            try:
                await self._prepare(progress)
                await self._flow(progress)
                await self._finish(progress)
            except BaseException:
                await self._tear_down(progress)
                # They are reported nowhere else: without traffic there is no run.json.
                for reason in self._reasons:
                    progress.note(reason)
                raise
            await self._tear_down(progress)
        return self._measured(started)

    def host_metadata(self) -> dict[str, Any]:
        """What run.json says of where it was measured."""
        return {"host": machine.describe()}

    async def _prepare(self, progress: Progress) -> None:
        """From nothing to a configured switch and waiting servers."""
        self._applied = await set_up(self._target, self._testbed, self._plan, progress.phase, piped=True)
        # A driver sees the state of an instant: a flow that is not known then has sent nothing.
        await self._observer.start(at_once=self._conductor is not None)
        progress.phase("starting collector and servers")
        await self._start_collector()
        await self._traffic.start()
        self._clock_offset_ns = await self._measure_clock_offset()

    async def _start_collector(self) -> None:
        # Another machine's socket is out of reach.
        if (self._figures is not None or self._counts_marks) and not self._target.hosts_are_machines:
            self._collected = self._testbed.state_dir / "metrics.sock"
        figures = None if self._collected is None else (self._collected, self._target.profile)
        await self._collector.start(self._target.reports_pipe(), figures, self._stream)
        if self._figures is not None:
            self._figures.begin(self._plan, self._collected)

    async def _flow(self, progress: Progress) -> None:
        """Let all flows run; an interruption or a failure ends them early and is remembered, not raised."""
        end = self._plan.end_ns
        progress.phase(TRAFFIC, None if end is None else end / NANOSECONDS)
        begun: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        tasks = [
            asyncio.create_task(self._traffic.run(partial(self._begin, begun))),
            asyncio.create_task(self._monitor(progress)),
            *([asyncio.create_task(self._change(begun))] if self._plan.changes or self._conductor else []),
            # In a guest no time passes while something is to be done; a switch elsewhere is reached by a network.
            *(
                []
                if self._plan.in_guest or self._target.hosts_are_machines
                else [asyncio.create_task(self._watch_switch())]
            ),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            name = self._signal.name if self._signal else "the system"
            self._degrade("partial", f"interrupted by {name}")
        self._ending = True
        for task in tasks:
            task.cancel()
            with self._remembering_failure(), contextlib.suppress(asyncio.CancelledError):
                await task
        self._note_standstill()
        if self._status == "complete":
            self._traffic.is_over()

    async def _change(self, begun: asyncio.Future[float]) -> None:
        """Make the changes of links that no schedule has, counted from the experiment's start, or those of a driver."""
        await (self._conductor or self._changes).run(await begun, self._clock_offset_ns)

    async def _show_reports(self) -> tuple[Path, int] | None:
        """The file with all reports until now, and how many bytes of it are complete; None if none was asked for."""
        return None if self._stream is None else (self._stream, await self._collector.show())

    async def _begin(self, begun: asyncio.Future[float], origin_s: float) -> None:
        """Links that vary do so from the experiment's start on."""
        begun.set_result(origin_s)
        if any(link.schedule is not None or link.delay_steps is not None for link in self._plan.links):
            offset_ns = 0 if self._target.times_schedules_here else self._clock_offset_ns
            if offset_ns is None:
                raise RunError("a link varies, and the switch's clock cannot be read")
            await self._target.start_schedules(round(origin_s * NANOSECONDS) + offset_ns)

    async def _finish(self, progress: Progress) -> None:
        """Drain the queue, then read every counter while nothing moves any more."""
        progress.phase("draining the queue and reading counters")
        with self._remembering_failure():
            await self._traffic.stop()
            await draining.drain(self._link_queues, self._plan)
            await draining.wait_for_datagrams(self._link_queues, self._plan)
            # Before the senders' links go down: what arrives there afterwards is lost on purpose.
            await self._note_losses()
            self._testbed.take_senders_down()
            await draining.wait_for_quiescence(self._link_queues, self._plan)
            await self._traffic.finish()
            self._tcp_counters = self._testbed.tcp_counters()
            if self._figures is not None:
                await asyncio.sleep(SHOWN_AFTER_S)
                self._figures.queues(await self._link_queues())
                self._figures.end()
        with self._remembering_failure():
            await self._collector.stop()
        with self._remembering_failure():
            self._counters = await self._read_counters()

    async def _tear_down(self, progress: Progress) -> None:
        """Stop what runs and remove what was made; in this order processes can still report."""
        progress.phase("removing the testbed")
        self._ending = True
        for stop in (self._collector.stop, self._traffic.stop, self._traffic.finish, self._target.stop):
            with self._remembering_failure():
                await stop()
        if self._stream is not None:
            self._stream.unlink(missing_ok=True)
        for remove in (self._testbed.remove, self._state.release):
            with self._remembering_failure():
                remove()

    async def _monitor(self, progress: Progress) -> None:
        """Show rates and queue, and notice at once when the switch or the collector dies."""
        while True:
            self._collector.check()
            if self._conductor is not None and self._target.stands_still:
                # The driver reads the switch: with a second reader, time might pass while the run is halted.
                await asyncio.sleep(POLL_S)
                continue
            queues = await self._link_queues()
            if self._figures is not None:
                self._figures.queues(queues)
            elapsed_s = max(0.0, time.monotonic() - self._traffic.origin_s)
            snapshot = await self._observer.sample(queues, elapsed_s, self._traffic.active)
            progress.show(snapshot.with_marks(await self._marks()))
            await asyncio.sleep(POLL_S)

    async def _watch_switch(self) -> None:
        """Ask the switch for its time, and note for how long it does not answer while this process runs."""
        while True:
            asked, waited_s = asyncio.ensure_future(self._target.now_ns()), 0.0
            try:
                while not (await asyncio.wait((asked,), timeout=TICK_S))[0]:
                    waited_s += TICK_S
                    self._unanswered_s = max(self._unanswered_s, waited_s)
                asked.result()
            finally:
                asked.cancel()
            await asyncio.sleep(POLL_S)

    def _note_standstill(self) -> None:
        """Fail a run whose switch stood still, in which links did what the experiment does not say."""
        if self._unanswered_s >= STANDSTILL_S:
            self._degrade(
                "failed",
                f"the switch did not answer for {self._unanswered_s:.1f} s of traffic: it was stopped, or had "
                "no processor; fix: --virtual, or a machine without other work",
            )

    async def _marks(self) -> dict[str, int]:
        """Packets that links have marked CE so far, by the link's name; none where that is not counted."""
        if not self._counts_marks or self._collected is None:
            return {}
        marks = await asyncio.to_thread(ce_marks_at, self._collected)
        return {} if marks is None else {link.name: marks.get(link.index, 0) for link in self._plan.links}

    async def _link_queues(self) -> dict[str, QueueStats]:
        found = by_place(await self._target.queues())
        try:
            return {link.name: found[link.port, link.queue] for link in self._plan.links}
        except KeyError as error:
            raise RunError(f"the target does not list the queue of a link (port and queue {error})") from error

    async def _measure_clock_offset(self) -> int | None:
        """Switch clock minus this host's monotonic clock, from the reading that took least time; None without one."""
        best: tuple[int, int] | None = None
        for _ in range(CLOCK_READINGS):
            before = time.monotonic_ns()
            switch = await self._target.now_ns()
            after = time.monotonic_ns()
            if switch is None:
                return None
            reading = (after - before, switch - (before + after) // 2)
            best = reading if best is None else min(best, reading)
        assert best is not None
        return best[1]

    async def _read_counters(self) -> Counters:
        """Final state of the switch."""
        # The switch gathers what it reports of new flows for a moment.
        await asyncio.sleep(DIGEST_WAIT_NS / NANOSECONDS)
        await self._observer.learn()
        queues = await self._link_queues()
        return Counters(
            queues=await self._target.queues(),
            ports=await self._target.ports(),
            links={link.name: await self._link_counters(link, queues[link.name]) for link in self._plan.links},
            packet_conservation=await self._target.packet_conservation(self._plan),
            lost_reports=await self._target.lost_reports(self._plan),
        )

    async def _link_counters(self, link: Link, queue: QueueStats) -> LinkCounters:
        drops = await self._target.flow_drops(queue.port, queue.queue)
        learned = {record["index"] for record in self._observer.learned if record["bottleneck"] == link.index}
        totals = await self._target.flow_totals(learned | {drop.flow for drop in drops})
        return LinkCounters(queue.dropped_packets, drops, totals)

    async def _note_losses(self) -> None:
        """Fail a run that lost packets, or sent them late, where its experiment does not."""
        self._losses = await self._target.unexpected_losses(self._plan) + self._testbed.losses()
        if self._losses:
            where = "packets were lost, or late, where the experiment has neither: " + "; ".join(self._losses)
            overload = not (self._plan.in_guest or self._target.switch_is_running)
            self._degrade(
                "failed", where + ("; fix: --virtual, exact at any rate, or a lower rate" if overload else "")
            )

    def _measured(self, started: datetime) -> Measured:
        assert self._applied is not None
        return Measured(
            status=self._status,
            reasons=tuple(self._reasons),
            notes=(*self._applied.notes, *self._disturbances()),
            started=started,
            ended=datetime.now(UTC),
            profile=self._target.profile,
            applied=self._applied,
            rate_steps=self._target.rate_steps(),
            queue_updates=self._target.queue_updates(),
            testbed={**self._testbed.describe(), "tcp_counters": self._tcp_counters},
            origin_s=self._traffic.origin_s,
            # Not before traffic has ended: in virtual time a look at a clock takes time.
            origin_unix_ns=time.time_ns() - time.monotonic_ns() + round(self._traffic.origin_s * NANOSECONDS),
            clock_offset_ns=self._clock_offset_ns,
            connections=self._traffic.connections,
            sockets=self._traffic.socket_readings,
            learned=self._observer.learned,
            counters=self._counters,
            unexpected_losses=self._losses,
            changes=tuple(self._changes.made),
            by_driver=tuple(self._conductor.done) if self._conductor else (),
        )

    def _disturbances(self) -> list[str]:
        found = disturbances.reordered(self._plan, self._tcp_counters)
        # Where there are too many late ones, the run has failed for that.
        if self._counters is not None and not self._losses:
            found += disturbances.late(self._plan, self._counters.ports)
        return found

    def _degrade(self, status: Status, reason: str) -> None:
        """A run that has failed stays failed; every reason is kept."""
        if self._status != "failed":
            self._status = status
        self._reasons.append(reason)

    @contextlib.contextmanager
    def _remembering_failure(self) -> Iterator[None]:
        """A failure of one finishing step must not keep the others from being done."""
        try:
            yield
        except RunError as error:
            self._degrade("failed", str(error))
        except OSError as error:  # a full disk, or too many open files
            self._degrade("failed", f"{error.filename}: {error.strerror}" if error.filename else str(error))

    @contextlib.contextmanager
    def _cancelled_by_signals(self, progress: Progress) -> Iterator[None]:
        """The first signal ends traffic and begins the orderly end; further ones change nothing about that."""
        task = asyncio.current_task()
        assert task is not None

        def stop(number: signal.Signals) -> None:
            if self._signal is not None or self._ending:
                progress.note(already_ending(number))
                return
            self._signal = number
            # Before it is said: a terminal that was closed takes no words.
            task.cancel()
            progress.note(f"{number.name}: stopping, and removing what was made ...")

        with stop_signals_call(stop):
            yield
