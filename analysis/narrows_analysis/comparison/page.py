# SPDX-License-Identifier: Apache-2.0
"""A comparison's page, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from narrows_formats import storage

from narrows_analysis.comparison.differences import Difference, as_frame, warnings
from narrows_analysis.comparison.settings import differing
from narrows_analysis.comparison.sides import Side
from narrows_analysis.export import FIGURES, TABLES, save_figure, save_table
from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, Table, table
from narrows_analysis.report.page import inline_json, render, scripts
from narrows_analysis.sweep import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "comparison"
CLEAR = {True: "yes", False: "no", None: units.MISSING}


def write_comparison(
    first: Side, second: Side, differences: Sequence[Difference], place: Path, formats: Sequence[str]
) -> list[Path]:
    """Write the page, and the table and the figures in each of the formats; returns what was written.

    Raises:
        AnalysisError: a format cannot be made here.
    """
    place.mkdir(parents=True, exist_ok=True)
    page = place / f"{NAME}.html"
    storage.write_text(page, _page(first, second, differences))
    written = [page]
    # CSV is for programs, LaTeX for readers.
    frames = {"csv": as_frame(differences), "tex": labelled(first, second, differences)}
    written += [save_table(frames[one], place / NAME, one) for one in formats if one in TABLES]
    for quantity in dict.fromkeys(one.place.quantity for one in differences):
        mine = [one for one in differences if one.place.quantity == quantity]
        for one in formats:
            if one in FIGURES:
                written.append(save_figure(draw(quantity, mine), place / f"{NAME}-{quantity.column}", one))
    return written


def draw(quantity: Quantity, differences: Sequence[Difference]) -> Figure:
    """Differences of a quantity and their intervals, one below the other, beside the line of no difference."""
    from matplotlib.figure import Figure  # Slow to import, and only figures need it.

    figure = Figure(figsize=(6.4, 0.9 + 0.32 * len(differences)), layout="constrained", dpi=150)
    axes = figure.add_subplot()
    places = range(len(differences), 0, -1)
    means = [one.difference.mean / quantity.scale for one in differences]
    bars = [(one.difference.half_width or 0.0) / quantity.scale for one in differences]
    axes.axvline(0, color="#55595f", linewidth=0.8)
    axes.errorbar(means, list(places), xerr=bars, fmt="o", markersize=4, capsize=2, linewidth=1, color="#0072b2")
    axes.set_yticks(list(places), [str(one.place) for one in differences], fontsize=8)
    axes.set_ylim(0.4, len(differences) + 0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(f"Difference of {titled(quantity)}")
    return figure


def _page(first: Side, second: Side, differences: Sequence[Difference]) -> str:
    clear = [one for one in differences if one.clear]
    return render(
        "comparison.html.j2",
        title=f"{second.name} against {first.name}",
        setting=f"{len(differences)} quantities, over {first.basis} ({counts(differences)})",
        verdict=clear_text(differences),
        warnings=[{"severity": "warning", "message": text} for text in warnings(first, second)],
        names=[first.name, second.name],
        settings=differing(first.settings, second.settings),
        settings_known=bool(first.settings and second.settings),
        forests=[_forest(quantity, differences) for quantity in dict.fromkeys(one.place.quantity for one in clear)],
        tables=[
            *([_table(first, second, clear, "clear", "Clear differences")] if clear else []),
            _table(first, second, differences, "differences", "All differences"),
        ],
        charts=inline_json([]),
        js=scripts(),
    )


def clear_text(differences: Sequence[Difference]) -> str:
    """How many differences are clear, in words."""
    clear, known = sum(one.clear is True for one in differences), sum(one.clear is not None for one in differences)
    return f"{clear} of {known} differences are clear (Holm's correction: 5 % for a false one among all)."


def counts(differences: Sequence[Difference]) -> str:
    """How many repetitions, or intervals, there are of a side."""
    found = {side.count for one in differences for side in (one.first, one.second)}
    return f"n={'-'.join(str(end) for end in dict.fromkeys((min(found), max(found))))}"


def _table(first: Side, second: Side, shown: Sequence[Difference], name: str, title: str) -> Table:
    names = ["Setting", "Quantity", first.name, second.name, "Difference\n(95 %)", "Hedges' g", "p", "Clear"]
    texts = {0, 1, 7}
    rows = [
        [Cell(shown_as, raw, text_column=position in texts) for position, (shown_as, raw) in enumerate(_cells(one))]
        for one in shown
    ]
    note = (
        f"Difference: {second.name} less {first.name}. Intervals are Welch's, each for itself, over {first.basis}. "
        "Hedges' g: the difference in pooled standard deviations. p: how likely so large a difference is by chance, "
        "corrected for all that are compared here (Holm). Clear: p is below 5 %."
    )
    if first.basis == "intervals within one run":
        note += " They tell how steady these two runs were, not how much others would differ: repeat them for that."
    return table(name, title, names, rows, note, {names[position] for position in texts})


@dataclass(frozen=True)
class ForestRow:
    """A difference in a plot of a quantity's: from where to where its interval is, in percent of the plot's width."""

    name: str
    text: str
    clear: bool
    begin: float
    end: float
    mean: float


@dataclass(frozen=True)
class Forest:
    """The plot of a quantity's differences, and where 0 is in it."""

    title: str
    zero: float
    rows: Sequence[ForestRow]


def _forest(quantity: Quantity, differences: Sequence[Difference]) -> Forest:
    """A quantity's differences with their intervals, in percent of the width of a plot with 0 in it."""
    mine = [one for one in differences if one.place.quantity == quantity]
    ends = [end for one in mine for end in (*(one.difference.interval or (one.difference.mean,)), 0.0)]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0

    def at(value: float) -> float:
        return float(2 + 96 * (value - low) / span)

    rows = []
    for one in mine:
        begin, end = one.difference.interval or (one.difference.mean, one.difference.mean)
        places = at(begin), at(end), at(one.difference.mean)
        rows.append(ForestRow(str(one.place), quantity.text(one.difference), one.clear is True, *places))
    return Forest(titled(quantity), at(0.0), rows)


def _cells(one: Difference) -> list[tuple[str, float | str | None]]:
    quantity = one.place.quantity
    return [
        (str(one.place), str(one.place)),
        (titled(quantity), titled(quantity)),
        *((quantity.text(found), found.mean) for found in (one.first, one.second, one.difference)),
        (units.MISSING if one.effect is None else units.significant(one.effect, 3), one.effect or ""),
        (_chance(one.p_value), one.p_value),
        (CLEAR[one.clear], CLEAR[one.clear]),
    ]


def _chance(p_value: float | None) -> str:
    if p_value is None:
        return units.MISSING
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def titled(quantity: Quantity) -> str:
    """A quantity's title with its unit."""
    return quantity.title + (f" ({quantity.unit})" if quantity.unit else "")


def labelled(first: Side, second: Side, differences: Sequence[Difference]) -> pd.DataFrame:
    """The differences as the page has them, for a paper: titles, and values in the units of the titles."""
    rows = []
    for one in differences:
        scale = one.place.quantity.scale
        low, high = one.difference.interval or (math.nan, math.nan)
        rows.append(
            {
                "Setting": str(one.place),
                "Quantity": titled(one.place.quantity),
                first.name: one.first.mean / scale,
                second.name: one.second.mean / scale,
                "Difference": one.difference.mean / scale,
                "95 % from": low / scale,
                "to": high / scale,
                "Hedges' g": one.effect,
                "p": one.p_value,
            }
        )
    return pd.DataFrame(rows)
