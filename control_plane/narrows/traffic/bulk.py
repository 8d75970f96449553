# SPDX-License-Identifier: Apache-2.0
"""Bulk flows in virtual time: of all hosts by this process, and received by it.

iperf3 would do, but its receivers wake up for every packet and its clients turn in a loop while they wait for the
server's answer: in virtual time that is most of what a run costs. A process of our own on each host would do, too, but
starting it takes as long as a second of many an experiment.
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
from narrows.traffic.base import FlowTraffic
from narrows.traffic.bulk_sockets import BulkSockets, Result
from narrows.traffic.connection import Connection
from narrows.traffic.iperf3 import GRACE_S, bytes_sent


class BulkTraffic(FlowTraffic):
    """The bulk flows of one run."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path) -> None:
        """Take the plan; results go to ``results``, one JSON file a connection."""
        super().__init__(plan, testbed, results)
        self._sockets = BulkSockets(self._flows, plan.receive_batch_bytes, testbed.open_socket, self._told)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends: dict[str, asyncio.Future[Result]] = {}
        self.connections: list[Connection] = []

    @property
    def active(self) -> int:
        """Connections under way."""
        return sum(connection.ended_s is None for connection in self.connections)

    async def start_servers(self) -> None:
        """Open the receiver's ports.

        Raises:
            RunError: one is in use.
        """
        self._results.mkdir(parents=True, exist_ok=True)
        self._loop = asyncio.get_running_loop()
        self._ends = {flow.name: self._loop.create_future() for flow in self._flows}
        try:
            self._sockets.listen("receiver")
        except OSError as error:
            raise RunError(f"the receiver's ports cannot be opened: {error.strerror}") from error

    def tasks(self, origin_s: float) -> dict[str, Coroutine[Any, Any, None]]:
        """What follows each flow to its end, by the flow's name; raises RunError if a connection fails.

        Args:
            origin_s: monotonic time of the experiment's start.
        """
        self._origin = origin_s
        self._sockets.start(origin_s)
        return {flow.name: self._follow(flow) for flow in self._flows}

    async def stop(self) -> None:
        """End what still runs, with its partial result, and the receiving side."""
        self._sockets.stop()
        # What the thread has told is taken in.
        await asyncio.sleep(0)
        for connection in self.connections:
            if connection.ended_s is None:
                connection.ended_s = time.monotonic() - self._origin

    async def _follow(self, flow: Flow) -> None:
        assert flow.duration_ns is not None
        await asyncio.sleep(self._origin + flow.start_ns / NANOSECONDS - time.monotonic())
        connection = Connection(flow, 0, self._result(flow.name), time.monotonic() - self._origin)
        self.connections.append(connection)
        try:
            # Whoever cancels this does not cancel the flow: `stop` ends it.
            async with asyncio.timeout(flow.duration_ns / NANOSECONDS + GRACE_S):
                said = await asyncio.shield(self._ends[flow.name])
        except TimeoutError:
            raise RunError(f"flow {flow.name}: does not end") from None
        except OSError as error:
            raise RunError(f"flow {flow.name}: {error.strerror}") from error
        connection.ended_s = time.monotonic() - self._origin
        connection.bytes_sent = bytes_sent(flow, said)

    def _told(self, name: str, how: Result | OSError) -> None:
        """Called by the thread of the sockets."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._take, name, how)

    def _take(self, name: str, how: Result | OSError) -> None:
        end = self._ends[name]
        if end.done():
            return
        if isinstance(how, OSError):
            end.set_exception(how)
        else:
            self._result(name).write_text(json.dumps(how), encoding="utf-8")
            end.set_result(how)

    def _result(self, name: str) -> Path:
        return self._results / f"{name}.json"
