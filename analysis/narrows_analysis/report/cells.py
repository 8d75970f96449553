# SPDX-License-Identifier: Apache-2.0
"""Cells of a page's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A table cell: what is read, what is sorted by, and the colour of its flow."""

    text: str
    raw: float | str | None = None
    style: str = ""
    text_column: bool = False


def number(text: str, raw: float | None) -> Cell:
    """A cell of a number, which is sorted by its value."""
    return Cell(text, "" if raw is None else raw)


def table_of_flows(
    table_id: str, title: str, names: Sequence[str], rows: list[list[Cell]], note: str
) -> dict[str, Any] | None:
    """A table for a page whose first column, "Flow", is text and whose others are numbers; None without rows."""
    if not rows:
        return None
    columns = [{"name": name, "text": name == "Flow"} for name in names]
    return {"id": table_id, "title": title, "columns": columns, "rows": rows, "note": note}
