# SPDX-License-Identifier: Apache-2.0
"""PIE (RFC 8033)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from narrows_formats.units import NANOSECONDS
from pydantic import Field, StrictInt

from narrows.queues.aqm import DEPTH_AT_INGRESS, Buffer, Call, LinkBasis, UpdatedAqm
from narrows.queues.settings import MS, AqmSettings, Period, Short, time_field

# Linux's unit of gains: sixteenths of 1/s.
GAINS = 16
# Probabilities have 56 bits (p4src/v1model/queue_management/pie.p4).
CERTAIN = (1 << 56) - 1
Gain = Annotated[StrictInt, Field(ge=0, le=32)]


@dataclass(frozen=True)
class Pie(UpdatedAqm):
    """RFC 8033; gains in sixteenths of 1/s, as Linux has them."""

    target_ns: int
    tupdate_ns: int
    alpha: int
    beta: int
    ecn: bool
    kind: str = "pie"
    needs: ClassVar[str] = DEPTH_AT_INGRESS
    drops_on_arrival: ClassVar[bool] = True

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return self.ecn

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        limits = {"limit_bytes": buffer.byte_limit, "limit_packets": buffer.limit_packets or 0}
        settings = {"target": self.target_ns, "mtu": frame_bytes, **limits, "ecn_marks": int(self.ecn)}
        yield "enqueue_aqm", ("pie_at_enqueue", settings)
        yield "dequeue_aqm", ("pie_at_dequeue", {})
        yield "update_aqm", self.update

    @property
    def update(self) -> Call:
        """See `UpdatedAqm.update`."""
        gains = {"alpha": _gain(self.alpha), "beta": _gain(self.beta)}
        return "pie_at_update", {"target": self.target_ns, "tupdate": self.tupdate_ns, **gains}


def _gain(sixteenths: int) -> int:
    """Probability for each nanosecond of delay, as Linux rounds it."""
    return sixteenths * (CERTAIN // NANOSECONDS) // GAINS


class PieSettings(AqmSettings):
    """PIE (RFC 8033)."""

    position: ClassVar[int] = 30

    kind: Literal["pie"] = Field(description="PIE: drops on arrival with a probability that follows the delay.")
    target: Short = time_field(15 * MS, "Target delay.")
    tupdate: Period = time_field(15 * MS, "How often the probability changes.")
    alpha: Gain = Field(default=2, description="Gain of the delay's distance from the target, in sixteenths.")
    beta: Gain = Field(default=20, description="Gain of the delay's change, in sixteenths.")
    ecn: bool = Field(default=False, description="Marks instead of drops, up to a probability of 10 %.")

    def on(self, link: LinkBasis) -> Pie:
        """See `AqmSettings.on`."""
        return Pie(self.target, self.tupdate, self.alpha, self.beta, self.ecn)
