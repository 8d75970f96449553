# SPDX-License-Identifier: Apache-2.0
"""A video player in virtual time, on links whose rate says when it stalls; no root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

SEGMENT, FRAME = 1448, 1514


@pytest.mark.long
def test_a_player_on_half_its_bitrate_stalls_half_the_time(tmp_path: Path) -> None:
    """A segment of 2 s at 2 Mbit/s takes, on 1 Mbit/s of its own, 500 kB in frames and a round trip; each comes that
    much after the one before, and is played in 2 s. Another, on a link of 20 Mbit/s, ends at the highest bitrate.
    """
    link, segment_s, size, session_s = 1e6, 2.0, 500_000, 30
    text = (
        "name: video\nlinks:\n"
        "  slow: {rate: 1Mbit, buffer: 20packets, rtt: 20ms}\n  fast: {rate: 20Mbit, buffer: 1bdp, rtt: 20ms}\nflows:\n"
        f"- {{name: slow, cca: reno, path: [slow], duration: {session_s}s, "
        "video: {bitrates: [2Mbit], segment: 2s}}\n"
        f"- {{name: fast, cca: reno, path: [fast], duration: {session_s}s, "
        "video: {bitrates: [1Mbit, 2Mbit, 4Mbit], segment: 2s, buffer: 12s}}\n"
        "expect: [flows.slow.video.stall_ratio > 40%, flows.fast.video.stalls == 0]\n"
    )
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    found = {flow["name"]: flow["video"] for flow in summary["flows"]}
    each_s = size / SEGMENT * FRAME * 8 / link + 0.020
    slow = found["slow-1"]
    # Slow start overshoots once; what is sent again takes time, too.
    assert slow["startup_s"] == pytest.approx(each_s + 0.020, rel=0.05)
    whole = int(session_s / each_s)
    assert (slow["segments"], slow["switches"], slow["bitrate_bps"]) == (whole, 0, 2e6)
    # One stall ends with each segment but the first, and the last one is cut by the end, if it has begun.
    assert slow["stalls"] == whole - 1 + (session_s > whole * each_s + segment_s)
    played = (whole - 1) * segment_s + min(segment_s, session_s - whole * each_s)
    assert slow["stall_s"] == pytest.approx(session_s - each_s - played, rel=0.05)
    fast = found["fast-1"]
    assert (fast["stalls"], fast["switches"]) == (0, 2)
    # 10 s are held at most when one is asked for: the highest from 9 s on, of which the first segments are 2 s each.
    assert 3e6 < fast["bitrate_bps"] < 4e6
    page = (tmp_path / "out" / "report.html").read_text()
    assert '"name":"stalled"' in page
    assert '"id":"video-bitrate-0"' in page and '"id":"video-buffer-1"' in page
