# SPDX-License-Identifier: Apache-2.0
"""All traffic of a run: bulk and sized flows, workloads, and the sampling of their sockets."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from narrows.errors import RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.traffic.bulk import BulkTraffic
from narrows.traffic.connection import Connection
from narrows.traffic.iperf3 import Iperf3Traffic
from narrows.traffic.sized import SizedTraffic
from narrows.traffic.sockets import Readings, SamplingProcesses, SamplingThread, SocketSampler


class Traffic:
    """The flows of one run."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, socket_interval_ns: int) -> None:
        """Take the plan; results go to ``results``. Sockets are read every ``socket_interval_ns``, never if 0."""
        self._plan = plan
        self._results = results
        bulk = BulkTraffic if plan.in_guest else Iperf3Traffic
        sampler = SamplingThread if plan.in_guest else SamplingProcesses
        self._bulk = bulk(plan, testbed, results)
        self._sized = SizedTraffic(plan, testbed, results)
        self._sampler: SocketSampler = sampler(plan, testbed, results, socket_interval_ns)
        self._origin = 0.0

    @property
    def origin_s(self) -> float:
        """Monotonic time of the experiment's start, 0 before it."""
        return self._origin

    @property
    def active(self) -> int:
        """Flows and workloads under way."""
        return self._bulk.active + self._sized.active

    @property
    def connections(self) -> list[Connection]:
        """Every connection so far, in the order of run.json's flows."""
        return [*self._bulk.connections, *self._sized.connections]

    @property
    def socket_readings(self) -> tuple[Readings, ...]:
        """What was read of the senders' sockets, one a sender."""
        return self._sampler.readings

    async def start(self) -> None:
        """Start the receiving side and the sampling.

        Raises:
            RunError: a server does not come up.
        """
        self._results.mkdir(parents=True, exist_ok=True)
        await self._bulk.start_servers()
        await self._sized.start_servers()
        await self._sampler.start()

    async def run(self) -> None:
        """Run all flows to their end.

        Raises:
            RunError: a flow fails; the others are left for `stop` to interrupt.
        """
        self._origin = time.monotonic()
        tasks = {**self._bulk.tasks(self._origin), **self._sized.tasks(self._origin)}
        running = [flow.group for flow in self._plan.flows]

        async def follow(flow: Flow) -> None:
            await tasks[flow.name]
            running.remove(flow.group)
            if flow.group not in running:
                await self._sized.group_ended(flow.group)

        try:
            async with asyncio.TaskGroup() as group:
                for flow in self._plan.flows:
                    group.create_task(follow(flow))
        except* RunError as errors:
            raise RunError("\n".join(dict.fromkeys(str(error) for error in errors.exceptions))) from errors

    async def stop(self) -> None:
        """Interrupt what still runs, so that its partial result is written, and end the receiving side.

        Raises:
            RunError: the sampling of sockets had failed.
        """
        await self._bulk.stop()
        await self._sized.stop(time.monotonic() - self._origin)
        await self._sampler.stop()
