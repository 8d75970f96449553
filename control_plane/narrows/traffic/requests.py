# SPDX-License-Identifier: Apache-2.0
"""Flows of requests and responses: what of a plan their hosts get."""

from __future__ import annotations

from typing import cast

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Flow
from narrows.onhost import requests
from narrows.onhost.requests import Requests, RequestsSpecification
from narrows.traffic.socket_flows import SocketFlows
from narrows.traffic.tcp import common


class RequestFlows(SocketFlows):
    """Connections are made from where their data go to."""

    sockets = requests.RequestSockets

    async def specify(self, flow: Flow) -> RequestsSpecification:
        """See `SocketFlows.specify`."""
        return specify(flow, self._plan.uses_ecn(flow) or flow.tcp.ecn)


def specify(flow: Flow, ecn: bool | None) -> RequestsSpecification:
    """A flow for its hosts; ``ecn`` is whether its connections are to use it, None: as the kernel does."""
    asked = cast("Requests", flow.payload)
    return RequestsSpecification(
        **common(flow, ecn),
        module=type(asked).__module__.rpartition(".")[2],
        own=asked.own,
        server=flow.src,
        server_port=flow.dst_port,
        client=flow.dst,
        client_host=flow.receiver,
        client_ports=list(flow.client_ports),
        start_s=flow.start_ns / NANOSECONDS,
        end_s=(flow.end_ns or 0) / NANOSECONDS,
        closed_loop=asked.closed_loop,
        keep_alive=asked.keep_alive,
        request_bytes=asked.request_bytes,
        users=[[(request.time_ns / NANOSECONDS, request.size) for request in user] for user in asked.users],
    )
