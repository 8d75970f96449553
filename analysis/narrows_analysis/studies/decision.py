# SPDX-License-Identifier: Apache-2.0
"""Does a condition hold, fail, or is it open? Three-valued, because an interval can lie on both sides of a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from narrows_analysis.metrics.confidence import Estimate

Value = Literal["holds", "fails", "open"]
# What is known of an estimate whose values are bounds: nothing more, or that the truth is not below, or not above it.
Bound = Literal["exact", "at least", "at most", "unknown"]


@dataclass(frozen=True)
class Decision:
    """Whether a condition holds.

    Attributes:
        value: with 95 % confidence.
        leaning: whether it would hold if the means were exact; None if that cannot be said either.
        repetitions: number of repetitions that would decide an open condition; None if none is known.
    """

    value: Value
    leaning: bool | None
    repetitions: int | None = None


def positive(estimate: Estimate, strict: bool, bound: Bound = "exact") -> Decision:
    """Whether an estimate is 0 or more (``strict``: more than 0).

    Args:
        estimate: with missing repetitions nothing is decided; with one value a sample neither.
        strict: whether 0 is too little.
        bound: what its values are to the truth.
    """
    leaning = estimate.mean > 0 or (estimate.mean == 0 and not strict)
    if bound == "unknown" or (bound == "at most" and leaning) or (bound == "at least" and not leaning):
        return Decision("open", None)
    interval = estimate.interval
    if interval is None or estimate.missing:
        return Decision("open", leaning)
    low, high = interval
    if low > 0 or (low == 0 and not strict):
        return Decision("holds", True)
    if high < 0 or (high == 0 and strict):
        return Decision("fails", False)
    return Decision("open", leaning, estimate.repetitions_apart_from(0.0))


def exists(having: int, lacking: int) -> Decision:
    """Whether repetitions have what is looked for: all of them, or none of several; anything else is open."""
    if not lacking:
        return Decision("holds", True)
    return Decision("open" if having or lacking < 2 else "fails", having > lacking)


def every(decisions: Sequence[Decision]) -> Decision:
    """Whether all of them hold."""
    return _joined(decisions, "fails", False)


def some(decisions: Sequence[Decision]) -> Decision:
    """Whether one of them holds."""
    return _joined(decisions, "holds", True)


def _joined(decisions: Sequence[Decision], deciding: Value, leaning: bool) -> Decision:
    """One decision of several: one that is ``deciding``, or leans so, decides; otherwise all have to be the other."""
    values = [decision.value for decision in decisions]
    leanings = [decision.leaning for decision in decisions]
    if deciding in values:
        return Decision(deciding, leaning)
    other: Value = "holds" if deciding == "fails" else "fails"
    leans = leaning if leaning in leanings else None if None in leanings else not leaning
    return Decision("open" if "open" in values else other, leans, _most(decisions))


def _most(decisions: Sequence[Decision]) -> int | None:
    """Repetitions that decide all open conditions; None unless each has such a number."""
    numbers = [decision.repetitions for decision in decisions if decision.value == "open"]
    return max((number for number in numbers if number is not None), default=None) if None not in numbers else None
