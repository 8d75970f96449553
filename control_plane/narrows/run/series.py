# SPDX-License-Identifier: Apache-2.0
"""All runs of one experiment file: a single run, or a directory of runs for a sweep, continued if it exists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from narrows_formats import beneath, files
from narrows_formats.made_by import difference, made_by
from narrows_formats.sweep_record import SweepRecord, SweepRun
from narrows_formats.units import duration_in_words
from rich.console import Console

from narrows import __version__
from narrows.errors import InputError, RunError
from narrows.experiment.lines import with_line
from narrows.experiment.model import Experiment
from narrows.experiment.sweep import Point, Series
from narrows.experiment.without_effect import without_effect
from narrows.run.cluster import Cluster, worker_options
from narrows.run.environment import THIS_MACHINE, Environment
from narrows.run.ingredients import made_for, refuse_changed
from narrows.run.joining import find_runs, read_record, refuse_mixed
from narrows.run.progress import Page
from narrows.run.results import check_free, replace_directory
from narrows.run.runner import Outcome, check
from narrows.run.schedule import Ended, Schedule, ScheduledRun
from narrows.run.time_left import TimeLeft
from narrows.targets.base import Target


@dataclass(frozen=True)
class Way:
    """How the runs of a series are made: ``target`` as ``--target`` names it, and where they are measured."""

    target: str = "soft"
    environment: Environment = THIS_MACHINE

    def refuse_other(self, run: Mapping[str, Any], ours: Target, where: str) -> None:
        """Check that a run was made in the same way, by its run.json, and on a switch as ``ours``.

        Raises:
            InputError: it was not; ``where`` begins the message.
        """
        target = str(run.get("target_profile", {}).get("name", ""))
        kernel = str(run.get("virtual_time", {}).get("kernel", ""))
        if target != ours.profile.name or kernel != self.environment.kernel:
            virtual = f" --virtual --kernel {kernel}" if kernel else ""
            raise InputError(f"{where} was run with --target {target}{virtual}; allowed: runs made as these are to be")


def run_series(
    series: Series,
    make_target: Callable[[Experiment], Target],
    directory: Path,
    console: Console,
    page: Page | None = None,
    way: Way = Way(),
    jobs: int | None = None,
    cluster: Cluster | None = None,
    added: Sequence[Path] = (),
    mixed: bool = False,
    goes_on: bool = False,
) -> Iterator[Outcome]:
    """Run every point that is not complete in the directory, each once before any twice, and give each outcome.

    A run that is not complete ends the series, unless it goes on. The table and the page of a sweep are made when it
    ends, whether it is complete or not.

    Args:
        series: the checked experiment file.
        make_target: gives a fresh target for a run.
        directory: of the single run, which must not exist, or of the series.
        console: where progress goes.
        page: where it is shown as well.
        way: how runs are made.
        jobs: how many runs may be under way at once; as many as the environment takes if None.
        cluster: whose workers make the runs, instead of this machine.
        added: directories of the same series from other machines, whose complete runs are taken in.
        mixed: take them in whatever code and kernel they were made by.
        goes_on: whether a failed run is only noted.

    Raises:
        InputError: a point cannot run here as written, or a directory holds something else; nothing was changed.
        RunError: a run failed before any traffic flowed, or the directory is another process's.
        Interrupted: a run was stopped before any traffic flowed.
    """
    if series.single:
        if added:
            raise InputError(f"--add {added[0]}: {series.points[0].origin} asks for one run; allowed: with several")
        check_free(directory)
        tasks = [_task(series.points[0], make_target, way)]
        _note(series, tasks, console)
        with closing(Schedule(directory, console, page, cluster).run(tasks)) as ends:
            yield from (_outcome(ended) for ended in ends)
        return
    refuse_others(series, directory)
    # It reads runs: a single one says something before that is imported.
    from narrows.run import sweep_results

    points = {point.directory: point for point in sorted(series.points, key=lambda point: point.repetition)}
    with Schedule(directory, console, page, cluster) as schedule:
        complete = {
            name for name, point in points.items() if _is_complete(schedule, directory, point, way, make_target)
        }
        joined = {name: run for name, run in _found(added, points, way, make_target).items() if name not in complete}
        tasks = [_task(points[name], make_target, way) for name in points if name not in complete | {*joined}]
        made = [made_by(read_record(directory / name)) for name in complete]
        if not mixed:
            runs = [(f"--add {run.parent}: {run.name}", made_by(read_record(run))) for run in joined.values()]
            refuse_mixed(runs, [*made, *(task.run.made_by for task in tasks)])
        if tasks and (other := next(filter(None, (difference(one, tasks[0].run.made_by) for one in made)), "")):
            note = f"note: what is complete already {other}"
            console.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
        _note(series, tasks, console)
        schedule.begin([way.environment.records])
        for name, run in joined.items():
            replace_directory(directory / name, partial(beneath.copy, run))
        statuses = dict.fromkeys((*complete, *joined), "complete")
        sweep_results.write_manifest(directory, _manifest(series, statuses))
        at_once = schedule.at_once(way.environment.at_once([task.run.plan for task in tasks], jobs) if tasks else 1)
        several = f", {at_once} at once" if at_once > 1 else ""
        expected = duration_in_words(TimeLeft([task.expected_s for task in tasks], at_once).seconds)
        kept = f", {len(statuses)} complete already" if statuses else ""
        console.print(f"{len(tasks)} runs{several}, about {expected}{kept}", highlight=False)
        try:
            with closing(schedule.run(tasks, at_once)) as ends:
                for ended in ends:
                    if goes_on and isinstance(ended.outcome, RunError):
                        statuses[ended.task.name] = "failed"
                        sweep_results.write_manifest(directory, _manifest(series, statuses))
                        said = f"{ended.task.name}: {ended.outcome}"
                        console.print(said, style="bold red", highlight=False, markup=False, soft_wrap=True)
                        continue
                    outcome = _outcome(ended)
                    statuses[ended.task.name] = outcome.status
                    sweep_results.write_manifest(directory, _manifest(series, statuses))
                    yield outcome
                    if outcome.interrupted or (outcome.status != "complete" and not goes_on):
                        return
                    if len(statuses) < len(points):
                        rest = f"about {duration_in_words(ended.left_s)} left"
                        console.print(f"{len(statuses)} of {len(points)} runs done, {rest}", highlight=False)
        finally:
            # What is complete of it can be looked at.
            sweep_results.write_results(directory)
            if [*statuses.values()] != ["complete"] * len(points):
                rest = f"complete runs are kept: the same command with --out {directory} runs the rest"
                console.print(rest, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Cost:
    """What a series takes here: roughly how long, and the memory that is set aside for the runs under way at once.

    ``memory_bytes`` is None in real time, where hosts share this machine's memory and nothing is set aside.
    """

    runs: int
    at_once: int
    seconds: float
    memory_bytes: int | None
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """In one line."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs, {self.at_once} at once"
        memory = "" if self.memory_bytes is None else f", up to {self.memory_bytes / 2**20:.0f} MiB of memory"
        return f"{runs}, about {duration_in_words(self.seconds)}{memory}"

    def as_json(self) -> dict[str, Any]:
        """The same in base units."""
        return asdict(self)


