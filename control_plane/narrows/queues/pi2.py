# SPDX-License-Identifier: Apache-2.0
"""PI2 (De Schepper et al. 2016), and DualPI2 (RFC 9332), which is PI2 for two queues of a link."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import refuse
from pydantic import Field, StrictInt, field_validator

from narrows.field_types import Probability
from narrows.queues.aqm import DROPS_FOR_FREE, NO_THRESHOLD, Buffer, Call, LinkBasis, UpdatedAqm
from narrows.queues.settings import MS, AqmSettings, Period, Short, time_field

# Linux's unit of gains: 1/256 Hz.
GAINS = 256
# Probabilities have 32 bits, and gains are for each 64 ns (p4src/v1model/queue_management/dualpi2.p4).
CERTAIN = (1 << 32) - 1
UNIT_NS = 64
Hertz = Annotated[float, Field(ge=0, le=128)]


class _Controlled(UpdatedAqm, ABC):
    """The proportional integral controller of both."""

    target_ns: int
    alpha: int
    beta: int

    @property
    def update(self) -> Call:
        """See `UpdatedAqm.update`."""
        gains = {"alpha": _gain(self.alpha), "beta": _gain(self.beta)}
        return "pi2_at_update", {"target": self.target_ns, **gains}


def _gain(of_256: int) -> int:
    """Probability for each 64 ns of delay, as Linux rounds it."""
    return of_256 * CERTAIN * UNIT_NS // (GAINS * NANOSECONDS)


@dataclass(frozen=True)
class Pi2(_Controlled):
    """PI2 of one queue (De Schepper et al. 2016); gains in 1/256 Hz, as Linux has them."""

    target_ns: int
    tupdate_ns: int
    alpha: int
    beta: int
    ecn: bool
    kind: str = "pi2"
    needs: ClassVar[str] = DROPS_FOR_FREE

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return self.ecn

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        settings = {"step": NO_THRESHOLD, "coupling": 1, "mtu": frame_bytes, "ecn_marks": int(self.ecn)}
        yield "dequeue_aqm", ("pi2_at_dequeue", settings)
        yield "update_aqm", self.update


@dataclass(frozen=True)
class DualPi2(_Controlled):
    """RFC 9332: a queue for ECT(1) and CE, and one for the rest.

    While both have packets the classic one has ``classic_percent`` of the link.
    """

    target_ns: int
    tupdate_ns: int
    alpha: int
    beta: int
    step_ns: int
    coupling: int
    classic_percent: int
    kind: str = "dualpi2"
    needs: ClassVar[str] = f"two queues that share a link by the bytes that each has sent, and {DROPS_FOR_FREE}"

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return True

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        settings = {"step": self.step_ns, "coupling": self.coupling, "mtu": frame_bytes, "ecn_marks": 1}
        yield "enqueue_aqm", ("two_queues", {})
        yield "dequeue_aqm", ("pi2_at_dequeue", settings)
        yield "update_aqm", self.update

    def scheduling(self, frame_bytes: int) -> Mapping[str, Mapping[str, int]]:
        """See `Aqm.scheduling`."""
        return {"coupled": {"classic_percent": self.classic_percent, "mtu": frame_bytes}}


class Pi2Fields(AqmSettings):
    """What PI2 and DualPI2 take."""

    target: Short = time_field(15 * MS, "Target delay; with two queues, that of the classic one.")
    tupdate: Period = time_field(16 * MS, "How often the probability changes.")
    alpha: Hertz = Field(default=0.16, description="Gain of the delay's distance from the target, in Hz.")
    beta: Hertz = Field(default=3.2, description="Gain of the delay's change, in Hz.")

    @property
    def gains(self) -> tuple[int, int]:
        """In Linux's units."""
        return round(self.alpha * GAINS), round(self.beta * GAINS)


class Pi2Settings(Pi2Fields):
    """PI2: one queue, whose drop probability is the square of a linear one."""

    position: ClassVar[int] = 50

    kind: Literal["pi2"] = Field(description="PI2: PIE without its table of gains, and with a squared probability.")
    ecn: bool = Field(default=True, description="Marks instead of drops.")

    def on(self, link: LinkBasis) -> Pi2:
        """See `AqmSettings.on`."""
        return Pi2(self.target, self.tupdate, *self.gains, self.ecn)


class DualPi2Settings(Pi2Fields):
    """DualPI2 (RFC 9332), with Linux's choices."""

    position: ClassVar[int] = 60
    several_queues: ClassVar[bool] = True

    kind: Literal["dualpi2"] = Field(
        description="DualPI2: a queue of little delay for L4S next to a classic one, coupled by their probabilities."
    )
    step_thresh: Short = time_field(MS, "L4S packets that waited longer are marked.")
    coupling_factor: Annotated[StrictInt, Field(ge=1, le=255)] = Field(
        default=2, description="An L4S packet is marked with this many times the classic queue's linear probability."
    )
    classic_protection: Probability = Field(
        default=0.1,
        description="The classic queue's part of the link while both have packets, in whole percent.",
    )

    @field_validator("classic_protection")
    @classmethod
    def _whole_percents(cls, share: float) -> float:
        if abs(share * 100 - round(share * 100)) > 1e-9:
            raise refuse("is not a whole number of percents", "0%, 1%, ... 100%")
        return share

    def on(self, link: LinkBasis) -> DualPi2:
        """See `AqmSettings.on`."""
        share = round(self.classic_protection * 100)
        return DualPi2(self.target, self.tupdate, *self.gains, self.step_thresh, self.coupling_factor, share)
