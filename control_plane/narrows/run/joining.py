# SPDX-License-Identifier: Apache-2.0
"""Joins runs of several machines into one result, and refuses by name those that may not be joined."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from narrows_formats import beneath, files
from narrows_formats.flat import flat, shown

from narrows import __version__
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.sweep import Point
from narrows.paths import commit
from narrows.run.environment import Environment

# What made a run, by the names that provenance has, and as people call it.
MADE_BY = {
    "version": "Narrows", "commit": "commit", "kernel": "kernel", "kernel_config_sha256": "kernel configuration",
}  # fmt: skip
UNKNOWN = "that is not recorded"
# Of a digest: enough to tell two apart.
DIGITS = 12
# Each repetition has its own.
OF_A_REPETITION = frozenset({"seed"})


def made_by(record: Mapping[str, Any]) -> dict[str, str]:
    """What a run was made by, from its run.json; what is not recorded is left out."""
    guest = record.get("virtual_time", {})
    found = {
        "version": record.get("narrows_version"),
        "commit": record.get("commit"),
        "kernel": guest.get("release") or record.get("host", {}).get("kernel"),
        "kernel_config_sha256": guest.get("config_sha256"),
    }
    return {name: value for name, value in found.items() if value is not None}


def made_here(environment: Environment) -> dict[str, str]:
    """What a run that is made now is made by."""
    found = {"version": __version__, "commit": commit(), **environment.made_with}
    return {name: value for name, value in found.items() if value is not None}


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """How the code or kernels of two runs differ, in words; empty if they do not."""
    for name, title in MADE_BY.items():
        if theirs.get(name) != ours.get(name):
            this, that = (_short(str(one[name])) if one.get(name) else UNKNOWN for one in (theirs, ours))
            return f"was made by {title} {this}, not {that}"
    return ""


def _short(value: str) -> str:
    """A value with the beginning of its digest, and what follows that."""
    digest, *rest = value.split("-", 1)
    return "-".join((digest[:DIGITS], *rest))


def read_record(directory: Path) -> dict[str, Any]:
    """run.json as it is; empty if it cannot be read."""
    try:
        found = json.loads(beneath.read(directory, files.RUN))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def experiment_of(directory: Path) -> dict[str, Any] | None:
    """The experiment of a run, with defaults for fields that are newer than it; None if it is no longer valid."""
    path = directory / files.EXPERIMENT
    try:
        return validate(yaml.safe_load(beneath.read(directory, files.EXPERIMENT)), str(path)).as_yaml_data()
    except (InputError, OSError, ValueError, yaml.YAMLError):
        return None


def find_runs(place: Path, points: Mapping[str, Point]) -> dict[str, Path]:
    """Complete runs of points in another directory, whatever their names are there.

    Of a sweep with other values or more repetitions the rest is left out.

    Raises:
        InputError: it holds no complete run of a point, or runs that differ in more than what is swept.
    """
    runs = [path.parent for path in sorted(place.glob(f"[!.]*/{files.RUN}"))]
    theirs = {run: flat(experiment_of(run)) for run in runs if read_record(run).get("status") == "complete"}
    ours = {name: flat(point.experiment.as_yaml_data()) for name, point in points.items()}
    varied = OF_A_REPETITION | _varied(theirs.values()) | _varied(ours.values())
    wanted = next(iter(ours.values()), {})
    for run, settings in theirs.items():
        if other := [name for name in dict.fromkeys([*settings, *wanted]) if name not in varied
                     and settings.get(name) != wanted.get(name)]:  # fmt: skip
            values = "; ".join(f"{name} {_said(settings, name)}, not {_said(wanted, name)}" for name in other)
            raise InputError(f"--add {place}: {run.name} was run with {values}; allowed: the settings of this series")
    by_settings = {json.dumps(settings, sort_keys=True): run for run, settings in theirs.items()}
    keys = {name: json.dumps(settings, sort_keys=True) for name, settings in ours.items()}
    found = {name: by_settings[key] for name, key in keys.items() if key in by_settings}
    if not found:
        allowed = "allowed: the directory of a sweep that has"
        raise InputError(f"--add {place}: has no complete run of this series with the same settings; {allowed}")
    return found


def refuse_mixed(runs: Sequence[tuple[str, Mapping[str, Any]]], references: Iterable[Mapping[str, Any]]) -> None:
    """Check that runs were made by the same code on the same kernel as each other and as the references.

    Args:
        runs: what begins a message about each, and what it was made by.
        references: what others were made by, or will be.

    Raises:
        InputError: one was not.
    """
    for reference in [*references, *(made for _, made in runs[:1])]:
        for where, made in runs:
            if other := difference(made, reference):
                raise InputError(f"{where} {other}; allowed: runs made by the same, or any with --mixed")


def _varied(settings: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of what is not the same in all."""
    settings = list(settings)
    names = {name for one in settings for name in one}
    return {name for name in names if len({json.dumps(one.get(name)) for one in settings}) > 1}


def _said(settings: Mapping[str, Any], name: str) -> str:
    return "not set" if settings.get(name) is None else shown(settings[name])
