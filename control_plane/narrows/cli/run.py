# SPDX-License-Identifier: Apache-2.0
"""``narrows run``."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from narrows_formats import files

from narrows.cli.options import (
    AllowMismatch,
    AnyTarget,
    Inventory,
    Jobs,
    KernelName,
    Mixed,
    OnCluster,
    Quiet,
    SeriesOut,
    Settings,
    Virtual,
    mode_of,
)
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, InputError
from narrows.plain_text import note_line
from narrows.targets.registry import LOCAL, check_options, target_factory

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.run.runner import Outcome


def run(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
    target: AnyTarget = "soft",
    out: SeriesOut = None,
    bmv2_path: Annotated[
        Path | None,
        typer.Option(help="simple_switch_grpc, or the directory it is in.", show_default="$NARROWS_BMV2, or PATH"),
    ] = None,
    inventory: Inventory = None,
    virtual: Virtual = False,
    kernel: KernelName = None,
    jobs: Jobs = None,
    cluster: OnCluster = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(
            help="Directory of the same sweep from another machine, whose complete runs are added; may be given "
            "several times.",
            show_default="none",
        ),
    ] = None,
    allow_mismatch: AllowMismatch = False,
    mixed: Mixed = False,
    settings: Settings = None,
    live: Annotated[bool, typer.Option("--live", help="Show the runs on a local web page as well.")] = False,
    live_port: Annotated[
        int | None,
        typer.Option(help="TCP port of that page, on 127.0.0.1; implies --live.", show_default="any free one"),
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Serve metrics to Prometheus during the runs.")] = False,
    metrics_address: Annotated[
        str | None,
        typer.Option(help="HOST:PORT where; implies --metrics.", show_default="127.0.0.1:9464"),
    ] = None,
    quiet: Quiet = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Results as JSON: each run's directory, status, notes and summary.")
    ] = False,
    open_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
) -> None:
    """Run an experiment, and make its report.

    One run, or one for every point of its sweep and every repetition. Progress goes to standard error. Whether
    expectations are met is shown, and not in the exit code: see `narrows test`.
    """

    from narrows.batch.batch import is_below
    from narrows.batch.cluster import Cluster
    from narrows.batch.sweep import run_series
    from narrows.cli.machine_readable import print_json, results_console
    from narrows.experiment.sweep import load_series
    from narrows.hosts.state import dead_runs
    from narrows.run.results import default_directory
    from narrows.terminal import Terminal

    console, results = Terminal(stderr=True, quiet=quiet), results_console()
    results.quiet = as_json
    check_options(target, bmv2_path, inventory)
    if virtual and target not in LOCAL:
        raise InputError(f"--virtual: --target {target} runs in real time only; allowed: with --target soft or bmv2")
    if virtual and inventory is not None:
        raise InputError(f"--virtual: the machines of {inventory} have a clock of their own; allowed: one of the two")
    if (metrics or metrics_address is not None) and virtual:
        raise InputError("--metrics: Prometheus cannot follow a clock that jumps; allowed: without --virtual")
    if cluster is not None:
        _check_cluster(cluster, virtual, kernel, jobs, bmv2_path)
    mode = mode_of(target, virtual, kernel, jobs)
    series = load_series(file, settings or ())
    directory = out or default_directory(series.experiment.name)
    make_target = target_factory(target, bmv2_path, inventory, directory, virtual)
    if leftover := [state for state in dead_runs(mode.environment.records) if not is_below(state, directory)]:
        console.print(
            f"{len(leftover)} killed run(s) left something behind: 'narrows clean' removes it", style="yellow"
        )
    code, made = EXIT_OK, []
    with contextlib.ExitStack() as stack:
        live_page = None
        if live or live_port is not None:
            from narrows.live.server import LivePage

            live_page = stack.enter_context(LivePage(live_port or 0))
            console.print(f"live view: {live_page.url}", soft_wrap=True, highlight=False)
        if metrics or metrics_address is not None:
            from narrows.live.metrics import DEFAULT_ADDRESS, MetricsPage
            from narrows.run.environment import ThisMachine

            figures = stack.enter_context(MetricsPage(metrics_address or DEFAULT_ADDRESS))
            console.print(f"metrics: {figures.url}", soft_wrap=True, highlight=False)
            mode = replace(mode, environment=ThisMachine(figures))
        workers = None if cluster is None else stack.enter_context(contextlib.closing(Cluster(cluster)))
        outcomes = run_series(
            series, make_target, directory, console, live_page, mode, jobs, workers, add or (), allow_mismatch or mixed
        )
        for outcome in outcomes:
            show(outcome, results, alone=series.single)
            made.append(_as_json(outcome))
            if outcome.interrupted:
                code = EXIT_INTERRUPTED
            elif outcome.status == "failed" or outcome.summary is None:
                code = max(code, EXIT_FAILED)
    if not series.single:
        _close(directory, results)
    if code == EXIT_OK and not as_json and series.experiment.expect:
        from narrows.plain_text import say
        from narrows.run.verdicts import judge

        for verdict in judge(series, directory):
            say(verdict.line)
    if not series.single and (page := directory / files.REPORT).exists():
        results.print(f"report of all runs: {page}", soft_wrap=True, highlight=False)
    if as_json:
        print_json(made)
    if open_report and (page := directory / files.REPORT).exists():
        from narrows.cli.browser import open_page

        open_page(page)
    raise typer.Exit(code)


def _check_cluster(cluster: str, virtual: bool, kernel: str | None, jobs: int | None, bmv2_path: Path | None) -> None:
    """Check that runs on other machines have no option that refers to this machine.

    Raises:
        InputError: an option means this machine.
    """
    here = {
        "--kernel": kernel is not None and "/" in kernel,
        "--jobs": jobs is not None,
        "--bmv2-path": bmv2_path is not None,
    }
    if not virtual:
        raise InputError(f"--cluster {cluster}: real time needs machines of its own; allowed: with --virtual")
    for option in [name for name, given in here.items() if given]:
        allowed = "a kernel's name" if option == "--kernel" else f"without {option}"
        raise InputError(f"--cluster {cluster}: workers do not know this machine's {option}; allowed: {allowed}")


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "directory": str(outcome.directory),
        "status": outcome.status,
        "reason": outcome.reason or None,
        "notes": outcome.notes,
        "summary": outcome.summary,
    }


def _close(directory: Path, console: Console) -> None:
    from narrows.cli.sweep_table import closing_table

    if (table := closing_table(directory)) is not None:
        console.print(table)


def show(outcome: Outcome, console: Console, *, alone: bool = True) -> None:
    """Show the figures of a run, what is to be noted, and where its report is; of one of several in a line."""
    from narrows.cli.sweep_table import run_line
    from narrows.cli.table import OF_RUNS, bottleneck_lines, summary_table, warning_lines

    if outcome.summary is not None and not alone:
        console.print(f"{outcome.directory.name}: {run_line(outcome.summary)}", highlight=False, soft_wrap=True)
    elif outcome.summary is not None:
        console.print(summary_table(outcome.summary, outcome.directory.name))
        for line in bottleneck_lines(outcome.summary):
            console.print(line, highlight=False, soft_wrap=True)
    if outcome.summary is not None:
        for line in warning_lines(outcome.summary, OF_RUNS):
            console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
    for note in outcome.notes:
        console.print(note_line(note), style="yellow", highlight=False, markup=False)
    if outcome.status != "complete":
        console.print(f"{outcome.status} run: {outcome.reason}", style="bold red", highlight=False, markup=False)
    report = outcome.directory / files.REPORT
    if not alone and report.exists() and outcome.status == "complete":
        return
    console.print(f"{'report' if report.exists() else 'results'}: ", end="")
    console.print(str(report if report.exists() else outcome.directory), soft_wrap=True, highlight=False)
