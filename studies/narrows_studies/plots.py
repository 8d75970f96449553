# SPDX-License-Identifier: Apache-2.0
"""The studies' figures in the same form as the papers': over time from telemetry, over parameters from measures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from narrows_analysis.colors import PALETTE
from narrows_analysis.errors import AnalysisError
from narrows_analysis.export import save_figure, save_small_png
from narrows_analysis.metrics.confidence import Estimate
from narrows_analysis.run_data import RunData
from narrows_analysis.study_results import MeasuredPoint, Results
from narrows_formats import beneath

from narrows_studies.checks import Pick, meets, number
from narrows_studies.evaluate import settings
from narrows_studies.linear import Linear, Repetitions, mean, single
from narrows_studies.model import Plot, Study, StudyFigure
from narrows_studies.probes import read_sockets
from narrows_studies.results import points_of

FloatArray = npt.NDArray[np.float64]

WINDOW_S = 0.5
# Kinds of plots that need the runs; results are enough for the others.
FROM_RUNS = ("time", "box", "ecdf")
WIDTH, PANEL_HEIGHT, DPI = 6.4, 1.7, 100
LABELS = {
    "loss_ratio": "Loss (%)", "utilization": "Utilization (%)", "share": "Share of goodput (%)", "jain": "Jain's index",
    "goodput_fraction": "Goodput (% of link)", "fct_s": "Completion time (s)", "model_share": "Model (% of link)",
    "retransmit_ratio": "Retransmissions (%)", "throughput_difference": "Throughput difference",
    "cwnd_bytes": "Congestion window (kB)", "pacing_rate_bps": "Pacing rate (Mbit/s)",
}  # fmt: skip
PERCENT = ("loss_ratio", "utilization", "share", "goodput_fraction", "model_share", "retransmit_ratio")
SOCKET_SCALES = {"cwnd_bytes": 1e3, "pacing_rate_bps": 1e6}


def image_name(study: Study, figure: StudyFigure, position: int, variant: str) -> str:
    """File name of a plot."""
    return f"{study.name}-{slug(figure.id)}-{position + 1}-{variant}.png"


def slug(name: str) -> str:
    """A name as part of a file's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def draw_all(study: Study, results: Results, runs: Path, place: Path, formats: Sequence[str] = ()) -> list[Path]:
    """Draw every plot of a study that has results, as PNG and in other formats; returns the files written."""
    return [
        path
        for figure in study.figures
        for position in range(len(figure.plots))
        for path in _draw(study, figure, position, results, runs, place, formats)
    ]


def draw_overview(study: Study, results: Results, runs: Path, place: Path) -> list[Path]:
    """Draw the plot that the study's first page has, as PNG; returns the files written."""
    return [] if study.overview is None else _draw(study, study.overview, 0, results, runs, place)


def _draw(
    study: Study, figure: StudyFigure, position: int, results: Results, runs: Path, place: Path,
    formats: Sequence[str] = (),
) -> list[Path]:  # fmt: skip
    place.mkdir(parents=True, exist_ok=True)
    picture = draw(figure.plots[position], list(points_of(results, figure.experiment)), runs)
    if picture is None:
        return []
    path = place / image_name(study, figure, position, results.variant)
    save_small_png(picture, path, DPI)
    return [path, *(save_figure(picture, path.with_suffix(""), kind) for kind in formats)]


def draw(plot: Plot, points: list[MeasuredPoint], runs: Path) -> Figure | None:
    """One plot; None if there are no points for it, or their runs have been removed."""
    mine = [point for point in points if meets(point, plot.where)]
    if not mine:
        return None
    kinds: dict[str, Callable[[Plot, list[MeasuredPoint], Path], Figure | None]] = {
        "time": _over_time, "lines": _lines, "grid": _grid, "box": _boxes, "ecdf": _ecdfs,
        "quartiles": _quartiles,
    }  # fmt: skip
    return kinds[plot.kind](plot, mine, runs)


