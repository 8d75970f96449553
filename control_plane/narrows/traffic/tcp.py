# SPDX-License-Identifier: Apache-2.0
"""Flows of connections that their sender makes: what of a plan their hosts get."""

from __future__ import annotations

import socket
from typing import TypedDict

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Flow
from narrows.onhost import tcp
from narrows.traffic.socket_flows import SocketFlows

TCP_NOTSENT_LOWAT = 25  # linux/tcp.h


class TcpFlows(SocketFlows):
    """Bulk flows, finite ones, workloads, and those whose module on hosts has a ``SENDER``."""

    sockets = tcp.FlowSockets
    has_window = True

    async def specify(self, flow: Flow) -> tcp.ConnectionsSpecification:
        """See `SocketFlows.specify`."""
        return specify(flow, self._plan.uses_ecn(flow) or flow.tcp.ecn)


def specify(flow: Flow, ecn: bool | None) -> tcp.ConnectionsSpecification:
    """A flow for its hosts; ``ecn`` is whether its connections are to use it, None: as the kernel does."""
    sent, arrivals_ns = flow.payload, flow.payload.arrivals_ns
    lasts = not sent.is_finite and flow.duration_ns is not None
    return tcp.ConnectionsSpecification(
        **common(flow, ecn),
        module=type(sent).__module__.rpartition(".")[2],
        own=sent.own,
        host=flow.sender,
        src=flow.src,
        dst=flow.dst,
        dst_port=flow.dst_port,
        duration_s=(flow.duration_ns or 0) / NANOSECONDS if lasts else None,
        sequence=not arrivals_ns,
        gap_s=sent.pause_ns / NANOSECONDS,
        last_start_s=None if flow.end_ns is None else flow.end_ns / NANOSECONDS,
        until=sent.until,
        connections=[
            tcp.Part(
                number,
                start_s=(flow.start_ns + (arrivals_ns[number] if arrivals_ns else 0)) / NANOSECONDS,
                size=sent.size_of(number),
                src_port=port,
            )
            for number, port in enumerate(flow.client_ports)
        ],
    )


class Common(TypedDict):
    """The fields of `tcp.TcpSpecification`."""

    name: str
    held: bool
    cca: str
    ecn: bool | None
    options: list[tcp.Option]
    receiver_options: list[tcp.Option]
    initial_window: int | None
    rto_min_s: float | None


def common(flow: Flow, ecn: bool | None) -> Common:
    """What every specification of a TCP flow has."""
    return {
        "name": flow.name,
        "held": flow.held,
        "cca": flow.cca or "",
        "ecn": ecn,
        "options": _options(flow, sends=True),
        "receiver_options": _options(flow, sends=False),
        "initial_window": flow.tcp.initial_window,
        "rto_min_s": None if flow.tcp.rto_min_ns is None else flow.tcp.rto_min_ns / NANOSECONDS,
    }


def _options(flow: Flow, sends: bool) -> list[tcp.Option]:
    """Options of a flow's sockets at one end: name, level, number, how the value is packed, value."""
    asked = flow.tcp
    found: list[tcp.Option] = [
        (name, socket.IPPROTO_TCP, number, "=i", value)
        for name, number, value in (asked.options if sends else asked.receiver_options)
    ]
    if sends and asked.notsent_lowat is not None:
        found.append(("TCP_NOTSENT_LOWAT", socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, "=i", asked.notsent_lowat))
    if sends and asked.rate_bps is not None:
        found.append(("SO_MAX_PACING_RATE", socket.SOL_SOCKET, tcp.SO_MAX_PACING_RATE, "=Q", asked.rate_bps // 8))
    return found
