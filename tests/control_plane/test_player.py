# SPDX-License-Identifier: Apache-2.0
"""A video player: how it chooses bitrates, and what it counts, at times given by hand."""

from __future__ import annotations

from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.onhost.video import PlayerSpecification, Viewer, choose
from narrows.traffic.requests import specify
from narrows_formats.kinds.video import mean_bitrate, rebuffering_ratio, stalled, switches


def flow_of(video: dict[str, Any], **group: Any) -> Any:
    player = {"cca": "cubic", "duration": "60s", "video": {"bitrates": ["1Mbit", "2Mbit", "4Mbit"], **video}, **group}
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
    return make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": [player]}, "x")).flows[0]


# Reservoir 10 s, cushion 20 s.
PLAYER = PlayerSpecification([], segment_s=4.0, buffer_s=34.0, reservoir_s=10.0, cushion_s=20.0, start_s=4.0)


def viewer(video: dict[str, Any]) -> Viewer:
    return Viewer(specify(flow_of(video), None), 0, [])


@pytest.mark.parametrize(
    ("before", "level_s", "chosen"),
    [
        # Reservoir 10 s, cushion 20 s: the map is 1 Mbit/s at 10 s and 5 Mbit/s at 30 s, 0.2 Mbit/s a second.
        (None, 30, 0),
        (3, 10, 0),
        (0, 30, 3),
        # 14.9 s: 1.98 Mbit/s is below the next, 2; 15.1 s: 2.02 is above it, and the highest below that is 2.
        (0, 14.9, 0),
        (0, 15.1, 1),
        # 24 s: 3.8 Mbit/s lets a jump over one be made, up to the highest below it, 3.
        (0, 24, 2),
        # From 3 down: the map has to fall to 2, at 15 s; the lowest above it is then 2 (or 3 at exactly 2).
        (2, 15.1, 2),
        (2, 14.9, 1),
        # From 5 to 3 once the map has fallen to 3, at 20 s.
        (3, 20.1, 3),
        (3, 19.9, 2),
    ],
)
def test_the_bitrate_is_that_of_bba_0(before: int | None, level_s: float, chosen: int) -> None:
    """Huang et al. 2014, algorithm 1."""
    assert choose([1e6, 2e6, 3e6, 5e6], before, level_s, PLAYER) == chosen


def test_one_bitrate_is_the_one() -> None:
    assert choose([1e6], 0, 15.0, PLAYER) == 0


def test_reservoir_and_cushion_are_those_of_the_paper_in_proportion() -> None:
    """90 s and 126 s of 240 s; here of 44 s less a segment of 4 s."""
    player = flow_of({"buffer": "44s"}).payload.player
    assert (player.reservoir_ns / 1e9, player.cushion_ns / 1e9) == (15, 21)


def test_what_is_held_falls_while_it_is_played_and_a_stall_ends_with_a_segment() -> None:
    """Segments of 2 s: the first comes after 1 s, the second after 1 s more, the third 6 s after that."""
    player, held = viewer({"segment": "2s", "buffer": "8s"}), []
    for asked_s, done_s in ((0.0, 1.0), (1.0, 2.0), (2.0, 8.0), (8.0, 8.5), (8.5, 9.0)):
        following = player.following(asked_s)
        assert following is not None and following[0] == asked_s
        player.next += 1
        assert player.following(asked_s) is None
        row: dict[str, Any] = {}
        player.take(row, done_s)
        held.append(row["buffer_s"])
    # 2; 2 - 1 + 2; 3 s are gone at 5 s, until 8 s nothing is held; 2; 2 - 0.5 + 2; 3.5 - 0.5 + 2.
    assert held == [2, 3, 2, 3.5, 5]
    assert (player.playing_s, player.stalls) == (1.0, [[5.0, 8.0]])
    # Room for one more: 5 + 2 <= 8; and then it waits until 6 are held.
    assert player.following(9.0) == (9.0, 500_000, {"bitrate_bps": 2e6})
    player.next += 1
    player.take({}, 9.25)
    waited = player.following(9.25)
    assert waited is not None and waited[0] == pytest.approx(9.25 + 0.75)
    player.close(30.0)
    # 6.75 s are held at 9.25 s.
    assert player.stalls == [[5.0, 8.0], [16.0, 30.0]]


def test_playback_begins_with_what_was_asked() -> None:
    player = viewer({"segment": "2s", "buffer": "20s", "start": "6s"})
    for done_s in (1.0, 2.0, 3.0):
        assert player.playing_s is None
        player.next += 1
        player.take({}, done_s)
    assert player.playing_s == 3.0


@pytest.mark.parametrize(
    ("video", "group", "message"),
    [
        ({"bitrates": ["2Mbit", "1Mbit"]}, {}, "has bitrates that do not ascend"),
        ({"bitrates": []}, {}, "flows.0.video.bitrates"),
        ({"segment": "4s", "buffer": "7s"}, {}, "does not hold two segments"),
        ({"start": "31s"}, {}, "has a start that the buffer does not hold"),
        ({"reservoir": "10s", "cushion": "17s"}, {}, "reservoir and cushion of 26s together"),
        ({"bitrates": ["1bit"], "segment": "1s"}, {}, "segments without a byte"),
        ({}, {"count": 2}, "has count, and video; allowed: a duration with video; a group for each player"),
        ({}, {"requests": {"size": "1kB", "think": "1s"}}, "has requests, and video"),
        ({}, {"duration": None}, "has no duration, and video"),
    ],
)
def test_what_cannot_be_is_refused(video: dict[str, Any], group: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        flow_of(video, **group)


def test_figures_of_a_session() -> None:
    assert mean_bitrate([1e6, 2e6, 3e6]) == 2e6 and mean_bitrate([]) is None
    assert switches([1e6, 2e6, 2e6, 1e6]) == 2 and switches([1e6]) == 0
    assert stalled([(1.0, 3.0), (5.0, 5.5)]) == 2.5
    assert rebuffering_ratio(2.5, 1.0, 11.0) == 0.25 and rebuffering_ratio(0.0, 5.0, 5.0) is None
