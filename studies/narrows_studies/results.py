# SPDX-License-Identifier: Apache-2.0
"""Which of a study's points are whose, and what several results have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows_analysis.study_results import MeasuredPoint, Results

from narrows_studies.model import StudyFigure


def points_of(results: Results, *experiments: str) -> Sequence[MeasuredPoint]:
    """The points of experiments."""
    return [point for point in results.points if point.experiment in experiments]


def figure_points(results: Results, figure: StudyFigure) -> Sequence[MeasuredPoint]:
    """The points that a figure's statements look at."""
    return points_of(results, *figure.experiments)


def merged(one: Any, other: Any) -> Any:
    """What two machines say of themselves: both, with commas, if it is not the same; what both cannot be is None."""
    if other in (None, one):
        return one
    if isinstance(one, bool):
        return None
    return ", ".join(dict.fromkeys([*str(one).split(", "), *str(other).split(", ")]))
