# SPDX-License-Identifier: Apache-2.0
"""A sweep as notebooks use it: figures with intervals over any swept field, and a row for each measured value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from narrows_formats.suggestion import suggestion

from narrows_analysis.colors import PALETTE
from narrows_analysis.errors import AnalysisError
from narrows_analysis.gallery import APART
from narrows_analysis.metrics.confidence import Estimate
from narrows_analysis.sweep import Quantity, Sweep, estimate_at, measured
from narrows_analysis.sweep_lines import axis

if TYPE_CHECKING:
    # Slow to import, and only figures need it.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP = "group"


class LoadedSweep(Sweep):
    """A sweep with its figures; shown, it is its table."""

    @classmethod
    def of(cls, sweep: Sweep) -> LoadedSweep:
        """The same sweep."""
        return cls(sweep.path, sweep.name, sweep.fields, sweep.frame, sweep.points)

    def __repr__(self) -> str:
        """Its name, how much of it there is, and what was swept."""
        fields = ", ".join(f"{field} ({len(values)})" for field, values in self.fields.items())
        return (
            f"Sweep {self.name}: {self.frame['directory'].nunique()} of {self.points} runs; {fields or 'repetitions'}"
        )

    def figure(
        self,
        metric: str,
        *,
        x: str | None = None,
        hue: str | None = None,
        at: Mapping[str, object] | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Means of a metric over a swept field, with their 95 % confidence intervals (Student's t).

        Runs that are not complete are in no mean. Values of ``x`` that are numbers of one unit are to scale, on a
        logarithmic axis where that spaces them more evenly.

        Args:
            metric: a column of `frame`: ``share``, ``goodput_bps``, ``utilization``, ``queue_delay_mean_s``, ...
            x: swept field along the axis; the first one by default.
            hue: swept field, or ``group``, of which each value is a line. By default the one that is left, if one is.
            at: the value of each other field, and the group; they are in the figure's labels.
            ax: where it is drawn; a figure of its own by default.

        Returns:
            The figure, as of a run: ``.savefig("x.pdf")`` writes it, ``.axes[0]`` are its axes.

        Raises:
            AnalysisError: no such metric, field or value, or a field that has several values is in no argument.
        """
        quantity = self._quantity(metric)
        fields = self.fields | ({GROUP: list(dict.fromkeys(self.frame[GROUP]))} if quantity.per_group else {})
        x = self._known(x, fields) if x is not None else next(iter(self.fields), None)
        if x is None:
            raise AnalysisError(
                f"{self.path}: figure: nothing was swept; allowed: {GROUP} as x, of what each group has"
            )
        fixed = {self._known(name, fields): self._value(name, value, fields) for name, value in (at or {}).items()}
        left = [name for name in fields if name not in (x, hue, *fixed) and len(fields[name]) > 1]
        hue = left.pop(0) if hue is None and len(left) == 1 else hue and self._known(hue, fields)
        if left:
            raise AnalysisError(
                f"{self.path}: figure: {', '.join(left)}: several values each; allowed: x, hue, and "
                "at={field: value} for each other field"
            )
        fixed = {name: values[0] for name, values in fields.items() if name not in (x, hue)} | fixed
        axes = _axes() if ax is None else ax
        _draw(
            axes, self, quantity, x, fields[x], [fixed | {hue: name} for name in fields[hue]] if hue else [fixed], hue
        )
        _say_what(axes, quantity, fixed)
        if hue:
            place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left"}
            axes.legend(title=hue, title_fontsize=8, frameon=False, fontsize=8, ncols=4, **place)
        return axes.figure.figure

    def tidy(self) -> pd.DataFrame:
        """A row for each value that was measured: the swept fields, ``repetition``, ``status``, ``directory``,
        ``group`` (empty for what is of a link), ``quantity`` (a column of `frame`) and ``value``, in SI units."""
        keys = [*self.fields, "repetition", "status", "directory"]
        parts = []
        for quantity in measured(self.frame):
            own = [GROUP] if quantity.per_group else []
            rows = self.frame[[*keys, *own, quantity.column]].drop_duplicates(["directory", *own])
            parts.append(rows.rename(columns={quantity.column: "value"}).assign(quantity=quantity.column))
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*keys, "quantity", "value"])
        groups = table[GROUP].fillna("") if GROUP in table else ""
        return table.assign(**{GROUP: groups})[[*keys, GROUP, "quantity", "value"]]

    def _quantity(self, metric: str) -> Quantity:
        known = {one.column: one for one in measured(self.frame)}
        if metric not in known:
            raise AnalysisError(f"{self.path}: figure {metric}: is not known{suggestion(metric, known)}")
        return known[metric]

    def _known(self, name: str, fields: Mapping[str, Sequence[str]]) -> str:
        if name not in fields:
            raise AnalysisError(f"{self.path}: figure: {name} was not swept{suggestion(name, fields)}")
        return name

    def _value(self, name: str, value: object, fields: Mapping[str, Sequence[str]]) -> str:
        if str(value) not in fields[name]:
            raise AnalysisError(f"{self.path}: figure: {name} was never {value}{suggestion(str(value), fields[name])}")
        return str(value)


def _axes() -> Axes:
    from matplotlib.figure import Figure

    axes = Figure(layout="constrained", dpi=150).add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _draw(
    axes: Axes,
    sweep: Sweep,
    quantity: Quantity,
    x: str,
    values: list[str],
    lines: list[dict[str, str]],
    hue: str | None,
) -> None:
    from matplotlib.transforms import ScaledTranslation

    scaled = axis(x, values)
    names, places = (values, list(range(len(values)))) if scaled is None else (scaled.values, scaled.positions)
    inches = axes.figure.dpi_scale_trans
    for number, fixed in enumerate(lines):
        found = [estimate_at(sweep, quantity, fixed | {x: name}) for name in names]
        means, below, above = (np.array(column) / quantity.scale for column in zip(*map(_ends, found), strict=True))
        color = PALETTE[number % len(PALETTE)]
        style: dict[str, Any] = {"color": color, "label": fixed[hue] if hue else None, "marker": "o", "markersize": 3.5}
        line, _, whiskers = axes.errorbar(places, means, yerr=(below, above), elinewidth=1, linewidth=1.2, **style)
        # Side by side, so that none hides another's interval.
        aside = ScaledTranslation((number - (len(lines) - 1) / 2) * APART, 0, inches)
        for drawn in (line, *whiskers):
            drawn.set_transform(axes.transData + aside)
    axes.set_xticks(places, names)
    axes.set_xlabel(x + (" (logarithmic)" if scaled is not None and scaled.log else ""))
    axes.set_ylim(bottom=0)


def _say_what(axes: Axes, quantity: Quantity, fixed: Mapping[str, str]) -> None:
    """Label a figure with its quantity, whose it is, and the settings that all of it is at."""
    whose = f" of {fixed[GROUP]}" if GROUP in fixed else ""
    axes.set_ylabel(quantity.title + whose + (f" ({quantity.unit})" if quantity.unit else ""))
    if settings := [f"{name} = {value}" for name, value in fixed.items() if name != GROUP]:
        # Below, not a title: the legend is above, and may have several lines.
        axes.set_xlabel(f"{axes.get_xlabel()}\nat {', '.join(settings)}")


def _ends(found: Estimate | None) -> tuple[float, float, float]:
    """A mean, and how far its interval reaches below and above it."""
    if found is None:
        return np.nan, np.nan, np.nan
    low, high = found.interval or (found.mean, found.mean)
    return found.mean, found.mean - low, high - found.mean
