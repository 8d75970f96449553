# SPDX-License-Identifier: Apache-2.0
"""Flows of requests and responses: what is to be made of them on the hosts, and what became of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Ask, Flow, Plan, Player
from narrows.hosts.base import Testbed
from narrows.traffic import exchange_host, flow_host
from narrows.traffic.flows import THREAD_LEAD_S, HostGenerator, ProcessFlows, Side, socket_settings
from narrows.traffic.generator import SLOWDOWN, Generator


def specify(flow: Flow, ecn: bool | None) -> dict[str, Any]:
    """A flow as `narrows.traffic.exchange_host` makes it; times are seconds since the experiment's start.

    Requests are pairs of seconds and bytes; see `narrows.experiment.plan.Exchange`. No request of a closed loop is made
    at ``end_s`` or later.
    """
    exchange = flow.exchange
    assert exchange is not None and flow.duration_ns is not None
    return {
        "name": flow.name,
        "server": flow.src,
        "server_port": flow.dst_port,
        "client": flow.dst,
        "client_host": flow.receiver,
        "client_port": flow.src_port,
        "start_s": flow.start_ns / NANOSECONDS,
        "end_s": (flow.start_ns + flow.duration_ns) / NANOSECONDS,
        "closed": exchange.closed,
        "kept": exchange.kept,
        "request_bytes": exchange.request_bytes,
        "users": [[[ask.time_ns / NANOSECONDS, ask.size] for ask in user] for user in exchange.users],
        "player": None if exchange.player is None else _player(exchange.player),
        **socket_settings(flow, ecn),
    }


def _player(player: Player) -> dict[str, Any]:
    return {
        "bitrates_bps": player.bitrates_bps,
        "segment_s": player.segment_ns / NANOSECONDS,
        "buffer_s": player.buffer_ns / NANOSECONDS,
        "reservoir_s": player.reservoir_ns / NANOSECONDS,
        "cushion_s": player.cushion_ns / NANOSECONDS,
        "start_s": player.start_ns / NANOSECONDS,
    }


class _Exchanges(HostGenerator):
    """Connections are made from where their data go to."""

    def _host(self, flow: Flow, side: Side) -> str:
        return flow.receiver if side == "begins" else flow.sender

    def _specify(self, flow: Flow) -> dict[str, Any]:
        return specify(flow, self._plan.uses_ecn(flow) or flow.tcp.ecn)

    async def group_ended(self, group: str) -> None:
        """Nothing lasts until a group ends."""

    def _time_limit_s(self, flow: Flow) -> float:
        """Every response may come after the last request, beside those of all others."""
        asked = [one.size for other in self._flows.values() for user in _users(other) for one in user]
        longest_s = SLOWDOWN * sum(asked) * 8 / self._plan.rate_bps(flow)
        return longest_s + super()._time_limit_s(flow)


def _users(flow: Flow) -> tuple[tuple[Ask, ...], ...]:
    return () if flow.exchange is None else flow.exchange.users


class ThreadExchanges(_Exchanges):
    """One thread of this process for all hosts: in virtual time it takes none."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        self._exchanges: exchange_host.Exchanges | None = None
        self._thread: threading.Thread | None = None

    @property
    def lead_s(self) -> float:
        """See `Generator.lead_s`."""
        return THREAD_LEAD_S

    async def _prepare(self) -> None:
        tell = partial(self._hand_over, asyncio.get_running_loop())
        self._exchanges = exchange_host.Exchanges(self._testbed.open_socket, tell)
        for host, specifications in self._by_host("listens").items():
            try:
                self._exchanges.listen(host, specifications)
            except OSError as error:
                raise RunError(f"{host}: its ports cannot be opened: {error.strerror}") from error
        self._exchanges.prepare(list(self._specifications.values()))

    async def _start(self) -> None:
        assert self._exchanges is not None
        self._thread = threading.Thread(target=self._run, args=(self._exchanges,))
        self._thread.start()

    def _run(self, exchanges: exchange_host.Exchanges) -> None:
        try:
            exchanges.run(self._origin_s)
        except OSError as error:
            for name, end in self._ends.items():
                self._hand_over(end.get_loop(), {"flow": name, "failed": str(error.strerror)})

    def _hand_over(self, loop: asyncio.AbstractEventLoop, event: dict[str, Any]) -> None:
        """Take an event in, from the thread."""
        loop.call_soon_threadsafe(self._take, event)

    async def _stop(self) -> None:
        if self._thread is not None and self._exchanges is not None:
            self._exchanges.stop()
            self._thread.join()
            self._thread = None
        await asyncio.sleep(0)


class ProcessExchanges(_Exchanges, ProcessFlows):
    """A process on each host, ready before the experiment begins."""

    _script = Path(exchange_host.__file__)

    async def _prepare(self) -> None:
        library = Path(flow_host.__file__)
        for host in {**self._by_host("listens"), **self._by_host("begins")}:
            await self._testbed.python(host, library)
        await super()._prepare()


def make(plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> Generator:
    """What makes these flows, where the plan's hosts are."""
    kind = ThreadExchanges if plan.in_guest else ProcessExchanges
    return kind(plan, testbed, results, flows)
