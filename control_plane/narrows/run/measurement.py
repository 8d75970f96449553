# SPDX-License-Identifier: Apache-2.0
"""The part of a run that needs the testbed: set up, let traffic flow, read the counters, take everything down.

However it ends, the testbed is gone afterwards. Once traffic has flowed, what was measured is kept and says how it
ended: complete, partial (interrupted) or failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import ETHERNET_HEADER_BYTES, Plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.run import disturbances, draining
from narrows.run.bringup import set_up
from narrows.run.changes import Changes
from narrows.run.collector import TelemetryCollector
from narrows.run.collector_figures import ce_marks_at
from narrows.run.condition_readings import ConditionReadings
from narrows.run.counting import POLL_S, SwitchWatch, clock_offset_ns, link_queues, read_counters, why_lost
from narrows.run.driver import Driver
from narrows.run.ending import Ending
from narrows.run.measured import Counters, Measured
from narrows.run.metrics_sink import SHOWN_AFTER_S, MetricsSink
from narrows.run.observer import Observer
from narrows.run.results import RunDirectory
from narrows.run.sampler import Snapshot
from narrows.run.stepping import SteppingController
from narrows.run.watching import Watch
from narrows.switch.readings import QueueStats
from narrows.targets.base import AppliedSettings, Target
from narrows.traffic.traffic import Traffic

if TYPE_CHECKING:
    from narrows.run.controller import Controller

# The phase in which flows run.
TRAFFIC = "traffic"
# Not those of the system's services.
FIRST_USER_PORT, LAST_PORT = 1024, 65535


class Progress(Protocol):
    """Follows the progress of a run."""

    def phase(self, text: str, total_s: float | None = None) -> None:
        """A phase begins; ``total_s`` is how long it will take, if that is known."""

    def show(self, snapshot: Snapshot) -> None:
        """Figures of the moment."""

    def note(self, text: str) -> None:
        """Something that the user should know."""


@dataclass(frozen=True)
class Prepared:
    """A switch that is configured, and servers that wait.

    ``clock_offset_ns`` is the switch's clock minus this host's monotonic one, None where it cannot be read;
    ``metrics`` is the socket at which the collector gives its figures, if it was asked for them.
    """

    applied: AppliedSettings
    clock_offset_ns: int | None
    metrics: Path | None


@dataclass(frozen=True)
class Finished:
    """What was counted when nothing moved any more; what a failure kept from being read is missing."""

    losses: list[str] | None = None
    kernel_counters: dict[str, dict[str, int]] | None = None
    counters: Counters | None = None


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
        metrics_sink: MetricsSink | None = None,
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
        self._controllers: list[Controller] = []
        if plan.has_controller:
            from narrows.run.controller import Controller  # guests without one would wait for what it imports

            self._controllers = [
                Controller(plan, program, target, self._testbed, results.hosts)
                for program in plan.programs
                if program.controller
            ]
        self._collector = TelemetryCollector(self._testbed, plan.collector, results.telemetry)
        self._observer = Observer(plan, target)
        self._metrics_sink = metrics_sink
        self._counts_marks = counts_marks and plan.marks_ecn and not any(link.sample_shift for link in plan.links)
        readings = ConditionReadings(plan, target, self._testbed, self._observer)
        self._changes = Changes(plan, target, readings, self._traffic)
        self._stream = results.reports_stream if plan.shows_reports else None
        self._watch = Watch(target, socket_interval_ns)
        self._conductor = (
            None
            if driver is None
            else SteppingController(plan, target, self._observer, self._traffic, self._show_reports, driver)
        )

    async def run(self, progress: Progress) -> Measured:
        """Measure; telemetry and what the hosts say is in the result directory afterwards.

        Raises:
            RunError: it failed before any traffic flowed, or the testbed cannot be removed.
            asyncio.CancelledError: a signal stopped it before any traffic flowed.
        """
        started, ending = datetime.now(UTC), Ending()
        task: asyncio.Task[object] | None = asyncio.current_task()
        assert task is not None
        with ending.cancelling(task, progress.note):
            try:
                prepared = await self._prepare(progress)
                await self._flow(prepared, ending, progress)
                finished = await self._finish(ending, progress)
            except BaseException:
                await self._tear_down(ending, progress)
                # They are reported nowhere else: without traffic there is no run.json.
                for reason in ending.reasons:
                    progress.note(reason)
                raise
            await self._tear_down(ending, progress)
        return self._measured(started, prepared, finished, ending)

    def host_metadata(self, _measured: Measured) -> Mapping[str, Mapping[str, object]]:
        """What run.json says of where it was measured."""
        return {"host": machine.describe()}

    async def _prepare(self, progress: Progress) -> Prepared:
        """From nothing to a configured switch and waiting servers."""
        applied = await set_up(self._target, self._testbed, self._plan, progress.phase, piped=True)
        # A driver sees the state of an instant: a flow that is not known then has sent nothing.
        await self._observer.start(at_once=self._conductor is not None)
        progress.phase("starting collector and servers")
        metrics = await self._start_collector()
        for controller in self._controllers:
            await controller.start()
        await self._traffic.start()
        return Prepared(applied, await clock_offset_ns(self._target), metrics)

    async def _start_collector(self) -> Path | None:
        """Start it; returns the socket at which it gives its figures, if it was asked for them."""
        # Another machine's socket is out of reach.
        asked = (self._metrics_sink is not None or self._counts_marks) and not self._target.hosts_are_machines
        metrics = self._testbed.state_dir / "metrics.sock" if asked else None
        figures = None if metrics is None else (metrics, self._target.profile)
        await self._collector.start(self._target.reports_pipe(), figures, self._stream, self._plan.watched_fields)
        if self._metrics_sink is not None:
            self._metrics_sink.begin(self._plan, metrics)
        return metrics

    async def _flow(self, prepared: Prepared, ending: Ending, progress: Progress) -> None:
        """Let all flows run; an interruption or a failure ends them early and is remembered, not raised."""
        end = self._plan.end_ns
        progress.phase(TRAFFIC, None if end is None else end / NANOSECONDS)
        begun: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        watch = SwitchWatch(self._target)
        parts = [
            self._traffic.run(partial(self._begin, prepared, begun)),
            self._monitor(prepared.metrics, progress),
            *([self._change(prepared, begun)] if self._plan.changes or self._plan.reactions or self._conductor else []),
            *([self._read_watched(prepared, begun)] if self._plan.watches else []),
            *(controller.watch() for controller in self._controllers),
            # In a guest no time passes while something is to be done; a switch elsewhere is reached by a network.
            *([] if self._plan.in_guest or self._target.hosts_are_machines else [watch.run()]),
        ]
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            ending.interrupt()
        ending.begin()
        for task in tasks:
            task.cancel()
            with ending.remembering_failure(), contextlib.suppress(asyncio.CancelledError):
                await task
        if stopped := watch.why_stopped():
            ending.degrade("failed", stopped)
        if ending.status == "complete":
            self._traffic.is_over()

    async def _change(self, prepared: Prepared, begun: asyncio.Future[float]) -> None:
        """Make the changes of links that no schedule has, counted from the experiment's start, or those of a driver."""
        await (self._conductor or self._changes).run(await begun, prepared.clock_offset_ns)

    async def _read_watched(self, prepared: Prepared, begun: asyncio.Future[float]) -> None:
        """Read registers of a user's program from the experiment's start on."""
        await self._watch.run(await begun, prepared.clock_offset_ns)

    async def _show_reports(self) -> tuple[Path, int] | None:
        """The file with all reports until now, and how many bytes of it are complete; None if none was asked for."""
        return None if self._stream is None else (self._stream, await self._collector.show())

    async def _begin(self, prepared: Prepared, begun: asyncio.Future[float], t0_s: float) -> None:
        """Links that vary do so from the experiment's start on."""
        begun.set_result(t0_s)
        if any(link.schedule is not None or link.delay_steps is not None for link in self._plan.links):
            offset_ns = 0 if self._target.times_schedules_here else prepared.clock_offset_ns
            if offset_ns is None:
                raise RunError("a link varies, and the switch's clock cannot be read")
            await self._target.start_schedules(round(t0_s * NANOSECONDS) + offset_ns)

    async def _finish(self, ending: Ending, progress: Progress) -> Finished:
        """Drain the queue, then read every counter while nothing moves any more."""
        progress.phase("draining the queue and reading counters")
        finished = Finished()
        with ending.remembering_failure():
            await self._traffic.stop()
            await draining.drain(self._link_queues, self._plan)
            await draining.wait_for_datagrams(self._link_queues, self._plan)
            # Before the senders' links go down: what arrives there afterwards is lost on purpose.
            losses = await self._target.unexpected_losses(self._plan) + self._testbed.losses()
            finished = replace(finished, losses=losses)
            if lost := why_lost(losses, self._plan, self._target):
                ending.degrade("failed", lost)
            self._testbed.take_senders_down()
            await draining.wait_for_quiescence(self._link_queues, self._plan)
            await self._traffic.finish()
            finished = replace(finished, kernel_counters=self._testbed.kernel_counters())
            if self._metrics_sink is not None:
                await asyncio.sleep(SHOWN_AFTER_S)
                self._metrics_sink.queues(await self._link_queues())
                self._metrics_sink.end()
        with ending.remembering_failure():
            await self._collector.stop()
        with ending.remembering_failure():
            finished = replace(finished, counters=await read_counters(self._target, self._plan, self._observer))
        return finished

    async def _tear_down(self, ending: Ending, progress: Progress) -> None:
        """Stop what runs and remove what was made; in this order processes can still report."""
        progress.phase("removing the testbed")
        ending.begin()
        controllers = [controller.stop for controller in self._controllers]
        for stop in (self._collector.stop, self._traffic.stop, *controllers, self._traffic.finish, self._target.stop):
            with ending.remembering_failure():
                await stop()
        if self._stream is not None:
            self._stream.unlink(missing_ok=True)
        for remove in (self._testbed.remove, self._state.release):
            with ending.remembering_failure():
                remove()

    async def _monitor(self, metrics: Path | None, progress: Progress) -> None:
        """Show rates and queue, and notice at once when the switch or the collector dies."""
        while True:
            self._collector.check()
            if self._conductor is not None and self._target.pausable:
                # The driver reads the switch: with a second reader, time might pass while the run is halted.
                await asyncio.sleep(POLL_S)
                continue
            reading = await self._target.read_queues(self._observer.places)
            queues = link_queues(reading.queues, self._plan)
            if self._metrics_sink is not None:
                self._metrics_sink.queues(queues)
            elapsed_s = max(0.0, time.monotonic() - self._traffic.t0_s)
            snapshot = await self._observer.sample(queues, reading.drops, elapsed_s, self._traffic.active)
            progress.show(snapshot.with_marks(await self._marks(metrics)))
            await asyncio.sleep(POLL_S)

    async def _marks(self, metrics: Path | None) -> dict[str, int]:
        """Packets that links have marked CE so far, by the link's name; none where that is not counted."""
        if not self._counts_marks or metrics is None:
            return {}
        marks = await asyncio.to_thread(ce_marks_at, metrics)
        return {} if marks is None else {link.name: marks.get(link.index, 0) for link in self._plan.links}

    async def _link_queues(self) -> dict[str, QueueStats]:
        return link_queues(await self._target.queues(), self._plan)

    def _not_done(self) -> Iterator[str]:
        """Events whose condition has not held, or that came to nothing."""
        reacted = self._changes.reacted
        for one in self._plan.reactions:
            if all(other.event != one.event for other in reacted):
                yield f"events.{one.event}: did not happen: '{one.condition.text}' has not held"
        for other in (other for other in reacted if other.why_not is not None):
            yield f"events.{other.event}: held, and did nothing: {other.why_not}"

    def _measured(self, started: datetime, prepared: Prepared, finished: Finished, ending: Ending) -> Measured:
        kernel_counters = finished.kernel_counters or {}
        notes = [*prepared.applied.notes, *disturbances.reordered(self._plan, kernel_counters)]
        # Where there are too many late ones, the run has failed for that.
        if finished.counters is not None and not finished.losses:
            notes += disturbances.late(self._plan, finished.counters.ports)
        return Measured(
            status=ending.status,
            reasons=tuple(ending.reasons),
            notes=(*notes, *self._not_done()),
            started=started,
            ended=datetime.now(UTC),
            profile=self._target.profile,
            applied=prepared.applied,
            rate_steps=self._target.rate_steps(),
            queue_updates=self._target.queue_updates(),
            testbed={**self._testbed.describe(), "kernel_counters": kernel_counters},
            t0_s=self._traffic.t0_s,
            # Not before traffic has ended: in virtual time a look at a clock takes time.
            origin_unix_ns=time.time_ns() - time.monotonic_ns() + round(self._traffic.t0_s * NANOSECONDS),
            clock_offset_ns=prepared.clock_offset_ns,
            connections=self._traffic.connections,
            sockets=self._traffic.socket_readings,
            learned=self._observer.learned,
            counters=finished.counters,
            unexpected_losses=finished.losses,
            changes=tuple(self._changes.made),
            reacted=tuple(self._changes.reacted),
            by_driver=tuple(self._conductor.done) if self._conductor else (),
            watched=tuple(self._watch.readings),
        )
