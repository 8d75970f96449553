# SPDX-License-Identifier: Apache-2.0
"""All runs of one experiment file, one after the other: a single run, or a directory of runs for a sweep."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from narrows_formats.sweep_record import SweepRecord, SweepRun
from narrows_formats.units import duration_in_words
from rich.console import Console

from narrows import __version__
from narrows.experiment.model import Experiment
from narrows.experiment.sweep import Point, Series
from narrows.run.environment import THIS_MACHINE, Environment
from narrows.run.progress import Page
from narrows.run.results import check_free, make_directory
from narrows.run.runner import CheckedRun, Outcome, check, execute
from narrows.run.side_by_side import Wanted, execute_side_by_side
from narrows.run.time_left import TimeLeft
from narrows.targets.base import Target


@dataclass(frozen=True)
class PointOutcome:
    """A point of the sweep, what became of its run, and how many seconds it took."""

    point: Point
    outcome: Outcome
    took_s: float


def run_series(
    series: Series,
    make_target: Callable[[Experiment], Target],
    directory: Path,
    console: Console,
    page: Page | None = None,
    environment: Environment = THIS_MACHINE,
    jobs: int | None = None,
) -> Iterator[PointOutcome]:
    """Run every point and tell each outcome as it comes; a run that is not complete ends the series.

    The table and the page of a sweep are made when it ends, whether it is complete or not.

    Args:
        series: the checked experiment file.
        make_target: gives a fresh target for a run.
        directory: of the single run, or of the series; must not exist.
        console: where progress goes.
        page: where it is shown as well.
        environment: where the runs are measured.
        jobs: how many runs may be under way at once; as many as the environment takes if None.

    Raises:
        InputError: a point cannot run here as written; nothing was created, for no point.
        RunError: a run failed before any traffic flowed.
        Interrupted: a run was stopped before any traffic flowed.
    """
    check_free(directory)
    runs = [
        check(point.experiment, make_target(point.experiment), point.origin, environment) for point in series.points
    ]
    if series.single:
        began = time.monotonic()
        outcome = execute(runs[0], directory, console, series.experiment.name, page)
        yield PointOutcome(series.points[0], outcome, time.monotonic() - began)
        return
    # It reads runs: a single one says something before that is imported.
    from narrows.run import sweep_results

    make_directory(directory)
    at_once = environment.at_once((run.plan for run in runs), jobs)
    expected = {
        point.directory: environment.expected_s(run.plan) for point, run in zip(series.points, runs, strict=True)
    }
    left = TimeLeft(list(expected.values()), at_once)
    several = f", {at_once} at once" if at_once > 1 else ""
    console.print(f"{len(runs)} runs{several}, about {duration_in_words(left.seconds)}", highlight=False)
    done: list[PointOutcome] = []
    try:
        # However the series ends: runs side by side are told to end at once.
        with closing(_outcomes(series, runs, directory, console, page, at_once)) as outcomes:
            for item in outcomes:
                done.append(item)
                sweep_results.write_manifest(directory, _manifest(series, done))
                yield item
                if item.outcome.status != "complete":
                    return
                left.done(expected[item.point.directory], item.took_s)
                if len(done) < len(runs):
                    rest = f"about {duration_in_words(left.seconds)} left"
                    console.print(f"{len(done)} of {len(runs)} runs done, {rest}", highlight=False)
    finally:
        # What is complete of it can be looked at.
        if done:
            sweep_results.write_results(directory)


def _outcomes(
    series: Series,
    runs: list[CheckedRun],
    directory: Path,
    console: Console,
    page: Page | None,
    at_once: int,
) -> Generator[PointOutcome, None, None]:
    """Every point's, as it comes: in the order of the file where there is one run at a time.

    Raises:
        RunError: a run failed before any traffic flowed.
        Interrupted: a run was stopped before any traffic flowed.
    """
    wanted = [
        Wanted(run, directory / point.directory, f"[{number}/{len(runs)}] {point.directory}")
        for number, (point, run) in enumerate(zip(series.points, runs, strict=True), 1)
    ]
    if at_once == 1:
        for point, one in zip(series.points, wanted, strict=True):
            began = time.monotonic()
            outcome = execute(one.run, one.directory, console, one.title, page)
            yield PointOutcome(point, outcome, time.monotonic() - began)
        return
    with closing(execute_side_by_side(wanted, at_once, console)) as outcomes:
        for number, ended, took_s in outcomes:
            if not isinstance(ended, Outcome):
                raise ended
            yield PointOutcome(series.points[number], ended, took_s)


def _manifest(series: Series, done: list[PointOutcome]) -> SweepRecord:
    """What the directory holds: one entry a finished run, with the values that the sweep gave it."""
    runs: list[SweepRun] = [
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
