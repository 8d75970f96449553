# SPDX-License-Identifier: Apache-2.0
"""The runs that one experiment file asks for: the cartesian product of its sweep, each point ``repeat`` times."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows_formats.swept_values import labels

from narrows.errors import InputError
from narrows.experiment.assignment import assign, places
from narrows.experiment.loader import read_experiment, validate
from narrows.experiment.model import KINDS, Experiment, group_names, named_groups
from narrows.field_types import groups_in

# Of one experiment file: a year of runs of five minutes.
MAX_RUNS = 100_000


@dataclass(frozen=True)
class Point:
    """One run: its experiment (without sweep and repeat) and what sets it apart from its siblings.

    ``origin`` is the file, and the point of the sweep, as error messages name it.
    """

    experiment: Experiment
    parameters: dict[str, object]
    repetition: int
    directory: str
    origin: str


@dataclass(frozen=True)
class Series:
    """All runs of one experiment file, ``origin``; a single one has the directory ``""``."""

    experiment: Experiment
    points: tuple[Point, ...]
    origin: str

    @property
    def single(self) -> bool:
        """Whether the file asks for just one run."""
        return len(self.points) == 1 and not self.points[0].directory


def load_series(path: Path, settings: Sequence[str] = ()) -> Series:
    """Read an experiment file and check every point of its sweep.

    Args:
        path: the file.
        settings: ``FIELD=VALUE``, which replace those of the file.

    Raises:
        InputError: the file, a setting or one of the points is not valid.
    """
    # What was set is in no line of the file.
    origin = " ".join((str(path), *(f"--set {setting}" for setting in settings)))
    return make_series(read_experiment(path, settings), origin)


def make_series(data: Mapping[str, object], origin: str) -> Series:
    """All runs of an experiment's data; ``origin`` begins error messages.

    Raises:
        InputError: the experiment or one of its points is not valid.
    """
    experiment = validate(data, origin)
    if experiment.repeat == 1 and not experiment.sweep:
        return Series(experiment, (Point(experiment, {}, 1, "", origin),), origin)
    return Series(experiment, tuple(_points(experiment, data, origin)), origin)


def _points(experiment: Experiment, data: Mapping[str, object], origin: str) -> list[Point]:
    groups = [group.name for group in experiment.flows]
    points: list[Point] = []
    runs = math.prod(len(values) for values in experiment.sweep.values()) * experiment.repeat
    if runs > MAX_RUNS:
        raise InputError(f"{origin}: sweep: asks for {runs} runs; allowed: at most {MAX_RUNS}, repetitions included")
    _refuse_repeated(experiment.sweep, origin)
    swept = {
        int(place[1])
        for field in experiment.sweep
        for place in places(field, groups)
        if len(place) == 3 and place[0] == "flows" and place[1].isdigit() and place[2] in KINDS
    }
    names = group_names((groups_in(varied) for _, varied in _variants(experiment.sweep, data, groups, origin)), swept)
    for parameters, varied in _variants(experiment.sweep, data, groups, origin):
        _rename(varied, experiment, names)
        # A point is checked like a file of its own; an error names the point it belongs to.
        label = ", ".join(f"{field}={value}" for field, value in parameters.items())
        where = f"{origin}: sweep at {label}" if label else origin
        # It may be swept, too, and is not checked yet.
        seed = varied.get("seed", experiment.seed)
        for repetition in range(1, experiment.repeat + 1):
            varied["seed"] = seed + repetition - 1 if isinstance(seed, int) else seed
            resolved = validate(varied, where)
            directory = _directory(len(points) + 1, parameters, repetition, experiment)
            points.append(Point(resolved, parameters, repetition, directory, where))
    return points


def _refuse_repeated(sweep: dict[str, list[Any]], origin: str) -> None:
    """Check that no value of a field is there twice: equal runs would count as repetitions that do not vary.

    Raises:
        InputError: one is.
    """
    for field, values in sweep.items():
        often = Counter(json.dumps(value, default=str) if isinstance(value, dict) else str(value) for value in values)
        if repeated := [value for value, count in often.items() if count > 1]:
            raise InputError(f"{origin}: sweep.{field}: has {repeated[0]} more than once; allowed: different values")


def _variants(
    sweep: dict[str, list[Any]], data: Mapping[str, object], groups: list[str], origin: str
) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    """What results call each point's values, by field, and the experiment's data there."""
    base = {key: value for key, value in data.items() if key not in ("sweep", "repeat")}
    named = [zip(labels(values), values, strict=True) for values in sweep.values()]
    for chosen in itertools.product(*named):
        varied = copy.deepcopy(base)
        point = dict(zip(sweep, chosen, strict=True))
        for field in sorted(point, key=_before):
            assign(varied, field, point[field][1], groups, f"{origin}: sweep.")
        yield {field: name for field, (name, _) in point.items()}, varied


def _before(field: str) -> tuple[int, bool]:
    """Orders fields: a whole before what is in it, which it would replace, and a kind before what that kind has."""
    return field.count("."), not field.endswith(".kind")


def _rename(data: dict[str, object], experiment: Experiment, names: dict[int, str]) -> None:
    """Give groups of a point the names that they have at all points, and to what refers to them, too.

    Groups, events and expectations refer to groups by their names in the file; in a sweep over `flows` by those that
    the list at the point gives them.
    """
    flows = groups_in(data)
    now = named_groups(flows, names)
    before = named_groups(flows) if "flows" in experiment.sweep else [{"name": one.name} for one in experiment.flows]
    pairs = [(old["name"], new["name"]) for old, new in zip(before, now, strict=True) if _has_name(old, new)]
    changed = {old: new for old, new in pairs if old != new}
    if flows:
        data["flows"] = now
    given = data.get("events")
    events = given if isinstance(given, list | tuple) else ()
    for referring, fields in ((now, ("until",)), (events, ("start", "stop", "flow"))):
        for one in referring:
            for field in fields:
                if isinstance(one, dict) and one.get(field) in changed:
                    one[field] = changed[one[field]]
    if experiment.expect and "flows" not in experiment.sweep and "expect" not in experiment.sweep:
        data["expect"] = [one.renamed(experiment.results_of(changed)) for one in experiment.expectations]


def _has_name(*groups: Any) -> bool:
    return all(isinstance(group, dict) and "name" in group for group in groups)


def _directory(number: int, parameters: dict[str, object], repetition: int, experiment: Experiment) -> str:
    """``0003-buffer=0.5bdp-r2``: sorts in the order of the runs and can be read."""
    labels = [f"{field.rpartition('.')[2]}={value}" for field, value in parameters.items()]
    if experiment.repeat > 1:
        labels.append(f"r{repetition}")
    return re.sub(r"[^A-Za-z0-9._=-]", "_", "-".join([f"{number:04d}", *labels]))[:120]
