# SPDX-License-Identifier: Apache-2.0
"""All runs of one experiment file, one after the other: a single run, or a directory of runs for a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from narrows import __version__
from narrows.experiment.model import Experiment
from narrows.experiment.sweep import Point, Series
from narrows.run import sweep_results
from narrows.run.progress import Page
from narrows.run.results import check_free, make_directory
from narrows.run.runner import Outcome, check, execute
from narrows.targets.base import Target


@dataclass(frozen=True)
class PointOutcome:
    """A point of the sweep and what became of its run."""

    point: Point
    outcome: Outcome


def run_series(
    series: Series,
    make_target: Callable[[Experiment], Target],
    directory: Path,
    console: Console,
    page: Page | None = None,
) -> Iterator[PointOutcome]:
    """Run every point and tell each outcome as it comes; a run that is not complete ends the series.

    Args:
        series: the checked experiment file.
        make_target: gives a fresh target for a run.
        directory: of the single run, or of the series; must not exist.
        console: where progress goes.
        page: where it is shown as well.

    Raises:
        InputError: a point cannot run here as written; nothing was created, for no point.
        RunError: a run failed before any traffic flowed.
        Interrupted: a run was stopped before any traffic flowed.
    """
    check_free(directory)
    plans = [check(point.experiment, make_target(point.experiment), point.origin) for point in series.points]
    if not series.single:
        make_directory(directory)
    done: list[PointOutcome] = []
    for number, (point, plan) in enumerate(zip(series.points, plans, strict=True), 1):
        title = series.experiment.name if series.single else f"[{number}/{len(series.points)}] {point.directory}"
        target = make_target(point.experiment)
        outcome = execute(point.experiment, plan, target, directory / point.directory, console, title, page)
        done.append(PointOutcome(point, outcome))
        if not series.single:
            sweep_results.write_manifest(directory, _manifest(series, done))
            sweep_results.write_results(directory)
        yield done[-1]
        if outcome.status != "complete":
            return


def _manifest(series: Series, done: list[PointOutcome]) -> dict[str, Any]:
    """What the directory holds: one entry a finished run, with the values that the sweep gave it."""
    runs: list[dict[str, Any]] = [
        {
            "directory": item.point.directory,
            "parameters": item.point.parameters,
            "repetition": item.point.repetition,
            "status": item.outcome.status,
        }
        for item in done
    ]
    return {
        "narrows_version": __version__,
        "name": series.experiment.name,
        "sweep": series.experiment.sweep,
        "repeat": series.experiment.repeat,
        "points": len(series.points),
        "runs": runs,
    }
