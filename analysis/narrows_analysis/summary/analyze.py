# SPDX-License-Identifier: Apache-2.0
"""From a run directory's telemetry to its time series, its distributions and summary.json."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats import files, storage
from narrows_formats.columns import DISTRIBUTIONS, with_metadata
from narrows_formats.summary import FORMAT, Summary

from narrows_analysis.aggregation.both_directions import PathMeasures, measure_paths
from narrows_analysis.aggregation.tables import Aggregation, aggregate
from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.flow_table import FlowTable, read_flow_table
from narrows_analysis.records.reports import ReportClock, SkippedReports, telemetry_files, timestamp_extremes
from narrows_analysis.records.run_directory import Run, read_run
from narrows_analysis.records.sockets import read_socket_records
from narrows_analysis.summary.dual_queue import DualQueue, measure_dual_queue
from narrows_analysis.summary.file import write_summary
from narrows_analysis.summary.link_analysis import LinkAnalysis
from narrows_analysis.summary.paths import all_telemetry, group_sections, link_section, path_goodput, path_sections
from narrows_analysis.summary.sections import (
    SEVERAL_LINKS,
    bottleneck_section,
    dynamics_section,
    fairness_section,
    flow_sections,
    no_bottleneck_section,
)
from narrows_analysis.summary.time_series import write_flows, write_queue, write_queues
from narrows_analysis.summary.warnings import find_warnings

DISTRIBUTION_SCHEMA = with_metadata(
    pa.schema([("link", pa.string()), ("quantity", pa.string()), ("value", pa.float64()), ("fraction", pa.float64())]),
    DISTRIBUTIONS,
)


def _write_distributions(path: Path, links: Sequence[LinkAnalysis]) -> None:
    rows: dict[str, list[object]] = {"link": [], "quantity": [], "value": [], "fraction": []}
    for link in links:
        run, aggregation = link.run, link.aggregation
        if aggregation is None:
            continue
        for quantity, histogram, scale in (
            ("queue_bytes", aggregation.depth_histogram, run.depth_unit_bytes),
            ("queue_delay_s", aggregation.delay_histogram, aggregation.clock.unit_s),
        ):
            values, fractions = histogram.cdf()
            rows["link"] += [link.name] * len(values)
            rows["quantity"] += [quantity] * len(values)
            rows["value"] += list(values * scale)
            rows["fraction"] += list(fractions)
    with storage.replacing(path) as file:
        pq.write_table(pa.table(rows, schema=DISTRIBUTION_SCHEMA), file)


def analyze_run(run_dir: Run | Path | str, interval_s: float | None = None) -> Summary:
    """Analyse a run: write flows.parquet, queue.parquet, distributions.parquet and summary.json into it, and
    queues.parquet where a link has two queues.

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
        raise AnalysisError(f"{run.path}: made from {run.raw['source']}; analyse that instead")
    skipped = SkippedReports()
    views = [(view, read_flow_table(view)) for view in run.views]
    files = telemetry_files(run, skipped)
    extremes = timestamp_extremes(files)
    if not len(extremes):
        return finish(run, [(view, table, None) for view, table in views], skipped)
    clock = ReportClock(run, int(extremes[0]))
    with tempfile.TemporaryDirectory(prefix="narrows-analysis-") as tables:
        found = aggregate(run, views, clock, skipped.unreadable_files, Path(tables), interval_s)
    links = [(view, table, aggregation) for (view, table), aggregation in zip(views, found, strict=True)]
    paths = {view.bottleneck.name: measure_paths(view, table, files) for view, table in views}
    dual_queues = {
        view.bottleneck.name: both
        for view, table, sums in links
        if (both := measure_dual_queue(view, table, sums, clock, files)) is not None
    }
    return finish(run, links, skipped, paths, dual_queues)


def finish(
    run: Run,
    views: Sequence[tuple[Run, FlowTable, Aggregation | None]],
    skipped: SkippedReports,
    paths: Mapping[str, dict[int, PathMeasures]] | None = None,
    dual_queues: Mapping[str, DualQueue] | None = None,
) -> Summary:
    """Write the time series, the distributions and summary.json of a run's aggregations into its directory.

    Args:
        run: the run.
        views: it at each link, which reports there belong to its flows, and their sums.
        skipped: reports that were not used.
        paths: what both directions of flows tell at each link, where both are reported, by position of the flow there.
        dual_queues: what reports tell of each queue of the links that have two.
    """
    sockets = read_socket_records(run)
    dual_queues = dual_queues or {}
    links = [
        LinkAnalysis(
            view, table, sums, flow_sections(view, sums, table, (paths or {}).get(view.bottleneck.name, {}), sockets),
            dual_queues.get(view.bottleneck.name),
        )
        for view, table, sums in views
    ]  # fmt: skip
    sections = [link_section(link) for link in links]
    flows = path_sections(run, links)
    alone = links[0] if len(links) == 1 else None
    together, whole = path_goodput(run, links)
    summary: Summary = {
        "format": FORMAT,
        "status": run.status,
        "links": sections,
        "bottleneck": bottleneck_section(run, alone.aggregation, alone.dual_queue)
        if alone
        else no_bottleneck_section(SEVERAL_LINKS),
        "fairness": fairness_section(run, alone.aggregation if alone else None),
        "dynamics": dynamics_section(run, alone.aggregation if alone else None),
        "share_window_s": together.window_s,
        "run_window_s": whole.window_s,
        "groups": group_sections(run, links, flows, together, whole),
        "flows": flows,
        "telemetry": all_telemetry(links),
        "warnings": find_warnings(run, links, sections, skipped, sockets),
    }
    if alone is None:
        summary["fairness"]["reason"] = summary["fairness"]["convergence_reason"] = SEVERAL_LINKS
        summary["dynamics"]["oscillation_reason"] = SEVERAL_LINKS
    write_flows(run.path / files.FLOWS, [link.aggregation for link in links])
    write_queue(run.path / files.QUEUE, [link.aggregation for link in links])
    _write_distributions(run.path / files.DISTRIBUTIONS, links)
    series = {name: both for name, both in dual_queues.items() if not both.sampled}
    if series:
        write_queues(run.path / files.QUEUES, series)
    return write_summary(run.path, summary)
