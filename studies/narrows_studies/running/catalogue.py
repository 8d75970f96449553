# SPDX-License-Identifier: Apache-2.0
"""The experiments of a study: one file each, and a quick variant that changes some of their fields."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from narrows.errors import InputError
from narrows.experiment.assignment import WHOLE, assign
from narrows.experiment.loader import read_experiment, read_mapping, validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import Point, make_series
from narrows.field_types import groups_in
from narrows_formats.plugins import PluginError, load
from narrows_formats.suggestion import suggestion

from narrows_studies.model import Study
from narrows_studies.names import OFFERS
from narrows_studies.running.nuisances import CARDS, Card, seed_of, varied

QUICK = "quick.yaml"
CONTROLS = "controls.yaml"


@dataclass(frozen=True)
class StudyPoint:
    """One run of a study: of the experiment, or control, of that name.

    ``parameters`` has, as text, the values of all fields that the full variant sweeps, even if this variant does not;
    ``written`` is the data of the experiment's file, with this variant's changes.
    """

    experiment: str
    point: Point
    parameters: dict[str, str]
    written: Mapping[str, Any]

    @property
    def directory(self) -> Path:
        """Where its results go, below the study's directory."""
        return Path(self.experiment) / (self.point.directory or "run")


def find_study(name: str) -> Study:
    """A study by its name.

    Raises:
        InputError: there is none, or it cannot be loaded.
    """
    if name not in OFFERS:
        raise InputError(f"{name}: no such study{suggestion(name, OFFERS)}")
    try:
        return cast("Study", load(OFFERS[name]))
    except PluginError as error:
        raise InputError(f"study {error}") from error


def experiments_of(study: Study) -> Path:
    """The directory with a study's folder of experiments, which is beside its module."""
    return Path(import_module(OFFERS[study.name][0].module).__file__ or "").parent / "experiments"


def _experiment(study: str, experiment: str, quick: bool, root: Path) -> tuple[dict[str, object], str]:
    """The data of one experiment of a study, and where it is from.

    Raises:
        InputError: a file is missing, or something in it is not valid.
    """
    path = root / study / f"{experiment}.yaml"
    data = read_experiment(path)
    return _changed(data, root / study / QUICK, experiment) if quick else (data, str(path))


def _changed(data: dict[str, object], overlay: Path, name: str) -> tuple[dict[str, object], str]:
    """Data with the changes that a file has under a name, and where it is from now."""
    changes = read_mapping(overlay, "changes to experiments of a study; allowed: a mapping of names to changes")
    origin = f"{overlay}: {name}"
    mine = changes.get(name, {})
    if not isinstance(mine, dict):
        raise InputError(f"{origin}: is not a mapping; allowed: fields and their values")
    return change(data, mine, origin), origin


def change(data: dict[str, object], changes: dict[str, object], origin: str) -> dict[str, object]:
    """An experiment's data with dotted fields set to other values; ``sweep`` and ``repeat`` are replaced whole.

    Raises:
        InputError: there is no such field.
    """
    changed = copy.deepcopy(data)
    groups = [group.name for group in validate(data, origin).flows]
    for group, name in zip(groups_in(changed), groups, strict=True):
        group["name"] = name
    for field, value in changes.items():
        if field in WHOLE:
            changed[field] = value
        else:
            assign(changed, field, value, groups, f"{origin}: ")
    return changed


def study_points(
    study: Study,
    quick: bool,
    figure: str | None = None,
    root: Path | None = None,
    cards: Collection[Card] = CARDS,
    repetitions: int = 1,
) -> list[StudyPoint]:
    """Every run of a study, or of one of its figures: each point once in the order of the figures, then all again.

    So an unfinished study has all of its figures, from fewer repetitions.

    Args:
        study: whose runs.
        quick: whether those of its quick variant.
        figure: one of its figures.
        root: directory of the experiments of all studies.
        cards: whether the hosts' cards vary from run to run, which is not possible everywhere.
        repetitions: of each point, where its experiment asks for fewer.

    Raises:
        InputError: the study has no such figure, or an experiment is not valid.
    """
    root = root or experiments_of(study)
    experiments = study.experiments
    if figure is not None:
        ids = [one.id for one in study.figures]
        if figure not in ids:
            raise InputError(f"--figure {figure}: {study.name} has no such figure{suggestion(figure, ids)}")
        experiments = tuple(name for one in study.figures if one.id == figure for name in one.experiments)
    points = [
        point
        for experiment in experiments
        for point in _points(
            study, experiment, *_experiment(study.name, experiment, quick, root), root, cards, repetitions
        )
    ]
    return sorted(points, key=lambda point: point.point.repetition)


