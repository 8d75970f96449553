# SPDX-License-Identifier: Apache-2.0
"""Default lengths of the intervals of time series. Imports nothing slow, since the command line needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

QUEUE_INTERVAL_S = 1e-3
PACKETS_A_QUEUE_BIN = 4
# Lengths of intervals are whole nanoseconds.
NANOSECOND_DIGITS = 9
NICE_INTERVALS_S = tuple(base * 10.0**power for power in range(-4, 5) for base in (1, 2, 5))


def nice_interval(at_least_s: float) -> float:
    """Smallest of 0.1, 0.2, 0.5, 1, 2, 5, ... ms that is not below `at_least_s` seconds."""
    for interval in NICE_INTERVALS_S:
        if interval >= at_least_s * (1 - 1e-9):
            return round(interval, 6)
    return NICE_INTERVALS_S[-1]


def begins_s(first: int, end: int, width_s: float) -> npt.NDArray[np.float64]:
    """When intervals `first` to `end` (excluded) begin, in seconds from the origin: 0.3, where 3 x 0.1 is another
    number."""
    import numpy as np

    return np.round(np.arange(first, end) * width_s, NANOSECOND_DIGITS)


def queue_interval(packet_s: float) -> float:
    """Interval of the queue's series, seconds, where a full-size frame takes `packet_s`: a few frames at least."""
    return nice_interval(max(QUEUE_INTERVAL_S, PACKETS_A_QUEUE_BIN * packet_s))
