# SPDX-License-Identifier: Apache-2.0
"""Runs of several machines merged into one result; those that do not belong to it are refused by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows_formats import beneath, bounded_json, bounded_yaml, files
from narrows_formats.flat import flat, shown
from narrows_formats.provenance import difference

from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.sweep import Point

# Each repetition has its own.
OF_A_REPETITION = frozenset({"seed"})


def read_record(directory: Path) -> dict[str, object]:
    """run.json as it is; empty if it cannot be read."""
    try:
        found = bounded_json.parse(beneath.read(directory, files.RUN))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def experiment_of(directory: Path) -> dict[str, object] | None:
    """The experiment of a run, with defaults for fields that are newer than it; None if it is no longer valid."""
    path = directory / files.EXPERIMENT
    try:
        return validate(bounded_yaml.parse(beneath.read(directory, files.EXPERIMENT)), str(path)).as_stored()
    except (InputError, OSError, ValueError):
        return None


def find_runs(place: Path, points: Mapping[str, Point]) -> dict[str, Path]:
    """Complete runs of points in another directory, whatever their names are there.

    Of a sweep with other values or more repetitions the rest is left out.

    Raises:
        InputError: it holds no complete run of a point, or runs that differ in more than what is swept.
    """
    runs = [path.parent for path in sorted(place.glob(f"[!.]*/{files.RUN}"))]
    theirs = {run: flat(experiment_of(run)) for run in runs if read_record(run).get("status") == "complete"}
    ours = {name: flat(point.experiment.as_stored()) for name, point in points.items()}
    varied = OF_A_REPETITION | _varied(theirs.values()) | _varied(ours.values())
    wanted = next(iter(ours.values()), {})
    for run, settings in theirs.items():
        if values := differing_settings(settings, wanted, varied):
            raise InputError(f"--add {place}: {run.name} was run with {values}; allowed: the settings of this series")
    by_settings = {json.dumps(settings, sort_keys=True): run for run, settings in theirs.items()}
    keys = {name: json.dumps(settings, sort_keys=True) for name, settings in ours.items()}
    found = {name: by_settings[key] for name, key in keys.items() if key in by_settings}
    if not found:
        allowed = "allowed: the directory of a sweep that has"
        raise InputError(f"--add {place}: has no complete run of this series with the same settings; {allowed}")
    return found


def differing_settings(theirs: Mapping[str, Any], ours: Mapping[str, Any], varied: Collection[str] = ()) -> str:
    """In which flat settings two runs differ, in words; those that are ``varied`` may."""
    other = [name for name in dict.fromkeys([*theirs, *ours]) if theirs.get(name) != ours.get(name)]
    return "; ".join(f"{name} {_said(theirs, name)}, not {_said(ours, name)}" for name in other if name not in varied)


def refuse_mismatch(runs: Sequence[tuple[str, Mapping[str, str]]], references: Iterable[Mapping[str, str]]) -> None:
    """Check that runs were made by the same code, kernel and programs as each other and as the references.

    Args:
        runs: what begins a message about each, and what it was made by.
        references: what others were made by, or will be.

    Raises:
        InputError: one was not.
    """
    distinct = {json.dumps(made, sort_keys=True): made for made in (*references, *(made for _, made in runs[:1]))}
    for reference in distinct.values():
        for where, made in runs:
            if other := difference(made, reference):
                raise InputError(f"{where} {other}; allowed: runs made by the same, or any with --allow-mismatch")


def _varied(settings: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of what is not the same in all."""
    settings = list(settings)
    names = {name for one in settings for name in one}
    return {name for name in names if len({json.dumps(one.get(name)) for one in settings}) > 1}


def _said(settings: Mapping[str, Any], name: str) -> str:
    return "not set" if settings.get(name) is None else shown(settings[name])
