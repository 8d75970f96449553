# SPDX-License-Identifier: Apache-2.0
"""``narrows analyze``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from narrows_formats import files
from narrows_formats.units import FULL_FRAME_BYTES, NANOSECONDS, QueueDepth, UnitError, parse_rate, parse_time

from narrows.cli import completion
from narrows.cli.collector_command import options
from narrows.cli.options import quantity
from narrows.errors import InputError
from narrows.plain_text import say

if TYPE_CHECKING:
    from narrows_analysis import Run
    from narrows_formats.summary import Summary


def run_directories(directory: Path) -> list[Path]:
    """The run directory itself, or those of a sweep.

    Raises:
        InputError: it is neither.
    """
    if (directory / files.RUN).exists():
        return [directory]
    found = sorted(path.parent for path in directory.glob(f"*/{files.RUN}") if not path.parent.name.startswith("."))
    if not found:
        raise InputError(f"{directory}: is not a run's directory (no {files.RUN}) and holds none")
    return found


def analyze(
    source: Annotated[
        Path,
        typer.Argument(
            help="A run, a sweep, a telemetry directory, or a pcap or pcapng file, of reports or of any packets.",
            show_default=False,
            autocompletion=completion.results,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for what comes out of telemetry or a capture; must not exist."),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(help="Length of an interval of the flows' time series.", show_default="100ms or the RTT"),
    ] = None,
    behind: Annotated[
        Path | None,
        typer.Option(help="Capture of any packets: one of the other side of the link, for losses and delays."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Telemetry or capture: rate of the link (L2), for utilization and BDP.")
    ] = None,
    rtt: Annotated[str | None, typer.Option(help="Telemetry or capture: RTT without queue.")] = None,
    buffer: Annotated[
        str | None, typer.Option(help="Telemetry or capture: depth of the queue, such as 1MB, 100ms or 1bdp.")
    ] = None,
    bottleneck: Annotated[
        int | None, typer.Option(help="Telemetry or capture: index of the bottleneck.", show_default="most reports")
    ] = None,
    time_unit_s: Annotated[
        float | None,
        typer.Option(help="Telemetry or capture: seconds in a time unit of the reports.", show_default="1e-9"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Capture: UDP destination port of the reports.", show_default="5500"),
    ] = None,
    from_reset: Annotated[
        bool, typer.Option("--from-reset", help="Telemetry or capture: all counters were zero when it began.")
    ] = False,
) -> None:
    """Turn telemetry into time series and a summary.

    Results and report of a run or a sweep are made again in its own directory; those of telemetry by itself and of
    captures, with the engine's tables, go to --out. Of a capture without reports the packets themselves are analysed:
    one shows rates, retransmissions and RTTs, two on either side of a link losses and delays as well.
    """
    import narrows_analysis

    from narrows.batch import sweep_results
    from narrows.cli.captured import analyze_packets
    from narrows.run.results import check_free

    interval_ns = _interval(interval)
    interval_s = None if interval_ns is None else interval_ns / NANOSECONDS
    if time_unit_s is not None and not 0 < time_unit_s <= 1:
        raise InputError(f"--time-unit-s: {time_unit_s} is not a time unit; allowed: more than 0 to 1")
    raw = options(
        rate=rate, rtt=rtt, buffer=buffer, bottleneck=bottleneck, time_unit_s=time_unit_s, port=port,
        from_reset=from_reset,
    )  # fmt: skip
    if not source.exists():
        raise InputError(f"{source}: no such file or directory")
    if _is_telemetry(source):
        if out is None:
            raise InputError(f"--out: is needed for {source}, which is not a run; allowed: a new directory")
        check_free(out)
        if behind is not None:
            if raw or interval or source.is_dir():
                other = raw[0] if raw else "--interval" if interval else str(source)
                raise InputError(f"--behind: does not go with {other}; allowed: two captures, and --out")
            analyze_packets(source, behind, out)
            return
        rate_bps, rtt_s, buffer_bytes = _link(rate, rtt, buffer)
        settings = narrows_analysis.SourceSettings(
            rate_bps=rate_bps, rtt_s=rtt_s, buffer_bytes=buffer_bytes, bottleneck=bottleneck, interval_s=interval_s,
            time_unit_s=time_unit_s, port=port, from_reset=from_reset,
        )  # fmt: skip
        try:
            _finish(out, lambda: (out, narrows_analysis.analyze_source(source, out, settings)))
        except narrows_analysis.NoReports as error:
            if raw or interval:
                raise InputError(str(error)) from error
            analyze_packets(source, None, out)
        return
    runs = run_directories(source)
    for given, option in ((out, "--out"), (behind, "--behind"), (raw, raw[0] if raw else "")):
        if given:
            raise InputError(f"{option}: {source} is a run or a sweep, which is analysed in place; leave it out")
    for path in runs:
        _finish(path, partial(_analyzed_run, path, interval_s))
    if sweep_results.is_sweep(source) and (page := sweep_results.write_results(source)) is not None:
        say(f"report of all runs: {page}")


def _link(rate: str | None, rtt: str | None, buffer: str | None) -> tuple[int | None, float | None, int | None]:
    """Rate (bit/s), RTT (s) and buffer (bytes) of the link, written as in an experiment."""
    rate_bps = None if rate is None else quantity("--rate", rate, parse_rate)
    rtt_ns = None if rtt is None else quantity("--rtt", rtt, parse_time)
    depth = None if buffer is None else quantity("--buffer", buffer, QueueDepth.parse)
    if depth is not None and depth.unit in ("bdp", "time") and (not rate_bps or (depth.unit == "bdp" and not rtt_ns)):
        raise InputError(f"--buffer: '{buffer}' needs --rate, and a depth in BDP --rtt as well")
    # Depths in packets count full-size frames.
    buffer_bytes = None if depth is None else depth.in_bytes(rate_bps or 0, rtt_ns or 0, FULL_FRAME_BYTES)
    return rate_bps, None if rtt_ns is None else rtt_ns / NANOSECONDS, buffer_bytes


def _is_telemetry(source: Path) -> bool:
    """Whether it is reports only: a file, or a directory of the collector's."""
    return source.is_file() or (not (source / files.RUN).exists() and any(source.glob(files.REPORT_FILES)))


