# SPDX-License-Identifier: Apache-2.0
"""Bulk flows in virtual time: one sending process a host and one receiving process in all.

iperf3 would do, but its receivers wake up for every packet and its clients turn in a loop while they wait for the
server's answer: in virtual time that is most of what a run costs.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.process import Process
from narrows.traffic import bulk_host
from narrows.traffic.base import FlowTraffic
from narrows.traffic.connection import Connection
from narrows.traffic.iperf3 import GRACE_S, INTERRUPT_GRACE_S, check_result

START_S = 10.0


class BulkTraffic(FlowTraffic):
    """The bulk flows of one run."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path) -> None:
        """Take the plan; results go to ``results``, one JSON file a connection."""
        super().__init__(plan, testbed, results)
        self._sink: Process | None = None
        self._senders: dict[str, Process] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self.connections: list[Connection] = []

    @property
    def active(self) -> int:
        """Connections under way."""
        return sum(connection.ended_s is None for connection in self.connections)

    async def start_servers(self) -> None:
        """Start the sink and wait until it listens.

        Raises:
            RunError: it does not come up.
        """
        self._results.mkdir(parents=True, exist_ok=True)
        if not self._flows:
            return
        script = await self._testbed.python("receiver", Path(bulk_host.__file__))
        ports = [str(flow.dst_port) for flow in self._flows]
        command = [*script, "sink", self._flows[0].dst, str(self._plan.receive_batch_bytes), *ports]
        self._sink = await self._testbed.spawn("receiver", command, stderr=self._testbed.state_dir / "sink.err")
        await self._sink.wait_for_line("ready", START_S)

    def tasks(self, origin_s: float) -> dict[str, Coroutine[Any, Any, None]]:
        """What runs each flow to its end, by the flow's name; raises RunError if a connection fails.

        Args:
            origin_s: monotonic time of the experiment's start.
        """
        self._origin = origin_s
        self._ended = {flow.name: asyncio.Event() for flow in self._flows}
        first = {flow.sender: flow.name for flow in reversed(self._flows)}
        return {flow.name: self._run(flow, first[flow.sender] == flow.name) for flow in self._flows}

    async def stop(self) -> None:
        """Interrupt what still runs, so that its partial result is written, and end the sink."""
        senders = list(self._senders.values())
        await asyncio.gather(*(sender.stop(INTERRUPT_GRACE_S, signal.SIGINT) for sender in senders))
        if self._sink is not None:
            await self._sink.stop(INTERRUPT_GRACE_S)
        for connection in self.connections:
            if connection.ended_s is None:
                connection.ended_s = time.monotonic() - self._origin
        self._senders.clear()
        self._sink = None

    async def _run(self, flow: Flow, leads: bool) -> None:
        """One flow; the one that leads also looks after the process of all flows of its host."""
        assert flow.duration_ns is not None
        own = [other for other in self._flows if other.sender == flow.sender]
        host = asyncio.create_task(self._send(flow.sender, own)) if leads else None
        await asyncio.sleep(self._origin + flow.start_ns / NANOSECONDS - time.monotonic())
        connection = Connection(flow, 0, self._result(flow), time.monotonic() - self._origin)
        self.connections.append(connection)
        try:
            async with asyncio.timeout(flow.duration_ns / NANOSECONDS + GRACE_S):
                await self._ended[flow.name].wait()
        except TimeoutError:
            raise RunError(f"flow {flow.name}: does not end") from None
        connection.ended_s = time.monotonic() - self._origin
        if host is not None:
            await host
        connection.bytes_sent = check_result(flow, self._result(flow), 0, "")

    async def _send(self, host: str, flows: list[Flow]) -> None:
        """The process that sends all flows of a host."""
        text = json.dumps([specify(flow, self._result(flow)) for flow in flows])
        file = await self._testbed.put(host, f"{host}-bulk.json", text)
        command = [*await self._testbed.python(host, Path(bulk_host.__file__)), "send", file, repr(self._origin)]
        errors = self._testbed.state_dir / f"{host}-bulk.err"
        sender = await self._testbed.spawn(host, command, stderr=errors)
        self._senders[host] = sender
        async for name in sender.lines():
            self._ended[name].set()
        code = await sender.wait()
        del self._senders[host]
        self._testbed.ended(sender)
        if code != 0:
            raise RunError(f"{sender.name}: ended with exit code {code}{sender.last_words()}")

    def _result(self, flow: Flow) -> Path:
        return self._results / f"{flow.name}.json"


def specify(flow: Flow, result: Path) -> dict[str, Any]:
    """What the sender is told of a flow."""
    assert flow.duration_ns is not None
    return {
        "name": flow.name,
        "cca": flow.cca,
        "src": flow.src,
        "src_port": flow.src_port,
        "dst": flow.dst,
        "dst_port": flow.dst_port,
        "start_s": flow.start_ns / NANOSECONDS,
        "duration_s": flow.duration_ns / NANOSECONDS,
        "result": str(result),
    }
