# SPDX-License-Identifier: Apache-2.0
"""One run from an empty machine to a result directory, and back to an empty machine, even if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import narrows_analysis
from narrows_analysis.report import units
from narrows_formats.programs import COLLECTOR, find_binary, missing_binary
from narrows_formats.summary import Summary
from narrows_formats.units import NANOSECONDS
from rich.console import Console

from narrows.errors import InputError, Interrupted, NarrowsError, RunError
from narrows.experiment import tcp_settings
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts import machine
from narrows.hosts.state import RunState
from narrows.run import record
from narrows.run.buffer_notes import buffer_notes
from narrows.run.captures import write_captures
from narrows.run.environment import THIS_MACHINE, Environment, Measuring
from narrows.run.ingredients import inputs, made_here, programs
from narrows.run.measured import Measured, Status
from narrows.run.progress import Page, RunProgress
from narrows.run.results import RunDirectory
from narrows.run.stop_signals import already_ending, stop_signals_afterwards, stop_signals_wait
from narrows.targets.base import Target
from narrows.traffic.registry import missing_commands, needs_commands

ANALYSIS_INTERRUPTED = "the analysis was interrupted; 'narrows analyze' makes it from the telemetry"


@dataclass(frozen=True)
class Outcome:
    """What became of a run. ``reason`` says why it is not complete; ``summary`` is None if the analysis failed."""

    status: Status
    reason: str
    directory: Path
    summary: Summary | None
    notes: tuple[str, ...]
    analysis_interrupted: bool = False

    @property
    def is_analysed(self) -> bool:
        """Whether it is complete, and its summary is there."""
        return self.status == "complete" and self.summary is not None

    @property
    def interrupted(self) -> bool:
        """Whether a signal cut its traffic or its analysis short: nothing is to follow it."""
        return self.status == "partial" or self.analysis_interrupted


@dataclass(frozen=True)
class CheckedRun:
    """A run that can be made as written: `check` gives it, `execute` makes it, once.

    ``programs`` are the digests of those that make it, as it was checked; ``notes`` are what a user should know before,
    each with the field that it is about.
    """

    experiment: Experiment
    plan: Plan
    target: Target
    environment: Environment
    programs: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def provenance(self) -> dict[str, str]:
        """What it is made by, by the names that provenance has."""
        return made_here(self.environment, {**self.programs, **inputs(self.plan)})

    def changed(self) -> str:
        """Which of its programs was changed since it was checked, in words; empty if none was."""
        try:
            now = programs(self.plan, self.target, self.environment)
        except NarrowsError as error:
            return str(error)
        changed = [name for name in (*self.programs, *now) if now.get(name) != self.programs.get(name)]
        return f"{changed[0]} was changed while runs were made" if changed else ""


def check(experiment: Experiment, target: Target, origin: str, environment: Environment = THIS_MACHINE) -> CheckedRun:
    """Everything that can be known to go wrong before anything is created.

    Args:
        experiment: one run.
        target: the switch that it is for.
        origin: the file, as error messages name it.
        environment: where it will be measured.

    Raises:
        InputError: one line for every reason why this experiment cannot run here as written.
    """
    plan, problems = planned(experiment, target, origin, environment)
    if not target.hosts_are_machines:
        problems += machine.missing_tools() + missing_commands(plan, environment.remade)
    problems += environment.problems(plan)
    if find_binary(COLLECTOR) is None:
        problems.append(missing_binary(COLLECTOR))
    problems += target.missing()
    problems = problems or target.machine_problems(plan)
    if problems:
        raise InputError("\n".join(problems))
    of_experiment = (*trace_notes(experiment), *buffer_notes(experiment, plan))
    notes = (*of_experiment, *target.notes(plan), *environment.notes(plan, target))
    return CheckedRun(experiment, plan, target, environment, programs(plan, target, environment), notes)


def planned(
    experiment: Experiment, target: Target, origin: str, environment: Environment = THIS_MACHINE
) -> tuple[Plan, list[str]]:
    """The plan of a run on a target, and what of it can be set on no machine there; nothing is looked at but the CCAs.

    Args:
        experiment: one run.
        target: the switch that it is for.
        origin: the file, as error messages name it.
        environment: where it will be measured.

    Raises:
        InputError: there is no plan.
    """
    try:
        plan = make_plan(experiment)
        is_runnable = target.runs_programs or not plan.programs
        # Ports of users' programs are of no other target.
        plan = target.bind_to_target(plan) if is_runnable else plan
    except InputError as error:
        raise error.at(origin) from error
    refused = [*(target.unsupported(plan) if is_runnable else ()), *environment.unsupported(plan)]
    if experiment.hosts is not None and not environment.kernel:
        given = [name for name in ("date", "syscall") if getattr(experiment.hosts, name) is not None]
        refused += [f"hosts.{name}: set in virtual time only; fix: --virtual, or leave it out" for name in given]
    of_hosts = experiment.hosts is not None and bool(experiment.hosts.sysctls)
    refused += tcp_settings.unsupported(experiment.flows, of_hosts, bool(environment.kernel), target.hosts_are_machines)
    if not target.hosts_are_machines:
        refused = [
            f"flows.{number}.cca: {problem}"
            for number, group in enumerate(experiment.flows)
            if (cca := group.kernel_cca) is not None and group.bpf is None and (problem := environment.missing_cca(cca))
        ] + refused
    elif plan.offloads:
        refused.append("hosts.offloads: set by Narrows in namespaces only; allowed: set them on the hosts")
    if not is_runnable:
        where = " between machines" if target.hosts_are_machines else ""
        refused = [
            f"{plan.programs[0].field}: {target.profile.name}{where} runs Narrows' own program; allowed: with --target "
            "soft or bmv2, in namespaces or in virtual time"
        ]
    if plan.changes and experiment.events and not target.changes_links:
        refused.append(
            f"events: {target.profile.name} cannot change buffer or loss while traffic flows; "
            "allowed: with --target soft"
        )
    if not target.changes_links:
        refused += [
            f"{'' if experiment.bottleneck else 'links.'}{name}.trace: {target.profile.name} cannot change a link as a "
            "recording says; allowed: with --target soft"
            for name, direction in experiment.directions.items()
            if direction.trace is not None
        ]
    if plan.reactions and (not target.changes_links or target.hosts_are_machines):
        refused.append(
            f"events: conditions (when) cannot be evaluated with {target.profile.name}"
            f"{' between machines' if target.hosts_are_machines else ''}; allowed: with --target soft, in namespaces"
        )
    if target.hosts_are_machines and needs_commands(plan):
        refused.append("flows: some are made by commands of their hosts; allowed: in namespaces only")
    return plan, [f"{origin}: {problem}" for problem in refused]


def execute(
    run: CheckedRun,
    directory: Path,
    console: Console,
    title: str,
    page: Page | None = None,
    shown: type[RunProgress] = RunProgress,
) -> Outcome:
    """Make a run; its results are in ``directory`` afterwards, also when it was cut short.

    Progress goes to ``console``, under ``title``, and to ``page``, as ``shown`` has it.

    Raises:
        RunError: it failed before any traffic flowed, or something could not be removed.
        Interrupted: it was stopped before any traffic flowed.
    """
    experiment, plan = run.experiment, run.plan
    if other := run.changed():
        raise RunError(f"{other}; fix: the same command again, which says what of its runs can be kept")
    before = inputs(plan)
    with _on_record(run.environment) as state:
        results = RunDirectory(directory, state.run_id)
        measurement = run.environment.measurement(experiment, plan, run.target, state, results)
        with shown(console, title, _setting(experiment, plan), page) as progress:
            progress.files_in(state.directory)
            progress.mark([(event.at / NANOSECONDS, event.what) for event in experiment.events if event.at])
            with stop_signals_afterwards(), _on_full_disk(results):
                state.add_directory(results.path)
                results.create(experiment)
            measured = _measure(measurement, progress)
            # What was measured is kept from here on, whatever becomes of the rest, even if a signal comes now.
            try:
                results.use_reserved()
                ending = _write_record(run, before, measurement, measured, results, progress)
                progress.phase("analysing")
                analysed = _analyse(results.path)
                missing = tuple(write_captures(experiment, results.path))
            finally:
                final = _publish(results, state)
        moved = [] if final == results.final else [f"{results.final} was taken meanwhile: the results are in {final}"]
        notes = (*ending.notes, *([analysed.problem] if analysed.problem else []), *missing, *moved)
        return Outcome(ending.status, ending.reason, final, analysed.summary, notes, analysed.interrupted)


def _measure(measurement: Measuring, progress: RunProgress) -> Measured:
    try:
        return asyncio.run(measurement.run(progress))
    except asyncio.CancelledError:
        raise Interrupted("interrupted before any traffic flowed; nothing was kept") from None


def _write_record(
    run: CheckedRun,
    before: Mapping[str, str],
    measurement: Measuring,
    measured: Measured,
    results: RunDirectory,
    progress: RunProgress,
) -> record.Ending:
    """Write run.json, whatever signal comes; ``before`` are the digests of the run's inputs when it began."""
    with (
        stop_signals_wait(lambda number: progress.note(already_ending(number))),
        _on_full_disk(results, f"; what was written is in {results.final}"),
    ):
        if other := run.changed():
            measured = replace(measured, status="failed", reasons=(*measured.reasons, other))
        # What has changed meanwhile its programs have written.
        read = dict(before.items() & inputs(run.plan).items())
        metadata = {**measurement.host_metadata(measured), "programs": {**run.programs, **read}}
        return record.write(run.experiment, run.plan, measured, results, metadata)


