# SPDX-License-Identifier: Apache-2.0
"""The flows of workloads: one sending and one sinking process a group, a TCP connection a flow.

Nothing is retried: a flow that does not do what the plan says is a failed run.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from narrows.errors import RunError
from narrows.hosts.base import Testbed
from narrows.plan import Flow, Plan
from narrows.process import Process
from narrows.traffic import workload_host
from narrows.traffic.connection import NANOSECONDS, Connection

SINK_START_S = 10.0
STOP_GRACE_S = 3.0
# A workload that takes so much longer than its bytes need has failed.
SLOWDOWN = 20
GRACE_S = 60.0


class WorkloadTraffic:
    """The workloads of one run."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path) -> None:
        """Take the plan; results go to ``results``, one file of JSON lines a flow group."""
        self._plan = plan
        self._flows = tuple(flow for flow in plan.flows if flow.arrivals)
        self._testbed = testbed
        self._results = results
        self._processes: list[Process] = []
        self._finished: dict[str, list[Connection]] = {}
        self._running: set[str] = set()

    @property
    def active(self) -> int:
        """Workloads under way."""
        return len(self._running)

    @property
    def connections(self) -> list[Connection]:
        """Flows of workloads that have ended, workload by workload."""
        return [connection for name in self._finished for connection in self._finished[name]]

    async def start_servers(self) -> None:
        """Start a sink a workload and wait until all listen.

        Raises:
            RunError: a sink does not come up.
        """
        for flow in self._flows:
            errors = self._testbed.state_dir / f"{flow.name}-sink.err"
            command = [*_script(), "sink", flow.dst, str(flow.dst_port)]
            sink = await self._testbed.spawn("receiver", command, stderr=errors)
            self._processes.append(sink)
            await sink.wait_for_line("ready", SINK_START_S)

    def tasks(self, origin_s: float) -> list[Coroutine[Any, Any, None]]:
        """What runs each workload to its end; raises RunError if a flow fails.

        Args:
            origin_s: monotonic time of the experiment's start.
        """
        return [self._run(flow, origin_s) for flow in self._flows]

    async def stop(self) -> None:
        """End what still runs; the flows that have ended by then are kept."""
        await asyncio.gather(*(process.stop(STOP_GRACE_S) for process in self._processes))
        self._processes.clear()
        for flow in self._flows:
            if flow.name not in self._finished and self._result(flow).exists():
                self._finished[flow.name] = read_results(flow, self._result(flow))
        self._running.clear()

    async def _run(self, flow: Flow, origin_s: float) -> None:
        specification = self._testbed.state_dir / f"{flow.name}.json"
        specification.write_text(json.dumps(specify(flow)), encoding="utf-8")
        errors = self._testbed.state_dir / f"{flow.name}.err"
        command = [*_script(), "send", str(specification), repr(origin_s)]
        sender = await self._testbed.spawn(flow.sender, command, stdout=self._result(flow), stderr=errors)
        self._processes.append(sender)
        self._running.add(flow.name)
        limit = origin_s + self._time_limit(flow) - time.monotonic()
        try:
            async with asyncio.timeout(limit):
                code = await sender.wait()
        except TimeoutError:
            raise RunError(f"workload {flow.name}: no end after {limit:.0f} s") from None
        self._testbed.ended(sender)
        self._processes.remove(sender)
        self._running.discard(flow.name)
        if code != 0:
            raise RunError(f"workload {flow.name}: a flow failed (exit code {code}){sender.last_words()}")
        self._finished[flow.name] = check_results(flow, self._result(flow))

    def _result(self, flow: Flow) -> Path:
        return self._results / f"{flow.name}.jsonl"

    def _time_limit(self, flow: Flow) -> float:
        last = (flow.start_ns + flow.arrivals[-1].start_ns) / NANOSECONDS
        size = sum(arrival.size for other in self._flows for arrival in other.arrivals)
        ideal = size * 8 / self._plan.bottleneck.rate_bps + flow.rtt_ns / NANOSECONDS
        return last + ideal * SLOWDOWN + GRACE_S


def _script() -> list[str]:
    # -I: what the user has in the environment or the working directory must not change it.
    return [sys.executable, "-I", str(Path(workload_host.__file__))]


def specify(flow: Flow) -> dict[str, Any]:
    """The sender's specification: addresses, algorithm, and start, size and source port of each flow."""
    return {
        "cca": flow.cca,
        "src": flow.src,
        "dst": flow.dst,
        "dst_port": flow.dst_port,
        "flows": [
            {
                "number": number,
                "start_s": (flow.start_ns + arrival.start_ns) / NANOSECONDS,
                "size": arrival.size,
                "src_port": flow.src_port + number,
            }
            for number, arrival in enumerate(flow.arrivals)
        ],
    }


def read_results(flow: Flow, path: Path) -> list[Connection]:
    """Connections of the lines in a sender's output, in the order of their numbers; an unfinished line is left out.

    Raises:
        RunError: a flow ran with another algorithm than the plan's.
    """
    connections = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if data["cca"] != flow.cca:
            raise RunError(f"flow {flow.name}, connection {data['number'] + 1}: ran with {data['cca']}, not {flow.cca}")
        connections.append(
            Connection(flow, data["number"], None, data["started_s"], data["ended_s"], data["bytes_sent"])
        )
    return sorted(connections, key=lambda connection: connection.number)


def check_results(flow: Flow, path: Path) -> list[Connection]:
    """As `read_results`, of a workload that has ended.

    Raises:
        RunError: a flow is missing, or was something else than planned.
    """
    connections = read_results(flow, path)
    if len(connections) != len(flow.arrivals):
        raise RunError(f"workload {flow.name}: {len(connections)} of {len(flow.arrivals)} flows have ended")
    return connections
