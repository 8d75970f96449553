# SPDX-License-Identifier: Apache-2.0
"""A suite's page, with its matrix and what every case says, and its badge."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from narrows_formats import files, storage, suite_matrix
from narrows_formats.suite_matrix import Cell, Matrix

from narrows_analysis.report import cells, units
from narrows_analysis.report.page import inline_json, render, scripts

COLORS = {"pass": "#2e7d32", "fail": "#c62828"}
OTHER_COLOR = "#6b7075"
# Of the badge's text, 11 px high: a letter takes about this much.
LETTER_PX, MARGIN_PX, HEIGHT_PX = 6.5, 10, 20


def write_page(directory: Path, matrix: Matrix) -> Path:
    """Write the page of a suite's directory, in one step."""
    path = directory / files.REPORT
    with storage.replacing(path) as file:
        file.write(page(directory, matrix).encode())
    return path


def page(directory: Path, matrix: Matrix) -> str:
    """The page as HTML; cells lead to the pages of their runs in the directory."""
    found = {(cell["case"], cell["sender"]): cell for cell in matrix["cells"]}
    senders = [one["name"] for one in matrix["senders"]]
    kernels = ", ".join(
        " ".join(filter(None, (one["name"], f"(Linux {one['release']}", one["version"]))) + ")"
        for one in matrix["senders"]
    )
    return render(
        "suite.html.j2",
        title=f"{matrix['suite']}: {matrix['title']}",
        setting=f"{len(matrix['cases'])} cases, {matrix['variant']} variant, {kernels}",
        verdict=suite_matrix.in_words(matrix),
        warnings=[],
        senders=senders,
        rows=[
            {"case": case, "cells": [_shown(directory, found[case["name"], sender]) for sender in senders]}
            for case in matrix["cases"]
        ],
        tables=[_checks(matrix)],
        charts=inline_json([]),
        js=scripts(),
    )


@dataclass(frozen=True)
class Shown:
    """A cell of the matrix, and where the page of its runs is; ``kind`` is a class of the style sheet."""

    outcome: str
    kind: str
    reason: str
    n: int
    link: str


def _shown(directory: Path, cell: Cell) -> Shown:
    report = f"{cell['directory']}/{files.REPORT}"
    return Shown(
        outcome=cell["outcome"],
        kind=cell["outcome"] if cell["outcome"] in COLORS else "other",
        reason=cell["reason"],
        n=cell["n"],
        link=report if cell["directory"] and (directory / report).exists() else "",
    )


def _checks(matrix: Matrix) -> cells.Table:
    names = ["Case", "Sender", "Expectation", "At", "Outcome", "Values", "95 % interval"]
    rows = [
        [
            cells.text(cell["case"]),
            cells.text(cell["sender"]),
            cells.text(("given: " if one["precondition"] else "") + one["expectation"]),
            cells.text(", ".join(f"{field}={value}" for field, value in one["parameters"].items())),
            cells.text(one["outcome"]),
            cells.text(", ".join(units.significant(value, 5) for value in one["values"]) or one["reason"]),
            cells.text(" to ".join(units.significant(end, 5) for end in one["interval"] or ())),
        ]
        for cell in matrix["cells"]
        for one in cell["checks"]
    ]
    return cells.table("checks", "Expectations", names, rows, "Values are in SI units, one a repetition.", names)


def badge(matrix: Matrix) -> str:
    """An SVG image for a README: the suite's name, and how many of the cells that were judged are passed."""
    judged = suite_matrix.judged(matrix["cells"])
    counts = suite_matrix.counts(judged)
    passed, failed = counts.get("pass", 0), counts.get("fail", 0)
    color = COLORS["fail"] if failed else COLORS["pass"] if passed == len(judged) > 0 else OTHER_COLOR
    texts = (matrix["suite"], f"{passed} of {len(judged)}")
    left, right = (round(len(text) * LETTER_PX) + 2 * MARGIN_PX for text in texts)
    name, value = map(escape, texts)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT_PX}" role="img"
aria-label="{name}: {value}">
<title>{name}: {value} cells passed</title>
<rect width="{left}" height="{HEIGHT_PX}" fill="#3a3f44"/>
<rect x="{left}" width="{right}" height="{HEIGHT_PX}" fill="{color}"/>
<g fill="#fff" font-family="Verdana, sans-serif" font-size="11" text-anchor="middle">
<text x="{left / 2}" y="14">{name}</text>
<text x="{left + right / 2}" y="14">{value}</text>
</g>
</svg>
"""


def write_badge(path: Path, matrix: Matrix) -> None:
    """Write the badge, in one step."""
    with storage.replacing(path) as file:
        file.write(badge(matrix).encode())
