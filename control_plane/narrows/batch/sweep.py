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

from narrows_formats import beneath
from narrows_formats.provenance import difference, provenance
from narrows_formats.sweep_record import SweepRecord, SweepRun
from narrows_formats.units import duration_in_words
from rich.console import Console

from narrows import __version__
from narrows.batch.batch import Batch, Wanted
from narrows.batch.cluster import Cluster
from narrows.batch.merge import find_runs, read_record, refuse_mismatch
from narrows.batch.task import Task
from narrows.batch.time_left import TimeLeft
from narrows.errors import InputError, RunError
from narrows.experiment.lines import with_line
from narrows.experiment.model import Experiment
from narrows.experiment.no_op_settings import no_op_settings
from narrows.experiment.sweep import Point, Series
from narrows.plain_text import note_line
from narrows.run.environment import THIS_MACHINE, Environment
from narrows.run.progress import Page
from narrows.run.results import check_free, replace_directory
from narrows.run.runner import CheckedRun, Outcome, check
from narrows.targets.base import Target

MakeTarget = Callable[[Experiment], Target]


@dataclass(frozen=True)
class RunMode:
    """How the runs of a series are made: ``target`` as ``--target`` names it, and where they are measured."""

    target: str = "soft"
    environment: Environment = THIS_MACHINE

    def refuse_other(self, run: Mapping[str, Any], ours: Target, where: str) -> None:
        """Check that a run was made in the same mode, by its run.json, and on a switch as ``ours``.

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
    make_target: MakeTarget,
    directory: Path,
    console: Console,
    page: Page | None = None,
    mode: RunMode = RunMode(),
    jobs: int | None = None,
    cluster: Cluster | None = None,
    added: Sequence[Path] = (),
    allow_mismatch: bool = False,
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
        mode: how runs are made.
        jobs: how many runs may be under way at once; as many as the environment takes if None.
        cluster: whose workers make the runs, instead of this machine.
        added: directories of the same series from other machines, whose complete runs are taken in.
        allow_mismatch: take them in whatever code and kernel they were made by.
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
        batch = Batch(directory, mode.target, make_target, console, page, cluster)
        tasks = [batch.task(_wanted(series.points[0], mode))]
        _note(series, tasks, console)
        with closing(batch.run(tasks)) as ends:
            yield from (ended.result() for ended in ends)
        return
    refuse_others(series, directory)
    # It reads runs: a single one says something before that is imported.
    from narrows.batch import sweep_results

    points = {point.directory: point for point in sorted(series.points, key=lambda point: point.repetition)}

    def refuse(name: str, record: Mapping[str, Any], where: str) -> None:
        mode.refuse_other(record, make_target(points[name].experiment), where)

    with Batch(directory, mode.target, make_target, console, page, cluster) as batch:
        complete = {
            name for name, point in points.items() if batch.is_complete(_wanted(point, mode), partial(refuse, name))
        }
        merged = {name: run for name, run in _found(added, points, refuse).items() if name not in complete}
        tasks = [batch.task(_wanted(points[name], mode)) for name in points if name not in complete | {*merged}]
        made = [provenance(read_record(directory / name)) for name in complete]
        if not allow_mismatch:
            runs = [(f"--add {run.parent}: {run.name}", provenance(read_record(run))) for run in merged.values()]
            refuse_mismatch(runs, [*made, *(task.run.provenance for task in tasks)])
        if tasks and (other := next(filter(None, (difference(one, tasks[0].run.provenance) for one in made)), "")):
            _say(console, f"note: what is complete already {other}", "yellow")
        _note(series, tasks, console)
        batch.begin([mode.environment.records])
        for name, run in merged.items():
            replace_directory(directory / name, partial(beneath.copy, run))
        statuses = dict.fromkeys((*complete, *merged), "complete")
        sweep_results.write_manifest(directory, _manifest(series, statuses))
        at_once = batch.at_once(mode.environment.at_once([task.run.plan for task in tasks], jobs) if tasks else 1)
        several = f", {at_once} at once" if at_once > 1 else ""
        expected = duration_in_words(TimeLeft([task.expected_s for task in tasks], at_once).seconds)
        kept = f", {len(statuses)} complete already" if statuses else ""
        console.print(f"{len(tasks)} runs{several}, about {expected}{kept}", highlight=False)
        try:
            with closing(batch.run(tasks, at_once)) as ends:
                for ended in ends:
                    noted = goes_on and isinstance(ended.outcome, RunError)
                    statuses[ended.task.name] = "failed" if noted else ended.result().status
                    sweep_results.write_manifest(directory, _manifest(series, statuses))
                    if noted:
                        _say(console, f"{ended.task.name}: {ended.outcome}", "bold red")
                        continue
                    yield ended.result()
                    if ended.interrupted or (ended.failed and not goes_on):
                        return
                    if len(statuses) < len(points):
                        rest = f"about {duration_in_words(ended.remaining_s)} left"
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

    ``memory_bytes`` is None in real time, where hosts share this machine's memory and nothing is set aside. With
    ``programs`` what these compute comes on top: they have not run here yet.
    """

    runs: int
    at_once: int
    seconds: float
    memory_bytes: int | None
    notes: tuple[str, ...]
    programs: bool = False

    def __str__(self) -> str:
        """In one line."""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs, {self.at_once} at once"
        memory = "" if self.memory_bytes is None else f", up to {self.memory_bytes / 2**20:.0f} MiB of memory"
        more = " and what its programs compute, which is not known before a first run" if self.programs else ""
        return f"{runs}, about {duration_in_words(self.seconds)}{more}{memory}"

    def as_json(self) -> dict[str, object]:
        """The same in base units."""
        return asdict(self)


