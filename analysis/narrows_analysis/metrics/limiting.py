# SPDX-License-Identifier: Apache-2.0
"""Which of the links on a path was a flow's bottleneck, over time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NONE = -1


def limiting_link(delays_s: FloatArray, frames_s: FloatArray) -> IntArray:
    """Position of the link that a flow's packets waited longest for, in each interval; `NONE` where none had a queue.

    A link whose queue holds a flow's packets serves it at that flow's rate; the one with the longest wait is where a
    further packet would be delayed or dropped. A wait shorter than a full-size frame takes on the link is not a queue.

    Args:
        delays_s: mean queue delay of the flow's packets in seconds, a row for each link of its path and a column for
            each interval; NaN where none of its packets left.
        frames_s: time that a full-size frame takes on each link, in seconds.

    Returns:
        Positions, one for each interval.
    """
    waits = np.where(delays_s > frames_s[:, None], delays_s, -np.inf)
    longest = np.argmax(waits, axis=0)
    return np.where(np.isinf(waits.max(axis=0)), NONE, longest)
