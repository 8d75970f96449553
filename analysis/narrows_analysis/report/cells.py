# SPDX-License-Identifier: Apache-2.0
"""Cells of a page's tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from narrows_analysis.report import units


@dataclass(frozen=True)
class Cell:
    """A table cell: what is read, what is sorted by, the colour of its flow, and where it leads."""

    text: str
    raw: float | str | None = None
    style: str = ""
    text_column: bool = False
    link: str = ""


@dataclass(frozen=True)
class Column:
    """A table's column: its heading, and whether it is of text."""

    name: str
    text: bool


@dataclass(frozen=True)
class Table:
    """A table of a page, sorted by a click on a heading."""

    id: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str


def number(text: str, raw: float | None) -> Cell:
    """A cell of a number, which is sorted by its value."""
    return Cell(text, "" if raw is None else raw)


def text(value: str | None, style: str = "") -> Cell:
    """A cell of text."""
    return Cell(units.MISSING if value is None else value, value or "", style, text_column=True)


def table(
    table_id: str, title: str, names: Sequence[str], rows: list[list[Cell]], note: str = "",
    texts: Collection[str] = ("Flow",),
) -> Table:  # fmt: skip
    """A table for a page, whose columns `texts` are text and whose others are numbers."""
    return Table(table_id, title, [Column(name, name in texts) for name in names], rows, note)
