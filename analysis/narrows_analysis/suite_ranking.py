# SPDX-License-Identifier: Apache-2.0
"""The senders of a suite, ranked by how many of their cases are passed."""

from __future__ import annotations

from dataclasses import dataclass

from narrows_formats import suite_matrix
from narrows_formats.suite_matrix import Cell, Matrix

from narrows_analysis.metrics.confidence import wilson


@dataclass(frozen=True)
class Standing:
    """A sender's cells: those that were judged, and those that a failed run left open."""

    sender: str
    judged: tuple[Cell, ...]
    not_run: tuple[Cell, ...]

    @property
    def not_passed(self) -> tuple[Cell, ...]:
        """Those that were judged otherwise."""
        return tuple(cell for cell in self.judged if cell["outcome"] != "pass")

    @property
    def passed(self) -> int:
        """How many are passed."""
        return len(self.judged) - len(self.not_passed)

    @property
    def share(self) -> float | None:
        """The part that is passed, of what was judged; None if nothing was."""
        return self.passed / len(self.judged) if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the share's 95 % interval, as if the cases were drawn from many like them."""
        return wilson(self.passed, len(self.judged)) if self.judged else None


@dataclass(frozen=True)
class Placed:
    """A sender at its place, from 1 on, which those with the same share have together.

    ``place`` is None, and the sender is last, where a run failed or no case was judged.
    """

    place: int | None
    standing: Standing


def suite_ranking(matrix: Matrix) -> list[Placed]:
    """The senders of a matrix, the largest share of passed cases first; equal ones in the matrix's order."""
    standings = [_standing(matrix, sender["name"]) for sender in matrix["senders"]]
    shares = [one.share for one in standings if one.share is not None and not one.not_run]
    placed = [
        Placed(None if one.share is None or one.not_run else 1 + sum(share > one.share for share in shares), one)
        for one in standings
    ]
    return sorted(placed, key=lambda one: len(placed) + 1 if one.place is None else one.place)


def _standing(matrix: Matrix, sender: str) -> Standing:
    cells = [cell for cell in matrix["cells"] if cell["sender"] == sender]
    not_run = tuple(cell for cell in cells if cell["outcome"] == "not run")
    return Standing(sender, tuple(suite_matrix.judged(cells)), not_run)
