# SPDX-License-Identifier: Apache-2.0
"""A comparison's page, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows_analysis.comparison.differences import Difference, as_frame, only_in_one
from narrows_analysis.comparison.sides import Side
from narrows_analysis.export import FIGURES, TABLES, save_figure, save_table
from narrows_analysis.metrics.confidence import Estimate
from narrows_analysis.report import units
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
    page.write_text(_page(first, second, differences), encoding="utf-8")
    written = [page]
    frame = as_frame(differences)
    written += [save_table(frame, place / NAME, one) for one in formats if one in TABLES]
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
    axes.set_xlabel(f"{quantity.title}: difference" + (f" ({quantity.unit})" if quantity.unit else ""))
    return figure


def _page(first: Side, second: Side, differences: Sequence[Difference]) -> str:
    names = ["Setting", "Quantity", first.name, second.name, "Difference\n(95 %)", "Hedges' g", "Clear"]
    texts = {0, 1, 6}
    rows = [
        [
            {"text": text, "raw": raw, "style": "", "text_column": position in texts}
            for position, (text, raw) in enumerate(_cells(one))
        ]
        for one in differences
    ]
    note = (
        f"Difference: {second.name} less {first.name}. Intervals are Welch's, over {first.basis}, not corrected for "
        "the number of rows. Hedges' g: the difference in pooled standard deviations. Clear: the interval does not "
        "hold 0."
    )
    if first.basis == "parts of a run":
        note += " They tell how steady these two runs were, not how much others would differ: repeat them for that."
    table: dict[str, Any] = {
        "id": "differences",
        "title": "Differences",
        "columns": [{"name": name, "text": position in texts} for position, name in enumerate(names)],
        "rows": rows,
        "note": note,
    }
    warnings = [{"severity": "warning", "message": text} for text in only_in_one(first, second)]
    return render(
        "comparison.html.j2",
        title=f"{second.name} against {first.name}",
        setting=f"{len(differences)} quantities, over {first.basis}",
        warnings=warnings,
        tables=[table],
        charts=inline_json([]),
        js=scripts(),
    )


def _cells(one: Difference) -> list[tuple[str, object]]:
    quantity = one.place.quantity
    title = quantity.title + (f" ({quantity.unit})" if quantity.unit else "")
    return [
        (str(one.place), str(one.place)),
        (title, title),
        (in_unit(one.first, quantity), one.first.mean),
        (in_unit(one.second, quantity), one.second.mean),
        (in_unit(one.difference, quantity), one.difference.mean),
        (units.MISSING if one.effect is None else units.significant(one.effect, 3), one.effect or ""),
        (CLEAR[one.clear], CLEAR[one.clear]),
    ]


def in_unit(value: Estimate, quantity: Quantity) -> str:
    """A mean in the quantity's unit, with half the width of its interval, n, and how many do not have it."""
    half = value.half_width
    text = units.significant(value.mean / quantity.scale, 4)
    notes = [] if half is None else [f"\N{PLUS-MINUS SIGN}{units.significant(half / quantity.scale, 2)}"]
    notes += [f"n={value.count}", *([f"{value.missing} without it"] if value.missing else [])]
    return f"{text} ({', '.join(notes)})"
