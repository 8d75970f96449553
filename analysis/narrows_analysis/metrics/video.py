# SPDX-License-Identifier: Apache-2.0
"""What a viewer notices of a video: bitrate, stalls, switches, the wait for the first picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mean_bitrate(bitrates_bps: Sequence[float]) -> float | None:
    """Mean of the segments' bitrates in bit/s, all segments being equally long; None of none."""
    return float(np.mean(bitrates_bps)) if len(bitrates_bps) else None


def switches(bitrates_bps: Sequence[float]) -> int:
    """How often a segment has another bitrate than the one before. Source: ISO/IEC 23009-1, annex D (representation
    switch events)."""
    return int(np.count_nonzero(np.diff(bitrates_bps)))


def stalled(stalls: Sequence[tuple[float, float]]) -> float:
    """Seconds in stalls, given by begin and end."""
    return float(sum(end - begin for begin, end in stalls))


def rebuffering_ratio(stalled_s: float, playing_s: float, ended_s: float) -> float | None:
    """Part of the time from the first picture to the end of the session that was spent in stalls; None without any.

    Source: F. Dobrian et al., "Understanding the Impact of Video Quality on User Engagement", SIGCOMM 2011 (buffering
    ratio).
    """
    return stalled_s / (ended_s - playing_s) if ended_s > playing_s else None