def _panels(title: str, count: int, height: float = PANEL_HEIGHT) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH, height * count + 0.6), layout="constrained")
    axes = [figure.add_subplot(count, 1, position + 1) for position in range(count)]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(axis="y", color="#e3e3df", linewidth=0.6)
        one.set_axisbelow(True)
    figure.suptitle(title, fontsize=9.5)
    return figure, axes


def _open(point: MeasuredPoint, runs: Path) -> RunData | None:
    """The run of a point, if it is still there."""
    try:
        run = RunData(beneath.path(runs, point.directory))
        return run if run.summary else None
    except (AnalysisError, ValueError):
        return None


def _over_time(plot: Plot, points: list[MeasuredPoint], runs: Path) -> Figure | None:
    run = _open(points[0], runs)
    if run is None:
        return None
    figure, axes = _panels(plot.title, len(plot.panels))
    draw_panel = {"goodput": _goodput, "delay": _delay, "queue": _queue, "loss": _loss, "cwnd": _cwnd}
    for one, name in zip(axes, plot.panels, strict=True):
        draw_panel[name](run, one, plot.group)
        one.set_ylim(bottom=0)
        one.margins(x=0)
    axes[-1].set_xlabel("Time (s)")
    return figure


def _windows(times: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean of the values in windows of 0.5 s."""
    window = np.floor_divide(times, WINDOW_S).astype(int)
    known = np.isfinite(values)
    count = np.bincount(window[known], minlength=1)
    total = np.bincount(window[known], weights=values[known], minlength=1)
    some = count > 0
    return np.asarray(np.flatnonzero(some) * WINDOW_S, dtype=np.float64), total[some] / count[some]


def _goodput(run: RunData, axes: Axes, _: str) -> None:
    for position, (label, color) in enumerate(zip(run.labels, run.colors, strict=True)):
        mine = run.flows[run.flows["flow"] == position]
        if len(mine):
            time, rate = _windows(mine["time_s"].to_numpy(), mine["goodput_bps"].to_numpy())
            axes.plot(time, rate / 1e6, color=color.hex, linewidth=0.9, label=label)
    axes.set_ylabel("Goodput (Mbit/s)", fontsize=8)
    if len(run.labels) <= 8:
        axes.legend(frameon=False, fontsize=7, ncols=4, loc="upper right")


def _delay(run: RunData, axes: Axes, _: str) -> None:
    time, delay = _windows(run.queue["time_s"].to_numpy(), run.queue["delay_mean_s"].to_numpy())
    rtt = run.run.bottleneck.rtt_s or 0.0
    axes.plot(time, (delay + rtt) * 1e3, color=PALETTE[7], linewidth=0.9)
    axes.set_ylabel("Base RTT and\nqueue delay (ms)", fontsize=8)


def _queue(run: RunData, axes: Axes, _: str) -> None:
    link = run.run.bottleneck
    scale = link.bdp_bytes or 1e3
    time = run.queue["time_s"].to_numpy()
    time, depth = _windows(time, run.queue["depth_mean_bytes"].to_numpy())
    axes.plot(time, depth / scale, color=PALETTE[7], linewidth=0.9)
    if link.full_buffer_bytes:
        axes.axhline(link.full_buffer_bytes / scale, color="#55595f", linestyle=(0, (5, 4)), linewidth=0.8)
    axes.set_ylabel("Queue (BDP)" if link.bdp_bytes else "Queue (kB)", fontsize=8)


def _loss(run: RunData, axes: Axes, _: str) -> None:
    flows = run.flows[run.flows["flow"] >= 0]
    sums = flows.groupby((flows["time_s"] / WINDOW_S).astype(int))[["arrivals", "drops"]].sum()
    sums = sums[sums["arrivals"] > 0]
    axes.plot(sums.index * WINDOW_S, sums["drops"] / sums["arrivals"] * 100, color=PALETTE[1], linewidth=0.9)
    axes.set_ylabel("Loss in 500 ms (%)", fontsize=8)


def _cwnd(run: RunData, axes: Axes, group: str) -> None:
    sockets = read_sockets(run)
    if sockets is not None:
        for _, mine in sockets[sockets["group"] == group].groupby("flow"):
            axes.plot(mine["time_s"], mine["cwnd_bytes"] / 1e3, color=PALETTE[0], linewidth=0.9)
    axes.set_ylabel("Congestion\nwindow (kB)", fontsize=8)


def _measure_scale(measure: str) -> tuple[str, float]:
    name = measure.partition(".")[0]
    return LABELS.get(name, name), 100.0 if name in PERCENT else 1.0


def _lines(plot: Plot, points: list[MeasuredPoint], _: Path) -> Figure | None:
    """A line for each value of ``by`` and each measure; bars are 95 % confidence intervals of repetitions."""
    figure, (axes,) = _panels(plot.title, 1, 2.4)
    kinds = sorted({point.parameters.get(plot.by, "") for point in points}, key=lambda text: (number(text) or 0, text))
    lines = 0
    for style, measure in zip(("-", "--", ":"), plot.panels, strict=False):
        for kind in kinds:
            chosen = [point for point in points if point.parameters.get(plot.by, "") == kind]
            found = _along(plot.x, measure, chosen)
            xs = sorted(found)
            if not xs:
                continue
            scale = _measure_scale(measure)[1]
            label = " ".join(part for part in (measure if len(plot.panels) > 1 else "", kind) if part)
            color = PALETTE[kinds.index(kind) % len(PALETTE)] if len(kinds) > 1 else PALETTE[lines % len(PALETTE)]
            bars = [(found[x].half_width or 0.0) * scale for x in xs]
            values = [found[x].mean * scale for x in xs]
            axes.errorbar(
                xs, values, bars, color=color, linestyle=style, marker="o", markersize=3, linewidth=1, label=label
            )
            lines += 1
    if not lines:
        return None
    axes.set_xlabel(plot.x.rpartition(".")[2] + _unit(points, plot.x))
    axes.set_ylabel(_measure_scale(plot.panels[0])[0], fontsize=8)
    _buffer_axis(plot, points, axes)
    if lines > 1:
        axes.legend(frameon=False, fontsize=7, ncols=2)
    return figure


def _along(x: str, measure: str, points: list[MeasuredPoint]) -> dict[float, Estimate]:
    """A measure at each value of ``x``; the mean of all settings that share a value."""
    repetitions = Repetitions(points)
    several: dict[float, list[Linear]] = {}
    for term in repetitions.terms(Pick(measure)):
        position = number(dict(term.key)[x])
        if position is not None and repetitions.estimate(single(term))[0] is not None:
            several.setdefault(position, []).append(single(term))
    found = {position: repetitions.estimate(mean(terms))[0] for position, terms in several.items()}
    return {position: value for position, value in found.items() if value is not None}


def _quartiles(plot: Plot, points: list[MeasuredPoint], _: Path) -> Figure | None:
    """Mean throughput of each group's flows, with its quartiles, over a swept parameter."""
    figure, (axes,) = _panels(plot.title, 1, 2.4)
    drawn = False
    for position, group in enumerate(plot.panels):
        means, low, high = (_along(plot.x, f"{name}.{group}", points) for name in ("rate_mean", "rate_p25", "rate_p75"))
        xs = sorted(set(means) & set(low) & set(high))
        if not xs:
            continue
        values = [means[x].mean for x in xs]
        bars = [
            [max(0.0, value - low[x].mean) for x, value in zip(xs, values, strict=True)],
            [max(0.0, high[x].mean - value) for x, value in zip(xs, values, strict=True)],
        ]
        axes.errorbar(
            xs, values, bars, color=PALETTE[position], marker="o", markersize=3, linewidth=1, capsize=2, label=group
        )
        drawn = True
    if not drawn:
        return None
    axes.set_xlabel(plot.x.rpartition(".")[2] + _unit(points, plot.x))
    axes.set_ylabel("Throughput (fair shares),\nmean and quartiles", fontsize=8)
    _buffer_axis(plot, points, axes)
    axes.legend(frameon=False, fontsize=7)
    return figure


def _buffer_axis(plot: Plot, points: list[MeasuredPoint], axes: Axes) -> None:
    """Buffers are on a logarithmic axis."""
    if plot.x.endswith("buffer"):
        axes.set_xscale("log", base=2)
        places = sorted({x for point in points if (x := number(point.parameters[plot.x])) is not None})
        axes.set_xticks(places, [f"{x:g}" for x in places], fontsize=8)
        axes.minorticks_off()


def _unit(points: list[MeasuredPoint], field: str) -> str:
    value = points[0].parameters.get(field, "")
    unit = re.sub(r"^[0-9.]+", "", value)
    return f" ({unit})" if unit else ""


def _grid(plot: Plot, points: list[MeasuredPoint], _: Path) -> Figure | None:
    measure = plot.panels[0]
    label, scale = _measure_scale(measure)
    cells = {
        (number(dict(key)[plot.by]), number(dict(key)[plot.x])): value.mean * scale
        for key, value in settings(Pick(measure), points).items()
    }
    rows, columns = (sorted({value for key in cells if (value := key[axis]) is not None}) for axis in (0, 1))
    if not cells:
        return None
    figure, (axes,) = _panels(plot.title, 1, 2.6)
    axes.grid(visible=False)
    values = np.array([[cells.get((row, column), np.nan) for column in columns] for row in rows])
    image = axes.imshow(values, aspect="auto", cmap="cividis", origin="lower")
    axes.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
    axes.set_yticks(range(len(rows)), [f"{row:g}" for row in rows])
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            if np.isfinite(value):
                axes.annotate(f"{value:.3g}", (x, y), ha="center", va="center", fontsize=8, color="#b05000")
    axes.set_xlabel(plot.x.removeprefix("flows."))
    axes.set_ylabel(plot.by.removeprefix("flows."))
    figure.colorbar(image, ax=axes, label=label)
    return figure


def _boxes(plot: Plot, points: list[MeasuredPoint], runs: Path) -> Figure | None:
    """Distributions of a socket's state at each value of ``x``: quartiles, and whiskers over 1.5 quartile distances."""
    column = plot.panels[0]
    values: dict[str, list[FloatArray]] = {}
    for point in points:
        run = _open(point, runs)
        sockets = None if run is None else read_sockets(run)
        if sockets is not None:
            mine = sockets.loc[sockets["group"] == plot.group, column].dropna().to_numpy() / SOCKET_SCALES[column]
            values.setdefault(point.parameters[plot.x], []).append(mine)
    if not values:
        return None
    figure, (axes,) = _panels(plot.title, 1, 2.4)
    names = sorted(values, key=lambda text: number(text) or 0.0)
    axes.boxplot([np.concatenate(values[name]) for name in names], showfliers=False)
    axes.set_xticks(range(1, len(names) + 1), names)
    axes.set_ylabel(LABELS[column], fontsize=8)
    return figure


def _ecdfs(plot: Plot, points: list[MeasuredPoint], runs: Path) -> Figure | None:
    """Distribution of the completion times of a group, a line for each value of ``by``."""
    values: dict[str, list[float]] = {}
    for point in points:
        run = _open(point, runs)
        if run is not None:
            times = [f["fct_s"] for f in run.summary["flows"] if f["group"] == plot.group and f["fct_s"] is not None]
            values.setdefault(point.parameters[plot.by], []).extend(times)
    values = {name: times for name, times in values.items() if times}
    if not values:
        return None
    figure, (axes,) = _panels(plot.title, 1, 2.4)
    for position, (name, times) in enumerate(sorted(values.items())):
        ordered = np.sort(times)
        axes.step(
            ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", color=PALETTE[position], label=name
        )
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_xlabel(LABELS["fct_s"])
    axes.set_ylabel("Fraction of flows", fontsize=8)
    axes.legend(frameon=False, fontsize=8)
    return figure
