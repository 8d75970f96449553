# SPDX-License-Identifier: Apache-2.0
"""The experiment file that makes a sweep again, from what its directory holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from narrows.batch.merge import experiment_of
from narrows.batch.sweep_results import is_sweep, read_manifest
from narrows.errors import InputError
from narrows.experiment.sweep import make_series


def sweep_experiment(directory: Path, runs: Sequence[Path]) -> dict[str, object] | None:
    """The data of one experiment file whose points are these runs.

    Args:
        directory: of the sweep.
        runs: the directories of its runs.

    Returns:
        None if the directory holds no sweep, or a run that is not a point of such a file, as one of another seed.

    Raises:
        InputError: sweep.json is not what this version reads.
    """
    if not is_sweep(directory):
        return None
    record = read_manifest(directory)
    # The seed of a first repetition is the file's.
    first = next((directory / run["directory"] for run in record["runs"] if run["repetition"] == 1), None)
    base = None if first is None else experiment_of(first)
    if base is None:
        return None
    data = {**base, "name": record["name"], "sweep": record["sweep"], "repeat": record.get("repeat", 1)}
    try:
        points = {point.directory: point.experiment.as_stored() for point in make_series(data, str(directory)).points}
    except InputError:
        return None
    return data if all(points.get(run.name) == experiment_of(run) for run in runs) else None
