# SPDX-License-Identifier: Apache-2.0
"""Video players: playback in hosts/NAME.json, what a viewer notices of it in summary.json, and its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from narrows_formats.connection_record import Positive, Record, Time
from narrows_formats.kinds import Column, KindOfFlow
from narrows_formats.kinds.requests import RequestsRecord


class VideoSession(Record):
    """What a video player did; times from the start of the experiment."""

    segment_s: Positive
    """Length of a segment."""
    playing_s: Time | None = None
    """When playback began; null: it did not."""
    stalls: tuple[tuple[Time, Time], ...] = ()
    """Begin and end of each time at which nothing was left to play."""


@with_config(ConfigDict(extra="forbid"))
class VideoSummary(TypedDict):
    """What a viewer noticed: of the segments that were fetched, and of playback."""

    segments: int
    bitrate_bps: float | None
    switches: int
    startup_s: float | None
    stalls: int
    stall_s: float
    stall_ratio: float | None


class VideoRecord(RequestsRecord):
    """What a player fetched, and what it played."""

    video: VideoSession
    """Playback."""

    def own_summary(self) -> Mapping[str, object]:
        """How long its segments took, and what a viewer noticed."""
        return {**super().own_summary(), "video": self._viewed()}

    def _viewed(self) -> VideoSummary:
        bitrates = [one.bitrate_bps for one in self.responses if one.done_s is not None and one.bitrate_bps]
        stall_s, playing_s = stalled(self.video.stalls), self.video.playing_s
        return {
            "segments": len(bitrates),
            "bitrate_bps": mean_bitrate(bitrates),
            "switches": switches(bitrates),
            "startup_s": None if playing_s is None else playing_s - self.started_s,
            "stalls": len(self.video.stalls),
            "stall_s": stall_s,
            "stall_ratio": None if playing_s is None else rebuffering_ratio(stall_s, playing_s, self.ended_s),
        }


def mean_bitrate(bitrates_bps: Sequence[float]) -> float | None:
    """Mean of the segments' bitrates in bit/s, all segments being equally long; None of none."""
    return fmean(bitrates_bps) if bitrates_bps else None


def switches(bitrates_bps: Sequence[float]) -> int:
    """How often a segment has another bitrate than the one before. Source: ISO/IEC 23009-1, annex D (representation
    switch events)."""
    return sum(one != other for one, other in pairwise(bitrates_bps))


def stalled(stalls: Sequence[tuple[float, float]]) -> float:
    """Seconds in stalls, given by begin and end."""
    return float(sum(end - begin for begin, end in stalls))


def rebuffering_ratio(stalled_s: float, playing_s: float, ended_s: float) -> float | None:
    """Part of the time from the first picture to the end of the session that was spent in stalls; None without any.

    Source: F. Dobrian et al., "Understanding the Impact of Video Quality on User Engagement", SIGCOMM 2011 (buffering
    ratio).
    """
    return stalled_s / (ended_s - playing_s) if ended_s > playing_s else None


KIND = KindOfFlow(
    ("video",),
    VideoRecord,
    "video",
    "Video",
    "As the players measured it: bitrate of the segments that were fetched, switches between two of them, stalls (time "
    "without anything to play) and their part of the time since the first picture.",
    (
        Column("Segments", "count", lambda found: found["segments"]),
        Column("Bitrate\nmean", "rate", lambda found: found["bitrate_bps"]),
        Column("Switches", "count", lambda found: found["switches"]),
        Column("Stalls", "count", lambda found: found["stalls"]),
        Column("Stalled", "duration", lambda found: found["stall_s"]),
        Column("Stalled\n(%)", "ratio", lambda found: found["stall_ratio"]),
        Column("First picture\nafter", "duration", lambda found: found["startup_s"]),
    ),
)
