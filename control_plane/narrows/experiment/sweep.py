# SPDX-License-Identifier: Apache-2.0
"""The runs that one experiment file asks for: the cartesian product of its sweep, each point ``repeat`` times."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows_formats.swept_values import labels

from narrows.errors import InputError
from narrows.experiment.assignment import assign
from narrows.experiment.loader import read_experiment, validate
from narrows.experiment.model import Experiment, named_groups

# Of one experiment file: a year of runs of five minutes.
MAX_RUNS = 100_000


@dataclass(frozen=True)
class Point:
    """One run: its experiment (without sweep and repeat) and what sets it apart from its siblings.

    ``origin`` is the file, and the point of the sweep, as error messages name it.
    """

    experiment: Experiment
    parameters: dict[str, Any]
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


def make_series(data: dict[str, Any], origin: str) -> Series:
    """All runs of an experiment's data; ``origin`` begins error messages.

    Raises:
        InputError: the experiment or one of its points is not valid.
    """
    experiment = validate(data, origin)
    if experiment.repeat == 1 and not experiment.sweep:
        return Series(experiment, (Point(experiment, {}, 1, "", origin),), origin)
    return Series(experiment, tuple(_points(experiment, data, origin)), origin)


def _points(experiment: Experiment, data: dict[str, Any], origin: str) -> list[Point]:
    groups = [group.name for group in experiment.flows]
    fields = list(experiment.sweep)
    base = {key: value for key, value in data.items() if key not in ("sweep", "repeat")}
    points: list[Point] = []
    runs = math.prod(len(values) for values in experiment.sweep.values()) * experiment.repeat
    if runs > MAX_RUNS:
        raise InputError(f"{origin}: sweep: asks for {runs} runs; allowed: at most {MAX_RUNS}, repetitions included")
    _refuse_repeated(experiment.sweep, origin)
    named = [zip(labels(values), values, strict=True) for values in experiment.sweep.values()]
    for chosen in itertools.product(*named):
        varied = copy.deepcopy(base)
        for field, (_, value) in zip(fields, chosen, strict=True):
            assign(varied, field, value, groups, f"{origin}: sweep.")
        parameters = {field: name for field, (name, _) in zip(fields, chosen, strict=True)}
        if "flows" not in fields:  # else they have their own names, and refer to these
            _rename(varied, groups)
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


def _rename(data: dict[str, Any], groups: list[str]) -> None:
    """Groups at a point of a sweep: one without a name is called after the CCA that it runs there.

    ``groups`` are their names in the file, by which they, and events, refer to them.
    """
    data["flows"] = named_groups(data["flows"])
    now = {name: group.get("name", name) for name, group in zip(groups, data["flows"], strict=True)}
    for referring, fields in ((data["flows"], ("until",)), (data.get("events", ()), ("start", "stop"))):
        for one in referring:
            for field in fields:
                if isinstance(one, dict) and one.get(field) in now:
                    one[field] = now[one[field]]


def _directory(number: int, parameters: dict[str, Any], repetition: int, experiment: Experiment) -> str:
    """``0003-buffer=0.5bdp-r2``: sorts in the order of the runs and can be read."""
    labels = [f"{field.rpartition('.')[2]}={value}" for field, value in parameters.items()]
    if experiment.repeat > 1:
        labels.append(f"r{repetition}")
    return re.sub(r"[^A-Za-z0-9._=-]", "_", "-".join([f"{number:04d}", *labels]))[:120]
