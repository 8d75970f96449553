# SPDX-License-Identifier: Apache-2.0
"""Histogram and sequence space against naive versions of themselves, on generated input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows_analysis.histogram import PRECISION_BITS, LogLinearHistogram
from narrows_analysis.sequence_space import SequenceSpace

SEGMENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 400), st.integers(1, 60), st.booleans()), min_size=1, max_size=60
)


@settings(max_examples=300, deadline=None)
@given(SEGMENTS, st.integers(0, 2**32 - 1))
def test_a_byte_is_new_once(segments: list[tuple[int, int, int, bool]], origin: int) -> None:
    """Sums per flow, retransmission flags and advances equal a byte-by-byte count, whatever the batches."""
    space = SequenceSpace()
    seen: dict[int, set[int]] = {}
    top: dict[int, int] = {}
    batch: list[tuple[int, int, int]] = []

    def check() -> None:
        ordered = sorted(batch, key=lambda segment: segment[0])
        flow, start, length = (np.array(column, dtype=np.int64) for column in zip(*ordered, strict=True))
        new, retransmitted, advance = space.add(flow, (start + origin) % (1 << 32), length)
        for number in set(flow.tolist()):
            mine = flow == number
            before = set(seen.get(number, ()))
            for i in np.flatnonzero(mine):
                known = number in top
                assert retransmitted[i] == (known and start[i] < top[number])
                reach = int(start[i] + length[i])
                assert advance[i] == (max(0, reach - top[number]) if known else length[i])
                top[number] = max(top.get(number, 0), reach)
                seen.setdefault(number, set()).update(range(int(start[i]), reach))
            assert new[mine].sum() == len(seen[number] - before)
        assert (new >= 0).all()

    for flow, start, length, flush in segments:
        batch.append((flow, start, length))
        if flush:
            check()
            batch = []
    if batch:
        check()


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


def test_weights_count_as_repetition() -> None:
    weighted, repeated = LogLinearHistogram(), LogLinearHistogram()
    weighted.add(np.array([5, 70_000]), np.array([3, 2]))
    repeated.add(np.array([5, 5, 5, 70_000, 70_000]))
    assert weighted.mean == repeated.mean and weighted.percentile(80) == repeated.percentile(80)


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
