# SPDX-License-Identifier: Apache-2.0
"""The table that a run ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows_formats.flow_names import flow_names
from rich.table import Table

if TYPE_CHECKING:
    from narrows_formats.summary import Summary

NOT_KNOWN = "-"
MAX_ROWS = 40


def summary_table(summary: Summary, title: str) -> Table:
    """Flows, their CCA, goodput, share, drops, loss and RTT, as summary.json has them; groups when flows are many."""
    table = Table(title=title, title_justify="left")
    table.add_column("flow")
    table.add_column("CCA")
    for column in ("goodput\nMbit/s", "share\n%", "drops", "loss\n%", "RTT mean\nms", "RTT min\nms"):
        table.add_column(column, justify="right")
    flows = summary["flows"]
    names = flow_names([flow["group"] for flow in flows])
    for name, flow in zip(names[:MAX_ROWS], flows[:MAX_ROWS], strict=True):
        rtt = flow["rtt_s"] or {}
        table.add_row(
            name,
            flow["cca"],
            scaled(flow["goodput_bps"], 1e-6),
            scaled(flow["share"], 100),
            NOT_KNOWN if flow["drops"] is None else f"{flow['drops']}",
            scaled(flow["loss_ratio"], 100),
            scaled(rtt.get("mean"), 1e3),
            scaled(rtt.get("min"), 1e3),
        )
    if len(flows) > MAX_ROWS:
        table.caption = f"{len(flows) - MAX_ROWS} more flows in summary.json"
    return table


def bottleneck_lines(summary: Summary) -> list[str]:
    """Utilization, loss, queue and fairness, one line each."""
    bottleneck, fairness = summary["bottleneck"], summary["fairness"]
    delay = bottleneck["queue_delay_s"]
    lines = [
        f"bottleneck: {scaled(bottleneck['utilization'], 100, '%')} utilized, "
        f"{scaled(bottleneck['loss_ratio'], 100, '%')} lost",
        f"queue delay: {scaled(delay['mean'], 1e3, 'ms')} mean, {scaled(delay['p99'], 1e3, 'ms')} p99",
    ]
    if fairness["jain_index"] is not None:
        lines.append(f"Jain's fairness index: {fairness['jain_index']:.3f}")
    telemetry = summary["telemetry"]
    lines.append(f"telemetry: {telemetry['reports']} reports, {telemetry['lost']} lost")
    return lines


def scaled(value: float | None, factor: float, unit: str = "") -> str:
    """A number times ``factor`` with two digits, or a dash."""
    return NOT_KNOWN if value is None else f"{value * factor:.2f} {unit}".rstrip()
