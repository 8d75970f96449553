# SPDX-License-Identifier: Apache-2.0
"""Flows of requests and responses: what is to be made of them on the hosts, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.onhost import payload, requests, tcp
from narrows.onhost.requests import Player, Requests
from narrows.traffic.flows import HostGenerator, HostLoop, ProcessFlows, Side, ThreadGenerator, socket_settings
from narrows.traffic.generator import Generator


def specify(flow: Flow, ecn: bool | None) -> dict[str, Any]:
    """A flow as `narrows.onhost.requests` makes it; times are seconds since the experiment's start.

    Requests are pairs of seconds and bytes; see `narrows.onhost.requests.Requests`. No request of a closed loop is made
    at ``end_s`` or later.
    """
    asked = cast("Requests", flow.payload)
    player = asked.watched_by
    return {
        "name": flow.name,
        "held": flow.held,
        "server": flow.src,
        "server_port": flow.dst_port,
        "client": flow.dst,
        "client_host": flow.receiver,
        "client_ports": list(flow.client_ports),
        "start_s": flow.start_ns / NANOSECONDS,
        "end_s": (flow.end_ns or 0) / NANOSECONDS,
        "closed": asked.closed,
        "kept": asked.kept,
        "request_bytes": asked.request_bytes,
        "users": [[[ask.time_ns / NANOSECONDS, ask.size] for ask in user] for user in asked.users],
        "player": None if player is None else _player(player),
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


class ThreadExchanges(_Exchanges, ThreadGenerator):
    """In a thread, for all hosts."""

    def _make(self, tell: tcp.Tell) -> HostLoop:
        return requests.Exchanges(self._testbed.open_socket, tell)


class ProcessExchanges(_Exchanges, ProcessFlows):
    """A process on each host, ready before the experiment begins."""

    _script = Path(requests.__file__)
    _libraries = (Path(payload.__file__), Path(tcp.__file__))


def make(plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> Generator:
    """What makes these flows, where the plan's hosts are."""
    kind = ThreadExchanges if plan.in_guest else ProcessExchanges
    return kind(plan, testbed, results, flows)
