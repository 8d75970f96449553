# SPDX-License-Identifier: Apache-2.0
"""The figures of the report as matplotlib's, for notebooks, talks and papers.

`gallery(run)` makes all that the run has data for; save one with `figure.savefig("goodput.pdf")`.
narrows_analysis.report.figures defines what is drawn, in which unit and colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from narrows_analysis.colors import FlowColor
from narrows_analysis.errors import AnalysisError
from narrows_analysis.report.charts import Chart, ChartSeries
from narrows_analysis.report.events import add_marks
from narrows_analysis.report.figures import FIGURES, OF_SENDERS, RunFigures
from narrows_analysis.report.shares import Shares, shares
from narrows_analysis.run_data import RunData

if TYPE_CHECKING:
    # Slow to import, and only figures need it.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARES = "share"
NAMES = (*FIGURES, SHARES)

SOFT = "#55595f"
WIDTH, NARROW, DPI = 6.4, 3.4, 150
# Of a chart's height on a page, in inches.
PIXELS_PER_INCH = 104
# Between the intervals of two lines at one place, in inches.
APART = 4 / 72
# Lines that are named at their ends, of more there is a legend; and events that are named.
MAX_NAMED = 8


def figure(run: RunData, name: str) -> Figure:
    """One of `NAMES`.

    Raises:
        AnalysisError: the run has no data for it, or several links.
    """
    if name not in OF_SENDERS and len(run.summary["links"]) > 1:
        raise AnalysisError(f"{run.path}: has several links; allowed: run.at(NAME) with one of {', '.join(run.links)}")
    if name not in OF_SENDERS and not len(run.queue):
        raise AnalysisError(f"{run.path}: the run has no telemetry to draw")
    spec = shares(run) if name == SHARES else FIGURES[name](RunFigures(run))
    if spec is None:
        raise AnalysisError(f"{run.path}: the run has no data for figure {name}")
    if not isinstance(spec, Chart):
        return draw_shares(spec)
    add_marks([spec], run.run.events)
    return draw(spec)


def gallery(run: RunData) -> dict[str, Figure]:
    """Every figure that the run has data for, by name."""
    figures = {}
    for name in NAMES:
        try:
            figures[name] = figure(run, name)
        except AnalysisError:
            continue  # This run has no data for this figure.
    return figures


def draw(chart: Chart) -> Figure:
    """A chart of the report."""
    from matplotlib.transforms import ScaledTranslation

    made, axes = _figure(chart.height / PIXELS_PER_INCH, WIDTH if chart.time else NARROW)
    # Side by side, as on the page: none hides another's interval.
    whiskers = sum(line.points and line.lo is not None for line in chart.series)
    places = iter((number - (whiskers - 1) / 2) * APART for number in range(whiskers))
    for line in chart.series:
        color, beside = _hex(line), axes.transData
        if line.lo is not None and line.hi is not None and line.points:
            beside = beside + ScaledTranslation(next(places), 0, made.dpi_scale_trans)
            axes.vlines(line.at(), line.lo, line.hi, color=color, linewidth=1).set_transform(beside)
        elif line.lo is not None and line.hi is not None:
            axes.fill_between(line.at(), line.lo, line.hi, color=color, alpha=0.22, linewidth=0)
        (drawn,) = axes.plot(line.at(), line.y, color=color, linewidth=0.7 * line.width, label=line.name)
        drawn.set(drawstyle="steps-post" if line.step else "default", transform=beside)
        if line.points:
            drawn.set(marker="o", markersize=3.5)
    for mark in chart.marks:
        axes.axvline(mark.x, color=SOFT, linewidth=0.6)
    for mark in chart.marks if len(chart.marks) <= MAX_NAMED else ():
        top = axes.get_xaxis_transform()
        axes.text(
            mark.x, 1, f"{mark.label} ", fontsize=6.5, color=SOFT, transform=top, va="top", ha="left", rotation=90
        )
    most = [one.y for one in chart.references if one.fit]
    axes.set_ylim(bottom=chart.y_min)
    if most and chart.y_max is None:
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.05 * max(most)))
    elif chart.y_max is not None:
        axes.set_ylim(top=chart.y_max)
    axes.set_xlim(chart.x_range)
    if chart.x_ticks:
        axes.set_xticks([tick.x for tick in chart.x_ticks], [tick.label for tick in chart.x_ticks])
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    for reference in chart.references:
        if reference.y <= axes.get_ylim()[1]:
            axes.axhline(reference.y, color=SOFT, linestyle=(0, (5, 4)), linewidth=0.8)
            place = (0.005, reference.y)
            coordinates = ("axes fraction", "data")
            axes.annotate(reference.label, place, xycoords=coordinates, fontsize=7.5, color=SOFT, va="bottom")
    named = [line for line in chart.series if line.name and np.isfinite(line.y).any()]
    if named and len(named) <= MAX_NAMED and chart.time:
        _name_lines(axes, named)
    elif named:
        axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return made


def draw_shares(spec: Shares) -> Figure:
    """Shares as bars, with the fair share."""
    made, axes = _figure(0.5 + 0.32 * len(spec.bars), 5.0)
    position = np.arange(len(spec.bars))[::-1]
    axes.barh(position, [bar.share * 100 for bar in spec.bars], color=[bar.hex for bar in spec.bars], height=0.66)
    for where, bar in zip(position, spec.bars, strict=True):
        axes.annotate(f" {bar.text}", (bar.share * 100, where), va="center", fontsize=8)
    if spec.fair is not None:
        axes.axvline(spec.fair * 100, color=SOFT, linestyle=(0, (5, 4)), linewidth=0.8)
    axes.set_yticks(position, [bar.name for bar in spec.bars])
    axes.grid(visible=False)
    axes.margins(x=0.12)
    axes.set_xlabel(f"Share of goodput (%), over {spec.time}")
    return made


def _figure(height: float, width: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained", dpi=DPI)
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e3e3df", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0)
    return made, axes


def _hex(line: ChartSeries) -> str:
    return FlowColor(int(line.color.removeprefix("c")), line.tint).hex


def _name_lines(axes: Axes, lines: list[ChartSeries]) -> None:
    """Labels at the right edge, at the mean of each line's end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    ends = []
    for line in lines:
        known = line.y[np.isfinite(line.y)]
        ends.append((float(known[-max(1, len(known) // 12) :].mean()), line.name, _hex(line)))
    position = -np.inf
    for value, name, color in sorted(ends):
        position = max((value - low) / (high - low), position + 0.075)
        axes.annotate(
            name, (1.01, position), xycoords="axes fraction", color=color, va="center", fontsize=8.5, fontweight="bold"
        )