def select(points: Sequence[StudyPoint], only: Sequence[str] = (), repetitions: int | None = None) -> list[StudyPoint]:
    """Some of a study's runs.

    Args:
        points: all of them.
        only: `FIELD=VALUE`, with swept fields and their values; several values of one field are alternatives, and
            conditions on several fields must all be met.
        repetitions: of each point; None for as many as its experiment asks for.

    Raises:
        InputError: no point has such a field or value, or none has all of them.
    """
    wanted: dict[str, list[str]] = {}
    for condition in only:
        field, _, value = condition.partition("=")
        values = list(dict.fromkeys(point.parameters[field] for point in points if field in point.parameters))
        if not values:
            known = dict.fromkeys(name for point in points for name in point.parameters)
            raise InputError(f"--only {condition}: no point has a field '{field}'{suggestion(field, known)}")
        if value not in values:
            raise InputError(f"--only {condition}: no point has that value; allowed: {', '.join(values)}")
        wanted.setdefault(field, []).append(value)
    chosen = [
        point
        for point in points
        if all(point.parameters.get(field) in values for field, values in wanted.items())
        and point.point.repetition <= (repetitions or point.written.get("repeat", 1))
    ]
    if not chosen:
        raise InputError(
            f"--only {' --only '.join(only)}: no point meets all of these; allowed: conditions that one does"
        )
    return chosen


def control_points(
    study: Study, root: Path | None = None, cards: Collection[Card] = CARDS, repetitions: int = 1
) -> list[StudyPoint]:
    """Every run of a study's controls: quick points with the changes of ``controls.yaml``; else as `study_points`.

    Raises:
        InputError: the study has no controls, or an experiment is not valid.
    """
    root = root or experiments_of(study)
    overlay = root / study.name / CONTROLS
    controls = [control for control in study.controls if control.link is None]
    if not controls:
        raise InputError(f"--controls: {study.name} has none; allowed: a study with experiments in {CONTROLS}")
    points = []
    for control in controls:
        quick, _ = _experiment(study.name, control.experiment, True, root)
        changed = _changed(quick, overlay, control.id)
        quick_points = _points(study, control.id, *changed, root, cards, repetitions)
        points += [_with_algorithms(point, control.algorithms) for point in quick_points]
    return points


def _with_algorithms(study_point: StudyPoint, algorithms: Mapping[str, str]) -> StudyPoint:
    """The run with other algorithms in place of some, and the parameters of the study."""
    experiment = study_point.point.experiment
    groups = tuple(
        group.model_copy(update={"cca": algorithms.get(group.cca or "", group.cca)}) for group in experiment.flows
    )
    replaced = experiment.model_copy(update={"flows": groups})
    return replace(study_point, point=replace(study_point.point, experiment=replaced))


def _points(
    study: Study,
    name: str,
    data: dict[str, object],
    origin: str,
    root: Path,
    cards: Collection[Card],
    repetitions: int = 1,
) -> list[StudyPoint]:
    """The runs of an experiment's data, with their values of the fields that its full variant sweeps."""
    of = next((control.experiment for control in study.controls if control.id == name), name)
    swept = _swept(study.name, of, root)
    points = []
    for point in _repeated(make_series(data, origin).points, repetitions):
        written = point.experiment.as_yaml_data()
        parameters = {field: str(point.parameters.get(field, _value(written, field))) for field in swept}
        seed = seed_of(f"{study.name}/{name}", parameters, point.repetition)
        points.append(
            StudyPoint(name, replace(point, experiment=varied(point.experiment, seed, cards)), parameters, data)
        )
    return points


def _repeated(points: Sequence[Point], repetitions: int) -> list[Point]:
    """The points, and further repetitions of each; their directories do not depend on how many there are."""
    first = [point for point in points if point.repetition == 1]
    least = max(point.repetition for point in points) + 1
    return [
        *points,
        *(
            replace(point, repetition=number, directory=f"{(point.directory or 'run').removesuffix('-r1')}-r{number}")
            for number in range(least, repetitions + 1)
            for point in first
        ),
    ]


def _swept(study: str, experiment: str, root: Path) -> list[str]:
    """The fields that the full variant of an experiment sweeps."""
    swept = read_experiment(root / study / f"{experiment}.yaml").get("sweep")
    return list(swept) if isinstance(swept, dict) else []


def _value(data: dict[str, object], field: str) -> Any:
    """The value at a dotted field of an experiment's data; of the first group for ``flows.*``."""
    value: Any = data
    for part in field.split("."):
        if isinstance(value, list):
            value = value[0] if part == "*" else next(group for group in value if group["name"] == part)
        else:
            value = value[part]
    return value


@cache
def published(name: str) -> Mapping[Path, Plan]:
    """The plan of every run of a study's full variant, by its directory; empty for a study without files."""
    if name not in OFFERS:
        return {}
    return {one.directory: make_plan(one.point.experiment) for one in study_points(find_study(name), quick=False)}
