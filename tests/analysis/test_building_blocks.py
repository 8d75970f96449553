# SPDX-License-Identifier: Apache-2.0
"""Histogram against a naive version of itself, on generated input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows_analysis.aggregation.histogram import PRECISION_BITS, LogLinearHistogram


def histogram_of(values: Sequence[int]) -> LogLinearHistogram:
    """Each value counted once."""
    histogram = LogLinearHistogram()
    histogram.add_bins(np.array(values, dtype=np.int64), np.ones(len(values), np.int64))
    histogram.set_totals(sum(values), max(values))
    return histogram


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=200), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_within_a_bin(values: list[int], percent: int) -> None:
    histogram = histogram_of(values)
    exact = np.percentile(values, percent, method="inverted_cdf")
    assert histogram.percentile(percent) == pytest.approx(exact, rel=2.0**-PRECISION_BITS)
    # As few as these are not above it, however wide its bin is.
    assert (histogram.percentile(percent) or 0.0) >= exact
    assert histogram.mean == pytest.approx(np.mean(values))
    assert histogram.maximum == max(values)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=200))
def test_a_fraction_is_of_all_up_to_its_value(values: list[int]) -> None:
    bounds, fractions = histogram_of(values).cdf()
    assert fractions.tolist() == [np.mean(np.array(values) <= bound) for bound in bounds]


def test_small_values_are_exact_and_cdf_ends_at_one() -> None:
    histogram = histogram_of([3, 1, 2, 2, 16383])
    values, fractions = histogram.cdf()
    assert values.tolist() == [1, 2, 3, 16383]
    assert fractions.tolist() == [0.2, 0.6, 0.8, 1.0]


def test_cdf_of_many_values_keeps_the_extremes() -> None:
    histogram = histogram_of(range(10_000))
    values, fractions = histogram.cdf(points=100)
    assert len(values) <= 104 and values[0] == 0 and values[-1] == 9999 and fractions[-1] == 1.0


def test_empty() -> None:
    histogram = LogLinearHistogram()
    assert histogram.percentile(50) is None and histogram.mean is None
