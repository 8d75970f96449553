# SPDX-License-Identifier: Apache-2.0
"""CoDel (RFC 8289)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from narrows_formats.validation import refuse
from pydantic import Field, field_validator

from narrows.field_types import Model
from narrows.queues.aqm import DROPS_FOR_FREE, NO_THRESHOLD, Aqm, Buffer, Call, LinkBasis
from narrows.queues.settings import MS, AqmSettings, Short, time_field


@dataclass(frozen=True)
class CoDel(Aqm):
    """RFC 8289; with a threshold, what waited longer is marked besides, as by Linux's ``ce_threshold``."""

    target_ns: int
    interval_ns: int
    ecn: bool
    ce_threshold_ns: int | None = None
    kind: str = "codel"
    needs: ClassVar[str] = DROPS_FOR_FREE

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return self.ecn or self.ce_threshold_ns is not None

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        yield "dequeue_aqm", self.at_dequeue(frame_bytes, shares_link=False)

    def at_dequeue(self, frame_bytes: int, *, shares_link: bool) -> Call:
        """What the program does with a packet that departs; the queue may be one of several that share the link."""
        threshold = NO_THRESHOLD if self.ce_threshold_ns is None else self.ce_threshold_ns
        return "codel", {
            "target": self.target_ns,
            "interval": self.interval_ns,
            "mtu": frame_bytes,
            "ecn_marks": int(self.ecn),
            "shares_link": int(shares_link),
            "threshold": threshold,
            "low_latency_only": 0,
        }


class CodelFields(Model):
    """Parameters of CoDel, for a single queue or for each fair queue."""

    target: Short = time_field(5 * MS, "Acceptable standing queue delay.")
    interval: Short = time_field(100 * MS, "About the longest RTT.")
    ecn: bool = Field(default=False, description="Marks instead of drops.")
    ce_threshold: Short | None = Field(default=None, description="A packet that waited longer is marked in any case.")

    @field_validator("interval")
    @classmethod
    def _some_interval(cls, interval: int) -> int:
        # The first bit of Linux's 16-bit root must not be lost.
        if interval < MS:
            raise refuse("is too short", "1ms or more")
        return interval

    @property
    def codel(self) -> CoDel:
        """As a plan has it."""
        return CoDel(self.target, self.interval, self.ecn, self.ce_threshold)


class CodelSettings(CodelFields, AqmSettings):
    """CoDel (RFC 8289)."""

    position: ClassVar[int] = 20

    kind: Literal["codel"] = Field(description="CoDel: drops at departure while the least delay is above a target.")

    def on(self, link: LinkBasis) -> CoDel:
        """See `AqmSettings.on`."""
        return self.codel