def cost(series: Series, make_target: Callable[[Experiment], Target], way: Way = Way()) -> Cost:
    """Check every point as a run does before it begins, and say what the runs will take; nothing is made.

    Raises:
        InputError: a point cannot run here as written.
    """
    tasks = [_task(point, make_target, way) for point in series.points]
    plans = [task.run.plan for task in tasks]
    at_once = way.environment.at_once(plans, None)
    sizes = [size for plan in plans if (size := way.environment.memory_bytes(plan)) is not None]
    return Cost(
        len(tasks),
        at_once,
        TimeLeft([task.expected_s for task in tasks], at_once).seconds,
        sum(sorted(sizes)[-at_once:]) if sizes else None,
        tuple(_notes(series, tasks)),
    )


def _note(series: Series, tasks: Sequence[ScheduledRun], console: Console) -> None:
    for note in _notes(series, tasks):
        console.print(f"note: {note}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def _notes(series: Series, tasks: Sequence[ScheduledRun]) -> Iterator[str]:
    """What the user should know before runs are made, once each: the points of a sweep have much in common."""
    found = without_effect([point.experiment for point in series.points])
    fields = [f"{field}: {why}" for field, why in found.items()]
    for note in dict.fromkeys((*fields, *(note for task in tasks for note in task.run.notes))):
        yield with_line(f"{series.origin}: {note}")


def _task(point: Point, make_target: Callable[[Experiment], Target], way: Way) -> ScheduledRun:
    run = check(point.experiment, make_target(point.experiment), point.origin, way.environment)
    expected_s = way.environment.expected_s(run.plan)
    return ScheduledRun(point.directory, run, expected_s, worker_options(way.target, way.environment.kernel))


def _outcome(ended: Ended) -> Outcome:
    if isinstance(ended.outcome, RunError):
        raise ended.outcome
    return ended.outcome


def refuse_others(series: Series, directory: Path) -> None:
    """Check that a directory is free, or that of this series.

    Raises:
        InputError: it holds something else.
    """
    from narrows.run import sweep_results

    if not directory.is_dir():
        return check_free(directory)
    if not any(directory.iterdir()):
        return
    allowed = "allowed: a directory that does not exist, or that of this sweep, which is continued"
    if not sweep_results.is_sweep(directory):
        raise InputError(f"--out {directory}: exists already, and holds no sweep; {allowed}")
    found, ours = sweep_results.read_manifest(directory), _manifest(series, {})
    for field in ("name", "sweep", "repeat"):
        if _key(found.get(field)) != _key(ours.get(field)):
            raise InputError(
                f"--out {directory}: holds a sweep with another '{field}'; {allowed}; --add {directory} takes over "
                "what both have"
            )


def _is_complete(
    schedule: Schedule, directory: Path, point: Point, way: Way, make_target: Callable[[Experiment], Target]
) -> bool:
    run = directory / point.directory
    # A new sweep does not import what reads runs.
    if not (run / files.RUN).exists() or not schedule.is_complete(point.directory, [point.experiment]):
        return False
    record, where = read_record(run), f"--out {directory}: {point.directory}"
    way.refuse_other(record, make_target(point.experiment), where)
    refuse_changed(record, made_for(point.experiment, make_target, way.environment), where)
    return True


def _found(
    added: Sequence[Path], points: Mapping[str, Point], way: Way, make_target: Callable[[Experiment], Target]
) -> dict[str, Path]:
    """Runs of points in other directories, of each the first.

    Raises:
        InputError: one of the directories has none, or something else, or one that was made in another way.
    """
    found: dict[str, Path] = {}
    for place in added:
        theirs = find_runs(place, points)
        for name, run in theirs.items():
            way.refuse_other(read_record(run), make_target(points[name].experiment), f"--add {place}: {run.name}")
        found = theirs | found
    return found


def _key(data: Any) -> str:
    """Data that can be compared with what was read from a JSON file."""
    return json.dumps(data, sort_keys=True)


def _manifest(series: Series, statuses: Mapping[str, str]) -> SweepRecord:
    """What the directory holds: one entry a finished run, with the values that the sweep gave it."""
    runs: list[SweepRun] = [
        {
            "directory": point.directory,
            "parameters": point.parameters,
            "repetition": point.repetition,
            "status": statuses[point.directory],
        }
        for point in series.points
        if point.directory in statuses
    ]
    return {
        "narrows_version": __version__,
        "name": series.experiment.name,
        # A date is text there.
        "sweep": json.loads(json.dumps(series.experiment.sweep, default=str)),
        "repeat": series.experiment.repeat,
        "points": len(series.points),
        "runs": runs,
    }
