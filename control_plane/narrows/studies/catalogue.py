# SPDX-License-Identifier: Apache-2.0
"""The experiments of a study: one file each, and a quick variant that changes some of their fields."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from narrows_analysis.studies.catalogue import STUDIES
from narrows_analysis.studies.model import Study
from narrows_formats.suggestion import suggestion

from narrows.errors import InputError
from narrows.experiment.loader import read_experiment, read_mapping, validate
from narrows.experiment.plan import make_plan
from narrows.experiment.sweep import Point, Series, assign, make_series
from narrows.paths import data as package_data
from narrows.run.time_left import traffic_time_s

EXPERIMENTS = package_data("experiments")
QUICK = "quick.yaml"
CONTROLS = "controls.yaml"
WHOLE = ("repeat", "sweep")  # fields of an experiment that a variant replaces as a whole


@dataclass(frozen=True)
class StudyPoint:
    """One run of a study: of the experiment, or control, of that name.

    ``parameters`` has what the full variant sweeps, as text, whether this variant sweeps it or not.
    """

    experiment: str
    point: Point
    parameters: dict[str, str]

    @property
    def directory(self) -> Path:
        """Where its results go, below the study's directory."""
        return Path(self.experiment) / (self.point.directory or "run")


def find_study(name: str) -> Study:
    """A study by its name.

    Raises:
        InputError: there is none.
    """
    if name not in STUDIES:
        raise InputError(f"{name}: no such study{suggestion(name, STUDIES)}")
    return STUDIES[name]


def load_experiment(study: str, experiment: str, quick: bool, root: Path = EXPERIMENTS) -> Series:
    """All runs of one experiment of a study.

    Raises:
        InputError: a file is missing, or something in it is not valid.
    """
    path = root / study / f"{experiment}.yaml"
    data = read_experiment(path)
    return make_series(*_changed(data, root / study / QUICK, experiment)) if quick else make_series(data, str(path))


def _changed(data: dict[str, Any], overlay: Path, name: str) -> tuple[dict[str, Any], str]:
    """Data with the changes that a file has by a name, and where it now comes from."""
    changes = read_mapping(overlay, "changes to experiments of a study; allowed: a mapping of names to changes")
    origin = f"{overlay}: {name}"
    return change(data, changes.get(name, {}), origin), origin


def change(data: dict[str, Any], changes: dict[str, Any], origin: str) -> dict[str, Any]:
    """An experiment's data with dotted fields set to other values; ``sweep`` and ``repeat`` are replaced whole.

    Raises:
        InputError: there is no such field.
    """
    changed = copy.deepcopy(data)
    groups = [group.name for group in validate(data, origin).flows]
    for group, name in zip(changed["flows"], groups, strict=True):
        group["name"] = name
    for field, value in changes.items():
        if field in WHOLE:
            changed[field] = value
        else:
            assign(changed, field, value, groups, origin)
    return changed


def study_points(study: Study, quick: bool, figure: str | None = None, root: Path = EXPERIMENTS) -> list[StudyPoint]:
    """Every run of a study, or of one of its figures, in the order of the figures.

    Raises:
        InputError: the study has no such figure, or an experiment is not valid.
    """
    experiments = study.experiments
    if figure is not None:
        ids = [one.id for one in study.figures]
        if figure not in ids:
            raise InputError(f"--figure {figure}: {study.name} has no such figure{suggestion(figure, ids)}")
        experiments = tuple(name for one in study.figures if one.id == figure for name in one.experiments)
    return [
        point
        for experiment in experiments
        for point in _points(experiment, load_experiment(study.name, experiment, quick, root), experiment, study, root)
    ]


def control_points(study: Study, root: Path = EXPERIMENTS) -> list[StudyPoint]:
    """Every run of a study's controls: quick points with the changes of ``controls.yaml``.

    Raises:
        InputError: the study has no controls, or an experiment is not valid.
    """
    overlay = root / study.name / CONTROLS
    controls = [control for control in study.controls if not control.through_tbf]
    if not controls:
        raise InputError(f"--controls: {study.name} has none; allowed: a study with experiments in {CONTROLS}")
    points = []
    for control in controls:
        data = read_experiment(root / study.name / f"{control.experiment}.yaml")
        quick = _changed(data, root / study.name / QUICK, control.experiment)[0]
        points += _points(
            control.id, make_series(*_changed(quick, overlay, control.id)), control.experiment, study, root
        )
    return points


def _points(name: str, series: Series, experiment: str, study: Study, root: Path) -> list[StudyPoint]:
    """The runs of a series, with the parameters that the full variant of an experiment sweeps."""
    swept = list(read_experiment(root / study.name / f"{experiment}.yaml").get("sweep", {}))
    points = []
    for point in series.points:
        written = point.experiment.as_yaml_data()
        parameters = {field: str(point.parameters.get(field, _value(written, field))) for field in swept}
        points.append(StudyPoint(name, point, parameters))
    return points


def _value(data: dict[str, Any], field: str) -> Any:
    """The value at a dotted field of an experiment's data; of the first group for ``flows.*``."""
    value: Any = data
    for part in field.split("."):
        if isinstance(value, list):
            value = value[0] if part == "*" else next(group for group in value if group["name"] == part)
        else:
            value = value[part]
    return value


@cache
def published(name: str) -> Mapping[str, float]:
    """Size of a study's full variant: ``points`` (runs) and ``traffic_s``; of a study without files nothing."""
    if name not in STUDIES:
        return {}
    points = study_points(STUDIES[name], quick=False)
    return {"points": len(points), "traffic_s": sum(traffic_time_s(make_plan(one.point.experiment)) for one in points)}
