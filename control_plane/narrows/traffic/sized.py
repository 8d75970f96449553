# SPDX-License-Identifier: Apache-2.0
"""Flows of a set size, in succession or as a workload: a sender and a sink process each, a TCP connection a flow.

A flow has ended when the sink has read its last byte. (iperf3 ends a test when the last byte is handed to the socket,
and throws away what is still under way.)

Nothing is retried: a flow that does not do what the plan says is a failed run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.process import Process
from narrows.traffic import sized_host
from narrows.traffic.base import FlowTraffic
from narrows.traffic.connection import Connection

SINK_START_S = 10.0
STOP_GRACE_S = 3.0
# A workload that takes so much longer than its bytes need has failed.
SLOWDOWN = 20
GRACE_S = 60.0


class SizedTraffic(FlowTraffic):
    """The sized flows and workloads of one run."""

    sized = True

    def __init__(self, plan: Plan, testbed: Testbed, results: Path) -> None:
        """Take the plan; results go to ``results``, one file of JSON lines a flow."""
        super().__init__(plan, testbed, results)
        self._processes: list[Process] = []
        self._finished: dict[str, list[Connection]] = {}
        self._running: set[str] = set()
        self._scripts: dict[str, list[str]] = {}
        self._specifications: dict[str, str] = {}
        self._offsets_s: dict[str, float] = {}

    @property
    def active(self) -> int:
        """Flows and workloads under way."""
        return len(self._running)

    @property
    def connections(self) -> list[Connection]:
        """Connections of the flows that have ended, flow by flow."""
        return [connection for flow in self._flows for connection in self._finished.get(flow.name, [])]

    async def start_servers(self) -> None:
        """Start a sink a flow and wait until all listen.

        Raises:
            RunError: a sink does not come up.
        """
        for flow in self._flows:
            errors = self._testbed.state_dir / f"{flow.name}-sink.err"
            command = [*await self._script("receiver"), "sink", flow.dst, str(flow.dst_port)]
            sink = await self._testbed.spawn("receiver", command, stderr=errors)
            self._processes.append(sink)
            await sink.wait_for_line("ready", SINK_START_S)
        # Before the clock of the experiment runs: other machines take their time.
        for flow in self._flows:
            await self._script(flow.sender)
            self._offsets_s[flow.sender] = await self._testbed.clock_offset_s(flow.sender)
            specification = json.dumps(specify(flow))
            self._specifications[flow.name] = await self._testbed.put(flow.sender, f"{flow.name}.json", specification)

    def tasks(self, origin_s: float) -> dict[str, Coroutine[Any, Any, None]]:
        """What runs each flow to its end, by the flow's name; raises RunError if a flow fails.

        Args:
            origin_s: monotonic time of the experiment's start.
        """
        return {flow.name: self._run(flow, origin_s) for flow in self._flows}

    async def group_ended(self, group: str) -> None:
        """No further connection starts of the flows that last until this group ends.

        Raises:
            RunError: a sender's host cannot be told.
        """
        for host in sorted({flow.sender for flow in self._flows if flow.until == group}):
            await self._testbed.put(host, stop_file(group), "")

    async def stop(self, now_s: float) -> None:
        """End what still runs; its connections then end at ``now_s``."""
        await asyncio.gather(*(process.stop(STOP_GRACE_S) for process in self._processes))
        self._processes.clear()
        for flow in self._flows:
            if flow.name not in self._finished and self._result(flow).exists():
                self._finished[flow.name] = read_results(flow, self._result(flow))
                for connection in self._finished[flow.name]:
                    if connection.ended_s is None:
                        connection.ended_s = now_s
        self._running.clear()

    async def _run(self, flow: Flow, origin_s: float) -> None:
        errors = self._testbed.state_dir / f"{flow.name}.err"
        origin = repr(origin_s + self._offsets_s[flow.sender])
        command = [*await self._script(flow.sender), "send", self._specifications[flow.name], origin]
        sender = await self._testbed.spawn(flow.sender, command, stdout=self._result(flow), stderr=errors)
        self._processes.append(sender)
        self._running.add(flow.name)
        limit = origin_s + self._time_limit(flow) - time.monotonic()
        try:
            async with asyncio.timeout(limit):
                code = await sender.wait()
        except TimeoutError:
            raise RunError(f"flow {flow.name}: no end after {limit:.0f} s") from None
        self._testbed.ended(sender)
        self._processes.remove(sender)
        self._running.discard(flow.name)
        if code != 0:
            raise RunError(f"flow {flow.name}: a connection failed (exit code {code}){sender.last_words()}")
        self._finished[flow.name] = check_results(flow, self._result(flow))

    async def _script(self, host: str) -> list[str]:
        if host not in self._scripts:
            self._scripts[host] = await self._testbed.python(host, Path(sized_host.__file__))
        return self._scripts[host]

    def _result(self, flow: Flow) -> Path:
        return self._results / f"{flow.name}.jsonl"

    def _time_limit(self, flow: Flow) -> float:
        last_ns = flow.arrivals[-1].start_ns if flow.arrivals else (flow.repeat - 1) * flow.gap_ns
        size = sum(size_of(other, number) for other in self._flows for number in range(other.repeat))
        bottleneck = self._plan.bottleneck
        waiting = bottleneck.limit_bytes * 8 / bottleneck.rate_bps + flow.rtt_ns / NANOSECONDS
        ideal = size * 8 / bottleneck.rate_bps + flow.repeat * waiting
        return (flow.start_ns + last_ns) / NANOSECONDS + ideal * SLOWDOWN * len(self._plan.flows) + GRACE_S


def size_of(flow: Flow, number: int) -> int:
    """Bytes of a connection of a sized flow."""
    if flow.arrivals:
        return flow.arrivals[number].size
    assert flow.size is not None
    return flow.size


def stop_file(group: str) -> str:
    """Name of the file that exists once all flows of a group have ended."""
    return f"{group}.ended"


def specify(flow: Flow) -> dict[str, Any]:
    """The sender's specification: addresses, algorithm, and start, size and source port of each connection.

    A sequence ends when there is a ``stop_file`` beside the specification.
    """
    last_ns = None if flow.duration_ns is None else flow.start_ns + flow.duration_ns
    return {
        "cca": flow.cca,
        "src": flow.src,
        "dst": flow.dst,
        "dst_port": flow.dst_port,
        "sequence": not flow.arrivals,
        "gap_s": flow.gap_ns / NANOSECONDS,
        "last_start_s": None if last_ns is None else last_ns / NANOSECONDS,
        "stop_file": stop_file(flow.until or ""),
        "flows": [
            {
                "number": number,
                "start_s": (flow.start_ns + (flow.arrivals[number].start_ns if flow.arrivals else 0)) / NANOSECONDS,
                "size": size_of(flow, number),
                "src_port": flow.src_port + number,
            }
            for number in range(flow.repeat)
        ],
    }


def read_results(flow: Flow, path: Path) -> list[Connection]:
    """Connections that a sender's output tells of, in the order of their numbers; an unfinished line is left out.

    Raises:
        RunError: a connection ran with another algorithm than the plan's.
    """
    connections: dict[int, Connection] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue
        number = data["number"]
        if data["cca"] != flow.cca:
            raise RunError(f"flow {flow.name}, connection {number + 1}: ran with {data['cca']}, not {flow.cca}")
        if "started_s" in data:
            connections[number] = Connection(flow, number, None, data["started_s"])
        else:
            connections[number].ended_s, connections[number].bytes_sent = data["ended_s"], data["bytes_sent"]
    return [connections[number] for number in sorted(connections)]


def check_results(flow: Flow, path: Path) -> list[Connection]:
    """As `read_results`, of a flow that has ended.

    Raises:
        RunError: a connection is missing, or has not ended.
    """
    connections = read_results(flow, path)
    ended = sum(connection.ended_s is not None for connection in connections)
    may_end_early = not flow.arrivals and (flow.duration_ns is not None or flow.until is not None)
    if ended < len(connections) or not connections or (ended < flow.repeat and not may_end_early):
        raise RunError(f"flow {flow.name}: {ended} of {flow.repeat} connections have ended")
    return connections
