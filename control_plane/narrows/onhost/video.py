# SPDX-License-Identifier: Apache-2.0
"""A video player on a host, which asks for segments of adaptive bitrate (DASH) as its buffer decides.

`narrows.onhost.requests` serves the sockets. Only the standard library of Python 3.8 is used, so that it runs on any
host.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import wire
    from narrows.onhost.requests import Requests, RequestsSpecification, User
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import wire
    from requests import Requests, RequestsSpecification, User

if TYPE_CHECKING:
    from collections.abc import Sequence

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Player:
    """A video player whose buffer decides at which of ascending bitrates it fetches each segment.

    Of ``buffer_ns``, up to the reservoir the lowest, above reservoir and cushion the highest. Playback begins, and goes
    on after a stall, with ``start_ns``.
    """

    bitrates_bps: tuple[int, ...]
    segment_ns: int
    buffer_ns: int
    reservoir_ns: int
    cushion_ns: int
    start_ns: int


@wire.message
@dataclass
class PlayerSpecification:
    """A `Player`, in seconds."""

    bitrates_bps: list[int]
    segment_s: float
    buffer_s: float
    reservoir_s: float
    cushion_s: float
    start_s: float


@dataclass(frozen=True)
class Video(Requests):
    """What a video player asks for over one connection, segment after segment: that is up to it."""

    kind = "video"
    player: Player

    @property
    def own(self) -> PlayerSpecification:
        """See `Payload.own`."""
        player = self.player
        return PlayerSpecification(
            bitrates_bps=list(player.bitrates_bps),
            segment_s=player.segment_ns / NANOSECONDS,
            buffer_s=player.buffer_ns / NANOSECONDS,
            reservoir_s=player.reservoir_ns / NANOSECONDS,
            cushion_s=player.cushion_ns / NANOSECONDS,
            start_s=player.start_ns / NANOSECONDS,
        )


class Viewer(User):
    """A user who watches a video, segment by segment, at the bitrate that the buffer decides.

    Source: T.-Y. Huang, R. Johari, N. McKeown, M. Trunnell, M. Watson, "A Buffer-Based Approach to Rate Adaptation",
    SIGCOMM 2014, algorithm 1 (BBA-0): the bitrate stays until the rate that the buffer maps to passes the next one.
    """

    wants_all_time = True

    def __init__(self, flow: RequestsSpecification, number: int, schedule: Sequence[tuple[float, int]]) -> None:
        """See `User`; of a flow's own is the player."""
        super().__init__(flow, number, schedule)
        self._settings: PlayerSpecification = flow.own
        self._bitrate: int | None = None
        self._is_playing = False
        # What is held, and when that was.
        self._level_s, self._at_s = 0.0, 0.0
        self.playing_s: float | None = None
        self.stalls: list[list[float]] = []

    @property
    def is_over(self) -> bool:
        """Never by itself."""
        return False

    def following(self, now_s: float) -> tuple[float, int, wire.Record] | None:
        """See `User.following`; it waits until there is room for a segment."""
        if self.done < self.next:
            return None
        settings = self._settings
        self._play(now_s)
        wait_s = max(0.0, self._level_s + settings.segment_s - settings.buffer_s) if self._is_playing else 0.0
        bitrates = settings.bitrates_bps
        self._bitrate = choose(bitrates, self._bitrate, self._level_s - wait_s, settings)
        size = int(bitrates[self._bitrate] * settings.segment_s / 8)
        return now_s + wait_s, size, {"bitrate_bps": float(bitrates[self._bitrate])}

    def take(self, row: wire.Record, now_s: float) -> None:
        """See `User.take`."""
        super().take(row, now_s)
        self._play(now_s)
        self._level_s += self._settings.segment_s
        row["buffer_s"] = self._level_s
        if not self._is_playing and self._level_s >= self._settings.start_s - 1e-9:
            self._is_playing = True
            if self.playing_s is None:
                self.playing_s = now_s
            else:
                self.stalls[-1][1] = now_s

    def close(self, now_s: float) -> wire.Record:
        """See `User.close`; a stall that lasts ends with the session."""
        self._play(now_s)
        if self.stalls and not self._is_playing:
            self.stalls[-1][1] = now_s
        video = {"segment_s": self._settings.segment_s, "playing_s": self.playing_s, "stalls": self.stalls}
        return {"kind": "video", "video": video}

    def _play(self, now_s: float) -> None:
        """Play up to a time, or until nothing is held any more."""
        if self._is_playing:
            passed_s = now_s - self._at_s
            if passed_s > self._level_s:
                self._is_playing = False
                stalled_s = self._at_s + self._level_s
                self.stalls.append([stalled_s, stalled_s])
            self._level_s = max(0.0, self._level_s - passed_s)
        self._at_s = now_s


def choose(bitrates: Sequence[float], before: int | None, level_s: float, settings: PlayerSpecification) -> int:
    """Position of the bitrate of the next segment, ``level_s`` being held when it is asked for.

    Args:
        bitrates: ascending.
        before: position of the one before; None of the first segment.
        level_s: seconds of video.
        settings: of the player.
    """
    reservoir_s, cushion_s = settings.reservoir_s, settings.cushion_s
    highest = len(bitrates) - 1
    if before is None or not highest or level_s <= reservoir_s:
        return 0
    if level_s >= reservoir_s + cushion_s:
        return highest
    mapped = bitrates[0] + (bitrates[-1] - bitrates[0]) * (level_s - reservoir_s) / cushion_s
    if mapped >= bitrates[min(before + 1, highest)]:
        return max(number for number, rate in enumerate(bitrates) if rate < mapped)
    if mapped <= bitrates[max(before - 1, 0)]:
        return min(number for number, rate in enumerate(bitrates) if rate > mapped)
    return before


USER = Viewer
