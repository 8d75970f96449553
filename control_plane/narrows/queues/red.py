# SPDX-License-Identifier: Apache-2.0
"""RED (Floyd and Jacobson 1993, RFC 7567), with the parameters of `tc red`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log2
from typing import Annotated, ClassVar, Literal

from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import refuse
from pydantic import Field, ValidationInfo, field_validator

from narrows.errors import InputError
from narrows.field_types import Count, Depth, Probability, Rate, Size
from narrows.queues.aqm import DEPTH_AT_INGRESS, Aqm, Buffer, Call, LinkBasis
from narrows.queues.settings import AqmSettings

# Weights of the newest arrival, 2^-1 to 2^-20: what the program's whole numbers hold.
MOST_WEIGHT = 20
DEFAULT_AVPKT = 1000
# The program's probabilities have 32 bits, what they add for each unit of the average 64, its halvings are in 2^-56.
CERTAIN, SLOPE, HALVING = (1 << 32) - 1, 1 << 32, 1 << 56
# Its depths in packets are in units of 2 to the power of minus this.
PACKET_BITS = 10
# Halvings after which nothing is left of its average of 52 bits.
HALVINGS = 52
# Times of 48 bits wrap: half of them are of the past.
MOST_IDLE_NS = (1 << 47) - 1


@dataclass(frozen=True)
class Red(Aqm):
    """RED (RFC 7567) by an average depth in bytes or packets, in which the newest arrival has the weight 2^-``weight``.

    An idle time counts as the packets of ``avpkt_bytes`` that a link of ``bandwidth_bps`` would have sent in it.
    """

    min_depth: int
    max_depth: int
    probability: float
    weight: int
    avpkt_bytes: int
    bandwidth_bps: int
    ecn: bool
    harddrop: bool
    nodrop: bool
    in_packets: bool = False
    kind: str = "red"
    needs: ClassVar[str] = DEPTH_AT_INGRESS
    drops_on_arrival: ClassVar[bool] = True

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return self.ecn

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`; the average is in units of 2^-weight of a byte, or of 2^-10 packets."""
        scale = self.weight + (PACKET_BITS if self.in_packets else 0)
        low, high = self.min_depth << scale, self.max_depth << scale
        packet_ns = self.avpkt_bytes * 8 * NANOSECONDS / self.bandwidth_bps
        halvings_each_ns = -log2(1 - 2**-self.weight) / packet_ns
        settings = {
            "counts_packets": int(self.in_packets),
            "weight": self.weight,
            "low": low,
            "high": high,
            "slope": min(round(self.probability * (1 << 32)), CERTAIN) * SLOPE // (high - low),
            "halvings": round(halvings_each_ns * HALVING),
            "forgotten": min(ceil(HALVINGS / halvings_each_ns), MOST_IDLE_NS),
            "ecn_marks": int(self.ecn),
            "harddrop": int(self.harddrop),
            "nodrop": int(self.nodrop),
        }
        yield "enqueue_aqm", ("red", settings)


class RedSettings(AqmSettings):
    """RED (Floyd and Jacobson 1993, RFC 7567)."""

    position: ClassVar[int] = 40

    kind: Literal["red"] = Field(description="RED: drops on arrival with a probability that follows the average depth.")
    min: Depth | None = Field(
        default=None, description="Average below which nothing is dropped; without it a third of `max`."
    )
    max: Depth | None = Field(
        default=None, description="Average from which everything is dropped; without it a quarter of `buffer`."
    )
    probability: Annotated[Probability, Field(gt=0)] = Field(
        default=0.02, description="Probability of a drop just below `max`; from `min` on it grows linearly."
    )
    avpkt: Annotated[Size, Field(gt=0, le=1 << 16)] = Field(
        default=DEFAULT_AVPKT,
        json_schema_extra={"default": "1000B"},
        description="Size of a packet, for `burst` and idle times.",
    )
    burst: Count | None = Field(
        default=None,
        description="Packets that may come at once while the average is low; the weight of the newest in the average "
        "follows from it. Without it (2 `min` + `max`) / 3, divided by `avpkt` where these are no packets.",
    )
    bandwidth: Rate | None = Field(
        default=None,
        description="Rate at which an idle link would send packets of `avpkt`; without it the link's.",
    )
    ecn: bool = Field(default=False, description="Marks instead of drops.")
    harddrop: bool = Field(default=False, description="Drops from `max` on also what could be marked.")
    nodrop: bool = Field(
        default=False, description="Forwards packets that should be marked and cannot be; with `ecn` only."
    )

    @field_validator("nodrop")
    @classmethod
    def _nodrop_marks(cls, nodrop: bool, info: ValidationInfo) -> bool:
        if nodrop and not info.data.get("ecn"):
            raise refuse("has an effect with ecn only", "false, or true beside ecn: true")
        return nodrop

    def on(self, link: LinkBasis) -> Red:
        """See `AqmSettings.on`."""
        field = f"{link.field}.queue"
        in_packets = (self.max or self.min or link.buffer).unit == "packets"
        if self.max is not None and self.min is not None and (self.min.unit == "packets") != in_packets:
            raise InputError(
                f"{field}.min: {self.min} cannot be compared with `max` ({self.max}), as packets differ in size; "
                "allowed: both in packets, or neither"
            )
        unit, frame, packet = (" packets", link.frame_bytes, 1) if in_packets else (" B", 1, self.avpkt)
        limit = link.in_bytes(link.buffer) // frame
        high = limit // 4 if self.max is None else link.in_bytes(self.max) // frame
        low = high // 3 if self.min is None else link.in_bytes(self.min) // frame
        if high > limit:
            raise InputError(f"{field}.max: {high}{unit} is more than the buffer; allowed: up to {limit}{unit}")
        if not 0 < low < high:
            raise InputError(f"{field}.min: {low}{unit} is not below `max`; allowed: 1{unit} to {high - 1}{unit}")
        burst = (2 * low + high) // (3 * packet) if self.burst is None else self.burst
        if (weight := weight_of(burst, low / packet)) is None:
            size = "" if in_packets else f" of {self.avpkt} B"
            raise InputError(
                f"{field}.burst: {burst} packets{size} do not go with a `min` of {low}{unit}; allowed: "
                f"{-(-low // packet)} packets or more, and a `min` of more than a packet where they are many"
            )
        bandwidth = link.rate_bps if self.bandwidth is None else self.bandwidth
        return Red(
            low, high, self.probability, weight, self.avpkt, bandwidth, self.ecn, self.harddrop, self.nodrop, in_packets
        )

    def no_op_settings(self) -> Iterator[tuple[str, str]]:
        """See `AqmSettings.no_op_settings`."""
        if self.harddrop and not self.ecn:
            yield "harddrop", "has no effect: without ecn nothing is marked"


def weight_of(burst: int, low_packets: float) -> int | None:
    """Logarithm of the weight with which a burst takes the average from 0 to its lower bound, as tc rounds it.

    None: there is none (iproute2's `tc_red_eval_ewma`, after Floyd and Jacobson 1993, section 6).
    """
    over = burst + 1 - low_packets
    if over < 1:
        return None
    weights = range(1, MOST_WEIGHT + 1)
    return next((log for log in weights if over <= (1 - (1 - 2**-log) ** burst) * 2**log), None)
