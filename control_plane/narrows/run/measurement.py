# SPDX-License-Identifier: Apache-2.0
"""The part of a run that needs the testbed: set up, let traffic flow, read the counters, take everything down.

However it ends, the testbed is gone afterwards. Once traffic has flowed, what was measured is kept and says how it
ended: complete, partial (interrupted) or failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal

from narrows_formats import learned_flows
from narrows_formats.units import NANOSECONDS

from narrows import __version__
from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.hosts import machine
from narrows.hosts.base import Testbed
from narrows.hosts.netns import NetnsTestbed
from narrows.hosts.state import RunState
from narrows.run import clock, drop_accounting
from narrows.run.collector import TelemetryCollector
from narrows.run.observer import Observer
from narrows.run.progress import RunProgress
from narrows.run.results import RunDirectory
from narrows.switch.readings import FlowDrops, QueueStats
from narrows.targets.base import Balancing, Laboratory, Realised, Target
from narrows.traffic.traffic import Traffic

POLL_S = 0.5
DRAIN_POLL_S = 0.05
DRAIN_GRACE_S = 10.0
CLOCK_READINGS = 5
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Status = Literal["complete", "partial", "failed"]


class Measurement:
    """One run on one testbed."""

    def __init__(
        self, experiment: Experiment, plan: Plan, target: Target, state: RunState, results: RunDirectory
    ) -> None:
        """Nothing is created before `run`."""
        self._experiment = experiment
        self._plan = plan
        self._target = target
        self._state = state
        self._results = results
        self._testbed: Testbed
        if isinstance(target, Laboratory):
            self._testbed = target.testbed(plan, state, experiment.mtu)
        else:
            self._testbed = NetnsTestbed(plan, state, experiment.mtu)
        self._traffic = Traffic(plan, self._testbed, results.hosts, experiment.telemetry.sockets)
        self._collector = TelemetryCollector(self._testbed, plan.collector, results.telemetry)
        self._observer = Observer(plan, target)
        self._realised: Realised | None = None
        self._clock_offset_ns: int | None = None
        self._readings: dict[str, Any] = {}
        self._ending = False
        self._signal: signal.Signals | None = None
        self._reasons: list[str] = []
        self.status: Status = "complete"
        self.notes: list[str] = []

    @property
    def reason(self) -> str:
        """Why the run is not complete; empty when it is."""
        return "\n".join(self._reasons)

    async def run(self, progress: RunProgress) -> None:
        """Measure, and write everything but the analysis into the result directory.

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
                # Nothing else tells them: without traffic there is no run.json.
                for reason in self._reasons:
                    progress.note(reason)
                raise
            await self._tear_down(progress)
        self._results.write_run(self._record(started))

    async def _prepare(self, progress: RunProgress) -> None:
        """From nothing to a configured switch and waiting servers."""
        self._state.add_directory(self._results.path)
        self._results.create(self._experiment)
        # A switch of its own is asked before any machine is touched.
        elsewhere = isinstance(self._target, Laboratory)
        if elsewhere:
            progress.phase("connecting to the switch")
            await self._target.start(self._testbed)
        progress.phase("making the testbed")
        self._testbed.create()
        if not elsewhere:
            progress.phase("starting the switch")
            await self._target.start(self._testbed)
        self._realised = await self._target.configure(self._plan)
        self.notes += self._realised.notes
        await self._observer.start()
        progress.phase("starting collector and servers")
        await self._collector.start()
        await self._traffic.start()
        self._clock_offset_ns = await self._measure_clock_offset()

    async def _flow(self, progress: RunProgress) -> None:
        """Let all flows run; an interruption or a failure ends them early and is remembered, not raised."""
        end = self._plan.end_ns
        progress.phase("traffic", None if end is None else end / NANOSECONDS)
        traffic = asyncio.create_task(self._traffic.run())
        monitor = asyncio.create_task(self._monitor(progress))
        try:
            await asyncio.wait((traffic, monitor), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            name = self._signal.name if self._signal else "the system"
            self._degrade("partial", f"interrupted by {name}")
        self._ending = True
        for task in (traffic, monitor):
            task.cancel()
            with self._remembering_failure(), contextlib.suppress(asyncio.CancelledError):
                await task

    async def _finish(self, progress: RunProgress) -> None:
        """Drain the queue, then read every counter while nothing moves any more."""
        progress.phase("draining the queue and reading counters")
        with self._remembering_failure():
            await self._traffic.stop()
            await self._drain()
            # Before the senders' links go down: what still came their way then is lost on purpose.
            await self._note_losses()
            self._testbed.silence_senders()
            await self._drain()
        with self._remembering_failure():
            await self._collector.stop()
        with self._remembering_failure():
            self._readings |= await self._read_counters()

    async def _tear_down(self, progress: RunProgress) -> None:
        """Stop what runs and remove what was made; in this order processes can still say goodbye."""
        progress.phase("removing the testbed")
        self._ending = True
        for stop in (self._collector.stop, self._traffic.stop, self._target.stop):
            with self._remembering_failure():
                await stop()
        for remove in (self._testbed.remove, self._state.release):
            with self._remembering_failure():
                remove()

    async def _monitor(self, progress: RunProgress) -> None:
        """Show rates and queue, and notice at once when the switch or the collector dies."""
        while True:
            self._collector.check()
            queue = await self._bottleneck_queue()
            elapsed_s = time.monotonic() - self._traffic.origin_s
            progress.show(await self._observer.sample(queue, elapsed_s, self._traffic.active))
            await asyncio.sleep(POLL_S)

    async def _bottleneck_queue(self) -> QueueStats:
        bottleneck = self._plan.bottleneck
        for queue in await self._target.queues():
            if (queue.port, queue.queue) == (bottleneck.port, bottleneck.queue):
                return queue
        raise RunError(f"the target does not list the bottleneck's queue (port {bottleneck.port})")

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

    async def _drain(self) -> None:
        """Wait until nothing waits in the bottleneck's queue.

        Raises:
            RunError: the queue is not empty long after it could have been.
        """
        bottleneck = self._plan.bottleneck
        deadline = time.monotonic() + DRAIN_GRACE_S + bottleneck.limit_bytes * 8 / bottleneck.rate_bps
        # A target that cannot tell a depth says None until it knows that nothing waits.
        while (await self._bottleneck_queue()).depth_packets != 0:
            if time.monotonic() > deadline:
                raise RunError("the bottleneck's queue does not drain")
            await asyncio.sleep(DRAIN_POLL_S)

    async def _read_counters(self) -> dict[str, Any]:
        """Final state of the switch, and the identity between its counters and the telemetry."""
        bottleneck = self._plan.bottleneck
        await self._observer.learn()
        learned_flows.write(self._observer.learned, self._results.telemetry / learned_flows.TABLE)
        queues = await self._target.queues()
        drops = await self._target.flow_drops(bottleneck.port, bottleneck.queue)
        reports = drop_accounting.last_reports(self._results.telemetry, bottleneck.index)
        totals = await self._target.flow_totals(reports.keys() | {drop.flow for drop in drops})
        port_drops = (await self._bottleneck_queue()).dropped_packets
        if not reports and self.status == "complete":
            self._degrade("failed", "no telemetry report arrived")
        counted = self._target.profile.flow_drop_counters
        readings: dict[str, Any] = {
            "traffic_manager": {
                "queues": [asdict(queue) for queue in queues],
                "flow_drops": [asdict(drop) for drop in drops] if counted else None,
                "ports": [asdict(port) for port in await self._target.ports()],
            },
        }
        if not counted:
            # The program's packet counters are kept apart from the registers that reports are filled from.
            drops = [FlowDrops(total.flow, total.arrivals - total.departures, 0) for total in totals]
        outcome = drop_accounting.check(reports, totals, drops, port_drops, sampled=bottleneck.sample_shift > 0)
        readings["identity"] = outcome.as_json()
        self.notes += [f"identity of drops: {problem}" for problem in outcome.problems]
        balances = await self._target.balances(self._plan) if isinstance(self._target, Balancing) else []
        readings["balances"] = [{**asdict(balance), "lost": balance.lost} for balance in balances]
        self.notes += [
            f"warning: {balance.lost} of {balance.entered} packets lost {balance.place}, uncounted by the switch"
            for balance in balances
            if balance.lost
        ]
        return readings

    async def _note_losses(self) -> None:
        """A run that lost packets anywhere else than it was to has not measured what it was to."""
        losses = await self._target.losses_elsewhere(self._plan)
        self._readings["losses_elsewhere"] = losses
        if losses:
            self._degrade("failed", "packets were lost where the experiment loses none: " + "; ".join(losses))

    def _clock_origin(self) -> clock.Origin:
        """The switch's time at the experiment's start."""
        if self._clock_offset_ns is not None:
            return clock.Origin(round(self._traffic.origin_s * NANOSECONDS) + self._clock_offset_ns, "switch clock")
        bottleneck = self._plan.bottleneck.index
        return clock.from_reports(
            self._results.telemetry, bottleneck, self._traffic.connections, self._target.profile.time_unit_s
        )

    def _record(self, started: datetime) -> dict[str, Any]:
        """run.json."""
        settings = self._experiment.bottleneck
        bottleneck = self._plan.bottleneck
        assert self._realised is not None
        origin = self._clock_origin()
        return {
            "narrows_version": __version__,
            "name": self._experiment.name,
            "started": started.isoformat(),
            "ended": datetime.now(UTC).isoformat(),
            "status": self.status,
            "reason": self.reason or None,
            "seed": self._experiment.seed,
            "target_profile": self._target.profile.as_json(),
            "host": {**machine.describe(), "testbed": self._testbed.describe()},
            "switch": {"program": self._realised.program, "notes": list(self._realised.notes)},
            "bottleneck": {
                "index": bottleneck.index,
                "rate_bps": self._realised.rate_bps,
                "rate_layer": "l2",
                "rate_packets_s": self._realised.rate_packets_s,
                "written_rate_bps": settings.rate,
                "written_rate_layer": settings.rate_layer,
                "buffer_bytes": self._realised.limit_bytes,
                "buffer_packets": self._realised.limit_packets,
                "rtt_s": settings.rtt / NANOSECONDS,
                "bdp_bytes": float(self._plan.bdp_bytes),
                "mtu_frame_bytes": self._plan.frame_bytes,
                "loss": bottleneck.loss,
                "ecn_threshold_bytes": bottleneck.ecn_threshold_bytes,
            },
            "telemetry": {"sample": self._experiment.telemetry.sample},
            "clock_origin_ns": origin.ns,
            "clock_origin_source": origin.source,
            "flows": [connection.as_json() for connection in self._traffic.connections],
            **self._readings,
        }

    def _degrade(self, status: Status, reason: str) -> None:
        """A run that has failed stays failed; every reason is kept."""
        if self.status != "failed":
            self.status = status
        self._reasons.append(reason)

    @contextlib.contextmanager
    def _remembering_failure(self) -> Iterator[None]:
        """A failure of one finishing step must not keep the others from being done."""
        try:
            yield
        except RunError as error:
            self._degrade("failed", str(error))

    @contextlib.contextmanager
    def _cancelled_by_signals(self, progress: RunProgress) -> Iterator[None]:
        """The first signal ends traffic and begins the orderly end; further ones change nothing about that."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None

        def stop(number: signal.Signals) -> None:
            if self._signal is not None or self._ending:
                progress.note(f"{number.name}: already ending, please wait")
                return
            self._signal = number
            progress.note(f"{number.name}: stopping, and removing what was made ...")
            task.cancel()

        # Under nohup SIGHUP is ignored, and stays so.
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        heeded = [number for number in STOP_SIGNALS if number != signal.SIGHUP or before[number] != signal.SIG_IGN]
        for number in heeded:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])
