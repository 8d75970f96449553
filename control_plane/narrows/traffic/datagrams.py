# SPDX-License-Identifier: Apache-2.0
"""UDP flows and probes: what is to be made of them on the hosts, and what became of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.onhost import datagrams as on_host
from narrows.onhost.datagrams import Sending
from narrows.traffic.flows import THREAD_LEAD_S, HostGenerator, ProcessFlows
from narrows.traffic.generator import Generator


def specify(flow: Flow) -> dict[str, Any]:
    """A flow as `narrows.onhost.datagrams` makes it; times are seconds since the experiment's start. With
    ``one_clock`` its two hosts have the same one."""
    sending = cast("Sending", flow.payload)
    return {
        "name": flow.name,
        "held": flow.held,
        "host": flow.sender,
        "src": flow.src,
        "src_port": flow.port_of(0),
        "dst": flow.dst,
        "dst_port": flow.dst_port,
        "payload": sending.payload,
        "gap_s": sending.gap_ns / NANOSECONDS,
        "bursts": [[begin / NANOSECONDS, end / NANOSECONDS] for begin, end in sending.bursts],
        "end_s": (flow.start_ns + (flow.duration_ns or 0)) / NANOSECONDS,
        "ecn": sending.ecn,
        "echo": sending.echo,
        "one_clock": True,
    }


class ThreadDatagrams(HostGenerator):
    """Threads of this process for all hosts: in virtual time they take none."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        self._datagrams: on_host.DatagramSockets | None = None
        self._sending: threading.Thread | None = None

    def _specify(self, flow: Flow) -> dict[str, Any]:
        return specify(flow)

    @property
    def lead_s(self) -> float:
        """See `Generator.lead_s`."""
        return THREAD_LEAD_S

    async def _prepare(self) -> None:
        tell = partial(self._hand_over, asyncio.get_running_loop())
        self._datagrams = on_host.DatagramSockets(self._testbed.open_socket, tell, self._plan.driven)
        try:
            for host, specifications in self._by_host("listens").items():
                self._datagrams.listen(host, specifications)
            self._datagrams.prepare(list(self._specifications.values()))
        except OSError as error:
            raise RunError(f"the sockets of UDP flows are not ready: {error.strerror}") from error
        self._datagrams.receive()

    async def _start(self) -> None:
        assert self._datagrams is not None
        self._sending = threading.Thread(target=self._send, args=(self._datagrams,))
        self._sending.start()

    def _send(self, datagrams: on_host.DatagramSockets) -> None:
        try:
            datagrams.send(self._origin_s)
        except OSError as error:
            for name, end in self._ends.items():
                self._hand_over(end.get_loop(), {"flow": name, "failed": str(error.strerror)})

    def _hand_over(self, loop: asyncio.AbstractEventLoop, event: dict[str, Any]) -> None:
        """Take an event in, from a thread."""
        loop.call_soon_threadsafe(self._take, event)

    async def group_ended(self, group: str) -> None:
        """Nothing lasts until a group ends."""

    async def _release(self, name: str, at_s: float) -> None:
        assert self._datagrams is not None
        self._datagrams.release(name, at_s)

    async def _end_at(self, name: str, at_s: float) -> None:
        assert self._datagrams is not None
        self._datagrams.finish(name, at_s)

    async def _stop(self) -> None:
        if self._sending is not None and self._datagrams is not None:
            self._datagrams.stop()
            self._sending.join()
            self._sending = None
        await asyncio.sleep(0)

    async def finish(self) -> None:
        """See `Generator.finish`."""
        if self._datagrams is not None:
            self._datagrams.close()
            self._datagrams = None
        await asyncio.sleep(0)


class ProcessDatagrams(ProcessFlows):
    """A process on each host that has flows, ready before the experiment begins."""

    _script = Path(on_host.__file__)

    def _specify(self, flow: Flow) -> dict[str, Any]:
        return specify(flow)

    async def _prepare(self) -> None:
        for name, flow in self._flows.items():
            # Clocks of two machines are compared over the network, with an error as large as a delay.
            ours = [await self._testbed.clock_offset_s(host) for host in (flow.sender, flow.receiver)]
            self._specifications[name]["one_clock"] = ours[0] == ours[1]
        await super()._prepare()

    async def _stop(self) -> None:
        """A sender that has sent everything stays: what comes back to a probe is still to be counted."""
        if not all(end.done() for end in self._ends.values()):
            self._stopping = True
            await self._end(self._senders)

    async def finish(self) -> None:
        """See `Generator.finish`."""
        await super()._stop()


def make(plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> Generator:
    """What makes these flows, where the plan's hosts are."""
    kind = ThreadDatagrams if plan.in_guest else ProcessDatagrams
    return kind(plan, testbed, results, flows)
