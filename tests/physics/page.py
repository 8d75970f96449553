# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/physics.md: what theory says, what was measured, and how far the two may be apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "physics.md"
# Numbers are written with four digits or more.
DIGITS = 6e-4
_ROW = re.compile(
    r"^\| (?P<name>[^|]+) \| (?P<theory>[0-9.e-]+) \| (?P<found>[0-9.e-]+) \| (?P<tolerance>[0-9.e-]+) \|$"
)


def rows() -> dict[str, tuple[float, float, float]]:
    """Theory, measurement and tolerance of every row."""
    found = (_ROW.match(line) for line in PAGE.read_text().splitlines())
    return {row["name"]: (float(row["theory"]), float(row["found"]), float(row["tolerance"])) for row in found if row}


def shows(name: str, theory: float, found: float, tolerance: float, repeats: bool) -> None:
    """Raise AssertionError where the page says something else; a run that ``repeats`` gives its very numbers."""
    print(f"physics: | {name} | {theory:.5g} | {found:.5g} | {tolerance:.2g} |")
    assert name in rows(), f"docs/physics.md has no row '{name}'"
    written_theory, written, written_tolerance = rows()[name]
    assert written_theory == pytest.approx(theory, rel=DIGITS), name
    assert abs(written - written_theory) <= written_tolerance, name
    if repeats:
        assert written == pytest.approx(found, rel=DIGITS), name
        assert written_tolerance == pytest.approx(tolerance, rel=0.05), name
