# SPDX-License-Identifier: Apache-2.0
"""One run from an empty machine to a result directory, and back to an empty machine whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narrows_analysis
from narrows_formats.programs import COLLECTOR, find_binary, missing_binary
from narrows_formats.units import format_rate, format_time
from rich.console import Console

from narrows.errors import InputError, Interrupted, NarrowsError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan, make_plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.run.measurement import Measurement, Status
from narrows.run.progress import Page, RunProgress
from narrows.run.results import RunDirectory
from narrows.targets.base import Laboratory, Target

ANALYSIS_INTERRUPTED = "the analysis was interrupted; 'narrows analyze' makes it from the telemetry"


@dataclass(frozen=True)
class Outcome:
    """What became of a run. ``reason`` says why it is not complete; ``summary`` is None if the analysis failed."""

    status: Status
    reason: str
    directory: Path
    summary: dict[str, Any] | None
    notes: tuple[str, ...]


def check(experiment: Experiment, target: Target, origin: str) -> Plan:
    """Everything that can be known to go wrong before anything is created.

    Args:
        experiment: one run.
        target: the switch that it is for.
        origin: the file, as error messages name it.

    Raises:
        InputError: one line for every reason why this experiment cannot run here as written.
    """
    laboratory = target if isinstance(target, Laboratory) else None
    try:
        plan = make_plan(experiment)
        if laboratory is not None:
            plan = laboratory.adapt(plan)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from error
    refused = target.refusals(plan)
    if laboratory is None:
        refused = [
            f"flows.{number}.cca: {problem}"
            for number, group in enumerate(experiment.flows)
            if (problem := machine.missing_cca(group.cca))
        ] + refused
    problems = [f"{origin}: {problem}" for problem in refused]
    if laboratory is None:
        problems += machine.missing_tools()
    problems += machine.missing_permissions()
    if find_binary(COLLECTOR) is None:
        problems.append(missing_binary(COLLECTOR))
    problems += target.missing()
    if laboratory is not None and not problems:
        problems += laboratory.machine_problems(plan)
    if problems:
        raise InputError("\n".join(problems))
    return plan


def execute(
    experiment: Experiment,
    plan: Plan,
    target: Target,
    directory: Path,
    console: Console,
    title: str,
    page: Page | None = None,
) -> Outcome:
    """Run one checked experiment; its results are in ``directory`` afterwards, also when it was cut short.

    Progress goes to ``console``, under ``title``, and to ``page``.

    Raises:
        RunError: it failed before any traffic flowed, or something could not be removed.
        Interrupted: it was stopped before any traffic flowed.
    """
    with _record() as state:
        results = RunDirectory(directory, state.run_id)
        measurement = Measurement(experiment, plan, target, state, results)
        with RunProgress(console, title, _setting(experiment), page) as progress:
            try:
                asyncio.run(measurement.run(progress))
            except asyncio.CancelledError:
                raise Interrupted("interrupted before any traffic flowed; nothing was kept") from None
            progress.phase("analysing")
            try:
                summary, problem = _analyse(results.path)
            finally:
                final = _publish(results, state)
        notes = (*measurement.notes, *([problem] if problem else []))
        return Outcome(measurement.status, measurement.reason, final, summary, notes)


@contextmanager
def _record() -> Iterator[RunState]:
    """The record of a run. What is still on it when the run ends, or fails in a way that was foreseen, goes with it.

    An error of ours leaves it all for `narrows clean`: unfinished results may show what went wrong.
    """
    state = RunState.create()
    try:
        yield state
    except (KeyboardInterrupt, NarrowsError):
        state.destroy()
        raise
    state.destroy()


def _publish(results: RunDirectory, state: RunState) -> Path:
    """Give the results their name. What was measured is kept, even where that cannot be done.

    Raises:
        RunError: the directory cannot be renamed; the message says where the results are.
    """
    try:
        return results.publish()
    except OSError as error:
        raise RunError(f"{results.final}: {error.strerror}; the results are in {results.path}") from error
    finally:
        state.remove_directory(results.path)


def _setting(experiment: Experiment) -> str:
    """The link in one line."""
    link = experiment.bottleneck
    flows = sum(group.count for group in experiment.flows)
    rate, rtt = format_rate(link.rate), format_time(link.rtt)
    return f"{rate}/s · {rtt} RTT · {link.buffer} buffer · {flows} flow{'' if flows == 1 else 's'}"


def _analyse(directory: Path) -> tuple[dict[str, Any] | None, str]:
    """Summary of a run, or None and why there is none; the telemetry is kept in either case."""
    try:
        summary = narrows_analysis.analyze_run(directory)
        narrows_analysis.write_report(directory)
    except narrows_analysis.AnalysisError as error:
        return None, f"analysis: {error}"
    except KeyboardInterrupt:
        return None, ANALYSIS_INTERRUPTED
    return summary, ""
