# SPDX-License-Identifier: Apache-2.0
"""Running a study: the scheduler of sweeps runs its points, each is measured; points measured elsewhere join them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from narrows.batch.batch import Batch, Ended, Wanted
from narrows.batch.cluster import Cluster
from narrows.batch.merge import refuse_mismatch
from narrows.batch.task import Task
from narrows.batch.time_left import TimeLeft
from narrows.errors import InputError, Interrupted, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts import machine
from narrows.run.duration import traffic_time_s
from narrows.run.ingredients import made_for
from narrows.run.results import give_to_user
from narrows.targets.base import Target
from narrows_analysis import LoadedRun
from narrows_analysis.study_results import MeasuredPoint, Results, Variant, write_results
from narrows_formats import files
from narrows_formats.units import duration_in_words
from rich.console import Console

from narrows_studies.measures import measure_run
from narrows_studies.model import Study
from narrows_studies.results import merged
from narrows_studies.running.catalogue import StudyPoint, published
from narrows_studies.running.provenance import provenance
from narrows_studies.running.senders import Senders, this_machine

MakeTarget = Callable[[Experiment], Target]


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
        external: Sequence[Results] = (),
        allow_mismatch: bool = False,
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
            external: results of points, with their directories here, that are not to be run again.
            allow_mismatch: whether these may have been measured by other code or on another kernel than here.
        """
        self._target = target
        self._senders = tuple(senders) or (this_machine(),)
        self._study = study
        self._variant: Variant = variant
        self._directory = directory
        self._make_target = make_target
        self._console = console
        self._measured: dict[Path, MeasuredPoint] = {}
        self._written: dict[str, Any] = {}
        self._measured_as: dict[Path, Plan] = {}
        self._external = [one for one in external if one.points]
        self._known = {Path(point.directory): point for one in external for point in one.points}
        self._allow_mismatch = allow_mismatch
        self._skipped: dict[str, str] = {}
        self._refused: list[InputError] = []
        # Whether a run failed; one that cannot be made here, or was interrupted, has not.
        self.any_failed = False

    def run(
        self,
        points: list[StudyPoint],
        at_once: int = 1,
        others: Sequence[StudyPoint] = (),
        cluster: Cluster | None = None,
    ) -> Results:
        """Run the points that are not complete yet, and measure all.

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
        if not self._allow_mismatch:
            for study_point in (*points, *others):
                self._refuse_mismatch(study_point)
        with Batch(self._directory, self._target, self._make_target, self._console, cluster=cluster) as batch:
            tasks: dict[str, tuple[StudyPoint, Task]] = {}
            for study_point in points:
                if self._is_complete(batch, study_point):
                    self._measure(study_point)
                elif (task := self._task(batch, study_point)) is not None:
                    tasks[task.name] = (study_point, task)
            if self._refused and not tasks and not self._measured:
                raise self._refused[0]
            wanted = [task for _, task in tasks.values()]
            if tasks and self._senders[0].name:
                # No more guests than memory holds.
                at_once = self._senders[0].environment.at_once([task.run.plan for task in wanted], at_once)
            batch.begin(senders.environment.records for senders in self._senders)
            self._announce(len(points), wanted, batch.at_once(at_once))
            for study_point in others:
                if self._is_complete(batch, study_point):
                    self._measure(study_point)
            # Workers learn of an interruption at once, and not when the generator is collected.
            with closing(batch.run(wanted, at_once)) as ends:
                for number, ended in enumerate(ends, 1):
                    self._take(tasks[ended.task.name][0], ended, f"[{number}/{len(tasks)}]")
        self._write()
        return self._results()

    def _refuse_mismatch(self, study_point: StudyPoint) -> None:
        """Check that a point measured elsewhere was measured by this code, on the kernel that it would have here.

        Raises:
            InputError: it was not.
        """
        known = self._known.get(study_point.directory)
        if known is not None:
            unchanged = (study_point.point.experiment, self._senders[0].environment)
            experiment, environment = (*self._wanted(study_point).choices, unchanged)[0]
            ours = made_for(experiment, self._make_target, environment)
            refuse_mismatch([(f"--add: {study_point.directory}", known.provenance)], [ours])

    def _task(self, batch: Batch, study_point: StudyPoint) -> Task | None:
        """What to run for a point; None, with the reason noted, if it cannot run here as written."""
        wanted = self._wanted(study_point)
        if not wanted.choices:
            self._skipped[wanted.name] = self._lacking(study_point.point.experiment)
            return None
        try:
            return batch.task(wanted)
        except InputError as error:
            self._refused.append(error)
            self._skipped[wanted.name] = str(error).replace(f"{wanted.origin}: ", "")
            return None

    def _wanted(self, study_point: StudyPoint) -> Wanted:
        """The run of a point: the experiment with each kernel's names of its algorithms, where it has all of them."""
        point = study_point.point
        if self._make_target(point.experiment).hosts_are_machines:
            # Other machines' kernels send, which `check` looks at.
            choices = [(point.experiment, self._senders[0].environment)]
        else:
            choices = [
                (senders.algorithms.in_kernel_names(point.experiment), senders.environment)
                for senders in self._senders
                if not senders.algorithms.missing(point.experiment)
            ]
        return Wanted(str(study_point.directory), point.origin, tuple(choices))

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

    def _take(self, study_point: StudyPoint, ended: Ended, count: str) -> None:
        """Record how a point ended."""
        name = ended.task.name
        self._skipped.pop(name, None)
        self.any_failed |= ended.failed
        if ended.complete:
            self._measure(study_point)
            measures = self._measured[study_point.directory].measures
            used, loss = measures.get("utilization"), measures.get("loss_ratio")
            result = f"{used or 0:.1%} utilized, {loss or 0:.2%} lost"
        else:
            self._skipped[name] = _why(ended)
            result = f"not complete: {self._skipped[name]}"
        self._write()
        left = f"about {duration_in_words(ended.remaining_s)} left"
        self._console.print(f"{count} {name}: {result}; {left}", highlight=False, soft_wrap=True)
        if ended.interrupted:
            raise Interrupted("interrupted; complete runs were kept, the same command continues from here")

    def _is_complete(self, batch: Batch, study_point: StudyPoint) -> bool:
        """Whether a point was measured elsewhere, or its results are here.

        Raises:
            InputError: they are those of another experiment, or made by other programs than they would be now.
        """
        return study_point.directory in self._known or batch.is_complete(self._wanted(study_point))

    def _measure(self, study_point: StudyPoint) -> None:
        self._written[study_point.experiment] = study_point.written
        self._measured_as[study_point.directory] = make_plan(study_point.point.experiment)
        if study_point.directory in self._known:
            self._measured[study_point.directory] = self._known[study_point.directory]
            return
        figure = self._study.figure_of(study_point.experiment)
        run = LoadedRun(self._directory / study_point.directory)
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
        """What the points were measured with; where they differ, all values, with commas."""
        host = machine.describe()
        found = {"target": self._target, **{name: host[name] for name in ("cpu", "cpus")}}
        found["kernel"] = ", ".join(dict.fromkeys(senders.release for senders in self._senders))
        found["clock"] = "virtual" if self._senders[0].name else "real"
        found["bbr_ack_aggregation"] = self._senders[0].algorithms.ack_aggregation
        for other in self._external:
            found = {name: merged(found[name], other.machine.get(name)) for name in found}
        found["published"] = self._published()
        return found

    def _published(self) -> dict[str, float]:
        """How many runs and seconds of traffic the publication has, and how long those that are not here would take.

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
        path = self._directory / files.STUDY
        write_results(path, self._results())
        give_to_user(path)


def _why(ended: Ended) -> str:
    if isinstance(ended.outcome, RunError):
        return f"failed: {ended.outcome}"
    return f"{ended.outcome.status}: {ended.outcome.reason}" if ended.outcome.reason else "its analysis failed"
