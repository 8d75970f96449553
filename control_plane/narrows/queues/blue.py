# SPDX-License-Identifier: Apache-2.0
"""BLUE (Feng, Shin, Kandlur and Saha 2002): a probability that follows from losses and idle times, not from depths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from narrows.field_types import Probability
from narrows.queues.aqm import DEPTH_AT_INGRESS, Aqm, Buffer, Call, LinkBasis
from narrows.queues.settings import MS, AqmSettings, Short, time_field

# The program's probabilities have 32 bits (p4src/v1model/queue_management/blue.p4).
UNIT, CERTAIN = 1 << 32, (1 << 32) - 1
Step = Annotated[Probability, Field(ge=1 / UNIT)]


@dataclass(frozen=True)
class Blue(Aqm):
    """BLUE; two changes of its probability are more than ``freeze_ns`` apart."""

    freeze_ns: int
    increment: float
    decrement: float
    ecn: bool
    kind: str = "blue"
    needs: ClassVar[str] = DEPTH_AT_INGRESS
    drops_on_arrival: ClassVar[bool] = True

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return self.ecn

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        settings = {
            "limit_bytes": buffer.byte_limit,
            "limit_packets": buffer.limit_packets or 0,
            "increment": min(round(self.increment * UNIT), CERTAIN),
            "decrement": min(round(self.decrement * UNIT), CERTAIN),
            "freeze": self.freeze_ns,
            "ecn_marks": int(self.ecn),
        }
        yield "enqueue_aqm", ("blue", settings)


class BlueSettings(AqmSettings):
    """BLUE (Feng et al. 2002)."""

    position: ClassVar[int] = 45

    kind: Literal["blue"] = Field(
        description="BLUE: drops on arrival with a probability that grows when the queue overflows."
    )
    freeze_time: Short = time_field(100 * MS, "The probability changes after more than this time only.")
    increment: Step = Field(default=0.0025, description="Change of the probability when a packet finds no room.")
    decrement: Step = Field(default=0.00025, description="Change of the probability when the link falls idle.")
    ecn: bool = Field(default=False, description="Marks instead of drops.")

    def on(self, link: LinkBasis) -> Blue:
        """See `AqmSettings.on`."""
        return Blue(self.freeze_time, self.increment, self.decrement, self.ecn)
