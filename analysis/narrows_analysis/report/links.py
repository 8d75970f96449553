# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of several links: a table of them, of what each flow had at each, and figures of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from narrows_formats.summary import Summary

from narrows_analysis.colors import FlowColor, flow_colors
from narrows_analysis.records.run_directory import Run
from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, number
from narrows_analysis.report.charts import Chart, ChartSeries
from narrows_analysis.report.figures import MILLISECOND, RunFigures
from narrows_analysis.summary.link_view import data_only, series_at, summary_at

ROWS = list[list[Chart | None]]
MAX_PATHS = 8


def link_table(summary: Summary) -> dict[str, Any]:
    """A row for each link."""
    rows = [
        [
            Cell(link["name"], link["name"], text_column=True),
            number(units.rate(link["rate_mean_bps"] or link["rate_bps"]), link["rate_mean_bps"] or link["rate_bps"]),
            number(units.percent(link["utilization"]), link["utilization"]),
            number(units.count(link["drops"]), link["drops"]),
            number(units.percent(link["loss_ratio"]), link["loss_ratio"]),
            number(units.duration(link["queue_delay_s"]["mean"]), link["queue_delay_s"]["mean"]),
            number(units.duration(link["queue_delay_s"]["p99"]), link["queue_delay_s"]["p99"]),
            number(units.size(link["queue_bytes"]["max"]), link["queue_bytes"]["max"]),
            number(units.index(link["fairness"]["jain_index"]), link["fairness"]["jain_index"]),
        ]
        for link in summary["links"]
    ]
    names = [
        "Link",
        "Rate",
        "Used",
        "Drops",
        "Loss",
        "Queue delay\nmean",
        "Queue delay\n99 %",
        "Queue\nat most",
        "Jain's\nindex",
    ]
    columns = [{"name": name, "text": name == "Link"} for name in names]
    note = (
        "Jain's index is that of the flows whose data cross the link. A name with .reverse is the opposite direction."
    )
    return {"id": "links", "title": "Links", "columns": columns, "rows": rows, "note": note}


def flow_link_table(run: Run, summary: Summary) -> dict[str, Any]:
    """A row for each flow at each link that its data or its acknowledgements cross."""
    limited = {flow["name"]: flow["limited_by"] for flow in summary["flows"]}
    colors = _colors(run)
    rows = []
    for link in summary["links"]:
        for flow in link["flows"]:
            part = limited.get(flow["name"], {}).get(link["name"]) if flow["packets"] == "data" else None
            rows.append(
                [
                    Cell(flow["name"], flow["name"], colors[flow["name"]].css, text_column=True),
                    Cell(link["name"], link["name"], text_column=True),
                    Cell(flow["packets"], flow["packets"], text_column=True),
                    number(units.rate(flow["throughput_bps"]), flow["throughput_bps"]),
                    number(units.percent(flow["share"]), flow["share"]),
                    number(units.count(flow["arrivals"]), flow["arrivals"]),
                    number(units.count(flow["drops"]), flow["drops"]),
                    number(units.percent(flow["loss_ratio"]), flow["loss_ratio"]),
                    number(units.duration(flow["queue_delay_mean_s"]), flow["queue_delay_mean_s"]),
                    number(units.percent(part), part),
                ]
            )
    names = [
        "Flow",
        "Link",
        "Packets",
        "Throughput",
        "Share",
        "Arrivals",
        "Drops",
        "Loss",
        "Queue delay\nmean",
        "Limits it",
    ]
    columns = [{"name": name, "text": name in names[:3]} for name in names]
    note = (
        "Share is of the goodput through the link. Limits it: part of the time in which the flow waited longest here."
    )
    return {"id": "flows-at-links", "title": "Flows at links", "columns": columns, "rows": rows, "note": note}


def link_figures(
    run: Run,
    summary: Summary,
    flows: pd.DataFrame,
    queue: pd.DataFrame,
    distributions: pd.DataFrame,
    sockets: pd.DataFrame,
) -> Iterator[tuple[str, ROWS]]:
    """A section for each link; names of charts end with the link's, so that each has its own place on the page."""
    colors = _colors(run)
    for view in run.views:
        data, name = data_only(view), view.bottleneck.name
        build = RunFigures(
            data,
            summary_at(summary, data),
            series_at(flows, data),
            series_at(queue, data),
            series_at(distributions, data),
            sockets.iloc[:0],
            data.flow_names,
            [colors[flow] for flow in data.flow_names],
        )
        rows: ROWS = [[build.throughput()], [build.fairness()]] if data.flows else []
        rows += [[build.link_rate()], [build.link_delay()], [build.depth()], [build.delay()]]
        rows += [[build.drops()], [build.marks()], [build.loss()]] if data.flows else []
        rows += [[build.delay_cdf(), build.depth_cdf()]]
        for row in rows:
            for chart in row:
                if chart is not None:
                    chart.id = f"{chart.id}-{name.replace('.', '-')}"
        yield f"Link {name}", rows


def path_figures(run: Run, flows: pd.DataFrame) -> ROWS:
    """Queue delay at each link of a path, of the flows that cross several: which of them limits a flow, over time."""
    charts: ROWS = []
    for flow in [flow for flow in run.flows if len(flow.links) > 1][:MAX_PATHS]:
        own = flows[flows["flow"] == flow.number]
        series = []
        for position, name in enumerate(flow.links):
            row = own[own["link"] == name]
            x, y = row["time_s"].to_numpy(float), row["queue_delay_mean_s"].to_numpy(float)
            series.append(ChartSeries(name, y / MILLISECOND, f"c{position % 8}", x=x))
        end = float(own["time_s"].max()) if len(own) else 1.0
        charts.append(
            [
                Chart(
                    f"path-{flow.number}", f"Queue delay of {flow.name} by link",
                    "Mean of its packets; the link where it waits longest is its bottleneck at that time.",
                    (0.0, max(end, 0.1)), "Queue delay (ms)", "delay", "ms", series,
                )
            ]
        )  # fmt: skip
    return charts


def _colors(run: Run) -> dict[str, FlowColor]:
    """Colour of each flow, the same everywhere on the page."""
    return dict(zip(run.flow_names, flow_colors([flow.group for flow in run.flows]), strict=True))
