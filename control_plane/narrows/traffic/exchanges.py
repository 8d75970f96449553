# SPDX-License-Identifier: Apache-2.0
"""Flows of requests and responses: what is to be made of them on the hosts, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Ask, Flow, Plan, Player
from narrows.hosts.base import Testbed
from narrows.traffic import exchange_host, flow_host
from narrows.traffic.flows import HostGenerator, HostLoop, ProcessFlows, Side, ThreadGenerator, socket_settings
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
        "held": flow.held,
        "server": flow.src,
        "server_port": flow.dst_port,
        "client": flow.dst,
        "client_host": flow.receiver,
        "client_ports": list(flow.client_ports),
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
        asked = {other.name: sum(one.size for one in _asks(other)) for other in self._flows.values()}
        needed_s = self._carrying_s(flow, sum(asked.values())) + self._sending_s(flow, asked[flow.name])
        return SLOWDOWN * needed_s + super()._time_limit_s(flow)


def _asks(flow: Flow) -> list[Ask]:
    return [] if flow.exchange is None else [one for user in flow.exchange.users for one in user]


class ThreadExchanges(_Exchanges, ThreadGenerator):
    """In a thread, for all hosts."""

    def _make(self, tell: flow_host.Tell) -> HostLoop:
        return exchange_host.Exchanges(self._testbed.open_socket, tell)


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
