# SPDX-License-Identifier: Apache-2.0
"""A sweep as notebooks use it: figures with intervals over any swept field, and a row for each measured value."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from narrows_formats.suggestion import suggestion

from narrows_analysis.colors import PALETTE
from narrows_analysis.errors import AnalysisError
from narrows_analysis.gallery import APART
from narrows_analysis.metrics.confidence import Estimate
from narrows_analysis.sweep import TABLE, Quantity, Sweep, estimate_at
from narrows_analysis.sweep_lines import axis, numbers
from narrows_analysis.sweep_metrics import NAMES, column_of, is_known, metrics

if TYPE_CHECKING:
    # Slow to import, and only figures need it.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUP = "group"
# Of values that `style` sets apart; each has its own pair, as 7 and 4 have no common divisor.
_MARKERS, _DASHES = "os^DvPX", ("-", "--", ":", "-.")


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
        style: str | None = None,
        at: Mapping[str, object] | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Means of a metric over a swept field, with their 95 % confidence intervals (Student's t).

        Runs that are not complete are in no mean. Values of ``x`` that are numbers of one unit are to scale, on a
        logarithmic axis where that spaces them more evenly. Of repetitions without a sweep ``x`` is the group.

        Args:
            metric: a column of `frame`: ``share``, ``queue_delay_mean_s``, ``rtt_mean_s``, ``ce_marks``, ... or what
                the figure of a run is called: ``goodput``, ``queue_depth``, ``rtt``.
            x: swept field along the axis; by default the first one of numbers, else the first.
            hue: swept field, or ``group``, of which each value has a colour. By default the group, else the next field.
            style: the same for markers and dashes. By default what is left, if that is one field.
            at: the value of each other field, and the group; they are in the figure's labels.
            ax: where it is drawn; a figure of its own by default.

        Returns:
            The figure, as of a run: ``.savefig("x.pdf")`` writes it, ``.axes[0]`` are its axes.

        Raises:
            AnalysisError: no such metric, field or value, no complete run has the metric, or a field that has several
                values is in no argument.
        """
        quantity = self._quantity(metric)
        fields = self.fields | ({GROUP: list(dict.fromkeys(self.frame[GROUP]))} if quantity.per_group else {})
        fixed = {self._known(name, fields): self._value(name, value, fields) for name, value in (at or {}).items()}
        asked = [self._known(name, fields) for name in (x, hue, style) if name is not None]
        left = [name for name in fields if name not in (*asked, *fixed) and len(fields[name]) > 1]
        if x is None:
            x = self._axis(left, fields, quantity)
            left = [name for name in left if name != x]
        if hue is None and left:
            hue = GROUP if GROUP in left else left[0]
            left.remove(hue)
        if style is None and len(left) == 1:
            style = left.pop()
        if left:
            raise AnalysisError(
                f"{self.path}: figure: {', '.join(left)}: several values each; allowed: x, hue, style, and "
                "at={field: value} for each other field"
            )
        apart = tuple(dict.fromkeys(name for name in (hue, style) if name is not None))
        fixed = {name: values[0] for name, values in fields.items() if name not in (x, *apart)} | fixed
        axes = _axes() if ax is None else ax
        _draw(axes, self, quantity, _Along.of(x, fields[x]), [*_lines(fields, apart, fixed, style)])
        _say_what(axes, quantity, fixed)
        if apart:
            place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left"}
            axes.legend(title=", ".join(apart), title_fontsize=8, frameon=False, fontsize=8, ncols=4, **place)
        return axes.figure.figure

    def _axis(self, left: Sequence[str], fields: Mapping[str, list[str]], quantity: Quantity) -> str:
        """What goes along the axis where that was not asked for: of fields that are ``left``, or the first swept."""
        swept = [name for name in left if name != GROUP] or [name for name in self.fields if name not in left][:1]
        if not swept and GROUP in fields:
            return GROUP
        if not swept:
            raise AnalysisError(
                f"{self.path}: figure: nothing was swept, and {quantity.column} is one value of each run; "
                "allowed: what each group has"
            )
        return next((name for name in swept if numbers(fields[name]) is not None), swept[0])

    def tidy(self) -> pd.DataFrame:
        """A row for each value that was measured: the swept fields, ``repetition``, ``status``, ``directory``,
        ``group`` (empty for what is of a link), ``quantity`` (a column of `frame`) and ``value``, in SI units."""
        keys = [*self.fields, "repetition", "status", "directory"]
        parts = []
        for quantity in metrics(self.frame):
            own = [GROUP] if quantity.per_group else []
            rows = self.frame[[*keys, *own, quantity.column]].drop_duplicates(["directory", *own])
            parts.append(rows.rename(columns={quantity.column: "value"}).assign(quantity=quantity.column))
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*keys, "quantity", "value"])
        groups = table[GROUP].fillna("") if GROUP in table else ""
        return table.assign(**{GROUP: groups})[[*keys, GROUP, "quantity", "value"]]

    def _quantity(self, metric: str) -> Quantity:
        column = column_of(metric)
        known = {one.column: one for one in metrics(self.complete)}
        if column in known:
            return known[column]
        if column in self.frame:
            raise AnalysisError(f"{self.path}: figure {metric}: no complete run has it")
        if is_known(column):
            remedy = f"'narrows analyze {self.path}' makes it again"
            raise AnalysisError(f"{self.path}: figure {metric}: {TABLE} does not have it; {remedy}")
        raise AnalysisError(f"{self.path}: figure {metric}: is not known{suggestion(metric, [*known, *NAMES])}")

    def _known(self, name: str, fields: Mapping[str, Sequence[str]]) -> str:
        if name not in fields:
            why = "is for metrics of groups, and this one is of the link" if name == GROUP else "was not swept"
            raise AnalysisError(f"{self.path}: figure: {name} {why}{suggestion(name, fields)}")
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


