# SPDX-License-Identifier: Apache-2.0
"""Plots of measures over parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from narrows_analysis.study_results import MeasuredPoint
from narrows_studies.model import Plot
from narrows_studies.plots import _along, draw

BUFFER, RATE = "bottleneck.buffer", "bottleneck.rate"


def point(buffer: str, rate: str, repetition: int = 1, **measures: float) -> MeasuredPoint:
    return MeasuredPoint(
        "e", {BUFFER: buffer, RATE: rate}, repetition, {f"{name}.bbr": value for name, value in measures.items()}
    )


POINTS = [
    point("0.5bdp", "40Mbit", 1, rate_mean=1.8, rate_p25=1.6, rate_p75=2.1),
    point("0.5bdp", "40Mbit", 2, rate_mean=2.0, rate_p25=1.8, rate_p75=2.3),
    point("2bdp", "40Mbit", 1, rate_mean=0.5, rate_p25=0.4, rate_p75=0.9),
    point("2bdp", "80Mbit", 1, rate_mean=0.7, rate_p25=0.4, rate_p75=0.9),
]


def test_settings_that_share_a_place_are_averaged() -> None:
    found = _along(BUFFER, "rate_mean.bbr", POINTS)
    # Repetitions have a confidence interval, different settings have none.
    assert found[0.5].mean == pytest.approx(1.9)
    assert found[0.5].half_width == pytest.approx(12.706 * 0.1, rel=1e-4)
    assert found[2.0].mean == pytest.approx(0.6)
    assert found[2.0].half_width is None


def test_quartiles_are_drawn_for_the_groups_that_there_are() -> None:
    picture = draw(Plot(kind="quartiles", title="t", panels=("bbr", "cubic"), x=BUFFER), POINTS, Path("none"))
    assert picture is not None
    (axes,) = picture.axes
    line = axes.lines[0]
    assert np.asarray(line.get_xdata()).tolist() == [0.5, 2.0]
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([1.9, 0.6])
    assert draw(Plot(kind="quartiles", title="t", panels=("cubic",), x=BUFFER), POINTS, Path("none")) is None
