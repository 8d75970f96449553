# SPDX-License-Identifier: Apache-2.0
"""A video player as users write it: segments of adaptive bitrate (DASH), chosen by how much the player holds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Self

from narrows_formats.units import NANOSECONDS, format_size, format_time
from narrows_formats.validation import refuse
from pydantic import Field, model_validator

from narrows.field_types import Model, Rate, Size, Time
from narrows.flows.group import FlowGroup, Place
from narrows.flows.requests import MIN_REQUEST, one_flow
from narrows.onhost import video as on_host

_SEGMENT, _BUFFER = 4 * NANOSECONDS, 30 * NANOSECONDS
# Huang et al. 2014: a reservoir of 90 s and a cushion of 126 s, of 240 s.
RESERVOIR, CUSHION = 90 / 240, 126 / 240
_Length = Annotated[Time, Field(gt=0)]


class Video(Model):
    """A player that fetches one segment after the other over one connection, at a bitrate that its buffer decides."""

    bitrates: Annotated[tuple[Annotated[Rate, Field(gt=0)], ...], Field(min_length=1)] = Field(
        description="Available bitrates, ascending; a segment's size is its bitrate times its length."
    )
    segment: _Length = Field(
        default=_SEGMENT, json_schema_extra={"default": format_time(_SEGMENT)}, description="Length of a segment."
    )
    buffer: _Length = Field(
        default=_BUFFER,
        json_schema_extra={"default": format_time(_BUFFER)},
        description="Most that the player buffers; a segment that does not fit is fetched later.",
    )
    reservoir: Time | None = Field(
        default=None,
        description="While the buffer holds no more than this, the lowest bitrate is fetched; by default three eighths "
        "of `buffer` less a segment, which is the most that is held when a segment is requested.",
    )
    cushion: _Length | None = Field(
        default=None,
        description="Over this much more, the bitrate rises to the highest; by default 21 fortieths of the same.",
    )
    start: _Length | None = Field(
        default=None,
        description="Playback begins, and resumes after a stall, once this much is buffered; by default one segment.",
    )
    request: Annotated[Size, Field(ge=MIN_REQUEST)] = Field(
        default=300,
        json_schema_extra={"default": format_size(300)},
        description="Bytes of a request; 16 at least.",
    )

    @model_validator(mode="after")
    def _plays(self) -> Self:
        if any(one >= other for one, other in zip(self.bitrates, self.bitrates[1:], strict=False)):
            raise refuse("has bitrates that do not ascend", "ascending bitrates")
        if 2 * self.segment > self.buffer:
            raise refuse("has a buffer that does not hold two segments", "a buffer of two segments or more")
        if (self.start or 0) > self.buffer:
            raise refuse("has a start that the buffer does not hold", "start up to the buffer")
        if self._reservoir + self._cushion > self._held:
            raise refuse(
                "has a buffer in which the highest bitrate is never reached",
                f"reservoir and cushion of {format_time(self._held)} together, a segment less than the buffer",
            )
        for rate in self.bitrates:
            if rate * self.segment // (8 * NANOSECONDS) < 1:
                raise refuse("has segments without a byte", "longer segments, or higher bitrates")
        return self

    @property
    def _held(self) -> int:
        """Most that is held when a segment is asked for."""
        return self.buffer - self.segment

    @property
    def _reservoir(self) -> int:
        return round(self._held * RESERVOIR) if self.reservoir is None else self.reservoir

    @property
    def _cushion(self) -> int:
        return round(self._held * CUSHION) if self.cushion is None else self.cushion

    @property
    def payload(self) -> on_host.Video:
        """What its player does."""
        player = on_host.Player(
            bitrates_bps=self.bitrates,
            segment_ns=self.segment,
            buffer_ns=self.buffer,
            reservoir_ns=self._reservoir,
            cushion_ns=self._cushion,
            start_ns=self.start or self.segment,
        )
        return on_host.Video(((),), closed_loop=True, keep_alive=True, request_bytes=self.request, player=player)


class VideoGroup(FlowGroup):
    """A video player: one flow."""

    made_of = on_host.Video
    key = "video"

    video: Video = Field(
        description="A video player that fetches segments at a bitrate which its buffer decides, for a `duration`. The "
        "group is one flow, as with `requests`."
    )

    def payload(self, place: Place) -> on_host.Video:
        """See `FlowGroup.payload`."""
        return self.video.payload

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        one_flow(self, others, "a group for each player")
