# SPDX-License-Identifier: Apache-2.0
"""Bulk TCP flows by iperf3, with 5-tuples known in advance.

Nothing is retried: a connection that does not do what the plan says is a failed run.
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
from narrows.traffic.base import FlowTraffic
from narrows.traffic.connection import Connection

SERVER_START_S = 10.0
# A connection that takes so much longer than it should has failed: it would otherwise keep a run alive for ever.
GRACE_S = 60.0
INTERRUPT_GRACE_S = 3.0


class Iperf3Traffic(FlowTraffic):
    """The bulk flows of one run."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path) -> None:
        """Take the plan; results go to ``results``, one JSON file a connection."""
        super().__init__(plan, testbed, results)
        self._servers: list[Process] = []
        self._clients: dict[str, Process] = {}
        self.connections: list[Connection] = []

    @property
    def active(self) -> int:
        """Connections under way."""
        return len(self._clients)

    async def start_servers(self) -> None:
        """Start one server a flow and wait until all listen.

        Raises:
            RunError: a server does not come up.
        """
        self._results.mkdir(parents=True, exist_ok=True)
        logs = []
        for flow in self._flows:
            log = self._testbed.state_dir / f"{flow.name}-server.log"
            errors = log.with_suffix(".err")
            command = ["iperf3", "--server", "--port", str(flow.dst_port), "--bind", flow.dst, "--forceflush"]
            self._servers.append(await self._testbed.spawn("receiver", command, stdout=log, stderr=errors, nobody=True))
            logs.append(log)
        deadline = time.monotonic() + SERVER_START_S
        for server, log in zip(self._servers, logs, strict=True):
            while b"Server listening" not in log.read_bytes():
                if server.returncode is not None or time.monotonic() > deadline:
                    raise RunError(f"{server.name} does not listen{server.last_words()}")
                await asyncio.sleep(0.02)

    def tasks(self, origin_s: float) -> dict[str, Coroutine[Any, Any, None]]:
        """What runs each flow to its end, by the flow's name; raises RunError if a connection fails.

        Args:
            origin_s: monotonic time of the experiment's start.
        """
        self._origin = origin_s
        return {flow.name: self._run_flow(flow) for flow in self._flows}

    async def stop(self) -> None:
        """Interrupt what still runs, so that its partial result is written, and end the servers."""
        clients = list(self._clients.values())
        await asyncio.gather(*(client.stop(INTERRUPT_GRACE_S, signal.SIGINT) for client in clients))
        await asyncio.gather(*(server.stop(INTERRUPT_GRACE_S) for server in self._servers))
        for connection in self.connections:
            if connection.ended_s is None:
                connection.ended_s = time.monotonic() - self._origin
        self._clients.clear()
        self._servers.clear()

    async def _run_flow(self, flow: Flow) -> None:
        await asyncio.sleep(self._origin + flow.start_ns / NANOSECONDS - time.monotonic())
        label = flow.name
        result = self._results / f"{label}.json"
        connection = Connection(flow, 0, result, time.monotonic() - self._origin)
        self.connections.append(connection)
        client = await self._testbed.spawn(
            flow.sender,
            client_command(flow),
            stdout=result,
            stderr=self._testbed.state_dir / f"{label}.err",
            nobody=True,
        )
        self._clients[label] = client
        limit = self._time_limit(flow)
        try:
            async with asyncio.timeout(limit):
                code = await client.wait()
        except TimeoutError:
            raise RunError(f"flow {label}: no end after {limit:.0f} s") from None
        del self._clients[label]
        self._testbed.ended(client)
        connection.ended_s = time.monotonic() - self._origin
        connection.bytes_sent = check_result(flow, result, code, client.last_words())

    def _time_limit(self, flow: Flow) -> float:
        """Seconds after which a connection counts as failed."""
        assert flow.duration_ns is not None
        bottleneck = self._plan.bottleneck
        queue = bottleneck.limit_bytes * 8 / bottleneck.rate_bps
        return flow.duration_ns / NANOSECONDS + queue + GRACE_S


def client_command(flow: Flow) -> list[str]:
    """The iperf3 client that makes a flow."""
    assert flow.duration_ns is not None
    command = ["iperf3", "--client", flow.dst, "--port", str(flow.dst_port), "--bind", flow.src]
    command += ["--cport", str(flow.src_port), "--congestion", flow.cca, "--json", "--interval", "1"]
    return [*command, "--time", str(flow.duration_ns // NANOSECONDS)]


def check_result(flow: Flow, result: Path, code: int, last_words: str) -> int:
    """Check that a flow was what the plan says; returns the bytes sent.

    Raises:
        RunError: it failed, or was something else.
    """
    label = f"flow {flow.name}"
    try:
        data = json.loads(result.read_bytes())
    except ValueError:
        raise RunError(f"{label}: iperf3 wrote no result (exit code {code}){last_words}") from None
    if "error" in data or code != 0:
        raise RunError(f"{label}: iperf3: {data.get('error', f'exit code {code}')}{last_words}")
    return bytes_sent(flow, data)


def bytes_sent(flow: Flow, data: dict[str, Any]) -> int:
    """What a flow sent by what iperf3, or `bulk_sockets` in its place, says of it.

    Raises:
        RunError: it was another flow than the plan says.
    """
    label = f"flow {flow.name}"
    try:
        used = data["end"]["sender_tcp_congestion"]
        port = data["start"]["connected"][0]["local_port"]
        sent = int(data["end"]["sum_sent"]["bytes"])
    except (KeyError, IndexError, TypeError) as error:
        raise RunError(f"{label}: iperf3's result has no {error}") from error
    if used != flow.cca:
        raise RunError(f"{label}: ran with {used}, not {flow.cca}")
    if port != flow.src_port:
        raise RunError(f"{label}: ran from port {port}, not {flow.src_port}")
    return sent
