# SPDX-License-Identifier: Apache-2.0
"""Whether runs are as their experiment expects, and JUnit's XML of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import pandas as pd
from narrows_analysis.metrics.confidence import estimate
from narrows_analysis.metrics.sender_state import NotObservable, answer
from narrows_analysis.records.run_directory import read_run
from narrows_analysis.records.sockets import each_socket, read_sockets
from narrows_analysis.summary.file import read_summary

from narrows.experiment.expectations import Expectation
from narrows.experiment.model import Experiment
from narrows.experiment.sweep import Point, Series

Kind = Literal["pass", "fail", "undecided", "not observable"]


@dataclass(frozen=True)
class Verdict:
    """An expectation at a point of a sweep.

    ``values`` are those of its repetitions, in SI units. ``reason`` says why it is not met, and is empty if it is.
    ``kind`` distinguishes what fails, what repetitions do not decide, and what the sender does not show. ``measured``
    says what was measured, in the unit of the bound; empty if there is no value.
    """

    expectation: str
    parameters: dict[str, object]
    values: tuple[float, ...]
    interval: tuple[float, float] | None
    reason: str
    kind: Kind
    measured: str = ""

    @property
    def passed(self) -> bool:
        """Whether it is met."""
        return self.kind == "pass"

    @property
    def name(self) -> str:
        """The expectation, and the point if there are several."""
        where = ", ".join(f"{field}={value}" for field, value in self.parameters.items())
        return f"{self.expectation} [{where}]" if where else self.expectation

    @property
    def line(self) -> str:
        """The outcome in one line."""
        return f"{'pass' if self.passed else 'FAIL'}  {self.name}: {self.reason or self.measured}"

    def as_json(self) -> dict[str, object]:
        """Plain data."""
        return {"passed": self.passed, **asdict(self)}


def judge(series: Series, directory: Path) -> Iterator[Verdict]:
    """Each expectation of the experiment at each point, by the results of the runs in the series' directory.

    Repetitions decide together: the 95 % confidence interval of their mean lies on the right side of the bound, or the
    expectation is not met.

    Raises:
        narrows_analysis.AnalysisError: a summary cannot be read, or what sockets said cannot.
    """
    for experiment, parameters, runs in _repetitions(series, directory):
        for expectation in experiment.expectations:
            yield _answered(expectation, parameters, runs)


def occurred(series: Series, directory: Path, texts: Sequence[str]) -> Iterator[Verdict]:
    """Whether something happened at each point, as ``texts`` say it: it has to be so in each repetition by itself.

    Raises:
        narrows_analysis.AnalysisError: a summary cannot be read, or what sockets said cannot.
    """
    for experiment, parameters, runs in _repetitions(series, directory):
        for expectation in map(experiment.expectation, texts):
            yield _answered(expectation, parameters, runs, in_each=True)


def _repetitions(series: Series, directory: Path) -> Iterator[tuple[Experiment, dict[str, object], Sequence[_Results]]]:
    """Of each point the experiment, its parameters, and the results of its repetitions."""
    points: dict[str, list[Point]] = {}
    for point in series.points:
        points.setdefault(json.dumps(point.parameters, sort_keys=True), []).append(point)
    for repetitions in points.values():
        runs = [_Results(directory / point.directory) for point in repetitions]
        yield repetitions[0].experiment, repetitions[0].parameters, runs


class _Results:
    """What is asked of a run: its summary, and the readings of its sockets, which are read when they are asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._summary = read_summary(directory)

    @cached_property
    def _sockets(self) -> dict[str, pd.DataFrame]:
        """Of each flow the readings of the socket that carried most."""
        run = read_run(self._directory)
        found = read_sockets(run).groupby("flow")
        return {run.flow_names[int(str(flow))]: each_socket(rows)[0] for flow, rows in found}

    def value(self, expectation: Expectation) -> float | None:
        if expectation.question is None:
            return expectation.value(self._summary)
        return answer(expectation.question, self._sockets.get(expectation.name or "", pd.DataFrame()))


def _answered(
    expectation: Expectation, parameters: dict[str, object], runs: Sequence[_Results], in_each: bool = False
) -> Verdict:
    try:
        values = [run.value(expectation) for run in runs]
    except NotObservable as error:
        reason = f"the sender does not show {error}"
        return Verdict(expectation.text, parameters, (), None, reason, "not observable")
    return _verdict(expectation, parameters, values, in_each)


def _verdict(
    expectation: Expectation, parameters: dict[str, object], values: list[float | None], in_each: bool = False
) -> Verdict:
    known = tuple(value for value in values if value is not None)
    if len(known) < len(values):
        reason = f"there is no value in {len(values) - len(known)} of {len(values)} runs"
        return Verdict(expectation.text, parameters, known, None, reason, "fail")
    if in_each:
        missed = [value for value in known if not expectation.holds(value)]
        measured = f"measured {', '.join(map(expectation.shown, missed or known))}"
        reason = f"{measured} in {len(missed)} of {len(known)} runs" if missed else ""
        return Verdict(expectation.text, parameters, known, None, reason, "fail" if missed else "pass", measured)
    found = estimate(known)
    if found is None or found.interval is None:
        holds = expectation.holds(known[0])
        measured = f"measured {expectation.shown(known[0])}"
        decided: Kind = "pass" if holds else "fail"
        return Verdict(expectation.text, parameters, known, None, "" if holds else measured, decided, measured)
    inside = [expectation.holds(end) for end in found.interval]
    mean, low, high = map(expectation.shown, (found.mean, *found.interval))
    measured = f"measured {mean} (95 % interval {low} to {high}, {len(known)} runs)"
    decided = "pass" if all(inside) else "undecided" if any(inside) else "fail"
    reason = {"pass": "", "fail": measured, "undecided": f"{measured}: undecided"}[decided]
    return Verdict(expectation.text, parameters, known, found.interval, reason, decided, measured)


def junit(suites: Iterable[tuple[str, float, list[Verdict], str]], skipped: Container[Kind] = ()) -> bytes:
    """XML as JUnit's readers take it: a suite a file.

    Args:
        suites: of each file its name, seconds that it took, the verdicts, and why it did not run (empty if it did).
        skipped: verdicts that count as skipped, and not as failed.
    """
    root = ET.Element("testsuites")
    for name, seconds, verdicts, error in suites:
        left_out = sum(verdict.kind in skipped for verdict in verdicts)
        failed = sum(not verdict.passed for verdict in verdicts) - left_out
        tests, errors = len(verdicts) + bool(error), int(bool(error))
        counts = {"tests": tests, "failures": failed, "errors": errors, "skipped": left_out}
        attributes = {"name": name, "time": f"{seconds:.3f}", **{key: str(count) for key, count in counts.items()}}
        suite = ET.SubElement(root, "testsuite", attributes)
        for verdict in verdicts:
            case = ET.SubElement(suite, "testcase", {"classname": name, "name": verdict.name, "time": "0"})
            if verdict.reason:
                found = "skipped" if verdict.kind in skipped else "failure"
                ET.SubElement(case, found, {"message": verdict.reason}).text = json.dumps(verdict.as_json())
        if error:
            case = ET.SubElement(suite, "testcase", {"classname": name, "name": "runs", "time": "0"})
            ET.SubElement(case, "error", {"message": error})
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"
