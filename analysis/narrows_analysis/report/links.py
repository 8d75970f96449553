# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of several links: a table of them, of what each flow had at each, and figures of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from narrows_formats.summary import Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import Table, number, table, text
from narrows_analysis.report.charts import Chart, ChartSeries
from narrows_analysis.report.figures import COMPETITION, DISTRIBUTIONS, MILLISECOND, QUEUE, RunFigures, rows_of
from narrows_analysis.run_data import RunData

ROWS = list[list[Chart | None]]
MAX_PATHS = 8
FIGURES: tuple[Literal["mean", "p50", "p99", "max"], ...] = ("mean", "p50", "p99", "max")


def link_table(summary: Summary) -> Table:
    """A row for each link."""
    rows = [
        [
            text(link["name"]),
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
        "Dropped",
        "Queue delay\nmean",
        "Queue delay\n99 %",
        "Queue\nat most",
        "Jain's\nindex",
    ]
    note = (
        "Jain's index is that of the flows whose data cross the link. A name with .reverse is the opposite direction."
    )
    return table("links", "Links", names, rows, note, ("Link",))


def queue_table(summary: Summary) -> Table:
    """A row for each queue of the links that have several."""
    rows = [
        [
            text(queue["name"] if len(summary["links"]) == 1 else f"{link['name']}: {queue['name']}"),
            number(units.count(queue["departures"]), queue["departures"]),
            number(units.size(queue["bytes"]), queue["bytes"]),
            number(units.count(queue["ce_marks"]), queue["ce_marks"]),
            *(number(units.duration(delay), delay) for delay in (queue["queue_delay_s"][one] for one in FIGURES)),
            *(number(units.size(depth), depth) for depth in (queue["queue_bytes"][one] for one in FIGURES)),
        ]
        for link in summary["links"]
        for queue in link["queues"]
    ]
    figures = [f"{quantity}\n{figure}" for quantity in ("Delay", "Depth") for figure in ("mean", "50 %", "99 %", "max")]
    names = ["Queue", "Packets", "Bytes", "Marked", *figures]
    note = (
        "Of the packets that left each queue; depth is what they left behind in it. The low-latency one takes packets "
        "with ECT(1) or CE (RFC 9332)."
    )
    return table("queues", "Queues", names, rows, note, ("Queue",))


def flow_link_table(data: RunData) -> Table:
    """A row for each flow at each link that its data or its acknowledgements cross."""
    summary = data.summary
    limited = {flow["name"]: flow["limited_by"] for flow in summary["flows"]}
    colors = dict(zip(data.labels, data.colors, strict=True))
    rows = []
    for link in summary["links"]:
        for flow in link["flows"]:
            part = limited.get(flow["name"], {}).get(link["name"]) if flow["packets"] == "data" else None
            rows.append(
                [
                    text(flow["name"], colors[flow["name"]].css),
                    text(link["name"]),
                    text(flow["packets"]),
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
        "Dropped",
        "Queue delay\nmean",
        "Limits it",
    ]
    note = (
        "Share is of the goodput through the link. Limits it: part of the time in which the flow waited longest here."
    )
    return table("flows-at-links", "Flows at links", names, rows, note, names[:3])


def link_figures(data: RunData) -> Iterator[tuple[str, ROWS]]:
    """A section for each link; names of charts end with the link's, so that each has its own place on the page."""
    for name in data.links:
        rows = rows_of(RunFigures(data.at(name)), COMPETITION, QUEUE, DISTRIBUTIONS)
        for chart in [chart for row in rows for chart in row if chart is not None]:
            chart.id = f"{chart.id}-{name.replace('.', '-')}"
        yield f"Link {name}", rows


def path_figures(data: RunData) -> ROWS:
    """Queue delay at each link of a path, of the flows that cross several: which of them limits a flow, over time."""
    charts: ROWS = []
    for flow in [flow for flow in data.run.flows if len(flow.links) > 1][:MAX_PATHS]:
        own = data.flows[data.flows["flow"] == flow.number]
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
