# SPDX-License-Identifier: Apache-2.0
"""Fairness between flows: Jain's index, shares, convergence, throughput difference and harm."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

CONVERGENCE_TOLERANCE = 0.25
CONVERGENCE_HOLD_S = 5.0


def jain_index(allocations: npt.ArrayLike) -> float | None:
    """Jain's fairness index of `allocations` (any unit): (sum x)^2 / (n sum x^2), 1/n (one takes all) .. 1 (equal).

    None if there is no allocation or all are zero. Negative or non-finite values raise ValueError.
    Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
    Shared Computer Systems", DEC-TR-301, 1984.
    """
    x = np.asarray(allocations, dtype=np.float64)
    if len(x) and (not np.isfinite(x).all() or (x < 0).any()):
        raise ValueError("allocations must be finite and not negative")
    peak = x.max(initial=0.0)
    if peak == 0:
        return None
    x = x / peak
    return float(x.sum() ** 2 / (len(x) * np.square(x).sum()))


def jain_series(allocations: npt.ArrayLike) -> FloatArray:
    """Jain's index of each interval: `allocations` has flows as rows and intervals as columns; NaN where a flow is not
    active (not counted in that interval's n). NaN where fewer than two flows are active or nothing was sent."""
    x = np.asarray(allocations, dtype=np.float64)
    active = np.isfinite(x)
    n = active.sum(axis=0)
    x = np.where(active, x, 0.0)
    total, squares = x.sum(axis=0), np.square(x).sum(axis=0)
    result = np.full(x.shape[1], np.nan)
    usable = (n >= 2) & (squares > 0)
    result[usable] = total[usable] ** 2 / (n[usable] * squares[usable])
    return result


def shares(allocations: npt.ArrayLike) -> FloatArray:
    """Each allocation's fraction (0..1) of their sum; NaN if the sum is zero. Source: definition."""
    x = np.asarray(allocations, dtype=np.float64)
    total = x.sum()
    return x / total if total > 0 else np.full(len(x), np.nan)


def throughput_difference(first_bps: float, second_bps: float) -> float | None:
    """Difference of two flows' rates over the greater of them, -1..1 (positive: the first is ahead); None if both 0.

    Source: definition; the measure under which Hock et al., "Experimental Evaluation of BBR Congestion Control",
    ICNP 2017, compare pairs of flows, made dimensionless.
    """
    greater = max(first_bps, second_bps)
    return (first_bps - second_bps) / greater if greater > 0 else None


def convergence_time(
    rates_bps: npt.ArrayLike,
    interval_s: float,
    tolerance: float = CONVERGENCE_TOLERANCE,
    hold_s: float = CONVERGENCE_HOLD_S,
    smooth_s: float = 1.0,
) -> float | None:
    """Seconds until every flow stays within `tolerance` of its fair share for at least `hold_s`; None if never.

    `rates_bps` has flows as rows and intervals as columns of `interval_s`, the first column being the one in which the
    last flow started. Rates are first averaged over the past `smooth_s` (fewer at the start). The fair share of an
    interval is the mean of the flows' smoothed rates, so an unsaturated link does not hide unfairness.
    Source: the definition of M. Dong et al., "PCC: Re-architecting Congestion Control for Consistent High
    Performance", NSDI 2015 (within +-25 % of the ideal rate, kept for at least 5 s), here for every flow at once.
    """
    x = np.asarray(rates_bps, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] < 2 or not x.shape[1]:
        return None
    width = max(1, round(smooth_s / interval_s))
    summed = np.cumsum(np.concatenate((np.zeros((x.shape[0], 1)), x), axis=1), axis=1)
    ends = np.arange(1, x.shape[1] + 1)
    starts = np.maximum(ends - width, 0)
    smooth = (summed[:, ends] - summed[:, starts]) / (ends - starts)
    fair = smooth.mean(axis=0)
    close = (fair > 0) & (np.abs(smooth - fair) <= tolerance * fair).all(axis=0)
    needed = max(1, int(np.ceil(hold_s / interval_s - 1e-9)))
    if len(close) < needed:
        return None
    run = np.cumsum(np.concatenate(([0], close)))
    held = np.flatnonzero(run[needed:] - run[:-needed] == needed)
    return float(held[0] * interval_s) if len(held) else None


def harm(solo: float, competing: float, *, more_is_better: bool) -> float | None:
    """Harm done to a flow, 0 (none) .. 1 (all taken away), by sharing the link; None if the solo value is 0.

    `solo` is a metric of the flow alone, `competing` the same metric beside the other flow, in any one unit.
    For throughput more is better: (solo - competing) / solo. For delay, jitter, loss or completion time less is better:
    (competing - solo) / competing. An improvement is harm 0.
    Source: R. Ware, M. Mukerjee, S. Seshan, J. Sherry, "Beyond Jain's Fairness Index: Setting the Bar for the
    Deployment of Congestion Control Algorithms", HotNets 2019.
    """
    worse, better = (solo, competing) if more_is_better else (competing, solo)
    if worse <= 0:
        return None
    return float(max(0.0, (worse - better) / worse))
