# SPDX-License-Identifier: Apache-2.0
"""Selecting points of results, and joining what two machines say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows_analysis.study_results import MeasuredPoint, Results

from narrows_studies.model import StudyFigure


def points_of(results: Results, *experiments: str) -> Sequence[MeasuredPoint]:
    """The points of some experiments."""
    return [point for point in results.points if point.experiment in experiments]


def figure_points(results: Results, figure: StudyFigure) -> Sequence[MeasuredPoint]:
    """The points that a figure's statements look at."""
    return points_of(results, *figure.experiments)


def merged(one: Any, other: Any) -> Any:
    """One value for two machines: both, with a comma, if they differ; None if these are truth values."""
    if other in (None, one):
        return one
    if isinstance(one, bool):
        return None
    return ", ".join(dict.fromkeys([*str(one).split(", "), *str(other).split(", ")]))
