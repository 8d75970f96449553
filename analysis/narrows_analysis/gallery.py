# SPDX-License-Identifier: Apache-2.0
"""Figures for notebooks, talks and papers: each takes a loaded run and returns a matplotlib Figure.

Colours are those of report.html. `gallery(run)` makes all that the run has data for; save one with
`figure.savefig("goodput.pdf")`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from narrows_formats.flow_names import OTHER_GROUP
from narrows_formats.summary import FlowSummary, shown_other_share

from narrows_analysis.errors import AnalysisError
from narrows_analysis.metrics.fairness import jain_series
from narrows_analysis.metrics.loss import sliding_loss_ratio
from narrows_analysis.metrics.throughput import fair_goodput
from narrows_analysis.records.sockets import lines as socket_lines
from narrows_analysis.run_data import RunData

FloatArray = npt.NDArray[np.float64]

INK, SOFT = "#1c1e21", "#55595f"
TIME_LABEL = "Time (s)"


def _figure(height: float = 2.6, width: float = 6.4) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e3e3df", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0)
    return figure, axes


def _per_flow(run: RunData, axes: Axes, column: str, scale: float, *, steps: bool = False) -> None:
    """A line for each flow, named at its right end."""
    ends = []
    for number, (label, color) in enumerate(zip(run.labels, run.colors, strict=True)):
        mine = _whole(run.flows[run.flows["flow"] == number], run)
        if column.endswith("_bps"):
            mine = _lived(mine, run.summary["flows"][number])
        if not len(mine):
            continue
        values = mine[column].to_numpy(dtype=np.float64) / scale
        style = "steps-post" if steps else "default"
        axes.plot(mine["time_s"], values, color=color.hex, linewidth=1.1, drawstyle=style, label=label)
        ends.append((float(np.nanmean(values[-max(1, len(values) // 12) :])), label, color.hex))
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(TIME_LABEL)
    if len(ends) <= 8:
        _name_lines(axes, ends)


def _name_lines(axes: Axes, ends: list[tuple[float, str, str]]) -> None:
    """Labels at the right edge, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    position = -np.inf
    for value, label, color in sorted(ends):
        position = max((value - low) / (high - low), position + 0.075)
        axes.annotate(
            label, (1.01, position), xycoords="axes fraction", color=color, va="center", fontsize=8.5, fontweight="bold"
        )


def _size_scale(run: RunData) -> tuple[float, str]:
    most = max(run.summary["bottleneck"]["queue_bytes"]["max"] or 0, run.run.bottleneck.buffer_bytes or 0)
    return (1e6, "MB") if most >= 3e6 else (1e3, "kB")


def _whole(frame: pd.DataFrame, run: RunData) -> pd.DataFrame:
    """Rows of a series without an interval that the end of the last flow cut short."""
    ends = [flow["end_s"] for flow in run.summary["flows"] if flow["end_s"] is not None]
    return frame[frame["time_s"] + frame["interval_s"] <= max(ends) + 1e-9] if ends else frame


def _lived(frame: pd.DataFrame, flow: FlowSummary) -> pd.DataFrame:
    """Rows of a flow's series without the intervals in which it began or ended: a part of one is no rate."""
    if flow["start_s"] is None or flow["end_s"] is None:
        return frame
    ends = frame["time_s"] + frame["interval_s"]
    return frame[(frame["time_s"] >= flow["start_s"] - 1e-9) & (ends <= flow["end_s"] + 1e-9)]


def _require(run: RunData) -> None:
    if len(run.summary["links"]) > 1:
        raise AnalysisError(f"{run.path}: has several links; allowed: run.at(NAME) with one of {', '.join(run.links)}")
    if not len(run.queue):
        raise AnalysisError(f"{run.path}: the run has no telemetry to draw")


def goodput(run: RunData) -> Figure:
    """Goodput of each flow over time in Mbit/s, with the fair share of the link."""
    _require(run)
    figure, axes = _figure()
    _per_flow(run, axes, "goodput_bps", 1e6)
    link = run.run.bottleneck
    if len(run.run.flows) > 1 and link.rate_bps:
        fair = fair_goodput(link.rate_bps, link.mtu_frame_bytes, len(run.run.flows)) / 1e6
        axes.axhline(fair, color=SOFT, linestyle=(0, (5, 4)), linewidth=0.8)
        axes.annotate(
            "fair share", (0.005, fair), xycoords=("axes fraction", "data"), fontsize=7.5, color=SOFT, va="bottom"
        )
    axes.set_ylabel("Goodput (Mbit/s)")
    return figure


