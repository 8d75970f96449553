# SPDX-License-Identifier: Apache-2.0
"""Waves as steps whose integral over a period is exactly that of the wave."""

from __future__ import annotations

import math
from typing import Literal

from narrows_formats.schedules import RateSteps

# Steps of a period of a sine and of a sawtooth. A whole number of milliseconds can be divided by it.
STEPS = 64
Kind = Literal["sine", "square", "sawtooth"]


def wave_steps(kind: Kind, low_bps: int, high_bps: int, period_ns: int) -> RateSteps:
    """One period: a sine from its mean upwards, a square with its high half first, a sawtooth from low to high.

    Each of the 64 steps of a sine or a sawtooth has the wave's mean over it, to the nearest bit/s; of two steps that
    lie opposite each other (half a period later; mirrored) one has what the other lacks of ``low + high``, so that
    rounding cancels out. ``period_ns`` is a multiple of 64.
    """
    if kind == "square":
        return RateSteps(((0, high_bps), (period_ns // 2, low_bps)), period_ns)
    if kind == "sine":
        middle, swing, width = (low_bps + high_bps) / 2, (high_bps - low_bps) / 2, 2 * math.pi / STEPS
        half = [
            round(middle + swing * (math.cos(number * width) - math.cos((number + 1) * width)) / width)
            for number in range(STEPS // 2)
        ]
        rates = [*half, *(low_bps + high_bps - rate for rate in half)]
    else:
        half = [round(low_bps + (high_bps - low_bps) * (2 * step + 1) / (2 * STEPS)) for step in range(STEPS // 2)]
        rates = [*half, *(low_bps + high_bps - rate for rate in reversed(half))]
    return RateSteps(tuple((step * period_ns // STEPS, rate) for step, rate in enumerate(rates)), period_ns)
