# SPDX-License-Identifier: Apache-2.0
"""Histogram against a naive version of itself, on generated input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows_analysis.aggregation.histogram import PRECISION_BITS, LogLinearHistogram


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=200), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_within_a_bin(values: list[int], percent: int) -> None:
    histogram = LogLinearHistogram()
    histogram.add(np.array(values, dtype=np.int64))
    exact = np.percentile(values, percent, method="inverted_cdf")
    assert histogram.percentile(percent) == pytest.approx(exact, rel=2.0**-PRECISION_BITS)
    assert histogram.mean == pytest.approx(np.mean(values))
    assert histogram.maximum == max(values)


def test_small_values_are_exact_and_cdf_ends_at_one() -> None:
    histogram = LogLinearHistogram()
    histogram.add(np.array([3, 1, 2, 2, 16383], dtype=np.int64))
    values, fractions = histogram.cdf()
    assert values.tolist() == [1, 2, 3, 16383]
    assert fractions.tolist() == [0.2, 0.6, 0.8, 1.0]


def test_bins_count_as_their_values() -> None:
    binned, repeated = LogLinearHistogram(), LogLinearHistogram()
    binned.add_bins(np.array([5, 70_000]), np.array([3, 2]))
    binned.set_totals(140_015, 70_000)
    repeated.add(np.array([5, 5, 5, 70_000, 70_000]))
    assert binned.mean == repeated.mean and binned.percentile(80) == repeated.percentile(80)
    assert binned.cdf()[0].tolist() == repeated.cdf()[0].tolist()


def test_cdf_of_many_values_keeps_the_extremes() -> None:
    histogram = LogLinearHistogram()
    histogram.add(np.arange(10_000, dtype=np.int64))
    values, fractions = histogram.cdf(points=100)
    assert len(values) <= 104 and values[0] == 0 and values[-1] == 9999 and fractions[-1] == 1.0


def test_empty_and_negative() -> None:
    histogram = LogLinearHistogram()
    assert histogram.percentile(50) is None and histogram.mean is None
    with pytest.raises(ValueError, match="negative"):
        histogram.add(np.array([-1]))
