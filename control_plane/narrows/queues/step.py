# SPDX-License-Identifier: Apache-2.0
"""A step of delay: what waited longer is marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from narrows.queues.aqm import Aqm, Buffer, Call, LinkBasis
from narrows.queues.settings import AqmSettings, Short


@dataclass(frozen=True)
class Step(Aqm):
    """Whatever waited longer than the threshold is marked; with ``ect1_only``, of L4S packets alone (RFC 9331)."""

    threshold_ns: int
    ect1_only: bool
    kind: str = "step"
    needs: ClassVar[str] = "marks by the time that a packet waited"

    @property
    def marks(self) -> bool:
        """See `Aqm.marks`."""
        return True

    def entries(self, buffer: Buffer, frame_bytes: int) -> Iterator[tuple[str, Call]]:
        """See `Aqm.entries`."""
        yield "dequeue_aqm", ("step", {"threshold": self.threshold_ns, "low_latency_only": int(self.ect1_only)})


class StepSettings(AqmSettings):
    """A threshold of delay above which packets are marked; `ecn_threshold` is one of depth."""

    position: ClassVar[int] = 10

    kind: Literal["step"] = Field(description="Marks packets by their delay.")
    threshold: Short = Field(description="A packet that waited longer is marked, if it is ECN-capable.")
    ect1_only: bool = Field(default=False, description="Only packets with ECT(1), those of L4S.")

    def on(self, link: LinkBasis) -> Step:
        """See `AqmSettings.on`."""
        return Step(self.threshold, self.ect1_only)