@contextmanager
def _on_record(environment: Environment) -> Iterator[RunState]:
    """The record of a run. What is still on it when the run ends, or fails in a way that was foreseen, goes with it.

    An error of ours leaves it all for `narrows clean`: unfinished results may show what went wrong.
    """
    state = environment.state()
    try:
        yield state
    except (KeyboardInterrupt, NarrowsError):
        state.destroy()
        raise
    state.destroy()


@contextmanager
def _on_full_disk(results: RunDirectory, kept: str = "") -> Iterator[None]:
    """What the disk does not take is an error with a message, which ends with what was ``kept``."""
    try:
        yield
    except OSError as error:
        raise RunError(f"the results cannot be written to {results.final.parent}: {error.strerror}{kept}") from error


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


def _setting(experiment: Experiment, plan: Plan) -> str:
    """The links in one line, as the report has them."""
    flows = sum(group.count for group in experiment.flows)
    planned = {link.name: link for link in plan.links}
    alone = len(experiment.all_links) == 1
    links = []
    for name, link in experiment.all_links.items():
        rate = units.rate(link.rate) if isinstance(link.rate, int) else str(link.rate)
        parts = [rate, f"{units.duration(link.rtt / NANOSECONDS)} RTT"]
        if (found := planned.get(name)) is not None:
            parts.append(f"{units.depth(found.limit_bytes, found.limit_packets)} buffer")
        links.append(f"{'' if alone else f'{name} '}{' · '.join(parts)}")
    return f"{' · '.join(links)} · {flows} flow{'' if flows == 1 else 's'}"


