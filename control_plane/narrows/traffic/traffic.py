# SPDX-License-Identifier: Apache-2.0
"""All traffic of a run: its flows, and the sampling of their sockets."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from narrows_formats.units import NANOSECONDS, format_time

from narrows.errors import InputError, RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.machine import EXTERNAL
from narrows.onhost import wire
from narrows.onhost.application import Change
from narrows.traffic.connection import Connection
from narrows.traffic.generator import Generator
from narrows.traffic.registry import generators
from narrows.traffic.sockets import Readings, SamplingProcesses, SamplingThread, SocketSampler

ORIGIN_STEP_S = 0.1


class Traffic:
    """The flows of one run."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, socket_interval_ns: int) -> None:
        """Take the plan; results go to ``results``. Sockets are read every ``socket_interval_ns``, never if 0."""
        self._plan = plan
        self._results = results
        sampler = SamplingThread if plan.in_guest else SamplingProcesses
        self._generators = generators(plan, testbed, results)
        self._sampler: SocketSampler = sampler(plan, testbed, results, socket_interval_ns)
        self._origin = 0.0

    @property
    def t0_s(self) -> float:
        """Monotonic time of the experiment's start, 0 before it."""
        return self._origin

    @property
    def active(self) -> int:
        """Flows and workloads under way."""
        return sum(generator.active for generator in self._generators)

    @property
    def connections(self) -> list[Connection]:
        """Every connection so far, in the order of run.json's flows: the plan's."""
        place = {flow.name: position for position, flow in enumerate(self._plan.flows)}
        found = [connection for generator in self._generators for connection in generator.connections]
        return sorted(found, key=lambda connection: (place[connection.flow.name], connection.number))

    @property
    def socket_readings(self) -> tuple[Readings, ...]:
        """What was read of the senders' sockets, one a sender."""
        return self._sampler.readings

    async def start(self) -> None:
        """Make everything ready, the receiving side first, and start the sampling.

        Raises:
            RunError: a host cannot be reached, or does not do it.
        """
        self._results.mkdir(parents=True, exist_ok=True)
        for generator in self._generators:
            await generator.prepare()
        await self._sampler.start()

    async def run(self, begins: Callable[[float], Awaitable[None]] | None = None) -> None:
        """Run all flows to their end; ``begins`` is called with the monotonic time of the experiment's start before it.

        Raises:
            RunError: a flow fails; the others are left for `stop` to interrupt.
        """
        soon_s = time.monotonic() + max(generator.lead_s for generator in self._generators)
        # A run in virtual time begins at the same nanosecond, and in the same part of a tick, however long what came
        # before took.
        self._origin = math.ceil(soon_s / ORIGIN_STEP_S) * ORIGIN_STEP_S
        if begins is not None:
            await begins(self._origin)
        await asyncio.gather(*(generator.start(self._origin) for generator in self._generators))
        running = [flow.group for flow in self._plan.flows]
        left = [(generator, flow.name) for generator in self._generators for flow in generator.flows]

        async def follow(generator: Generator, flow: Flow) -> None:
            await generator.follow(flow.name)
            if flow.payload.ends_the_run:
                for task in following:
                    task.cancel()
                return
            left.remove((generator, flow.name))
            if self._plan.reactions and all(other.waits(name) for other, name in left):
                # What a condition was to start does not start any more.
                for task in following:
                    task.cancel()
            running.remove(flow.group)
            if flow.group not in running:
                await asyncio.gather(*(one.group_ended(flow.group) for one in self._generators))

        following: list[asyncio.Task[None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for generator in self._generators:
                    following += [group.create_task(follow(generator, flow)) for flow in generator.flows]
        except* RunError as errors:
            raise RunError("\n".join(dict.fromkeys(str(error) for error in errors.exceptions))) from errors

    async def start_flows(self, name: str, at_ns: int | None, now_ns: int | None = None) -> int:
        """Start flows that were held back, those of a group or one, while others run.

        Args:
            name: of the group or the flow.
            at_ns: since the experiment's start; None: as soon as their hosts can.
            now_ns: the hosts' time, where that is not their clock's (None), which a halted run has read now and then.

        Returns:
            When it will be: of several with a stagger, the first one's time.

        Raises:
            InputError: there are none, they are not held back any more, or that time is past.
            RunError: a host cannot be reached.
        """
        chosen = self._named(name, held=True)
        for _, flow in chosen:
            if not flow.held:
                raise InputError(
                    f"flow {flow.name}: starts at {format_time(flow.start_ns)} already; allowed: once, of those held"
                )
        at_ns = self._to_come(chosen, at_ns, now_ns)
        for generator, flow in chosen:
            await generator.release(flow.name, at_ns)
        return at_ns

    async def stop_flows(self, name: str, at_ns: int | None, now_ns: int | None = None) -> int:
        """Stop flows that send for a time; parameters and errors are those of `start_flows`."""
        chosen = self._named(name)
        at_ns = self._to_come(chosen, at_ns, now_ns)
        for _, flow in chosen:
            if not flow.payload.lasts or flow.end_ns is None:
                from narrows.flows.kinds import LASTING  # a guest would wait for all kinds to be imported

                raise InputError(f"flow {flow.name}: ends by itself; allowed: of the kinds {', '.join(LASTING)}")
            if flow.held:
                raise InputError(f"flow {flow.name}: has not been started; allowed: start it before")
            if not flow.start_ns < at_ns < flow.end_ns:
                raise InputError(
                    f"flow {flow.name}: cannot stop at {format_time(at_ns)}; allowed: after "
                    f"{format_time(flow.start_ns)}, when it starts, and before {format_time(flow.end_ns)}, when it ends"
                )
        for generator, flow in chosen:
            await generator.end(flow.name, at_ns)
        return at_ns

    async def apply(self, group: str, change: Change) -> None:
        """Have the applications of a group's flows do something from now on.

        Raises:
            RunError: a host cannot be reached.
        """
        for generator, flow in self._named(group):
            await generator.apply(wire.Apply(flow.name, change.event, change.sends, change.bps))

    async def steer(
        self, name: str, window: int | None, rate_bps: int | None, at_ns: int | None = None
    ) -> wire.Steered:
        """Set the window in segments and the pacing rate of one flow of the congestion control `external`.

        Without either its socket is only read, whatever its congestion control. ``at_ns`` is when, since the
        experiment's start; None: as soon as its host can.

        Returns:
            What its host has answered.

        Raises:
            InputError: there is no such flow, or its window is not set from outside.
            RunError: its kernel refuses, or its host cannot be reached.
        """
        ((generator, flow), *others) = self._named(name)
        if others or flow.payload.repeat > 1:
            raise InputError(f"flow {name}: has several connections; allowed: one flow, of one connection")
        if (window is not None or rate_bps is not None) and flow.cca not in EXTERNAL:
            raise InputError(f"flow {name}: has the congestion control {flow.cca}; allowed: {', '.join(EXTERNAL)}")
        answer = await generator.steer(flow.name, window, None if rate_bps is None else rate_bps // 8, at_ns)
        if answer.refused is not None:
            raise RunError(f"flow {name}: {answer.refused}")
        return answer

    def _named(self, name: str, *, held: bool = False) -> list[tuple[Generator, Flow]]:
        """The flows of a group, or the one of that name, each with what makes it; an error names those ``held``."""
        flows = [(generator, flow) for generator in self._generators for flow in generator.flows]
        for found in ([one for one in flows if one[1].group == name], [one for one in flows if one[1].name == name]):
            if found:
                return found
        groups = dict.fromkeys(flow.group for _, flow in flows if flow.held or not held)
        allowed = ", ".join(groups) or "of those held, of which there are none"
        raise InputError(f"flow '{name}': there is no such flow; allowed: {allowed}")

    def _to_come(self, chosen: list[tuple[Generator, Flow]], at_ns: int | None, now_ns: int | None) -> int:
        """A time that the hosts of some flows learn of before it comes."""
        lead_s = max(generator.lead_s for generator, _ in chosen)
        if now_ns is None:
            now_ns = time.monotonic_ns() - round(self._origin * NANOSECONDS)
        first_ns = now_ns + round(lead_s * NANOSECONDS)
        if at_ns is not None and at_ns < first_ns:
            raise InputError(
                f"{format_time(at_ns)}: is past, or too soon for the hosts; allowed: {format_time(first_ns)} or later"
            )
        return first_ns if at_ns is None else at_ns

    async def end_at(self, at_ns: int) -> None:
        """End those flows under way that last for a time, at a future one since the experiment's start.

        Raises:
            RunError: a host cannot be reached.
        """
        for generator in self._generators:
            for name, flow in generator.under_way.items():
                if flow.payload.lasts and flow.end_ns is not None and flow.start_ns < at_ns < flow.end_ns:
                    await generator.end(name, at_ns)

    def is_over(self) -> None:
        """Note that flows under way last until now: no other was to end the run, as that of a command or a driver."""
        now_ns = time.monotonic_ns() - round(self._origin * NANOSECONDS)
        for generator in self._generators:
            generator.lasts_until(now_ns)

    async def stop(self) -> None:
        """Interrupt what still runs, so that its partial result is written.

        Raises:
            RunError: the sampling of sockets had failed.
        """
        await asyncio.gather(*(generator.stop() for generator in self._generators))
        await self._sampler.stop()

    async def finish(self) -> None:
        """End the receiving side of all flows, once nothing is under way any more; safe to call twice."""
        await asyncio.gather(*(generator.finish() for generator in self._generators))
