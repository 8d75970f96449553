# SPDX-License-Identifier: Apache-2.0
"""Flows of datagrams: what of a plan their hosts get."""

from __future__ import annotations

from typing import cast

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Flow
from narrows.onhost import datagrams, media, nada
from narrows.onhost.datagrams import DatagramsSpecification, Sending
from narrows.traffic.socket_flows import SocketFlows


class DatagramFlows(SocketFlows):
    """What comes back to a probe is counted after the last datagram has been sent."""

    sockets = datagrams.DatagramSockets
    receives_to_the_end = True

    async def specify(self, flow: Flow) -> DatagramsSpecification:
        """See `SocketFlows.specify`.

        Clocks of two machines are compared over the network, with an error as large as a delay: they are not one.
        """
        ahead_s = [await self._testbed.clock_offset_s(host) for host in (flow.sender, flow.receiver)]
        return specify(flow, one_clock=ahead_s[0] == ahead_s[1])


class MediaFlows(DatagramFlows):
    """Flows whose receivers answer, at a rate that follows what they say."""

    sockets = media.MediaSockets
    libraries = (datagrams, nada)


def specify(flow: Flow, one_clock: bool) -> DatagramsSpecification:
    """A flow for its hosts; ``one_clock``: they have the same one."""
    sending = cast("Sending", flow.payload)
    return DatagramsSpecification(
        name=flow.name,
        held=flow.held,
        kind=sending.kind,
        host=flow.sender,
        src=flow.src,
        src_port=flow.port_of(0),
        dst=flow.dst,
        dst_port=flow.dst_port,
        payload=sending.payload,
        gap_s=sending.gap_ns / NANOSECONDS,
        bursts=[(begin / NANOSECONDS, end / NANOSECONDS) for begin, end in sending.bursts],
        end_s=(flow.start_ns + (flow.duration_ns or 0)) / NANOSECONDS,
        ecn=sending.ecn,
        echo=sending.echo,
        one_clock=one_clock,
        own=sending.own,
    )
