# SPDX-License-Identifier: Apache-2.0
"""Running a suite: the scheduler of sweeps makes the runs of all cases and senders, and `narrows test`'s judge judges.

A directory of a suite has ``SENDER/CASE`` for each cell, with that run or a directory a point, and the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from narrows_analysis.records.run_directory import read_run
from narrows_formats import suite_matrix
from narrows_formats.suite_matrix import Cell, Check, Matrix, Outcome
from narrows_formats.units import duration_in_words
from rich.console import Console

from narrows import __version__
from narrows.batch.batch import Batch, Ended, Wanted
from narrows.batch.cluster import Cluster
from narrows.batch.task import Task
from narrows.batch.time_left import TimeLeft
from narrows.errors import InputError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.sweep import Point, Series
from narrows.flows.media import CCAS
from narrows.run import verdicts
from narrows.run.environment import Environment
from narrows.suites.programs import TestedProgram, Unsuited
from narrows.suites.suite import Case, Suite
from narrows.targets.base import Target
from narrows.virtual import kernels
from narrows.virtual.environment import Guests
from narrows.virtual.probing import about

# In the place of an outcome, where a matrix has no such cell.
NOT_THERE = "not there"


@dataclass(frozen=True)
class Sender:
    """A congestion control of a kernel, or a program on hosts with that kernel.

    ``present``: the kernel has it. ``like``: the one whose cases are its cases, too, where that is another. ``cca`` is
    the name of a ``program``.
    """

    cca: str
    kernel: str
    release: str
    version: str
    present: bool
    environment: Environment
    like: str = ""
    program: TestedProgram | None = None

    def series(self, case: Case, quick: bool, repeat: int | None) -> Series:
        """The runs of a case with this sender.

        Raises:
            InputError: the case is wrong.
            Unsuited: it says nothing of a program.
        """
        if self.program is not None:
            return case.series_of_program(self.program, quick, repeat)
        return case.series(self.cca, quick, repeat)

    @property
    def name(self) -> str:
        """What the matrix calls it, and its directory."""
        return f"{self.cca}@{self.kernel}"


def senders(
    ccas: Sequence[str], kernel_names: Sequence[str], like: str = "", programs: Sequence[TestedProgram] = ()
) -> list[Sender]:
    """Each congestion control and each program with each kernel.

    Args:
        ccas: names that kernels register.
        kernel_names: kernels; the default one if there are none.
        like: a congestion control whose cases apply to all of them.
        programs: senders that are programs.

    Raises:
        InputError: there is no such kernel, or none of them has any of the congestion controls.
        RunError: a kernel does not boot.
    """
    found: list[Sender] = []
    known_ccas: dict[str, None] = {}
    for name in dict.fromkeys(kernel_names or (kernels.DEFAULT,)):
        kernel = kernels.find(name)
        known = about(kernel)
        own = (*known.ccas, *CCAS)
        known_ccas |= dict.fromkeys(own)
        # It is a directory's name, too, and may have been given as a path.
        short, guests = Path(kernel.name).name, Guests(kernel)
        found += [
            Sender(cca, short, known.release, known.versions.get(cca, ""), cca in own, guests, like)
            for cca in dict.fromkeys(ccas)
        ]
        found += [Sender(one.name, short, known.release, "", True, guests, like, one) for one in programs]
    if not any(sender.present for sender in found):
        raise InputError(f"--cca {ccas[0]}: no kernel that is asked for has it; allowed: {', '.join(known_ccas)}")
    return found


@dataclass(frozen=True)
class _Asked:
    """A cell that is to be measured."""

    case: Case
    sender: Sender
    series: Series

    @property
    def directory(self) -> str:
        return f"{self.sender.name}/{self.case.name}"

    def wanted(self, point: Point) -> Wanted:
        name = "/".join(filter(None, (self.directory, point.directory)))
        return Wanted(name, point.origin, ((point.experiment, self.sender.environment),))


class SuiteRun:
    """A suite with some senders, in one directory; runs that are complete in it are not made again."""

    def __init__(
        self, suite: Suite, of: Sequence[Sender], directory: Path, quick: bool, repeat: int | None = None
    ) -> None:
        """Read all cases; nothing is created before `run`.

        Raises:
            InputError: a case is not right.
        """
        self._suite, self._senders, self._directory = suite, tuple(of), directory
        self._variant: Literal["quick", "full"] = "quick" if quick else "full"
        self._asked: list[_Asked] = []
        self._unsuited: dict[tuple[str, str], Unsuited] = {}
        for case in suite.cases:
            for sender in of:
                if case.applies_to(sender.cca, sender.like) and sender.present:
                    try:
                        self._asked.append(_Asked(case, sender, sender.series(case, quick, repeat)))
                    except Unsuited as why:
                        self._unsuited[case.name, sender.name] = why
        self._failed: dict[str, str] = {}
        self.interrupted = False

    def run(
        self,
        make_target: Callable[[Experiment], Target],
        console: Console,
        jobs: int | None = None,
        cluster: Cluster | None = None,
    ) -> Matrix:
        """Make the runs that are not complete, judge, and write the matrix.

        Raises:
            InputError: a case cannot run here as written, or the directory has a run of another experiment.
            RunError: the directory is another process's.
            Interrupted: a signal ended it before traffic flowed; what is complete is kept.
        """
        with Batch(self._directory, "soft", make_target, console, cluster=cluster) as batch:
            tasks: list[Task] = []
            for asked in self._asked:
                runs = [asked.wanted(point) for point in asked.series.points]
                missing = [one for one in runs if not batch.is_complete(one)]
                try:
                    tasks += map(batch.task, missing)
                except InputError as error:
                    raise error.at(asked.directory) from error
            batch.begin(sender.environment.records for sender in self._senders)
            environment = self._senders[0].environment
            at_once = batch.at_once(environment.at_once([task.run.plan for task in tasks], jobs) if tasks else 1)
            expected = duration_in_words(TimeLeft([task.expected_s for task in tasks], at_once).seconds)
            console.print(
                f"{self._suite.name}: {len(self._asked)} cells, {len(tasks)} runs to make, about {expected}",
                highlight=False,
            )
            with closing(batch.run(tasks, at_once)) as ends:
                for ended in ends:
                    self._note(ended)
        matrix = self.matrix()
        suite_matrix.write(self._directory, matrix)
        return matrix

    def _note(self, ended: Ended) -> None:
        self.interrupted |= ended.interrupted
        if not ended.complete:
            outcome = ended.outcome
            why = str(outcome) if isinstance(outcome, RunError) else outcome.reason or "its analysis failed"
            self._failed[ended.task.name] = why

    def matrix(self) -> Matrix:
        """What became of each cell, by the runs that are complete.

        Raises:
            narrows_analysis.AnalysisError: results cannot be read.
        """
        asked = {(one.case.name, one.sender.name): one for one in self._asked}
        cells = [
            self._cell(asked.get((case.name, sender.name)), case, sender)
            for case in self._suite.cases
            for sender in self._senders
        ]
        return {
            "format": suite_matrix.FORMAT,
            "narrows_version": __version__,
            "suite": self._suite.name,
            "title": self._suite.text.title,
            "variant": self._variant,
            "cases": [
                {
                    "name": case.name,
                    "tests": list(case.sections),
                    "urls": list(case.urls),
                    "says": case.text.says,
                    "rule": case.text.rule,
                    "changed": case.text.changed,
                }
                for case in self._suite.cases
            ],
            "senders": [
                {
                    "name": sender.name,
                    "cca": sender.cca,
                    "kernel": sender.kernel,
                    "release": sender.release,
                    "version": sender.version,
                }
                for sender in self._senders
            ],
            "cells": cells,
        }

    def _cell(self, asked: _Asked | None, case: Case, sender: Sender) -> Cell:
        if (unsuited := self._unsuited.get((case.name, sender.name))) is not None:
            return _made(case, sender, unsuited.outcome, str(unsuited))
        if asked is None:
            why = (
                f"about {', '.join(case.text.ccas)}"
                if sender.present
                else f"kernel {sender.kernel} has no {sender.cca}"
            )
            return _made(case, sender, "not applicable", why)
        directory = self._directory / asked.directory
        missing = [one for one in map(asked.wanted, asked.series.points) if not self._is_there(one.name)]
        if missing:
            why = self._failed.get(missing[0].name, f"{len(missing)} of {len(asked.series.points)} runs are missing")
            return _made(case, sender, "not run", why)
        if sender.program is not None:
            ends = [ended_early(self._directory / asked.wanted(point).name) for point in asked.series.points]
            if early := next(filter(None, ends), ""):
                return _made(case, sender, "undecided", early, directory=asked.directory)
        given = list(verdicts.occurred(asked.series, directory, case.text.given))
        expected = list(verdicts.judge(asked.series, directory))
        outcome, reason = decided(given, expected)
        checks = [*(_check(one, True) for one in given), *(_check(one, False) for one in expected)]
        return _made(case, sender, outcome, reason, asked.series.experiment.repeat, asked.directory, checks)

    def _is_there(self, name: str) -> bool:
        from narrows_formats import files

        return name not in self._failed and (self._directory / name / files.SUMMARY).exists()


def ended_early(directory: Path) -> str:
    """Which program of a run ended by itself before its time was over, and sent nothing from then on; empty: none did.

    Raises:
        narrows_analysis.AnalysisError: the run cannot be read.
    """
    for flow in read_run(directory).flows:
        client = None if flow.application is None else flow.application.client
        if client is not None and flow.duration_s is not None and flow.ended_s is not None:
            begun_s = flow.start_s if flow.started_s is None else flow.started_s
            if not client.stopped and flow.ended_s < flow.start_s + flow.duration_s:
                return f"{flow.name}'s client ended after {flow.ended_s - begun_s:.3g} s of {flow.duration_s:g} s"
    return ""


def decided(given: Sequence[verdicts.Verdict], expected: Sequence[verdicts.Verdict]) -> tuple[Outcome, str]:
    """What a cell's verdicts come to, and why.

    Where what the case is about has not occurred, nothing is decided. One expectation that is not met fails the case;
    what is not observable is never passed.
    """
    for one in given:
        if one.kind != "pass":
            outcome: Outcome = "not observable" if one.kind == "not observable" else "undecided"
            return outcome, f"what it is about did not occur: {one.name}: {one.reason}"
    worst: tuple[Outcome, ...] = ("fail", "not observable", "undecided")
    for kind in worst:
        found = [one for one in expected if one.kind == kind]
        if found:
            return kind, f"{found[0].name}: {found[0].reason}"
    return "pass", ""


def _made(
    case: Case,
    sender: Sender,
    outcome: Outcome,
    reason: str,
    n: int = 0,
    directory: str = "",
    checks: Sequence[Check] = (),
) -> Cell:
    return {
        "case": case.name,
        "sender": sender.name,
        "outcome": outcome,
        "reason": reason,
        "n": n,
        "directory": directory,
        "checks": list(checks),
    }


def _check(verdict: verdicts.Verdict, precondition: bool) -> Check:
    return {
        "expectation": verdict.expectation,
        "precondition": precondition,
        "parameters": verdict.parameters,
        "values": list(verdict.values),
        "interval": None if verdict.interval is None else list(verdict.interval),
        "outcome": verdict.kind,
        "reason": verdict.reason,
    }


class Change(NamedTuple):
    """A cell whose outcome is another one than in another matrix; 0 is the ``n`` of a cell that is not there."""

    case: str
    sender: str
    before: str
    after: str
    n_before: int
    n_after: int
    reason: str

    @property
    def in_both(self) -> bool:
        """Whether both matrices have the cell."""
        return NOT_THERE not in (self.before, self.after)


@dataclass(frozen=True)
class Comparison:
    """What `compared` finds.

    Attributes:
        changes: cells of another outcome, and those that only one of the matrices has.
        same: how many cells have the same outcome.
    """

    changes: list[Change]
    same: int

    @property
    def only_before(self) -> int:
        """How many cells only the first matrix has."""
        return sum(one.after == NOT_THERE for one in self.changes)

    @property
    def only_after(self) -> int:
        """How many cells only the second matrix has."""
        return sum(one.before == NOT_THERE for one in self.changes)


def compared(before: Matrix, after: Matrix) -> Comparison:
    """The cells of two matrices, by case and sender.

    Senders are compared by their names; a matrix of one sender is compared with one of another one, and a change has
    both names then.
    """
    pairs = _same_senders(before, after)
    old, new = ({(one["case"], one["sender"]): one for one in matrix["cells"]} for matrix in (before, after))
    found, same = [], 0
    for case in dict.fromkeys(one["name"] for matrix in (before, after) for one in matrix["cases"]):
        for first, second in pairs:
            was, now = old.get((case, first)), new.get((case, second))
            before_it, after_it = (NOT_THERE if one is None else one["outcome"] for one in (was, now))
            if before_it != after_it:
                name = first if first == second else f"{first} -> {second}"
                n_before, n_after = (0 if one is None else one["n"] for one in (was, now))
                reason = "" if now is None else now["reason"]
                found.append(Change(case, name, before_it, after_it, n_before, n_after, reason))
            elif now is not None:
                same += 1
    return Comparison(found, same)


def _same_senders(before: Matrix, after: Matrix) -> list[tuple[str, str]]:
    first, second = ([one["name"] for one in matrix["senders"]] for matrix in (before, after))
    if len(first) == len(second) == 1:
        return [(first[0], second[0])]
    return [(name, name) for name in dict.fromkeys((*first, *second))]


def junit(matrix: Matrix) -> bytes:
    """The matrix as JUnit XML: a suite a cell, without those that do not apply; what is not observable is skipped."""
    suites = []
    for cell in matrix["cells"]:
        if cell["outcome"] != "not applicable":
            found = [_verdict(one) for one in cell["checks"]]
            error = cell["reason"] if cell["outcome"] == "not run" else ""
            suites.append((f"{matrix['suite']}/{cell['case']} {cell['sender']}", 0.0, found, error))
    return verdicts.junit(suites, skipped=("not observable",))


def _verdict(one: Check) -> verdicts.Verdict:
    interval = None if one["interval"] is None else (one["interval"][0], one["interval"][1])
    kind: verdicts.Kind = one["outcome"]  # type: ignore[assignment]
    return verdicts.Verdict(one["expectation"], one["parameters"], tuple(one["values"]), interval, one["reason"], kind)
