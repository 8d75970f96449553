# SPDX-License-Identifier: Apache-2.0
"""Running a study: every point once, points that are complete already not again, an interrupted one anew."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import as_completed
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from narrows_analysis import analyze_run
from narrows_analysis import load as load_run
from narrows_analysis.errors import AnalysisError
from narrows_analysis.studies.measures import measure_run
from narrows_analysis.studies.model import Point as MeasuredPoint
from narrows_analysis.studies.model import Results, Study, Variant
from narrows_analysis.studies.results import told_of_both, write_results
from narrows_formats import files
from narrows_formats.units import duration_in_words
from rich.console import Console

from narrows.errors import InputError, Interrupted, RunError
from narrows.experiment.loader import validate
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan, make_plan
from narrows.hosts import machine
from narrows.hosts.exclusive import Exclusive
from narrows.hosts.state import dead_runs
from narrows.run.results import give_to_user, make_directory
from narrows.run.runner import ANALYSIS_INTERRUPTED, CheckedRun, Outcome, check, execute
from narrows.run.time_left import TimeLeft, traffic_time_s
from narrows.run.workers import worker_pool
from narrows.studies.catalogue import StudyPoint, published
from narrows.studies.cluster import Cluster, job, unpack
from narrows.studies.provenance import provenance
from narrows.studies.senders import Senders, this_machine
from narrows.targets.base import Target

RESULTS = "results.json"
MakeTarget = Callable[[Experiment], Target]


@dataclass(frozen=True)
class Task:
    """A point that is to be run, what was checked for it, and how many seconds it is expected to take."""

    study_point: StudyPoint
    run: CheckedRun
    senders: Senders
    expected_s: float


# Of each task what became of it, and how many seconds it took.
Outcomes = Generator[tuple[Task, Outcome | RunError, float], None, None]


class StudyRun:
    """One variant of a study in one directory."""

    def __init__(
        self,
        study: Study,
        variant: Variant,
        directory: Path,
        target: str,
        make_target: MakeTarget,
        console: Console,
        senders: Sequence[Senders] = (),
        elsewhere: Sequence[Results] = (),
    ) -> None:
        """Nothing is created before `run`.

        Args:
            study: what is run.
            variant: of it.
            directory: for the results.
            target: name of what ``make_target`` makes for a run.
            make_target: gives a fresh target for a run.
            console: where progress goes.
            senders: kernels that hosts can have; a point is run with the first one that has its algorithms. Without any
                the running one.
            elsewhere: results of points, with their directories here, that are not to be run again.
        """
        self._target = target
        self._senders = tuple(senders) or (this_machine(),)
        self._study = study
        self._variant: Variant = variant
        self._directory = directory
        self._exclusive = Exclusive(directory)
        self._make_target = make_target
        self._console = console
        self._measured: dict[Path, MeasuredPoint] = {}
        self._written: dict[str, Any] = {}
        self._measured_as: dict[Path, Plan] = {}
        self._elsewhere = [one for one in elsewhere if one.points]
        self._known = {Path(point.directory): point for one in elsewhere for point in one.points}
        self._skipped: dict[str, str] = {}
        self._refusals: list[InputError] = []

    def run(
        self,
        points: list[StudyPoint],
        at_once: int = 1,
        others: Sequence[StudyPoint] = (),
        cluster: Cluster | None = None,
    ) -> Results:
        """Run what is not complete yet, and measure everything.

        Args:
            points: all points that are wanted.
            at_once: how many runs may be under way at the same time.
            others: points of the study that are not to be run; what is complete of them stays in the results.
            cluster: whose workers run the points, instead of this machine.

        Raises:
            InputError: this machine cannot run a study, or a result is one of another experiment.
            RunError: the directory is another running study's.
            Interrupted: a signal ended it; what is complete is kept.
        """
        try:
            return self._run(points, at_once if cluster is None else cluster.workers, others, cluster)
        finally:
            self._exclusive.give_back()

    def _run(
        self, points: list[StudyPoint], at_once: int, others: Sequence[StudyPoint], cluster: Cluster | None
    ) -> Results:
        new = not self._directory.exists()
        if not new:
            self._reserve()
        tasks = []
        for study_point in points:
            if self._is_complete(study_point):
                self._measure(study_point)
            elif (task := self._task(study_point)) is not None:
                tasks.append(task)
        if self._refusals and not tasks and not self._measured:
            raise self._refusals[0]
        if cluster is None and tasks and self._senders[0].name:
            # No more guests than memory holds.
            at_once = self._senders[0].environment.at_once([task.run.plan for task in tasks], at_once)
        if new:
            make_directory(self._directory)
            self._reserve()
        self._announce(len(points), tasks, at_once)
        if tasks:
            self._remove_killed_runs()
        for study_point in others:
            if self._is_complete(study_point):
                self._measure(study_point)
        left = TimeLeft([task.expected_s for task in tasks], at_once)
        outcomes = self._execute(tasks, at_once, left) if cluster is None else self._execute_on(cluster, tasks)
        # At an interruption workers are told at once, not when nobody remembers where it came from.
        with closing(outcomes):
            self._take_all(tasks, outcomes, left)
        self._write()
        return self._results()

    def _reserve(self) -> None:
        """Nobody else runs points in this directory now: they would end each other's."""
        self._exclusive.take([f"--out {self._directory}"])

    def _take_all(self, tasks: list[Task], outcomes: Outcomes, left: TimeLeft) -> None:
        """Take in what became of the tasks, in the order in which they end."""
        for number, (task, outcome, took_s) in enumerate(outcomes, 1):
            left.done(task.expected_s, took_s)
            self._take(task.study_point, outcome)
            self._write()
            done = f"[{number}/{len(tasks)}] {task.study_point.directory}: {self._result(task.study_point, outcome)}"
            self._console.print(
                f"{done}; about {duration_in_words(left.seconds)} left", highlight=False, soft_wrap=True
            )
            if isinstance(outcome, Outcome) and _was_interrupted(outcome):
                raise Interrupted("interrupted; complete runs were kept, the same command goes on from here")

    def _task(self, study_point: StudyPoint) -> Task | None:
        """What is to be run for a point; None, with the reason noted, if that cannot be here as written."""
        runnable = self._runnable(study_point)
        if not runnable:
            self._skipped[str(study_point.directory)] = self._lacking(study_point.point.experiment)
            return None
        experiment, senders = runnable[0]
        point = study_point.point
        try:
            run = check(experiment, self._make_target(experiment), point.origin, senders.environment)
        except InputError as error:
            self._refusals.append(error)
            self._skipped[str(study_point.directory)] = str(error).replace(f"{point.origin}: ", "")
            return None
        return Task(study_point, run, senders, senders.environment.expected_s(run.plan))

    def _runnable(self, study_point: StudyPoint) -> list[tuple[Experiment, Senders]]:
        """The experiment with the names of its algorithms in each kernel that has all of them."""
        experiment = study_point.point.experiment
        if self._make_target(experiment).has_own_machines:
            # Other machines' kernels send, which `check` looks at.
            return [(experiment, self._senders[0])]
        return [
            (senders.algorithms.in_kernel_names(experiment), senders)
            for senders in self._senders
            if not senders.algorithms.missing(experiment)
        ]

    def _lacking(self, experiment: Experiment) -> str:
        lacking = min((senders.algorithms.missing(experiment) for senders in self._senders), key=len)
        kernels = "this kernel does not have" if len(self._senders) == 1 else "no kernel here has, with the others,"
        return f"{kernels} {', '.join(lacking)}"

    def _announce(self, wanted: int, tasks: list[Task], at_once: int) -> None:
        total = TimeLeft([task.expected_s for task in tasks], at_once).seconds
        kept = len(self._measured)
        parts = [f"{len(tasks)} of {wanted} points to run, about {duration_in_words(total)}"]
        parts += [f"{kept} complete already"] if kept else []
        parts += [f"{len(self._skipped)} skipped"] if self._skipped else []
        parts += [f"{at_once} at once"] if at_once > 1 else []
        self._console.print(f"{self._study.name}: {', '.join(parts)}", highlight=False)
        for reason in sorted(set(self._skipped.values())):
            self._console.print(f"skipped: {reason}", style="yellow", highlight=False)

    def _remove_killed_runs(self) -> None:
        """A point that was killed may have left senders and a switch that would disturb the next one."""
        own = self._directory.absolute()
        for state in [state for root in {senders.records for senders in self._senders} for state in dead_runs(root)]:
            if any(Path(directory).is_relative_to(own) for directory in state.directories):
                state.destroy()
                self._console.print(
                    f"removed what a killed run of this study left: run {state.run_id}", style="yellow", soft_wrap=True
                )

    def _execute(self, tasks: list[Task], at_once: int, left: TimeLeft) -> Outcomes:
        if at_once == 1:
            for number, task in enumerate(tasks, 1):
                title = f"[{number}/{len(tasks)}, {duration_in_words(left.seconds)} left] {task.study_point.directory}"
                began = time.monotonic()
                outcome = _run_point(task.run, self._directory / task.study_point.directory, self._console, title)
                yield task, outcome, time.monotonic() - began
            return
        with worker_pool(at_once) as pool:
            futures = {
                pool.submit(_run_quietly, task.run, self._directory / task.study_point.directory): task
                for task in tasks
            }
            for future in as_completed(futures):
                outcome, took_s = future.result()
                yield futures[future], outcome, took_s

    def _execute_on(self, cluster: Cluster, tasks: list[Task]) -> Outcomes:
        """Run the tasks elsewhere, and put what comes back where it belongs."""
        by_name = {str(task.study_point.directory): task for task in tasks}
        jobs = {
            name: job(task.run.experiment, ("--target", self._target, "--virtual", "--kernel", task.senders.name))
            for name, task in by_name.items()
        }
        for name, done in cluster.run(jobs):
            directory = self._directory / by_name[name].study_point.directory
            with suppress(FileExistsError):
                make_directory(directory.parent)
            if done.archive is None:
                yield by_name[name], RunError(done.problem), done.took_s
                continue
            unpack(done.archive, directory)
            give_to_user(directory)
            yield by_name[name], Outcome("complete", "", directory, load_run(directory).summary, ()), done.took_s

    def _take(self, study_point: StudyPoint, outcome: Outcome | RunError) -> None:
        name = str(study_point.directory)
        self._skipped.pop(name, None)
        if isinstance(outcome, Outcome) and outcome.status == "complete" and outcome.summary is not None:
            self._measure(study_point)
        else:
            self._skipped[name] = _why(outcome)

    def _result(self, study_point: StudyPoint, outcome: Outcome | RunError) -> str:
        measured = self._measured.get(study_point.directory)
        if measured is None:
            return f"not complete: {_why(outcome)}"
        loss, used = measured.measures.get("loss_ratio"), measured.measures.get("utilization")
        return f"{used or 0:.1%} utilized, {loss or 0:.2%} lost"

    def _is_complete(self, study_point: StudyPoint) -> bool:
        """Whether a point was measured elsewhere, or its results are here, complete and analysed.

        Raises:
            InputError: they are those of another experiment.
        """
        if study_point.directory in self._known:
            return True
        directory = self._directory / study_point.directory
        try:
            complete = load_run(directory).run.status == "complete"
            if complete and not (directory / files.SUMMARY).exists():
                # Interrupted after its traffic: only the analysis is missing.
                analyze_run(directory)
        except AnalysisError:
            return False
        if not complete:
            return False
        wanted = [experiment.as_yaml_data() for experiment, _ in self._runnable(study_point)]
        if not wanted:
            return False
        if _written(directory / files.EXPERIMENT) not in wanted:
            raise InputError(
                f"--out {self._directory}: {study_point.directory} holds a run of another experiment; "
                "allowed: a directory of this study and variant, or one that does not exist"
            )
        return True

    def _measure(self, study_point: StudyPoint) -> None:
        self._written[study_point.experiment] = study_point.written
        self._measured_as[study_point.directory] = make_plan(study_point.point.experiment)
        if study_point.directory in self._known:
            self._measured[study_point.directory] = self._known[study_point.directory]
            return
        figure = self._study.figure_of(study_point.experiment)
        run = load_run(self._directory / study_point.directory)
        self._measured[study_point.directory] = MeasuredPoint(
            study_point.experiment,
            study_point.parameters,
            study_point.point.repetition,
            {
                **measure_run(run, figure.window, figure.life_of),
                "cpu_s": run.run.raw.get("virtual_time", {}).get("cpu_s"),
            },
            str(study_point.directory),
            provenance(run),
        )

    def _results(self) -> Results:
        points = tuple(self._measured.values())
        return Results(
            self._study.name, self._variant, points, dict(self._skipped), self._machine(), dict(self._written)
        )

    def _machine(self) -> dict[str, Any]:
        """What the points were measured with; where that is not the same for all, everything, with commas."""
        host = machine.describe()
        told = {"target": self._target, **{name: host[name] for name in ("cpu", "cpus")}}
        told["kernel"] = ", ".join(dict.fromkeys(senders.release for senders in self._senders))
        told["clock"] = "virtual" if self._senders[0].name else "real"
        told["bbr_ack_aggregation"] = self._senders[0].algorithms.ack_aggregation
        for other in self._elsewhere:
            told = {name: told_of_both(told[name], other.machine.get(name)) for name in told}
        told["published"] = self._published()
        return told

    def _published(self) -> dict[str, float]:
        """How many runs, and seconds of traffic, were published, and how long those that are not here take.

        That is in seconds of one processor, by what those that are here took beside what is expected of them.
        """
        size, whole = self._published_size
        expected_s = self._senders[0].environment.expected_s
        took = [(one.measures.get("cpu_s"), expected_s(self._measured_as[at])) for at, one in self._measured.items()]
        known = [(used_s, expected) for used_s, expected in took if used_s]
        if not known:
            return size
        left = [expected for at, expected in whole.items() if self._variant != "full" or at not in self._measured]
        pace = sum(used_s for used_s, _ in known) / sum(expected for _, expected in known)
        return {**size, "left_s": pace * sum(left)}

    @cached_property
    def _published_size(self) -> tuple[dict[str, float], dict[Path, float]]:
        """Runs and seconds of traffic of the full variant, and seconds expected of each run; worked out once."""
        plans = published(self._study.name)
        expected_s = self._senders[0].environment.expected_s
        traffic_s = sum(traffic_time_s(plan) for plan in plans.values())
        return {"points": len(plans), "traffic_s": traffic_s}, {at: expected_s(plan) for at, plan in plans.items()}

    def _write(self) -> None:
        path = self._directory / RESULTS
        write_results(self._results(), path)
        give_to_user(path)


