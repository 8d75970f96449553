# SPDX-License-Identifier: Apache-2.0
"""Values of a swept field, ranked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from narrows_analysis.ranking import ranking
from narrows_analysis.sweep import QUANTITIES, Sweep

GOODPUT, DELAY = (
    next(one for one in QUANTITIES if one.column == column) for column in ("goodput_bps", "queue_delay_mean_s")
)
# Of each congestion control at each rate, goodputs of two repetitions.
FOUND = {
    ("a", "10"): (9.0, 11.0),
    ("b", "10"): (19.0, 21.0),
    ("a", "20"): (29.0, 31.0),
    ("b", "20"): (21.0, 19.0),
    ("c", "10"): (5.0,),
}


def sweep() -> Sweep:
    rows = [
        {"cca_of": cca, "rate": rate, "directory": f"{cca}-{rate}-{number}", "status": "complete", "group": group,
         "goodput_bps": value * scale, "queue_delay_mean_s": value / 1000}
        for (cca, rate), values in FOUND.items() for number, value in enumerate(values)
        for group, scale in (("own", 1e6), ("other", -1.0))
    ]  # fmt: skip
    return Sweep(Path(), "test", {"cca_of": ["a", "b", "c"], "rate": ["10", "20"]}, pd.DataFrame(rows), 10)


def test_the_best_is_first_and_settings_weigh_the_same() -> None:
    """Both are 20 on average over the rates; what lacks a setting has no place."""
    first, second, last = ranking(sweep(), "cca_of", GOODPUT, "own")
    assert [first.value, second.value, last.value] == ["a", "b", "c"] and last.found is None and last.is_worse is None
    assert first.found is not None and first.found.mean == pytest.approx(20e6) and first.behind is None
    # Each sample has a variance of 2, a mean over two settings one of (2 / 2 + 2 / 2) / 4, with 2 degrees of freedom,
    # of which 97.5 % of Student's t lie below 4.303.
    assert first.found.half_width == pytest.approx(4.303 * 0.5**0.5 * 1e6, rel=1e-3)
    assert second.behind is not None and second.behind.mean == pytest.approx(0.0) and second.is_worse is False


def test_less_is_better_of_what_is_lost_or_waited_for() -> None:
    found = sweep()
    frame = found.frame.copy()
    # So far from the other that it is no chance: 4 degrees of freedom, 2.776 standard errors of 1 ms.
    frame.loc[frame["cca_of"] == "b", "queue_delay_mean_s"] += 0.01
    first, second, _ = ranking(replace(found, frame=frame), "cca_of", DELAY, "own")
    assert [first.value, second.value] == ["a", "b"] and second.is_worse is True
    assert second.behind is not None and second.behind.mean == pytest.approx(0.01)


def test_runs_that_are_not_complete_do_not_count() -> None:
    found = sweep()
    frame = found.frame.assign(status=["failed" if cca == "a" else "complete" for cca in found.frame["cca_of"]])
    assert [one.value for one in ranking(replace(found, frame=frame), "cca_of", GOODPUT, "own")] == ["b", "a", "c"]
