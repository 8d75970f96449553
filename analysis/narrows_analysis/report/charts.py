# SPDX-License-Identifier: Apache-2.0
"""Figures as data: what static/charts.js draws on a page, and gallery.py with matplotlib."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

MAX_POINTS = 60_000
TIME_LABEL = "Time since the start of the experiment (s)"
# Fields of a Chart that are objects themselves.
_PARTS = ("series", "references", "marks", "x_ticks")


def encode(values: npt.ArrayLike) -> str:
    """Little-endian float32 as base64; NaN is a missing value, as is what float32 does not hold."""
    exact = np.asarray(values, dtype=np.float64)
    held = np.where(np.abs(exact) <= np.finfo(np.float32).max, exact, np.nan)
    return base64.b64encode(held.astype("<f4").tobytes()).decode("ascii")


@dataclass
class ChartSeries:
    """One line: evenly spaced from `x0` by `dx`, or at `x`; `lo` and `hi` are the envelope of each point."""

    name: str
    y: FloatArray
    color: str
    tint: int = 0
    x0: float = 0.0
    dx: float = 1.0
    x: FloatArray | None = None
    lo: FloatArray | None = None
    hi: FloatArray | None = None
    width: float = 1.6
    step: bool = False
    points: bool = False

    def at(self) -> FloatArray:
        """Where on the axis its points are."""
        return self.x0 + self.dx * np.arange(len(self.y), dtype=np.float64) if self.x is None else self.x

    def as_dict(self) -> dict[str, object]:
        """For the page; arrays encoded."""
        fields: dict[str, object] = {
            key: getattr(self, key) for key in ("name", "color", "tint", "x0", "dx", "width", "step", "points")
        }
        for key in ("x", "y", "lo", "hi"):
            values = getattr(self, key)
            if values is not None:
                fields[key] = encode(values)
        return fields


@dataclass
class Reference:
    """A horizontal line with its name; `fit` extends the axis to show it."""

    y: float
    label: str
    fit: bool = True


@dataclass(frozen=True)
class Mark:
    """A vertical line where something happened, with what that was."""

    x: float
    label: str


@dataclass(frozen=True)
class Tick:
    """A value of the horizontal axis that is shown as `label`: one of few that there are."""

    x: float
    label: str


@dataclass
class Chart:
    """One figure."""

    id: str
    title: str
    caption: str
    x_range: tuple[float, float]
    y_label: str
    y_name: str
    y_unit: str
    series: list[ChartSeries]
    references: list[Reference] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    time: bool = True
    x_label: str = TIME_LABEL
    x_name: str = "time"
    x_unit: str = "s"
    x_ticks: list[Tick] = field(default_factory=list)
    y_min: float | None = 0.0
    y_max: float | None = None
    height: int = 270
    labels: bool = True

    def as_dict(self) -> dict[str, object]:
        """For the page."""
        plain = {key: value for key, value in vars(self).items() if key not in _PARTS}
        plain["x_range"] = list(self.x_range)
        return plain | {
            "series": [series.as_dict() for series in self.series],
            "references": [asdict(reference) for reference in self.references],
            "marks": [asdict(mark) for mark in self.marks],
            "x_ticks": [asdict(tick) for tick in self.x_ticks],
        }


def merge_factor(points: int, lines: int = 1, budget: int = MAX_POINTS) -> int:
    """How many neighbouring intervals to merge so that `lines` lines of `points` points fit the page's budget."""
    return max(1, -(-points * lines // budget))


def _blocks(values: FloatArray, factor: int) -> FloatArray:
    padded = np.full(-(-len(values) // factor) * factor, np.nan)
    padded[: len(values)] = values
    return padded.reshape(-1, factor)


def merged(values: FloatArray, factor: int, how: Literal["mean", "min", "max"]) -> FloatArray:
    """`values` in blocks of `factor` neighbours: their mean, min or max, NaN left out; all-NaN blocks stay NaN."""
    if factor == 1:
        return np.asarray(values, dtype=np.float64)
    blocks = _blocks(values, factor)
    missing = np.isnan(blocks)
    count = (~missing).sum(axis=1)
    if how == "mean":
        result = np.where(missing, 0.0, blocks).sum(axis=1) / np.maximum(count, 1)
    elif how == "min":
        result = np.where(missing, np.inf, blocks).min(axis=1)
    else:
        result = np.where(missing, -np.inf, blocks).max(axis=1)
    return np.where(count == 0, np.nan, result)


def as_dicts(charts: Sequence[Chart]) -> list[dict[str, object]]:
    """All charts for the page."""
    return [chart.as_dict() for chart in charts]
