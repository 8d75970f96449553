# SPDX-License-Identifier: Apache-2.0
"""``narrows compare``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli import completion
from narrows.errors import InputError

if TYPE_CHECKING:
    from narrows_analysis.comparison.differences import Difference
    from narrows_analysis.metrics.confidence import Estimate

CLEAR_STYLE = {True: "bold", False: "", None: "dim"}


def compare(
    first: Annotated[
        Path,
        typer.Argument(help="Directory of a run, of repetitions or of a sweep.", autocompletion=completion.results),
    ],
    second: Annotated[Path, typer.Argument(help="Another one of the same kind.", autocompletion=completion.results)],
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for page, tables and figures.", show_default="only the table here"),
    ] = None,
    formats: Annotated[
        str,
        typer.Option("--format", help="Of tables (csv, tex) and figures (png, svg, pdf, pgf), with commas."),
    ] = "csv,svg",
    every: Annotated[bool, typer.Option("--all", help="Show differences that are not clear as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The differences as JSON, in base units.")] = False,
) -> None:
    """Compare two runs or two sweeps.

    The settings that differ, and the differences that are clear, with 95 % confidence intervals and effect sizes. What
    is clear is corrected for the number of quantities (Holm).
    """
    from narrows_analysis.comparison.differences import compare as differences_of
    from narrows_analysis.comparison.differences import only_in_one, warnings
    from narrows_analysis.comparison.page import CLEAR, clear_text, counts, titled, write_comparison
    from narrows_analysis.comparison.settings import differing
    from narrows_analysis.comparison.sides import read_sides
    from narrows_analysis.errors import AnalysisError
    from narrows_analysis.export import parse_formats
    from rich.table import Table

    from narrows.cli.machine_readable import print_json, results_console
    from narrows.run.results import give_to_user

    console = results_console()
    console.quiet = as_json
    try:
        wanted = parse_formats(formats)
        one, other = read_sides(first, second)
        differences = differences_of(one, other)
        written = [] if out is None else write_comparison(one, other, differences, out, wanted)
    except AnalysisError as error:
        raise InputError(str(error)) from error
    settings = differing(one.settings, other.settings)
    if as_json:
        rows = [_as_json(difference) for difference in differences]
        otherwise = [{"setting": name, "first": mine, "second": theirs} for name, mine, theirs in settings]
        only = list(only_in_one(one, other))
        mixed = {side: of.mixture or None for side, of in (("first", one), ("second", other))}
        print_json(
            {"over": one.basis, "settings": otherwise, "differences": rows, "only_in_one": only, "mixture": mixed}
        )
    for name, mine, theirs in settings:
        console.print(f"{name}: {mine} -> {theirs}", highlight=False, markup=False, soft_wrap=True)
    shown = [found for found in differences if every or found.clear]
    if shown:
        table = Table(title=f"over {one.basis} ({counts(differences)})", title_justify="left")
        for head in ("", "quantity", one.name, other.name, "difference (95 %)", "g", "clear"):
            table.add_column(head, overflow="fold")
        for found in shown:
            table.add_row(
                str(found.place),
                titled(found.place.quantity),
                *map(found.place.quantity.text, (found.first, found.second, found.difference)),
                "-" if found.effect is None else f"{found.effect:.2f}",
                CLEAR[found.clear],
                style=CLEAR_STYLE[found.clear] if every else "",
            )
        console.print(table)
    rest = "" if len(shown) == len(differences) else " --all shows the others."
    console.print(clear_text(differences) + rest, highlight=False, soft_wrap=True)
    for line in warnings(one, other):
        console.print(line, style="yellow", highlight=False)
    for path in written:
        give_to_user(path)
    if written:
        console.print(f"page: {written[0]}", soft_wrap=True, highlight=False)


def _as_json(found: Difference) -> dict[str, object]:
    return {
        "setting": dict(found.place.setting),
        "group": found.place.group or None,
        "quantity": found.place.quantity.column,
        "first": _estimate(found.first),
        "second": _estimate(found.second),
        "difference": _estimate(found.difference),
        "effect": found.effect,
        "p_value": found.p_value,
        "clear": found.clear,
    }


def _estimate(value: Estimate) -> dict[str, object]:
    """A mean with its 95 % confidence interval; null where there is none."""
    mean = value.mean if math.isfinite(value.mean) else None
    return {"mean": mean, "interval": value.interval, "n": value.count, "missing": value.missing}
