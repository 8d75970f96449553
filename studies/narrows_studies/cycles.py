# SPDX-License-Identifier: Apache-2.0
"""How often flows converge after an unfair phase, and how often the queue reaches its limit.

Both have two thresholds, so that a value that wavers around one of them counts once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from narrows_analysis.metrics.fairness import jain_index

FloatArray = npt.NDArray[np.float64]

PHASE_S = 10.0  # BBR probes the RTT once in this time, so that each window has one probe
UNFAIR, CONVERGED = 0.8, 0.95  # Jain's index
LOW, FULL = 0.8, 0.95  # part of the buffer


def risings(values: FloatArray, low: float, high: float) -> int:
    """How often values reach ``high`` for the first time, or again after they were below ``low``.

    Values that begin at ``high`` or above count as having reached it.
    """
    count, armed = 0, True
    for value in values[np.isfinite(values)]:
        if armed and value >= high:
            count, armed = count + 1, False
        elif value < low:
            armed = True
    return count


def convergences(flows: pd.DataFrame) -> float | None:
    """How often the flows converge after an unfair phase, by Jain's index in windows of 10 s; None for one flow.

    Args:
        flows: a row for each flow and interval, with ``time_s``, ``flow`` and ``goodput_bps``.
    """
    if flows["flow"].nunique() < 2:
        return None
    window = ((flows["time_s"] - flows["time_s"].min()) / PHASE_S).astype(int)
    rates = flows.groupby([window, "flow"])["goodput_bps"].mean().unstack().fillna(0.0)
    indices = np.array([jain_index(row) for row in rates.to_numpy(dtype=np.float64)], dtype=np.float64)
    unfair = np.flatnonzero(indices < UNFAIR)
    # Without an unfair phase there is nothing to converge from.
    return float(risings(indices[unfair[0] :], UNFAIR, CONVERGED)) if len(unfair) else 0.0


def fillings(queue: pd.DataFrame, buffer_bytes: float) -> float | None:
    """How often the queue reaches 95 % of the buffer after it was below 80 %; None without readings.

    Args:
        queue: depth over time: column ``depth_max_bytes``.
        buffer_bytes: size of the buffer.
    """
    depth = queue["depth_max_bytes"].to_numpy(dtype=np.float64)
    if not np.isfinite(depth).any() or not buffer_bytes > 0:
        return None
    return float(risings(depth / buffer_bytes, LOW, FULL))