def jain(run: RunData) -> Figure:
    """Jain's index of each interval."""
    _require(run)
    wide = _whole(run.flows[run.flows["flow"] >= 0], run).pivot(index="flow", columns="time_s", values="goodput_bps")
    figure, axes = _figure(2.0)
    axes.plot(wide.columns.to_numpy(dtype=np.float64), jain_series(wide.to_numpy()), color=INK, linewidth=1.0)
    axes.set_ylim(min(0.5, 1 / max(1, len(run.run.flows))), 1.0)
    axes.set_xlim(left=0)
    axes.set_xlabel(TIME_LABEL)
    axes.set_ylabel("Jain's index")
    return figure


def _envelope(run: RunData, axes: Axes, prefix: str, suffix: str, scale: float) -> None:
    queue = _whole(run.queue, run)
    time = queue["time_s"].to_numpy()
    low, mean, high = (queue[f"{prefix}_{name}_{suffix}"].to_numpy() / scale for name in ("min", "mean", "max"))
    axes.fill_between(time, low, high, color=INK, alpha=0.22, linewidth=0)
    axes.plot(time, mean, color=INK, linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(TIME_LABEL)


def queue_depth(run: RunData) -> Figure:
    """Queue depth over time: mean and envelope, with buffer and BDP."""
    _require(run)
    figure, axes = _figure()
    scale, unit = _size_scale(run)
    _envelope(run, axes, "depth", "bytes", scale)
    link = run.run.bottleneck
    for value, name in ((link.buffer_bytes, "buffer"), (link.bdp_bytes, "1 BDP")):
        if value is not None and not (name == "1 BDP" and value == link.buffer_bytes):
            axes.axhline(value / scale, color=SOFT, linestyle=(0, (5, 4)), linewidth=0.8)
            axes.annotate(
                name, (1.01, value / scale), xycoords=("axes fraction", "data"), fontsize=7.5, color=SOFT, va="center"
            )
    axes.set_ylabel(f"Queue depth ({unit})")
    return figure


def queue_delay(run: RunData) -> Figure:
    """Queue delay over time in ms: mean and envelope."""
    _require(run)
    figure, axes = _figure()
    _envelope(run, axes, "delay", "s", 1e-3)
    axes.set_ylabel("Queue delay (ms)")
    return figure


def drops(run: RunData) -> Figure:
    """Drops of each flow per interval."""
    _require(run)
    figure, axes = _figure()
    _per_flow(run, axes, "drops", 1.0, steps=True)
    axes.set_ylabel(f"Drops per {run.flows['interval_s'].iloc[0]:g} s (packets)")
    return figure


def loss(run: RunData, window_s: float = 0.5) -> Figure:
    """Loss ratio of each flow in a sliding window, in percent."""
    _require(run)
    figure, axes = _figure()
    for number, (label, color) in enumerate(zip(run.labels, run.colors, strict=True)):
        mine = _whole(run.flows[run.flows["flow"] == number], run)
        if not len(mine):
            continue
        time, width = mine["time_s"].to_numpy(), float(mine["interval_s"].iloc[0])
        # An interval counts whole, so it stands at its end: the window then covers exactly what it says.
        ends = time + width
        ratio = sliding_loss_ratio(ends, mine["arrivals"], mine["drops"], ends + width * 1e-6, max(window_s, width))
        axes.plot(ends, ratio * 100, color=color.hex, linewidth=1.1, label=label)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(TIME_LABEL)
    axes.set_ylabel(f"Loss in {window_s:g} s (%)")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def _of_sockets(run: RunData, column: str, scale: float, label: str) -> Figure:
    """A column of the senders' sockets: lines for each flow, one for each of its sockets open at the same time."""
    return _lines(run, run.sockets.dropna(subset=[column]), column, scale, label, socket_lines)


def _lines(
    run: RunData, readings: pd.DataFrame, column: str, scale: float, label: str,
    lines_of: Callable[[pd.DataFrame], list[pd.DataFrame]],
) -> Figure:  # fmt: skip
    """A column over time; ``lines_of`` makes lines of a flow's readings."""
    if not len(readings):
        raise AnalysisError(f"{run.path}: the senders' sockets were not read, or have no {column}")
    figure, axes = _figure()
    for number, (name, color) in enumerate(zip(run.labels, run.colors, strict=True)):
        mine = readings[readings["flow"] == number]
        for place, line in enumerate(lines_of(mine)):
            axes.plot(line["time_s"], line[column] / scale, color=color.hex, linewidth=1.1, label="" if place else name)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(TIME_LABEL)
    axes.set_ylabel(label)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def rtt(run: RunData) -> Figure:
    """Smoothed RTT of each sender's socket, in ms; once a second where sockets were not read."""
    if not len(run.sockets):
        known = run.hosts[run.hosts["quantity"] == "rtt"].rename(columns={"value": "rtt_s"})
        return _lines(run, known, "rtt_s", 1e-3, "RTT at the senders (ms)", lambda readings: [readings])
    return _of_sockets(run, "rtt_s", 1e-3, "RTT at the senders (ms)")


def cwnd(run: RunData) -> Figure:
    """Congestion window of each sender's socket, in kB."""
    return _of_sockets(run, "cwnd_bytes", 1e3, "Congestion window (kB)")


def inflight(run: RunData) -> Figure:
    """Bytes in flight of each sender's socket, in kB."""
    return _of_sockets(run, "inflight_bytes", 1e3, "In flight (kB)")


def pacing(run: RunData) -> Figure:
    """Pacing rate of each sender's socket that is paced, in Mbit/s."""
    return _of_sockets(run, "pacing_rate_bps", 1e6, "Pacing rate (Mbit/s)")


def _cdf(run: RunData, quantity: str, scale: float, label: str) -> Figure:
    _require(run)
    rows = run.distributions[run.distributions["quantity"] == quantity]
    figure, axes = _figure(2.6, 3.4)
    axes.step(rows["value"] / scale, rows["fraction"], where="post", color=INK, linewidth=1.1)
    axes.set_ylim(0, 1)
    axes.set_xlabel(label)
    axes.set_ylabel("Fraction of packets")
    return figure


def delay_cdf(run: RunData) -> Figure:
    """Distribution of queue delay over departing packets."""
    return _cdf(run, "queue_delay_s", 1e-3, "Queue delay (ms)")


def depth_cdf(run: RunData) -> Figure:
    """Distribution of the queue depth that departing packets left behind."""
    scale, unit = _size_scale(run)
    return _cdf(run, "queue_bytes", scale, f"Queue depth ({unit})")


def shares(run: RunData) -> Figure:
    """Share of the goodput of each flow, and of traffic that is not the experiment's, as bars, with the fair share."""
    known = [flow["share"] for flow in run.summary["flows"] if flow["share"] is not None]
    if not known or len(known) < len(run.summary["flows"]):
        raise AnalysisError(f"{run.path}: the summary has no shares")
    fair, labels, colors = 1 / len(known), [*run.labels], [color.hex for color in run.colors]
    if (other := shown_other_share(run.summary["bottleneck"]["other_share"])) is not None:
        known, labels, colors = [*known, other], [*labels, OTHER_GROUP], [*colors, SOFT]
    figure, axes = _figure(0.5 + 0.32 * len(known), 5.0)
    position = np.arange(len(known))[::-1]
    axes.barh(position, np.array(known) * 100, color=colors, height=0.66)
    for where, share in zip(position, known, strict=True):
        axes.annotate(f" {share:.1%}", (share * 100, where), va="center", fontsize=8)
    axes.axvline(100 * fair, color=SOFT, linestyle=(0, (5, 4)), linewidth=0.8)
    axes.set_yticks(position, labels)
    axes.grid(visible=False)
    axes.margins(x=0.12)
    axes.set_xlabel("Share of goodput (%)")
    return figure


FIGURES: dict[str, Callable[[RunData], Figure]] = {
    "goodput": goodput,
    "jain": jain,
    "shares": shares,
    "queue_depth": queue_depth,
    "queue_delay": queue_delay,
    "drops": drops,
    "loss": loss,
    "rtt": rtt,
    "cwnd": cwnd,
    "inflight": inflight,
    "pacing": pacing,
    "delay_cdf": delay_cdf,
    "depth_cdf": depth_cdf,
}


def gallery(run: RunData) -> dict[str, Figure]:
    """Every figure that the run has data for, by name."""
    figures = {}
    for name, draw in FIGURES.items():
        try:
            figures[name] = draw(run)
        except AnalysisError:
            continue  # This run has no data for this figure.
    return figures
