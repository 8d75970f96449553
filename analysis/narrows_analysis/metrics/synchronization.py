# SPDX-License-Identifier: Apache-2.0
"""Whether flows back off together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from narrows_analysis.metrics.loss import loss_episodes

FloatArray = npt.NDArray[np.float64]


def loss_synchronization(drop_times_s: Sequence[npt.ArrayLike], gap_s: float) -> float | None:
    """Mean fraction (0..1) of the flows that lose a packet in an episode of loss; None without loss.

    `drop_times_s` holds the drop times of each flow, seconds; an episode ends when no flow loses for `gap_s` (an RTT).
    1/n where flows lose in turn, 1 where all lose together.
    Source: S. Hassayoun, D. Ros, "Loss Synchronization and Router Buffer Sizing with High-Speed Versions of TCP",
    INFOCOM Workshops 2008; G. Appenzeller, I. Keslassy, N. McKeown, "Sizing Router Buffers", SIGCOMM 2004.
    """
    times = [np.sort(np.asarray(flow, dtype=np.float64)) for flow in drop_times_s]
    everything = np.sort(np.concatenate(times)) if times else np.zeros(0)
    episodes = loss_episodes(everything, gap_s)
    if not episodes:
        return None
    hits = [sum(_any_between(flow, first, last) for flow in times) for first, last, _ in episodes]
    return float(np.mean(hits) / len(times))


def _any_between(times: FloatArray, first: float, last: float) -> bool:
    index = int(np.searchsorted(times, first))
    return index < len(times) and bool(times[index] <= last)


def backoffs(rate_bps: npt.ArrayLike, least_fall: float = 0.15) -> FloatArray:
    """Positions (indices) in a flow's rate series at which it backs off: falls by at least `least_fall` (a fraction)
    from a local maximum to the next local minimum; the position is the maximum's.

    CUBIC falls by 30 % (RFC 9438), Reno by 50 % (RFC 5681), BBR's ProbeBW drain by 25 %.
    """
    x = np.asarray(rate_bps, dtype=np.float64)
    found: list[int] = []
    top = 0
    for i in range(1, len(x)):
        if x[i] >= x[top]:
            top = i
        elif x[i] <= x[top] * (1 - least_fall) and (i + 1 == len(x) or x[i + 1] > x[i]):
            found.append(top)
            top = i
    return np.array(found, dtype=np.float64)


def rate_synchronization(rates_bps: npt.ArrayLike) -> float | None:
    """Mean pairwise correlation (-1..1) of the changes of the flows' rates; None for fewer than two varying flows.

    `rates_bps` has flows as rows and intervals as columns. Positive: flows rise and fall together; negative: what one
    gives up another takes. Source: Pearson's correlation; used for windows by Appenzeller et al., SIGCOMM 2004, to tell
    synchronised from desynchronised flows.
    """
    changes = np.diff(np.nan_to_num(np.asarray(rates_bps, dtype=np.float64)), axis=1)
    if changes.shape[1] < 2:
        return None
    changes = changes[changes.std(axis=1) > 0]
    if len(changes) < 2:
        return None
    matrix = np.corrcoef(changes)
    return float(matrix[np.triu_indices(len(changes), 1)].mean())
