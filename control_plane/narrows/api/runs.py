# SPDX-License-Identifier: Apache-2.0
"""Experiments from Python, and whole runs of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from narrows.api.child import Child
from narrows.errors import InputError
from narrows.experiment.loader import read_experiment, validate
from narrows.experiment.model import Experiment
from narrows.run.results import default_directory

# A file, an experiment as a file has it, or one that was checked before.
Source = Path | str | Mapping[str, object] | Experiment
ORIGIN = "experiment"


def experiment(source: Source) -> Experiment:
    """An experiment, checked.

    Args:
        source: a file, or its contents as a mapping: `{"name": ..., "bottleneck": {...}, "flows": [...]}`.

    Raises:
        InputError: it is not valid; the message names each field and what is allowed.
    """
    if isinstance(source, Experiment):
        return source
    if isinstance(source, Mapping):
        return validate(source, ORIGIN)
    return validate(read_experiment(Path(source)), str(source))


def run(
    source: Source,
    *,
    virtual: bool = False,
    kernel: str | None = None,
    out: Path | str | None = None,
    jobs: int | None = None,
) -> Any:
    """Make a run, or all runs of a sweep or of repetitions, and wait for their end.

    Args:
        source: the experiment; see `experiment`.
        virtual: in virtual time: exact at any rate, and without root.
        kernel: of virtual time: a name of ``narrows kernel list``, or a path.
        out: directory of the results; `results/NAME-TIME` by default. It must not exist, unless it is of the same
            sweep, which is then continued.
        jobs: how many runs of a sweep may be under way at once; as many as this machine has room for by default.

    Returns:
        What `narrows_analysis.load` gives of it: a `LoadedRun`, or a `LoadedSweep`.

    Raises:
        InputError: the experiment, or an option, is not valid, or this machine lacks something.
        RunError: a run is not complete; the message says why, and where its results are.
    """
    one = experiment(source)
    return Child(one, virtual, kernel, directory_of(one, out), jobs=jobs).result()


def single(one: Experiment) -> Experiment:
    """Check that an experiment is a single run.

    Raises:
        InputError: it has a sweep, or repetitions.
    """
    if one.sweep or one.repeat != 1:
        raise InputError(f"{ORIGIN}: has sweep or repeat; allowed: one run, and `narrows run` for several")
    return one


def directory_of(one: Experiment, out: Path | str | None) -> Path:
    """Where results go."""
    return default_directory(one.name) if out is None else Path(out)