def _written(path: Path) -> dict[str, Any] | None:
    """The experiment of a run, with defaults for fields that are newer than it; None if it is none any more."""
    try:
        return validate(yaml.safe_load(path.read_text(encoding="utf-8")), str(path)).as_yaml_data()
    except InputError:
        return None


def _was_interrupted(outcome: Outcome) -> bool:
    return outcome.status == "partial" or ANALYSIS_INTERRUPTED in outcome.notes


def _why(outcome: Outcome | RunError) -> str:
    if isinstance(outcome, RunError):
        return f"failed: {outcome}"
    return f"{outcome.status}: {outcome.reason}" if outcome.reason else "its analysis failed"


def _run_point(run: CheckedRun, directory: Path, console: Console, title: str) -> Outcome | RunError:
    """Run a point; a failure is remembered, and does not keep the others from being run."""
    if directory.exists():
        shutil.rmtree(directory)
    # A point of the same figure that runs beside this one may have made it.
    with suppress(FileExistsError):
        make_directory(directory.parent)
    try:
        return execute(run, directory, console, title)
    except RunError as error:
        return error


def _run_quietly(run: CheckedRun, directory: Path) -> tuple[Outcome | RunError, float]:
    """Run a point in a process of its own, without a live line; and the seconds that it took."""
    began = time.monotonic()
    return _run_point(run, directory, Console(quiet=True), ""), time.monotonic() - began
