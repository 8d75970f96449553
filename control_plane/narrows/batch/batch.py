# SPDX-License-Identifier: Apache-2.0
"""The runs below one directory: finds those that are complete, and makes the others.

They are made one after the other, side by side on this machine, or by the workers of a cluster. A batch that was
killed continues when it is started again: a run gets its name only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from narrows_formats import files
from narrows_formats.flat import flat
from rich.console import Console

from narrows.batch.cluster import Cluster, on_cluster
from narrows.batch.local import one_by_one, side_by_side
from narrows.batch.merge import differing_settings, experiment_of, read_record
from narrows.batch.task import Made, Task
from narrows.batch.time_left import TimeLeft
from narrows.errors import InputError, RunError
from narrows.experiment.model import Experiment
from narrows.hosts.run_lock import RunLock
from narrows.hosts.state import RunState, dead_runs
from narrows.run.environment import Environment
from narrows.run.ingredients import made_for, refuse_changed
from narrows.run.progress import Page
from narrows.run.results import make_directory
from narrows.run.runner import Outcome, check
from narrows.targets.base import Target

# Checks run.json of a complete run; raises InputError, whose message begins with the second argument.
Refuse = Callable[[Mapping[str, Any], str], None]


@dataclass(frozen=True)
class Wanted:
    """A run that a batch is to have.

    Attributes:
        name: its directory below the batch's; empty if it is that one.
        origin: the file, as error messages name it.
        choices: the experiment and where it is measured. The first is what would be made; a complete run may be of any.
            Of nothing there is no run.
    """

    name: str
    origin: str
    choices: tuple[tuple[Experiment, Environment], ...]


@dataclass(frozen=True)
class Ended:
    """What became of a task, and how many seconds are left until all have ended."""

    task: Task
    outcome: Outcome | RunError
    remaining_s: float

    @property
    def complete(self) -> bool:
        """Whether it is complete and analysed."""
        return isinstance(self.outcome, Outcome) and self.outcome.is_analysed

    @property
    def failed(self) -> bool:
        """Whether it was not made as it was to be; one that was cut short or lacks its analysis can be continued."""
        return isinstance(self.outcome, RunError) or self.outcome.status == "failed"

    @property
    def interrupted(self) -> bool:
        """Whether a signal cut it short; nothing more is begun then."""
        return isinstance(self.outcome, Outcome) and self.outcome.interrupted

    def result(self) -> Outcome:
        """What became of it.

        Raises:
            RunError: it failed before any traffic flowed.
        """
        if isinstance(self.outcome, RunError):
            raise self.outcome
        return self.outcome


class Batch:
    """The runs of one directory, which this process reserves; a context manager."""

    def __init__(
        self,
        directory: Path,
        target: str,
        make_target: Callable[[Experiment], Target],
        console: Console,
        page: Page | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """Nothing is created before `begin`.

        Args:
            directory: of all runs.
            target: name of what ``make_target`` makes for a run, as ``--target`` has it.
            make_target: gives a fresh target for a run.
            console: where progress goes.
            page: where it is shown as well.
            cluster: whose workers make the runs, instead of this machine.
        """
        self._directory = directory
        self._target = target
        self._make_target = make_target
        self._console = console
        self._page = page
        self._cluster = cluster
        self._run_lock = RunLock(directory)
        self._reserved = False

    def __enter__(self) -> Self:
        """Reserve the directory, if there is one.

        Raises:
            RunError: another process makes runs in it, which each of the two would take for killed ones.
        """
        if self._directory.exists():
            self._reserve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let others have the directory."""
        self._run_lock.give_back()

    def is_complete(self, wanted: Wanted, refuse: Refuse = lambda _record, _where: None) -> bool:
        """Whether a run is complete and analysed; one that lacks only a summary of this version is analysed.

        Args:
            wanted: the run.
            refuse: what else is checked of a complete one.

        Raises:
            InputError: it is complete, and one of another experiment, or made by other programs than it would be now.
        """
        directory = self._directory / wanted.name
        # A new sweep does not import what reads runs.
        if not wanted.choices or not (directory / files.RUN).exists():
            return False
        from narrows_analysis import AnalysisError, LoadedRun, analyze_run

        try:
            run = LoadedRun(directory)
            if run.run.status != "complete":
                return False
        except AnalysisError:
            return False
        where = f"--out {self._directory}: {wanted.name}"
        found, ours = experiment_of(directory), [experiment.as_stored() for experiment, _ in wanted.choices]
        if found not in ours:
            values = differing_settings(flat(found), flat(ours[0]))
            raise InputError(
                f"{where} holds a run of another experiment ({values}); "
                "allowed: a directory with runs of this one, or one that does not exist"
            )
        record = read_record(directory)
        refuse(record, where)
        experiment, environment = wanted.choices[0]
        refuse_changed(record, made_for(experiment, self._make_target, environment), where)
        with suppress(AnalysisError):
            _ = run.summary
            return True
        # Interrupted after its traffic, or analysed by an older version.
        with suppress(AnalysisError):
            analyze_run(directory)
            return True
        return False

    def task(self, wanted: Wanted) -> Task:
        """What makes a run.

        Raises:
            InputError: it cannot run here as written.
        """
        experiment, environment = wanted.choices[0]
        run = check(experiment, self._make_target(experiment), wanted.origin, environment)
        return Task(wanted.name, run, self._target, self._directory / wanted.name)

    def begin(self, records: Iterable[Path]) -> None:
        """Make the directory if there is none, and remove what killed runs in it left, which would disturb others.

        Args:
            records: directories of the records of such runs.

        Raises:
            RunError: another process has just made it, or something cannot be removed.
        """
        if not self._reserved:
            make_directory(self._directory)
            self._reserve()
        for state in [state for root in dict.fromkeys(records) for state in dead_runs(root)]:
            if is_below(state, self._directory):
                state.destroy()
                said = f"removed what a killed run in {self._directory} left: run {state.run_id}"
                self._console.print(said, style="yellow", soft_wrap=True)

    def _reserve(self) -> None:
        self._run_lock.take([f"--out {self._directory}"])
        self._reserved = True

    def at_once(self, here: int) -> int:
        """How many runs are under way at once: ``here`` on this machine, and as many as a cluster has workers."""
        return here if self._cluster is None else self._cluster.workers

    def run(self, tasks: Sequence[Task], at_once: int = 1) -> Generator[Ended, None, None]:
        """Make runs, and give what became of each when it has ended; nothing follows one that was interrupted.

        The caller closes this in the end, so that an error there reaches workers at once.

        Args:
            tasks: the runs, in the order in which they are begun.
            at_once: how many may be under way on this machine; a cluster takes as many as it has workers.

        Raises:
            Interrupted: a signal came before any traffic flowed; nothing of that run is kept.
        """
        titles = [task.name or task.run.experiment.name for task in tasks]
        if len(tasks) > 1:
            titles = [f"[{number}/{len(tasks)}] {title}" for number, title in enumerate(titles, 1)]
        tasks = [replace(task, title=title) for task, title in zip(tasks, titles, strict=True)]
        publish = (lambda _kind, _data: None) if self._page is None else self._page.publish
        publish("runs", {"titles": titles})
        # As it is before the first one: what a run takes may be expected of the next.
        expected = [task.expected_s for task in tasks]
        left = TimeLeft(expected, self.at_once(at_once))
        with closing(self._made(tasks, at_once)) as made:
            for number, outcome, took_s in made:
                left.done(expected[number], took_s)
                status = outcome.status if isinstance(outcome, Outcome) else "failed"
                publish("ended", {"run": number, "status": status, "remaining_s": left.seconds})
                # Of a series the pages are too many to send.
                if self._page is not None and len(tasks) == 1 and isinstance(outcome, Outcome):
                    report = outcome.directory / files.REPORT
                    if report.is_file():
                        publish("report", {"run": number, "html": report.read_text(encoding="utf-8")})
                ended = Ended(tasks[number], outcome, left.seconds)
                yield ended
                if ended.interrupted:
                    return

    def _made(self, tasks: Sequence[Task], at_once: int) -> Made:
        """Number, outcome and seconds of each task, as they end."""
        if self._cluster is not None:
            return on_cluster(self._cluster, tasks)
        if at_once > 1:
            return side_by_side(tasks, at_once, self._console, self._page)
        return one_by_one(tasks, self._console, self._page)


def is_below(state: RunState, directory: Path) -> bool:
    """Whether a run's results were to be in a directory."""
    return any(Path(results).is_relative_to(directory.absolute()) for results in state.directories)
