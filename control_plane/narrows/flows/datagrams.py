# SPDX-License-Identifier: Apache-2.0
"""Flows of UDP datagrams as users write them, and the times at which a seed has them sent."""

from __future__ import annotations

import math
import random
from typing import Annotated, Literal

from narrows_formats.units import ETHERNET_HEADER_BYTES, NANOSECONDS, format_size
from pydantic import Field

from narrows.onhost import datagrams
from narrows.quantities import Model, Rate, Size, Time

# Number and time of sending, which each datagram carries.
MIN_PAYLOAD = 16
UDP_HEADER_BYTES, IP_HEADER_BYTES = 8, {4: 20, 6: 40}
# The most that a flow may have.
MAX_BURSTS = 1_000_000
_Payload = Annotated[Size, Field(ge=MIN_PAYLOAD)]
Ecn = Literal["not-ect", "ect0", "ect1"]


class Bursts(Model):
    """Bursts and pauses in turn, beginning with a burst."""

    length: Annotated[Time, Field(gt=0)] = Field(description="Length of a burst; the mean, if `exponential`.")
    pause: Annotated[Time, Field(gt=0)] = Field(description="Length of a pause; the mean, if `exponential`.")
    distribution: Literal["fixed", "exponential"] = Field(
        default="fixed", description="`exponential`: each burst and pause is drawn, by the experiment's seed."
    )

    def bursts(self, start_ns: int, end_ns: int, seed: int) -> tuple[tuple[int, int], ...]:
        """Start and end of each burst between two times.

        Raises:
            ValueError: there are too many.
        """
        if (end_ns - start_ns) // (self.length + self.pause) > MAX_BURSTS:
            raise ValueError(f"has more than {MAX_BURSTS} bursts; allowed: fewer")
        numbers = random.Random(seed)

        def drawn(mean: int) -> int:
            return mean if self.distribution == "fixed" else max(1, round(-mean * math.log1p(-numbers.random())))

        found, at_ns = [], start_ns
        while at_ns < end_ns:
            burst_ns = drawn(self.length)
            found.append((at_ns, min(at_ns + burst_ns, end_ns)))
            at_ns += burst_ns + drawn(self.pause)
        return tuple(found)


class Udp(Model):
    """Datagrams at a constant rate, or at that rate in bursts."""

    rate: Annotated[Rate, Field(gt=0)] = Field(
        description="Rate of the payload, as in `iperf3 -u -b`; with `bursts`, the rate within a burst."
    )
    payload: _Payload = Field(
        default=1200,
        json_schema_extra={"default": format_size(1200)},
        description="UDP payload of each datagram; 16 bytes at least.",
    )
    bursts: Bursts | None = Field(default=None, description="Bursts and pauses; without it, one burst to the end.")
    ecn: Ecn = Field(default="not-ect", description="ECN field of each datagram. Nothing responds to a mark.")

    def sending(self, start_ns: int, end_ns: int, seed: int) -> datagrams.Udp:
        """What is sent between two times."""
        bursts = ((start_ns, end_ns),) if self.bursts is None else self.bursts.bursts(start_ns, end_ns, seed)
        return datagrams.Udp(self.payload, self.payload * 8 * NANOSECONDS / self.rate, bursts, self.ecn)


class Probe(Model):
    """Small datagrams that the receiver sends back: round-trip times under load, as irtt and ping measure them."""

    interval: Annotated[Time, Field(gt=0)] = Field(description="Time between two datagrams.")
    payload: _Payload = Field(
        default=64,
        json_schema_extra={"default": format_size(64)},
        description="UDP payload of each datagram; 16 bytes at least.",
    )
    ecn: Ecn = Field(default="not-ect", description="ECN field of each datagram, both ways.")

    def sending(self, start_ns: int, end_ns: int, seed: int) -> datagrams.Probe:
        """What is sent between two times; nothing of it is drawn."""
        return datagrams.Probe(self.payload, self.interval, ((start_ns, end_ns),), self.ecn)


def largest_payload(mtu: int, ip_version: int) -> int:
    """Bytes of the largest UDP payload that is not fragmented."""
    return mtu - IP_HEADER_BYTES[ip_version] - UDP_HEADER_BYTES


def frame_bytes(payload: int, ip_version: int) -> int:
    """Bytes of the Ethernet frame, without its FCS, of a datagram with this UDP payload."""
    return payload + UDP_HEADER_BYTES + IP_HEADER_BYTES[ip_version] + ETHERNET_HEADER_BYTES
