# SPDX-License-Identifier: Apache-2.0
"""A sweep's quantities as lines with intervals over a swept field whose values are numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from narrows_formats.units import magnitude

from narrows_analysis.colors import PALETTE
from narrows_analysis.metrics.confidence import Estimate
from narrows_analysis.report.charts import Chart, ChartSeries, Tick

# A line needs as many points: two make no shape that a table would not show.
FEWEST = 3
# Room on either side of the outermost points, of what the axis spans.
_PADDING = 0.04
# Of what charts.js does with them, so that none hides another.
_SIDE_BY_SIDE = "Intervals at one value are drawn side by side."

Setting = dict[str, str]
Estimates = Callable[[Setting], Estimate | None]


@dataclass(frozen=True)
class Axis:
    """A swept field with its values in order, and where on an axis each is."""

    field: str
    values: list[str]
    positions: list[float]
    log: bool


def numbers(values: Sequence[str]) -> list[Fraction] | None:
    """`values` as numbers in a common unit; None if they are not numbers, or of several kinds."""
    found = [magnitude(value) for value in values]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len({kind for kind, _ in known}) != 1:
        return None
    return [number for _, number in known]


def in_order(values: Sequence[str]) -> list[str]:
    """`values` from the least to the greatest where they are numbers of one kind, else as they are."""
    found = numbers(values)
    if found is None:
        return list(values)
    return [value for _, value in sorted(zip(found, values, strict=True), key=lambda pair: pair[0])]


def axis(field: str, values: Sequence[str]) -> Axis | None:
    """The axis of a field of at least three different numbers, else None.

    It is logarithmic where that spaces the values more evenly, as they were then chosen: 1, 2, 4, 8.
    """
    found = numbers(values)
    if found is None or len(set(found)) < FEWEST:
        return None
    ordered = in_order(values)
    positions = [float(number) for number in sorted(found)]
    if positions[0] > 0:
        powers = [math.log10(position) for position in positions]
        if _unevenness(powers) < _unevenness(positions):
            return Axis(field, ordered, powers, log=True)
    return Axis(field, ordered, positions, log=False)


def _unevenness(positions: Sequence[float]) -> float:
    """Standard deviation of the gaps over their mean."""
    gaps = np.diff(positions)
    return float(np.std(gaps) / np.mean(gaps))


def line_charts(
    name: str,
    titles: tuple[str, str, str],
    scale: float,
    fields: dict[str, list[str]],
    groups: Sequence[str],
    estimates: Estimates,
) -> list[Chart]:
    """The charts of one quantity: over the first field that has an axis, a line for each value of the next field (or,
    without one, for each group), and a chart for each combination of the others.

    Args:
        name: begins the charts' identifiers.
        titles: the quantity, its unit, and what to say of it.
        scale: how much of the SI unit one of that unit is.
        fields: swept fields with their values.
        groups: flow groups, where each has its own value; else none.
        estimates: mean and interval at a setting (a value for each field, and "group" where there are groups).
    """
    over = next((found for field, values in fields.items() if (found := axis(field, values))), None)
    if over is None:
        return []
    others = {field: values for field, values in fields.items() if field != over.field}
    if groups:
        others["group"] = list(groups)
    by = next(iter(others), None)
    lines = others.pop(by) if by is not None else [""]
    charts = []
    for number, fixed in enumerate(itertools.product(*others.values())):
        at = dict(zip(others, fixed, strict=True))
        series = [
            _line(over, scale, color, value, at | ({by: value} if by is not None else {}), estimates)
            for color, value in enumerate(lines)
        ]
        series = [line for line in series if np.isfinite(line.y).any()]
        if series:
            charts.append(_chart(f"{name}-{number}", titles, over, series, by, at))
    return charts


def _line(over: Axis, scale: float, color: int, name: str, at: Setting, estimates: Estimates) -> ChartSeries:
    found = [estimates(at | {over.field: value}) for value in over.values]
    means = [math.nan if one is None else one.mean / scale for one in found]
    # One repetition has no interval: its whisker has no length.
    ends = [(one.interval or (one.mean, one.mean)) if one is not None else (math.nan, math.nan) for one in found]
    whiskers = any(one is not None and one.interval for one in found)
    low, high = (np.asarray([end[side] / scale for end in ends]) if whiskers else None for side in (0, 1))
    return ChartSeries(
        name=name, x=np.asarray(over.positions), y=np.asarray(means), lo=low, hi=high, color=f"c{color % len(PALETTE)}",
        points=True,
    )  # fmt: skip


def _chart(
    name: str, titles: tuple[str, str, str], over: Axis, series: list[ChartSeries], by: str | None, at: Setting
) -> Chart:
    title, unit, caption = titles
    in_unit = f" ({unit})" if unit else ""
    room = _PADDING * (over.positions[-1] - over.positions[0])
    said = [caption, f"A line for each {by}." if by is not None and len(series) > 1 else ""]
    said.append(_SIDE_BY_SIDE if sum(line.lo is not None for line in series) > 1 else "")
    if by is not None and len(series) == 1:
        at = {by: series[0].name} | at
        series[0].name = ""
    said.append(f"With {', '.join(f'{field} = {value}' for field, value in at.items())}." if at else "")
    return Chart(
        id=name, title=title + in_unit, caption=" ".join(part for part in said if part),
        x_range=(over.positions[0] - room, over.positions[-1] + room),
        x_ticks=[Tick(x, value) for x, value in zip(over.positions, over.values, strict=True)],
        x_label=over.field + (" (logarithmic)" if over.log else ""), x_name=over.field, x_unit="",
        y_label=title + in_unit, y_name=title, y_unit=unit, series=series, time=False, labels=False,
    )  # fmt: skip