@dataclass(frozen=True)
class _Along:
    """What is along an axis: its values, where each is, and how the axis is called."""

    field: str
    values: list[str]
    places: Sequence[float]
    label: str
    # Of values in no order lines would say that there is something between them.
    joined: bool

    @classmethod
    def of(cls, field: str, values: list[str]) -> _Along:
        """Numbers of one unit to scale, others side by side."""
        scaled, joined = axis(field, values), numbers(values) is not None
        if scaled is None:
            return cls(field, values, range(len(values)), field, joined)
        label = field + (" (logarithmic)" if scaled.log else "")
        return cls(field, scaled.values, scaled.positions, label, joined)


@dataclass(frozen=True)
class _Line:
    """A line of a figure: the settings that it is at, and how it looks."""

    fixed: dict[str, str]
    label: str
    color: str
    marker: str
    dashes: str


def _lines(
    fields: Mapping[str, list[str]], apart: Sequence[str], fixed: dict[str, str], style: str | None
) -> Iterator[_Line]:
    """A line for each combination of the values of fields that lines are ``apart`` in."""
    for values in itertools.product(*(fields[name] for name in apart)):
        at = dict(zip(apart, values, strict=True))
        color = fields[apart[0]].index(values[0]) if apart else 0
        look = fields[style].index(at[style]) if style else 0
        yield _Line(
            fixed | at, ", ".join(values), PALETTE[color % len(PALETTE)], _MARKERS[look % len(_MARKERS)],
            _DASHES[look % len(_DASHES)],
        )  # fmt: skip


def _draw(axes: Axes, sweep: Sweep, quantity: Quantity, along: _Along, lines: Sequence[_Line]) -> None:
    from matplotlib.transforms import ScaledTranslation

    inches = axes.figure.dpi_scale_trans
    for number, one in enumerate(lines):
        found = [estimate_at(sweep, quantity, one.fixed | {along.field: name}) for name in along.values]
        means, below, above = (np.array(column) / quantity.scale for column in zip(*map(_ends, found), strict=True))
        style: dict[str, Any] = {"color": one.color, "label": one.label or None, "marker": one.marker}
        style |= {"markersize": 3.5, "linestyle": one.dashes if along.joined else "none", "linewidth": 1.2}
        line, _, whiskers = axes.errorbar(along.places, means, yerr=(below, above), elinewidth=1, **style)
        # Side by side, so that none hides another's interval.
        aside = ScaledTranslation((number - (len(lines) - 1) / 2) * APART, 0, inches)
        for drawn in (line, *whiskers):
            drawn.set_transform(axes.transData + aside)
    axes.set_xticks(along.places, along.values)
    axes.set_xlabel(along.label)
    if not along.joined:
        axes.set_xlim(-0.5, len(along.values) - 0.5)
    if quantity.least == 0:
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
