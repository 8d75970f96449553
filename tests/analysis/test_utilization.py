# SPDX-License-Identifier: Apache-2.0
"""Utilization of a link whose frames are about as long as the intervals that they are counted in."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from narrows_analysis.metrics.throughput import utilization
from narrows_analysis.summary.sections import _carried, measured_window

RATE_BPS, FRAME_BYTES, FRAME_S = 8_000, 1_514, 1.514


def aggregation(
    mine_s: tuple[float, float],
    other_s: tuple[float, float] | None,
    frames: int,
    frame_bytes: int = FRAME_BYTES,
    rate_bps: int = RATE_BPS,
) -> Any:
    """One flow and other traffic: when the first frame arrives and when the last starts; `frames` in one interval."""
    seen = [mine_s, other_s or (np.inf, -np.inf)]
    never = np.iinfo(np.int64).max
    ticks = [[round(time * 1e9) if np.isfinite(time) else int(np.sign(time)) * never for time in pair] for pair in seen]
    return SimpleNamespace(
        run=SimpleNamespace(bottleneck=SimpleNamespace(mtu_frame_bytes=FRAME_BYTES, rate_bps=rate_bps, schedule=None)),
        clock=SimpleNamespace(unit_s=1e-9),
        intervals=SimpleNamespace(queue_s=20.0),
        first_arrival=np.array([first for first, _ in ticks]),
        rows=2,
        life_ticks=lambda row: tuple(ticks[row]),
        last_departure=np.array([last for _, last in ticks]),
        last_frame_bytes=np.array([frame_bytes, frame_bytes]),
        queue=SimpleNamespace(cells={"bytes": np.array([[frames * frame_bytes]])}),
    )


@pytest.mark.parametrize(
    ("mine", "other", "frames"),
    [
        ((0.0, 3 * FRAME_S), None, 4),
        # Behind the flow's last frame, in the same interval, and in front of its first one.
        ((0.0, FRAME_S), (0.0, 3 * FRAME_S), 4),
        ((2 * FRAME_S, 3 * FRAME_S), (0.0, FRAME_S), 4),
    ],
)
def test_a_link_that_is_never_idle_is_used_to_the_full(
    mine: tuple[float, float], other: tuple[float, float] | None, frames: int
) -> None:
    found = cast(Any, aggregation(mine, other, frames))
    window = measured_window(found)
    assert window is not None
    carried, time_s = _carried(found, window)
    assert utilization(carried, RATE_BPS, time_s) == pytest.approx(1.0, rel=1e-6)


def test_short_frames_use_a_link_to_the_full() -> None:
    # Of the last frame 142 bytes are on the link, not the 1,514 that one of full size has.
    frame_s = 142 * 8 / RATE_BPS
    found = cast(Any, aggregation((0.0, 3 * frame_s), None, 4, frame_bytes=142))
    window = measured_window(found)
    assert window is not None and window[1] == pytest.approx(4 * frame_s)
    carried, time_s = _carried(found, window)
    assert utilization(carried, RATE_BPS, time_s) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("rate_bps", [300_000, 700_001, 9_999_999_999])
def test_no_link_carries_more_than_it_can(rate_bps: int) -> None:
    """Times are whole nanoseconds, and a frame takes 6,453,333 and a third at 300 kbit/s."""
    frames, frame_ns = 474, Fraction(242 * 8 * 10**9, rate_bps)
    last_s = float((2_003 + 473 * frame_ns) // 1 / Fraction(10**9))
    found = cast(Any, aggregation((2_003e-9, last_s), None, frames, 242, rate_bps))
    window = measured_window(found)
    assert window is not None
    carried, time_s = _carried(found, window)
    assert carried * 8 / (time_s * rate_bps) == pytest.approx(1.0, rel=1e-15)
