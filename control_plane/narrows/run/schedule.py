# SPDX-License-Identifier: Apache-2.0
"""The runs of a sweep or a study, below one directory: finds those that are complete, and makes the others.

They are made one after the other, side by side on this machine, or by the workers of a cluster. A schedule that was
killed continues when it is started again: a run gets its name only when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from narrows_formats import files
from narrows_formats.flat import flat
from narrows_formats.made_by import difference, made_by
from rich.console import Console

from narrows.errors import InputError, RunError
from narrows.experiment.model import Experiment
from narrows.hosts.run_lock import RunLock
from narrows.hosts.state import RunState, dead_runs
from narrows.run.cluster import Cluster, job, read_file, unpack
from narrows.run.joining import differing_settings, experiment_of
from narrows.run.progress import Page
from narrows.run.results import make_directory
from narrows.run.runner import CheckedRun, Outcome
from narrows.run.side_by_side import Attempt, PageOfRun, execute_side_by_side
from narrows.run.time_left import TimeLeft


@dataclass(frozen=True)
class ScheduledRun:
    """A run that is to be made.

    Attributes:
        name: its directory below the schedule's; empty if it is that one.
        run: what was checked for it.
        expected_s: seconds that it will take, roughly.
        worker_options: those of ``narrows run`` by which a worker of a cluster makes the same run.
    """

    name: str
    run: CheckedRun
    expected_s: float
    worker_options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """What became of a task, and how many seconds are left until all have ended."""

    task: ScheduledRun
    outcome: Outcome | RunError
    left_s: float

    @property
    def interrupted(self) -> bool:
        """Whether a signal cut it short; nothing more is begun then."""
        return isinstance(self.outcome, Outcome) and self.outcome.interrupted


# Of each task its number, what became of it, and how many seconds it took.
Outcomes = Generator[tuple[int, Outcome | RunError, float], None, None]


class Schedule:
    """The runs of one directory, which this process reserves; a context manager."""

    def __init__(
        self, directory: Path, console: Console, page: Page | None = None, cluster: Cluster | None = None
    ) -> None:
        """Nothing is created before `begin`.

        Args:
            directory: of all runs.
            console: where progress goes.
            page: where it is shown as well.
            cluster: whose workers make the runs, instead of this machine.
        """
        self._directory = directory
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

    def is_complete(self, name: str, wanted: Sequence[Experiment]) -> bool:
        """Whether the run of this name is complete and analysed; one that lacks only its analysis is analysed.

        Args:
            name: of the run.
            wanted: what it may be a run of; nothing is complete if that is nothing.

        Raises:
            InputError: it is complete, and one of another experiment.
        """
        # It reads runs: one that is made says something before that is imported.
        from narrows_analysis import AnalysisError, LoadedRun, analyze_run

        directory = self._directory / name
        try:
            if LoadedRun(directory).run.status != "complete":
                return False
            if not (directory / files.SUMMARY).exists():
                # Interrupted after its traffic.
                analyze_run(directory)
        except AnalysisError:
            return False
        found, ours = experiment_of(directory), [experiment.as_stored() for experiment in wanted]
        if ours and found not in ours:
            values = differing_settings(flat(found), flat(ours[0]))
            raise InputError(
                f"--out {self._directory}: {name} holds a run of another experiment ({values}); "
                "allowed: a directory with runs of this one, or one that does not exist"
            )
        return bool(wanted)

    def run(self, tasks: Sequence[ScheduledRun], at_once: int = 1) -> Generator[Ended, None, None]:
        """Make runs, and give what became of each when it has ended; nothing follows one that was interrupted.

        The caller closes this in the end, so that an error there reaches workers at once.

        Args:
            tasks: the runs, in the order in which they are begun.
            at_once: how many may be under way on this machine; a cluster takes as many as it has workers.

        Raises:
            Interrupted: a signal came before any traffic flowed; nothing of that run is kept.
        """
        of = f"/{len(tasks)}] "
        attempts = [
            # Of one without a name nothing earlier is there.
            Attempt(
                task.run,
                self._directory / task.name if task.name else self._directory,
                (f"[{number}{of}" if len(tasks) > 1 else "") + (task.name or task.run.experiment.name),
                bool(task.name),
            )
            for number, task in enumerate(tasks, 1)
        ]
        publish = (lambda _kind, _data: None) if self._page is None else self._page.publish
        publish("runs", {"titles": [attempt.title for attempt in attempts]})
        left = TimeLeft([task.expected_s for task in tasks], self.at_once(at_once))
        with closing(self._outcomes(tasks, attempts, at_once)) as outcomes:
            for number, outcome, took_s in outcomes:
                left.done(tasks[number].expected_s, took_s)
                status = outcome.status if isinstance(outcome, Outcome) else "failed"
                publish("ended", {"run": number, "status": status, "left_s": left.seconds})
                # Of a series the pages are too many to send.
                if self._page is not None and len(tasks) == 1 and isinstance(outcome, Outcome):
                    report = outcome.directory / files.REPORT
                    if report.is_file():
                        publish("report", {"run": number, "html": report.read_text(encoding="utf-8")})
                ended = Ended(tasks[number], outcome, left.seconds)
                yield ended
                if ended.interrupted:
                    return

    def at_once(self, here: int) -> int:
        """How many runs are under way at once: ``here`` on this machine, and as many as a cluster has workers."""
        return here if self._cluster is None else self._cluster.workers

    def _outcomes(self, tasks: Sequence[ScheduledRun], attempts: Sequence[Attempt], at_once: int) -> Outcomes:
        """Number, outcome and seconds of each task, as they end."""
        if self._cluster is not None:
            return _execute_on_cluster(self._cluster, tasks, attempts)
        if at_once > 1:
            return execute_side_by_side(attempts, at_once, self._console, self._page)
        return self._one_by_one(attempts)

    def _one_by_one(self, attempts: Sequence[Attempt]) -> Outcomes:
        for number, attempt in enumerate(attempts):
            page = None if self._page is None else PageOfRun(number, self._page.publish)
            yield number, *attempt.make(self._console, page)


def _execute_on_cluster(cluster: Cluster, tasks: Sequence[ScheduledRun], attempts: Sequence[Attempt]) -> Outcomes:
    """Have a cluster make the runs, and put what comes back where it belongs."""
    from narrows_analysis import LoadedRun

    numbers = {task.name: number for number, task in enumerate(tasks)}
    jobs = {task.name: job(task.run.experiment, task.worker_options) for task in tasks}
    with closing(cluster.run(jobs)) as ends:
        for name, done in ends:
            outcome: Outcome | RunError = RunError(done.problem)
            if done.archive is not None and (other := _other(done.archive, tasks[numbers[name]].run)):
                outcome = RunError(f"the worker's run {other}")
            elif done.archive is not None:
                directory = attempts[numbers[name]].directory
                unpack(done.archive, directory)
                outcome = Outcome("complete", "", directory, LoadedRun(directory).summary, ())
            yield numbers[name], outcome, done.took_s


def is_below(state: RunState, directory: Path) -> bool:
    """Whether a run's results were to be in a directory."""
    return any(Path(results).is_relative_to(directory.absolute()) for results in state.directories)


def _other(archive: bytes, run: CheckedRun) -> str:
    """How a worker differs from this machine; empty if it does not."""
    return difference(made_by(json.loads(read_file(archive, files.RUN))), run.made_by)
