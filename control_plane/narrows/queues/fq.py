# SPDX-License-Identifier: Apache-2.0
"""Fair queues, alone and with CoDel in each: FQ-CoDel (RFC 8290)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from narrows_formats.validation import refuse
from pydantic import Field, StrictInt, field_validator

from narrows.field_types import Size
from narrows.queues.aqm import DROPS_FOR_FREE, Aqm, Buffer, Call, LinkBasis
from narrows.queues.codel import CoDel, CodelFields
from narrows.queues.settings import AqmSettings

MAX_FLOWS = 1024
_QUEUES = "a queue of a link for each of its flows"


@dataclass(frozen=True)
class Fair(Aqm):
    """A queue for each set of flows (RFC 8290), of ``quantum`` bytes a turn."""

    flows: int
    quantum: int
    codel: CoDel | None
    kind: str = "fq"
    needs: ClassVar[str] = _QUEUES
    # Packets that the longest queue loses at once, at most.
    batch: ClassVar[int] = 1

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        yield "enqueue_aqm", ("fair_queues", {"mask": self.flows - 1})

    def scheduling(self, frame_bytes: int) -> Mapping[str, Mapping[str, int]]:
        """See `Aqm.scheduling`."""
        return {"fair": {"queues": self.flows, "quantum": self.quantum, "batch": self.batch}}


@dataclass(frozen=True)
class FairCodel(Fair):
    """Fair queues with CoDel in each."""

    codel: CoDel
    kind: str = "fq_codel"
    needs: ClassVar[str] = f"{_QUEUES}, and {DROPS_FOR_FREE}"
    # RFC 8290, section 4.1.
    batch: ClassVar[int] = 64

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return self.codel.marks

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        yield from super().entries(buffer, frame_bytes)
        yield "dequeue_aqm", self.codel.at_dequeue(frame_bytes, shares_link=True)


class FairSettings(AqmSettings):
    """Fair queues (RFC 8290): flows are distinguished by a hash, and each set of them has a queue and its turn."""

    position: ClassVar[int] = 70
    several_queues: ClassVar[bool] = True

    kind: Literal["fq"] = Field(description="Fair queues; a full link drops the oldest packet of the longest one.")
    flows: Annotated[StrictInt, Field(ge=2, le=MAX_FLOWS)] = Field(
        default=MAX_FLOWS, description="Number of queues, a power of two."
    )
    quantum: Annotated[Size, Field(gt=0, le=1 << 20)] = Field(
        default=1514, description="Bytes that a queue may send in its turn."
    )

    @field_validator("flows")
    @classmethod
    def _power_of_two(cls, flows: int) -> int:
        if flows & (flows - 1):
            raise refuse("is not a power of two", f"2, 4, ... {MAX_FLOWS}")
        return flows

    def on(self, link: LinkBasis) -> Fair:
        """See `AqmSettings.on`."""
        return Fair(self.flows, self.quantum, None)


class FairCodelSettings(CodelFields, FairSettings):
    """FQ-CoDel (RFC 8290)."""

    position: ClassVar[int] = 80

    kind: Literal["fq_codel"] = Field(description="Fair queues with CoDel in each.")  # type: ignore[assignment]
    ecn: bool = Field(default=True, description="Marks instead of drops.")

    def on(self, link: LinkBasis) -> FairCodel:
        """See `AqmSettings.on`."""
        return FairCodel(self.flows, self.quantum, self.codel)
