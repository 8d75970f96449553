# SPDX-License-Identifier: Apache-2.0
"""``narrows analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import narrows_analysis
import typer
from rich.console import Console

from narrows import sweep_results
from narrows.collector_command import options, run_collector
from narrows.errors import EXIT_OK, InputError
from narrows.results import RUN_FILE, check_free, give_to_user
from narrows.table import bottleneck_lines, summary_table
from narrows.units import NANOSECONDS, UnitError, parse_time

REPORT_FILES = "reports-*.parquet"


def run_directories(directory: Path) -> list[Path]:
    """The run directory itself, or those of a sweep.

    Raises:
        InputError: it is neither.
    """
    if (directory / RUN_FILE).exists():
        return [directory]
    found = sorted(path.parent for path in directory.glob(f"*/{RUN_FILE}") if not path.parent.name.startswith("."))
    if not found:
        raise InputError(f"{directory}: is not a run's directory (no {RUN_FILE}) and holds none")
    return found


def analyze(
    source: Annotated[
        Path,
        typer.Argument(help="A run, a sweep, a telemetry directory, or a pcap or pcapng file.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for what comes out of telemetry or a capture; must not exist."),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            help="Length of an interval of the time series.", show_default="100ms or the RTT; without run 10ms"
        ),
    ] = None,
    time_unit_s: Annotated[
        float | None,
        typer.Option(help="Telemetry or capture: seconds in a time unit of the reports.", show_default="1e-9"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Capture: UDP destination port of the reports.", show_default="5500")
    ] = None,
    from_reset: Annotated[
        bool, typer.Option("--from-reset", help="Telemetry or capture: all counters were zero when it began.")
    ] = False,
) -> None:
    """Turn telemetry into time series and a summary.

    A run or a sweep gets its results and report in its own directory again. Telemetry by itself and captures become
    tables and aggregate.json in --out.
    """
    interval_ns = _interval(interval)
    raw = options(time_unit_s=time_unit_s, port=port, from_reset=from_reset)
    if not source.exists():
        raise InputError(f"{source}: no such file or directory")
    if _is_telemetry(source):
        if out is None:
            raise InputError(f"--out: is needed for {source}, which is not a run; allowed: a new directory")
        check_free(out)
        lengths = options(interval=None if interval_ns is None else f"{interval_ns}ns")
        code = run_collector(["aggregate", str(source), "--out", str(out), *lengths, *raw], out)
        if code == EXIT_OK:
            print(f"results: {out / 'aggregate.json'} and the tables beside it")
        raise typer.Exit(code)
    runs = run_directories(source)
    for given, option in ((out, "--out"), (raw, raw[0] if raw else "")):
        if given:
            raise InputError(f"{option}: {source} is a run or a sweep, which is analysed in place; leave it away")
    for path in runs:
        _analyze_run(path, None if interval_ns is None else interval_ns / NANOSECONDS)
    if sweep_results.is_sweep(source) and (page := sweep_results.write_results(source)) is not None:
        print(f"report of all runs: {page}")


def _is_telemetry(source: Path) -> bool:
    """Whether it is reports only: a file, or a directory of the collector's."""
    return source.is_file() or (not (source / RUN_FILE).exists() and any(source.glob(REPORT_FILES)))


def _interval(text: str | None) -> int | None:
    """Nanoseconds of --interval."""
    if text is None:
        return None
    try:
        found = parse_time(text)
    except UnitError as error:
        raise InputError(f"--interval: '{text}' {error}; allowed: {error.allowed}") from None
    if found == 0:
        raise InputError(f"--interval: '{text}' is no length; allowed: more than 0, such as 10ms")
    return found


def _analyze_run(path: Path, interval_s: float | None) -> None:
    console = Console()
    try:
        summary = narrows_analysis.analyze_run(path, interval_s)
        report = narrows_analysis.write_report(path)
    except narrows_analysis.AnalysisError as error:
        raise InputError(str(error)) from error
    give_to_user(path)
    console.print(summary_table(summary, path.name))
    for line in bottleneck_lines(summary):
        console.print(line, highlight=False)
    console.print(f"report: {report}", soft_wrap=True, highlight=False)
