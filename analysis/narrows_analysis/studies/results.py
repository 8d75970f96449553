# SPDX-License-Identifier: Apache-2.0
"""The small file that holds the measures of all points of a study: enough to make its page again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from narrows_formats.storage import write_json

from narrows_analysis.errors import AnalysisError
from narrows_analysis.studies.model import MeasuredPoint, Results, StudyFigure

DIGITS = 6


def write_results(results: Results, path: Path) -> None:
    """Write results in one step; measures with six significant digits."""
    data = {
        "study": results.study,
        "variant": results.variant,
        "machine": dict(results.machine),
        "experiments": dict(results.experiments),
        "skipped": dict(sorted(results.skipped.items())),
        "points": [
            {
                "experiment": point.experiment,
                "parameters": dict(point.parameters),
                "repetition": point.repetition,
                "directory": point.directory,
                **({"provenance": dict(point.provenance)} if point.provenance else {}),
                "measures": {name: _rounded(value) for name, value in point.measures.items()},
            }
            for point in results.points
        ],
    }
    write_json(path, data, indent=1)


def read_results(path: Path) -> Results:
    """Read what `write_results` wrote; raise AnalysisError naming the file if it is something else."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        points = tuple(
            MeasuredPoint(
                one["experiment"],
                one["parameters"],
                one["repetition"],
                one["measures"],
                one["directory"],
                # Older versions did not write it.
                one.get("provenance", {}),
            )
            for one in data["points"]
        )
        # Older versions did not write what was measured.
        experiments = data.get("experiments", {})
        return Results(data["study"], data["variant"], points, data["skipped"], data["machine"], experiments)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AnalysisError(f"{path}: is not a study's results: {error}") from None


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


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
