# SPDX-License-Identifier: Apache-2.0
"""Cells of a page's tables."""

from __future__ import annotations

from dataclasses import dataclass


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
