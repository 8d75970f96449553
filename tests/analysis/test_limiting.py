# SPDX-License-Identifier: Apache-2.0
"""Which link was a flow's bottleneck: the one with the longest wait, and none where no link has a queue."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows_analysis.metrics.limiting import NONE, limiting_link

NAN = float("nan")


def test_the_longest_wait_is_the_bottleneck() -> None:
    delays = np.array([[0.010, 0.002, 0.0009, NAN, 0.005], [0.004, 0.020, 0.0020, NAN, NAN]])
    # Full-size frames take 1 and 3 ms: a wait of less is for the rest of one frame.
    assert limiting_link(delays, np.array([0.001, 0.003])).tolist() == [0, 1, NONE, NONE, 0]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.just(NAN), st.floats(0, 1)), min_size=3, max_size=3), min_size=1, max_size=10),
    st.lists(st.floats(0, 0.5), min_size=3, max_size=3),
)
def test_it_is_one_whose_queue_is_no_shorter_than_any_other(rows: list[list[float]], frames: list[float]) -> None:
    for row, found in zip(rows, limiting_link(np.array(rows).T, np.array(frames)), strict=True):
        queues = {link: delay for link, delay in enumerate(row) if delay > frames[link]}
        assert queues.get(int(found)) == max(queues.values(), default=None)
