# SPDX-License-Identifier: Apache-2.0
"""Generators make flows: what all of them have in common; each kind of flow has a class of its own.

Telemetry recognises packets of flows by the 5-tuples that the plan gave to them.

Nothing is retried: a flow that does not do what the plan says is a failed run.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from narrows_formats.storage import write_json
from narrows_formats.units import NANOSECONDS

from narrows.errors import InputError, RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.onhost import wire
from narrows.traffic.connection import Connection

# A flow that takes this much longer than it should has failed: it would otherwise keep a run alive for ever.
GRACE_S = 60.0
# Of what all flows together need at least.
SLOWDOWN = 20
# A host that sets a window does so at once.
STEER_S = 10.0


class Generator(ABC):
    """Makes some flows of a run."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """Take the plan and the flows to make; ``results`` is the directory for connections' records."""
        self._plan = plan
        self._testbed = testbed
        self._results = results
        self._flows = {flow.name: flow for flow in flows}
        self._found: dict[str, dict[int, Connection]] = {flow.name: {} for flow in flows}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._released: dict[str, asyncio.Event] = {flow.name: asyncio.Event() for flow in flows if flow.held}
        self._steered: dict[str, asyncio.Future[wire.Steered]] = {}
        self._records: dict[str, wire.Record] = {}
        self._t0_s = 0.0

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Those that it makes."""
        return tuple(self._flows.values())

    @property
    def active(self) -> int:
        """Flows that have begun and not ended."""
        return len(self.under_way)

    @property
    def connections(self) -> list[Connection]:
        """Every connection so far, flow by flow."""
        return [found[number] for found in self._found.values() for number in sorted(found)]

    async def prepare(self) -> None:
        """Open all ports, and make ready what is to start.

        Raises:
            RunError: a port is in use, or a host cannot be reached.
        """
        loop = asyncio.get_running_loop()
        self._ends = {name: loop.create_future() for name in self._flows}
        for end in self._ends.values():
            # Errors of one that was not waited for, since another had failed, are not reported.
            end.add_done_callback(lambda one: one.cancelled() or one.exception())
        await self._prepare()

    @property
    @abstractmethod
    def lead_s(self) -> float:
        """Time from `start` to the experiment's start that every host needs to receive it."""

    @abstractmethod
    async def _prepare(self) -> None:
        """Do what `prepare` says, the receiving side first."""

    async def start(self, t0_s: float) -> None:
        """Let the flows run, counted from this monotonic time.

        Raises:
            RunError: a host cannot be reached.
        """
        self._t0_s = t0_s
        await self._start()

    @abstractmethod
    async def _start(self) -> None:
        """Let each flow begin at its own time after ``_t0_s``, on each host's clock."""

    async def release(self, name: str, at_ns: int) -> None:
        """Let a flow that was held back begin at a future time since the experiment's start.

        Raises:
            InputError: flows of its kind cannot be held back.
            RunError: its host cannot be reached.
        """
        await self._release(name, at_ns / NANOSECONDS)
        flow = self._flows[name]
        self._flows[name] = replace(flow, start_ns=flow.start_ns + at_ns, held=False)
        self._released[name].set()

    async def _release(self, name: str, at_s: float) -> None:
        """Have the times of a flow count from that time."""
        raise InputError(f"flow {name}: is of a kind that cannot be held back")

    async def end(self, name: str, at_ns: int) -> None:
        """Stop a flow before its duration is over, at a future time.

        Raises:
            InputError: flows of its kind cannot.
            RunError: its host cannot be reached.
        """
        await self._end_at(name, at_ns / NANOSECONDS)
        self._lasts_until(name, at_ns)

    def lasts_until(self, at_ns: int) -> None:
        """Note that flows under way last until a time, not as long as was planned: the traffic is over then."""
        for name, flow in self.under_way.items():
            if flow.end_ns is not None and flow.start_ns < at_ns < flow.end_ns:
                self._lasts_until(name, at_ns)

    @property
    def under_way(self) -> dict[str, Flow]:
        """Flows that have begun and not ended, by name."""
        return {name: self._flows[name] for name, found in self._found.items() if found and not self._ends[name].done()}

    def _lasts_until(self, name: str, at_ns: int) -> None:
        flow = self._flows[name]
        self._flows[name] = replace(flow, duration_ns=at_ns - flow.start_ns)
        for connection in self._found[name].values():
            connection.flow = self._flows[name]

    async def _end_at(self, name: str, at_s: float) -> None:
        """Do what `end` says."""
        raise InputError(f"flow {name}: is of a kind that cannot be stopped")

    async def apply(self, command: wire.Apply) -> None:
        """Have a flow's application do what a command says.

        Raises:
            InputError: flows of its kind have none.
            RunError: its host cannot be reached.
        """
        raise InputError(f"flow {command.flow}: is of a kind whose application cannot be changed; allowed: bulk")

    async def steer(self, name: str, window: int | None, rate: int | None, at_ns: int | None = None) -> wire.Steered:
        """Set the window in segments and the pacing rate in bytes/s of a flow under way, those that are given.

        Args:
            name: of the flow.
            window: None: as it is.
            rate: None: as it is.
            at_ns: when, since the experiment's start; None: as soon as its host can.

        Raises:
            InputError: flows of its kind have no such window.
            RunError: its host does not answer.
        """
        answer: asyncio.Future[wire.Steered] = asyncio.get_running_loop().create_future()
        self._steered[name] = answer
        await self._steer(name, window, rate, None if at_ns is None else at_ns / NANOSECONDS)
        try:
            async with asyncio.timeout(STEER_S):
                return await answer
        except TimeoutError:
            raise RunError(f"flow {name}: its host does not answer within {STEER_S:g} s") from None

    async def _steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        """Have the flow's host do what `steer` says, and say so in an event."""
        raise InputError(f"flow {name}: is of a kind whose window cannot be set; allowed: bulk and finite flows")

    def waits(self, name: str) -> bool:
        """Whether a flow is held back, and has not been released."""
        return name in self._released and not self._released[name].is_set()

    async def follow(self, name: str) -> None:
        """Wait for the end of a flow.

        Raises:
            RunError: it fails.
        """
        if name in self._released:
            await self._released[name].wait()
        limit_s = self._time_limit_s(self._flows[name])
        try:
            # Cancelling this does not cancel the flow: `stop` ends it.
            async with asyncio.timeout(self._t0_s + limit_s - time.monotonic()):
                await asyncio.shield(self._ends[name])
        except TimeoutError:
            raise RunError(f"flow {name}: no end after {limit_s:.0f} s") from None

    @abstractmethod
    async def group_ended(self, group: str) -> None:
        """Start no further connections of the flows that last until this group ends.

        Raises:
            RunError: a host cannot be reached.
        """

    async def stop(self) -> None:
        """End what still runs, with its partial result; safe to call twice.

        The receiving side may stay until `finish`, for what is still under way.
        """
        await self._stop()
        for connection in self.connections:
            if connection.ended_s is None:
                connection.ended_s = time.monotonic() - self._t0_s

    @abstractmethod
    async def _stop(self) -> None:
        """Do what `stop` says; what was ended is taken in by `_take` when it returns."""

    async def finish(self) -> None:
        """End the receiving side, once nothing is under way any more; safe to call twice."""
        return

    def _take(self, event: wire.Event) -> None:
        """Note what became of a flow."""
        name, end = event.flow, self._ends[event.flow]
        flow, found = self._flows[name], self._found[name]
        if isinstance(event, wire.Started):
            found[event.number] = Connection(flow, event.number, event.started_s)
        elif isinstance(event, wire.Ended):
            connection = found[event.number]
            connection.ended_s, connection.bytes_sent = event.ended_s, event.record["bytes_sent"]
            changes = event.record.get("changes", ())
            connection.changes = tuple((one["event"], round(one["time_s"] * NANOSECONDS)) for one in changes)
            # Of finite flows there may be tens of thousands, whose starts, ends and bytes run.json has.
            if not flow.payload.is_finite:
                self._write(connection, event.record)
        elif isinstance(event, wire.Received):
            if 0 in found:
                self._write(found[0], self._records.get(name, {}) | {"received": event.received})
        elif isinstance(event, wire.Steered):
            if not self._steered[name].done():
                self._steered[name].set_result(event)
        elif isinstance(event, wire.Failure):
            self._fail(name, event.why)
        elif not end.done():
            end.set_result(None)

    def _write(self, connection: Connection, record: wire.Record) -> None:
        self._records[connection.flow.name] = record
        path = self._results / f"{connection.flow.name}.json"
        try:
            write_json(path, record, indent=None)
        except OSError as error:
            self._fail(connection.flow.name, f"its record cannot be written: {error.strerror}")
        else:
            connection.record = path

    def _fail(self, name: str, why: str) -> None:
        if not self._ends[name].done():
            self._ends[name].set_exception(RunError(f"flow {name}: {why}"))

    def _time_limit_s(self, flow: Flow) -> float:
        """Seconds from the experiment's start after which a flow counts as failed."""
        payload = flow.payload
        waiting_s = self._plan.queueing_s(flow) + flow.rtt_ns / NANOSECONDS
        if flow.end_ns is not None and not payload.is_finite:
            # What was asked for may come after the last request, besides that of all others.
            asked = sum(other.payload.asked_bytes for other in self._flows.values())
            late_s = self._carrying_s(flow, asked) + self._sending_s(flow, payload.asked_bytes)
            return SLOWDOWN * late_s + flow.end_ns / NANOSECONDS + waiting_s + GRACE_S
        finite = [other.payload for other in self._plan.flows if other.payload.is_finite]
        shared_s = self._carrying_s(flow, sum(one.total_bytes for one in finite)) + payload.repeat * waiting_s
        own_s = self._sending_s(flow, payload.total_bytes)
        begun_s = (flow.start_ns + payload.waits_ns) / NANOSECONDS
        return begun_s + (shared_s * len(finite) + own_s) * SLOWDOWN + GRACE_S

    def _carrying_s(self, flow: Flow, size_bytes: int) -> float:
        """Seconds that the links which a flow's data cross take for these bytes, at the worst time."""
        return max(link.longest_s(size_bytes) for link in self._plan.links if link.name in flow.links)

    def _sending_s(self, flow: Flow, size_bytes: int) -> float:
        """Seconds that a flow's own TCP takes for these bytes on links of any rate: by its pacing rate, its window, and
        the loss that is emulated, as RFC 5348, section 3.1, has it with a retransmission timeout of a second."""
        rtt_s = self._plan.queueing_s(flow) + flow.rtt_ns / NANOSECONDS
        options = {name: value for name, _, value in (*flow.tcp.options, *flow.tcp.receiver_options)}
        window = min(self._plan.tcp_buffer_bytes, options.get("TCP_WINDOW_CLAMP") or self._plan.tcp_buffer_bytes)
        segment = options.get("TCP_MAXSEG") or self._plan.frame_bytes
        changes = [change for change in self._plan.changes if change.loss is not None]
        passes = 1.0
        for link in (one for one in self._plan.links if one.name in flow.links):
            passes *= 1 - max(link.loss, *(one.loss or 0.0 for one in changes if one.link == link.name), 0.0)
        lost = 1 - passes
        by_loss_s = rtt_s * math.sqrt(2 * lost / 3) + 3 * math.sqrt(3 * lost / 8) * lost * (1 + 32 * lost**2)
        times_s = [size_bytes / window * rtt_s, size_bytes / segment * by_loss_s]
        if flow.tcp.rate_bps is not None:
            times_s.append(size_bytes * 8 / flow.tcp.rate_bps)
        return max(times_s)
