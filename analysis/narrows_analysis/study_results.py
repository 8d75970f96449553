# SPDX-License-Identifier: Apache-2.0
"""The small file that holds the measures of all points of a study: enough to make its pages again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from narrows_formats import beneath
from narrows_formats.storage import write_json

from narrows_analysis.errors import AnalysisError

Variant = Literal["quick", "full", "controls", "tbf", "mahimahi"]
DIGITS = 6


def setting(experiment: str, parameters: Mapping[str, str]) -> tuple[object, ...]:
    """What repetitions of a point have in common, to look them up by."""
    return experiment, *sorted(parameters.items())


@dataclass(frozen=True)
class MeasuredPoint:
    """One run of a study: the swept values as written, and its measures in SI units.

    Attributes:
        experiment: name of the experiment, or of the control.
        parameters: values of the swept fields, as the experiment file has them.
        repetition: 1 for the first.
        measures: None where a run has no such number.
        directory: that of the run, below the study's.
        provenance: how to make the same run again: its seed, the version and commit of the code, the kernel and the
            digest of its configuration, and what was varied.
    """

    experiment: str
    parameters: Mapping[str, str]
    repetition: int
    measures: Mapping[str, float | None]
    directory: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def setting(self) -> tuple[object, ...]:
        """What its repetitions have in common."""
        return setting(self.experiment, self.parameters)


@dataclass(frozen=True)
class Results:
    """Measured points of one variant of a study.

    Attributes:
        study: its name.
        variant: of it.
        points: those that were measured.
        skipped: what was not run and why (experiment or point: reason).
        machine: what they were measured with.
        experiments: what was measured: for each experiment the data of its file, as the variant has it.
    """

    study: str
    variant: Variant
    points: tuple[MeasuredPoint, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    experiments: Mapping[str, Any] = field(default_factory=dict)


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
        data: dict[str, Any] = json.loads(beneath.read(path.parent, path.name))
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


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
