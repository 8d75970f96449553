# SPDX-License-Identifier: Apache-2.0
"""RED as users write it, with the parameters of `tc red`, and what they come to on a link."""

from __future__ import annotations

from typing import Annotated, Literal

from narrows_formats.units import QueueDepth
from narrows_formats.validation import refuse
from pydantic import Field, ValidationInfo, field_validator

from narrows.errors import InputError
from narrows.experiment import queues
from narrows.experiment.quantities import Count, Depth, Model, Probability, Rate, Size

# Weights of the newest arrival, 2^-1 to 2^-20: what the program's whole numbers hold.
MOST_WEIGHT = 20
DEFAULT_AVPKT = 1000


class RedSettings(Model):
    """RED (Floyd and Jacobson 1993, RFC 7567)."""

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

    def on(self, field: str, buffer: QueueDepth, at: tuple[int, int, int]) -> queues.Red:
        """As a plan has it.

        Args:
            field: where the link is written.
            buffer: what may wait there, as it is written.
            at: its rate, RTT and full-size frame, in base units.

        Raises:
            InputError: its parameters do not go together, or not with the link.
        """
        in_packets = (self.max or self.min or buffer).unit == "packets"
        if self.max is not None and self.min is not None and (self.min.unit == "packets") != in_packets:
            raise InputError(
                f"{field}.queue.min: {self.min} cannot be compared with `max` ({self.max}), as packets differ in size; "
                "allowed: both in packets, or neither"
            )
        unit, frame, packet = (" packets", at[-1], 1) if in_packets else (" B", 1, self.avpkt)
        limit = buffer.in_bytes(*at) // frame
        high = limit // 4 if self.max is None else self.max.in_bytes(*at) // frame
        low = high // 3 if self.min is None else self.min.in_bytes(*at) // frame
        if high > limit:
            raise InputError(f"{field}.queue.max: {high}{unit} is more than the buffer; allowed: up to {limit}{unit}")
        if not 0 < low < high:
            raise InputError(f"{field}.queue.min: {low}{unit} is not below `max`; allowed: 1{unit} to {high - 1}{unit}")
        burst = (2 * low + high) // (3 * packet) if self.burst is None else self.burst
        if (weight := weight_of(burst, low / packet)) is None:
            size = "" if in_packets else f" of {self.avpkt} B"
            raise InputError(
                f"{field}.queue.burst: {burst} packets{size} do not go with a `min` of {low}{unit}; allowed: "
                f"{-(-low // packet)} packets or more, and a `min` of more than a packet where they are many"
            )
        bandwidth = at[0] if self.bandwidth is None else self.bandwidth
        return queues.Red(
            low, high, self.probability, weight, self.avpkt, bandwidth, self.ecn, self.harddrop, self.nodrop, in_packets
        )


def weight_of(burst: int, low_packets: float) -> int | None:
    """Logarithm of the weight with which a burst takes the average from 0 to its lower bound, as tc rounds it.

    None: there is none (iproute2's `tc_red_eval_ewma`, after Floyd and Jacobson 1993, section 6).
    """
    over = burst + 1 - low_packets
    if over < 1:
        return None
    weights = range(1, MOST_WEIGHT + 1)
    return next((log for log in weights if over <= (1 - (1 - 2**-log) ** burst) * 2**log), None)
