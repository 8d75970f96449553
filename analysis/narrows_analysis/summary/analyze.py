# SPDX-License-Identifier: Apache-2.0
"""From a run directory's telemetry to flows.parquet, queue.parquet and summary.json."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats import storage
from narrows_formats.columns import DISTRIBUTIONS, with_metadata
from narrows_formats.summary import FORMAT, Summary

from narrows_analysis.aggregation.both_directions import PathMeasures, measure_paths
from narrows_analysis.aggregation.tables import Aggregation, aggregate
from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.flow_table import FlowTable, read_flow_table
from narrows_analysis.records.reports import ReportClock, SkippedReports, telemetry_files, timestamp_extremes
from narrows_analysis.records.run_directory import Run, read_run
from narrows_analysis.records.sockets import read_socket_records
from narrows_analysis.summary.file import write_summary
from narrows_analysis.summary.sections import (
    bottleneck_section,
    dynamics_section,
    fairness_section,
    flow_sections,
    group_sections,
    telemetry_section,
)
from narrows_analysis.summary.time_series import write_flows, write_queue
from narrows_analysis.summary.warnings import find_warnings

DISTRIBUTION_SCHEMA = with_metadata(
    pa.schema([("quantity", pa.string()), ("value", pa.float64()), ("fraction", pa.float64())]), DISTRIBUTIONS
)


def _write_distributions(path: Path, run: Run, aggregation: Aggregation | None) -> None:
    rows: dict[str, list[object]] = {"quantity": [], "value": [], "fraction": []}
    if aggregation is not None:
        for quantity, histogram, scale in (
            ("queue_bytes", aggregation.depth_histogram, run.depth_unit_bytes),
            ("queue_delay_s", aggregation.delay_histogram, aggregation.clock.unit_s),
        ):
            values, fractions = histogram.cdf()
            rows["quantity"] += [quantity] * len(values)
            rows["value"] += list(values * scale)
            rows["fraction"] += list(fractions)
    with storage.replacing(path) as file:
        pq.write_table(pa.table(rows, schema=DISTRIBUTION_SCHEMA), file)


def analyze_run(run_dir: Run | Path | str, interval_s: float | None = None) -> Summary:
    """Analyse a run: write flows.parquet, queue.parquet, distributions.parquet and summary.json into it.

    Args:
        run_dir: the run directory, or what `read_run` made of it; it needs run.json, everything else may be missing or
            incomplete.
        interval_s: interval of the flows' time series in seconds; by default 0.1 s, or the RTT if that is longer.

    Returns:
        The summary, as written to summary.json.

    Raises:
        AnalysisError: the directory is not a run, or a file in it breaks its format; nothing is written then.
    """
    run = read_run(run_dir)
    if isinstance(run.raw.get("source"), str) and not run.telemetry_files:
        raise AnalysisError(f"{run.path}: made from {run.raw['source']}, which is to be analysed instead")
    skipped = SkippedReports()
    table = read_flow_table(run)
    files = telemetry_files(run, skipped)
    extremes = timestamp_extremes(files)
    if not len(extremes):
        return finish(run, table, None, skipped)
    clock = ReportClock(run, int(extremes[0]))
    with tempfile.TemporaryDirectory(prefix="narrows-analysis-") as tables:
        aggregation = aggregate(run, table, clock, skipped.unreadable_files, Path(tables), interval_s)
    return finish(run, table, aggregation, skipped, measure_paths(run, table, files))


def finish(
    run: Run,
    table: FlowTable,
    aggregation: Aggregation | None,
    skipped: SkippedReports,
    paths: dict[int, PathMeasures] | None = None,
) -> Summary:
    """Write the time series, the distributions and summary.json of an aggregation into the run's directory.

    `paths` holds what both directions of flows tell, where both are reported.
    """
    sockets = read_socket_records(run)

    bottleneck = bottleneck_section(run, aggregation)
    flows = flow_sections(run, aggregation, table, paths or {}, sockets)
    groups = group_sections(run, aggregation, flows)
    summary: Summary = {
        "format": FORMAT,
        "status": run.status,
        "bottleneck": bottleneck,
        "fairness": fairness_section(run, aggregation),
        "dynamics": dynamics_section(run, aggregation),
        "groups": groups,
        "flows": flows,
        "telemetry": telemetry_section(aggregation),
        "warnings": find_warnings(run, aggregation, table, skipped, sockets, bottleneck),
    }
    write_flows(run.path / "flows.parquet", aggregation)
    write_queue(run.path / "queue.parquet", aggregation)
    _write_distributions(run.path / "distributions.parquet", run, aggregation)
    write_summary(run.path, summary)
    return summary
