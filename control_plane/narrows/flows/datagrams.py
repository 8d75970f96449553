# SPDX-License-Identifier: Apache-2.0
"""Flows of UDP datagrams as users write them, and the times at which a seed has them sent."""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Collection, Iterator
from typing import Annotated, Literal, Protocol

from narrows_formats.units import ETHERNET_HEADER_BYTES, NANOSECONDS, format_size, format_time
from narrows_formats.validation import refuse
from pydantic import Field

from narrows.field_types import Model, Rate, Size, Time
from narrows.flows.group import FlowGroup, Place, alone
from narrows.onhost import datagrams

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


def spans(bursts: Bursts | None, start_ns: int, end_ns: int, seed: int) -> tuple[tuple[int, int], ...]:
    """Start and end of each burst between two times: without bursts, of one.

    Raises:
        ValueError: there are too many.
    """
    return ((start_ns, end_ns),) if bursts is None else bursts.bursts(start_ns, end_ns, seed)


class Sends(Protocol):
    """What a group of flows of datagrams says of each."""

    @property
    def payload(self) -> int:
        """UDP payload of each datagram."""

    @property
    def ecn(self) -> Ecn:
        """ECN field of each."""

    def sending(self, start_ns: int, end_ns: int, seed: int) -> datagrams.Sending:
        """What is sent between two times."""


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
        bursts = spans(self.bursts, start_ns, end_ns, seed)
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


class DatagramGroup(FlowGroup):
    """Flows of datagrams."""

    @property
    @abstractmethod
    def sent(self) -> Sends:
        """What each sends."""

    @property
    def largest_datagram(self) -> int:
        """See `FlowGroup.largest_datagram`."""
        return self.sent.payload

    @property
    def takes_marks(self) -> bool:
        """See `FlowGroup.takes_marks`."""
        return self.sent.ecn != "not-ect"

    def payload(self, place: Place) -> datagrams.Sending:
        """See `FlowGroup.payload`."""
        try:
            return self.sent.sending(place.start_ns, place.end_ns, place.seed)
        except ValueError as error:
            raise ValueError(f"{self.key}.bursts: {error}") from None

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        what = [*(["cca"] if self.cca is not None else []), *(name for name in ("udp", "probe") if name in others)]
        if what:
            both = [name for name in ("cca", "udp", "probe") if name in (*what, self.key)]
            raise refuse(f"has {' beside '.join(both)}", "one of cca (TCP), udp and probe, or a client")
        self.lasts_alone([name for name in others if name not in ("repeat", "gap")])
        if others:
            raise refuse("has repeat or gap without size", "repeat and gap together with size")

    def lasts_alone(self, others: Collection[str]) -> None:
        """Refuse fields of other kinds, and a group without a duration."""
        allowed = f"a duration with {self.key}"
        alone(others, f"flows of {self.key}", allowed)
        if self.duration is None:
            raise refuse(f"has no duration, and flows of {self.key}", allowed)


class UdpGroup(DatagramGroup):
    """Datagrams that nothing answers."""

    made_of = datagrams.Udp
    key = "udp"

    udp: Udp = Field(description="UDP datagrams at a set rate, which nothing slows down, for a `duration`.")

    @property
    def sent(self) -> Udp:
        """See `DatagramGroup.sent`."""
        return self.udp

    def no_op(self) -> Iterator[tuple[str, str]]:
        """See `FlowGroup.no_op`."""
        yield from super().no_op()
        apart_ns = self.udp.payload * 8 * NANOSECONDS // self.udp.rate
        if self.udp.bursts is not None and self.udp.bursts.length < apart_ns:
            yield (
                "udp.bursts.length",
                f"is less than a datagram takes at this rate ({format_time(apart_ns)}): each burst has one "
                "all the same, which is more than the rate",
            )


class ProbeGroup(DatagramGroup):
    """Datagrams that come back."""

    made_of = datagrams.Probe
    key = "probe"

    probe: Probe = Field(description="Datagrams that come back, which measure the round-trip time, for a `duration`.")

    @property
    def sent(self) -> Probe:
        """See `DatagramGroup.sent`."""
        return self.probe


def largest_payload(mtu: int, ip_version: int) -> int:
    """Bytes of the largest UDP payload that is not fragmented."""
    return mtu - IP_HEADER_BYTES[ip_version] - UDP_HEADER_BYTES


def frame_bytes(payload: int, ip_version: int) -> int:
    """Bytes of the Ethernet frame, without its FCS, of a datagram with this UDP payload."""
    return payload + UDP_HEADER_BYTES + IP_HEADER_BYTES[ip_version] + ETHERNET_HEADER_BYTES
