# SPDX-License-Identifier: Apache-2.0
"""Convergences and full queues, counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from narrows_studies.cycles import convergences, fillings, risings


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([], 0),
        ([0.5, 0.6], 0),
        ([0.5, 1.0], 1),
        # It wavers around either threshold.
        ([0.5, 0.96, 0.94, 0.96, 0.85, 0.97], 1),
        ([0.5, 0.96, 0.79, 0.81, 0.96], 2),
        ([1.0, 1.0, 0.5, 1.0], 2),
        ([0.5, np.nan, 1.0], 1),
    ],
)
def test_a_rising_is_counted_after_a_fall(values: list[float], count: int) -> None:
    assert risings(np.array(values), 0.8, 0.95) == count


def flows(*shares: float) -> pd.DataFrame:
    """Two flows; the first has these shares in turn, 20 s each."""
    rows = [
        {"time_s": time, "flow": flow, "goodput_bps": 1e6 * part}
        for time in np.arange(0, 20 * len(shares), 0.5)
        for flow, part in enumerate((shares[int(time // 20)], 1 - shares[int(time // 20)]))
    ]
    return pd.DataFrame(rows)


def test_a_convergence_follows_an_unfair_phase() -> None:
    # 10 % of the link is an index of 0.61, 30 % one of 0.86, 45 % one of 0.99.
    assert convergences(flows(0.1, 0.45, 0.1, 0.5)) == 2
    assert convergences(flows(0.1, 0.45, 0.3, 0.5)) == 1
    assert convergences(flows(0.1, 0.3)) == 0
    # Flows that are fair from the begin on do not converge.
    assert convergences(flows(0.5, 0.5)) == 0
    assert convergences(flows(0.5, 0.1, 0.5)) == 1
    one = flows(0.5)
    assert convergences(one[one["flow"] == 0]) is None


def test_a_filling_follows_a_drained_queue() -> None:
    def queue(*fills: float) -> pd.DataFrame:
        return pd.DataFrame({"depth_max_bytes": np.array(fills) * 1e5})

    assert fillings(queue(0.2, 0.96, 0.9, 1.0, 0.7, 0.95), 1e5) == 2
    assert fillings(queue(0.2, 0.94), 1e5) == 0
    assert fillings(queue(np.nan), 1e5) is None
    assert fillings(queue(0.5), np.nan) is None
