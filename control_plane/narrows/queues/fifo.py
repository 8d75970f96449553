# SPDX-License-Identifier: Apache-2.0
"""A queue that drops only what there is no room for: the newest packet or the oldest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from narrows.queues.aqm import Aqm, LinkBasis
from narrows.queues.settings import AqmSettings


@dataclass(frozen=True)
class HeadDrop(Aqm):
    """A full queue drops its oldest packets."""

    kind: str = "head-drop"
    needs: ClassVar[str] = "to drop what has waited longest"
    by_program: ClassVar[bool] = False
    head_drop: ClassVar[bool] = True


class Fifo(AqmSettings):
    """A queue without parameters."""

    position: ClassVar[int] = 0

    kind: Literal["tail-drop", "head-drop"] = Field(description="What a full queue drops: the newest or the oldest.")

    def on(self, link: LinkBasis) -> HeadDrop | None:
        """See `AqmSettings.on`."""
        return HeadDrop() if self.kind == "head-drop" else None