def trace_notes(experiment: Experiment) -> Iterator[str]:
    """What the files of traces have that a user might not expect."""
    field = "links.{}" if experiment.links else "{}"
    for name, link in experiment.all_links.items():
        for where, settings in ((field.format(name), link), (f"{field.format(name)}.reverse", link.reverse)):
            if settings is not None and not isinstance(settings.rate, int) and settings.rate.trace is not None:
                trace = settings.rate.trace
                yield from (f"{where}.rate.trace: {trace.file} {note}" for note in trace.notes())


@dataclass(frozen=True)
class _Analysed:
    """The summary of a run, or None and why there is none; the telemetry is kept in either case."""

    summary: Summary | None
    problem: str = ""
    interrupted: bool = False


def _analyse(directory: Path) -> _Analysed:
    try:
        run = narrows_analysis.read_run(directory)
        summary = narrows_analysis.analyze_run(run)
        narrows_analysis.write_report(run)
    except narrows_analysis.AnalysisError as error:
        return _Analysed(None, f"analysis: {error}")
    except OSError as error:
        why = f"analysis: it cannot be written: {error.strerror}; 'narrows analyze' makes it from the telemetry"
        return _Analysed(None, why)
    except KeyboardInterrupt:
        return _Analysed(None, ANALYSIS_INTERRUPTED, interrupted=True)
    return _Analysed(summary)
