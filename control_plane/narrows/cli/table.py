# SPDX-License-Identifier: Apache-2.0
"""The table that a run ends with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from narrows_formats.flow_rows import brief_columns, decimals, flow_rows, plain_values
from narrows_formats.summary import is_nearly_the_run, share_seconds, share_time
from rich.table import Table

if TYPE_CHECKING:
    from narrows_formats.kinds.video import VideoSummary
    from narrows_formats.summary import BottleneckSummary, LinkSummary, QueueSummary, Summary

NOT_KNOWN = "-"
MAX_ROWS = 40


def summary_table(summary: Summary, title: str) -> Table:
    """Flows, their CCA, goodput, share, drops, loss and RTT, as summary.json has them; groups when flows are many."""
    table = Table(title=title, title_justify="left")
    table.add_column("flow", overflow="fold")
    table.add_column("CCA", overflow="fold")
    columns = brief_columns(summary)
    for column in columns:
        table.add_column(f"{column.name}\n{column.unit}".rstrip(), justify="right")
    rows = flow_rows(summary, columns)
    hidden = max(0, len(summary["flows"]) - MAX_ROWS)
    for row in [*rows[:MAX_ROWS], *rows[MAX_ROWS + hidden :]]:
        numbers = [f"{one}" if isinstance(one, int) else scaled(one, 1) for one in plain_values(row, columns)]
        table.add_row(row.name, row.cca, *numbers)
    if hidden:
        table.caption = f"{hidden} more flows in summary.json"
    return table


def bottleneck_lines(summary: Summary) -> list[str]:
    """Utilization, loss, queue and fairness of each link, what players showed, and the telemetry."""
    if len(summary["links"]) == 1:
        lines = _of_link(summary["links"][0], "bottleneck")
    else:
        lines = [", ".join(_of_link(link, link["name"])) for link in summary["links"]]
    if when := share_time(summary) if len(flow_rows(summary, ())) > 1 else "":
        lines.append(f"shares: over {when}")
        if not is_nearly_the_run(summary):
            lines.append("goodput: of each flow over its own life")
    lines += [_of_video(flow["name"], shown) for flow in summary["flows"] if (shown := flow["video"]) is not None]
    telemetry = summary["telemetry"]
    lines.append(f"telemetry: {telemetry['reports']} reports, {telemetry['lost']} lost")
    return lines


# Codes of warnings of what a run says itself: what became of it, and its notes.
OF_RUNS = ("run_failed", "run_partial", "lost_elsewhere", "application")
# And of what `bottleneck_lines` say.
_OF_LINES = ("unsaturated",)


def warning_lines(summary: Summary, said: Sequence[str] = ()) -> list[str]:
    """What a reader of the figures must know, the gravest first; without what these and codes in ``said`` say."""
    left_out = (*_OF_LINES, *said)
    return [f"{one['severity']}: {one['message']}" for one in summary["warnings"] if one["code"] not in left_out]


def _of_link(link: LinkSummary, name: str) -> list[str]:
    delay, jain, errors = link["queue_delay_s"], link["fairness"]["jain_index"], link["standard_errors"]
    used = _estimate(link["utilization"], errors and errors["utilization"], 100, "%")
    mean = _estimate(delay["mean"], errors and errors["queue_delay_mean_s"], 1e3, "ms")
    found = [
        f"{name}: {used} utilized, {_lost(link)}",
        f"queue delay: {mean} mean, {scaled(delay['p99'], 1e3, 'ms')} p99",
        *map(_of_queue, link["queues"]),
    ]
    if jain is None or (window := link["fairness"]["window_s"]) is None:
        return found
    return [*found, f"Jain's fairness index: {jain:.3f}, all flows running ({share_seconds(window)})"]


def _of_video(name: str, shown: VideoSummary) -> str:
    bitrate = scaled(shown["bitrate_bps"], 1e-6, "Mbit/s")
    stalled = f"{scaled(shown['stall_s'], 1, 's')}, {scaled(shown['stall_ratio'], 100, '%')}"
    switches = f"{shown['switches']} {'switch' if shown['switches'] == 1 else 'switches'}"
    stalls = f"{shown['stalls']} {'stall' if shown['stalls'] == 1 else 'stalls'}"
    return f"{name}: {bitrate} of video on average, {switches}, {stalls} ({stalled})"


def _of_queue(queue: QueueSummary) -> str:
    delay = queue["queue_delay_s"]
    mean, p99 = (scaled(delay[one], 1e3, "ms") for one in ("mean", "p99"))
    return f"{queue['name']} queue: {queue['departures']} packets, {queue['ce_marks']} marked, {mean} mean, {p99} p99"


def _lost(bottleneck: BottleneckSummary) -> str:
    """Packets that did not pass, and by whom, where not only the queue took some."""
    lost = f"{scaled(bottleneck['total_loss_ratio'], 100, '%')} lost"
    if bottleneck["ce_marks"]:
        lost = f"{bottleneck['ce_marks']} packets marked, {lost}"
    emulated, policed = bottleneck["loss_emulation_drops"], bottleneck["policer_drops"] or 0
    thinned = bottleneck["ack_filter_drops"] or 0
    causes = ((emulated, "loss emulation"), (policed, "the policer"), (thinned, "the ACK filter"))
    elsewhere = [(count, cause) for count, cause in causes if count]
    if not elsewhere:
        return lost
    (count, cause), *others = [*elsewhere, ((bottleneck["drops"] or 0) - policed - thinned, "the queue")]
    return f"{lost} ({count} packets by {cause}, {', '.join(f'{count} by {cause}' for count, cause in others)})"


def _estimate(value: float | None, error: float | None, factor: float, unit: str) -> str:
    """The same with its standard error, if it is estimated from a sample."""
    if value is None or error is None:
        return scaled(value, factor, unit)
    return f"{scaled(value, factor)} \u00b1 {scaled(error, factor, unit)}"


def scaled(value: float | None, factor: float, unit: str = "") -> str:
    """A number times ``factor`` with two digits behind the point, or with two that are not 0; or a dash."""
    if value is None:
        return NOT_KNOWN
    return f"{value * factor:.{decimals(value * factor)}f} {unit}".rstrip()