def _interval(text: str | None) -> int | None:
    """Nanoseconds of --interval."""
    if text is None:
        return None
    try:
        found = parse_time(text)
    except UnitError as error:
        raise InputError(f"--interval: '{text}' {error}; allowed: {error.allowed}") from None
    if found == 0:
        raise InputError(f"--interval: '{text}' is not a length; allowed: more than 0, such as 10ms")
    return found


def _analyzed_run(path: Path, interval_s: float | None) -> tuple[Run, Summary]:
    """A run as its report takes it, read once, and its summary."""
    import narrows_analysis

    run = narrows_analysis.read_run(path)
    return run, narrows_analysis.analyze_run(run, interval_s)


def _finish(path: Path, analyse: Callable[[], tuple[Run | Path, Summary]]) -> None:
    """Analyse into the directory ``path``, write its report and show the summary."""
    import narrows_analysis

    from narrows.cli.table import bottleneck_lines, summary_table, warning_lines
    from narrows.run.results import give_to_user
    from narrows.terminal import Terminal

    console = Terminal()
    try:
        run, summary = analyse()
        report = narrows_analysis.write_report(run)
    except narrows_analysis.NoReports:
        raise
    except narrows_analysis.AnalysisError as error:
        raise InputError(str(error)) from error
    finally:
        if path.exists():
            give_to_user(path)
    console.print(summary_table(summary, path.name))
    for line in bottleneck_lines(summary):
        console.print(line, highlight=False, soft_wrap=True)
    for line in warning_lines(summary):
        console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print(f"report: {report}", soft_wrap=True, highlight=False)