def cost(series: Series, make_target: MakeTarget, mode: RunMode = RunMode()) -> Cost:
    """Check every point as a run does before it begins, and say what the runs will take; nothing is made.

    Raises:
        InputError: a point cannot run here as written.
    """
    runs = [
        check(point.experiment, make_target(point.experiment), point.origin, mode.environment)
        for point in series.points
    ]
    plans = [run.plan for run in runs]
    at_once = mode.environment.at_once(plans, None)
    sizes = [size for plan in plans if (size := mode.environment.memory_bytes(plan)) is not None]
    return Cost(
        len(runs),
        at_once,
        TimeLeft([mode.environment.expected_s(plan) for plan in plans], at_once).seconds,
        sum(sorted(sizes)[-at_once:]) if sizes else None,
        tuple(_notes(series, runs)),
        any(mode.environment.computes_unknown(plan) for plan in plans),
    )


def _say(console: Console, text: str, style: str) -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def _note(series: Series, tasks: Sequence[Task], console: Console) -> None:
    for note in _notes(series, [task.run for task in tasks]):
        _say(console, note_line(note), "yellow")


def _notes(series: Series, runs: Sequence[CheckedRun]) -> Iterator[str]:
    """What the user should know before runs are made, once each: the points of a sweep have much in common."""
    found = no_op_settings([point.experiment for point in series.points])
    fields = [f"{field}: {why}" for field, why in found.items()]
    for note in dict.fromkeys((*fields, *(note for run in runs for note in run.notes))):
        yield with_line(f"{series.origin}: {note}")


def _wanted(point: Point, mode: RunMode) -> Wanted:
    return Wanted(point.directory, point.origin, ((point.experiment, mode.environment),))


def refuse_others(series: Series, directory: Path) -> None:
    """Check that a directory is free, or that of this series.

    Raises:
        InputError: it holds something else.
    """
    from narrows.batch import sweep_results

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


def _found(
    added: Sequence[Path], points: Mapping[str, Point], refuse: Callable[[str, Mapping[str, Any], str], None]
) -> dict[str, Path]:
    """Runs of points in other directories, of each the first.

    Raises:
        InputError: one of the directories has none, or something else, or one that was made in another mode.
    """
    found: dict[str, Path] = {}
    for place in added:
        theirs = find_runs(place, points)
        for name, run in theirs.items():
            refuse(name, read_record(run), f"--add {place}: {run.name}")
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
