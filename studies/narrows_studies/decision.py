# SPDX-License-Identifier: Apache-2.0
"""Whether a condition holds, fails or is undecided, as p-values: all statements of a study are judged together.

A condition that is made of several others is tested by their intersection or union: one that needs all of them has
the p-value of the least certain of them (R. L. Berger, "Multiparameter hypothesis testing and acceptance sampling",
Technometrics 24, 1982), and one that any of them decides is corrected for their number (R. J. Simes, "An improved
Bonferroni procedure for multiple tests of significance", Biometrika 73, 1986: settings are independent runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from narrows_analysis.metrics.confidence import LEVEL, Estimate

Value = Literal["holds", "fails", "open", "void"]
# What is known about an estimate whose values are bounds: nothing more, or that the truth is not below, or not above.
Bound = Literal["exact", "at least", "at most", "unknown"]


@dataclass(frozen=True)
class Decision:
    """Whether a condition holds.

    Attributes:
        holds: how likely such values are if it does not hold (a p-value).
        fails: how likely they are if it holds.
        leaning: whether it would hold if the means were exact; None if that cannot be said either.
        void: no number of values could decide: a condition is not known, or both values that are compared are below
            the resolution.
    """

    holds: float
    fails: float
    leaning: bool | None
    void: bool = False

    @property
    def p_value(self) -> float:
        """The p-value of the conclusion that the values suggest."""
        return min(self.holds, self.fails)

    def value(self, p_value: float | None = None) -> Value:
        """The decision; ``p_value`` replaces its own if others are judged with it."""
        decided = (self.p_value if p_value is None else p_value) <= 1 - LEVEL
        if decided and self.fails <= self.holds:
            return "fails"
        if self.void:
            return "void"
        return "holds" if decided else "open"


HOLDS, FAILS, NOTHING_KNOWN = Decision(0.0, 1.0, True), Decision(1.0, 0.0, False), Decision(1.0, 1.0, None)
VOID = Decision(1.0, 1.0, None, void=True)


def positive(estimate: Estimate, strict: bool, bound: Bound = "exact") -> Decision:
    """Whether an estimate is 0 or more (``strict``: more than 0).

    Args:
        estimate: with missing repetitions nothing is decided; with one value a sample neither.
        strict: whether 0 is too little.
        bound: what its values are to the truth.
    """
    leaning = estimate.mean > 0 or (estimate.mean == 0 and not strict)
    if bound == "unknown" or (bound == "at most" and leaning) or (bound == "at least" and not leaning):
        return NOTHING_KNOWN
    p_value = estimate.p_value
    if p_value is None or estimate.missing:
        return Decision(1.0, 1.0, leaning)
    if estimate.mean == 0 and estimate.half_width == 0:
        # All values are the bound itself.
        return HOLDS if leaning else FAILS
    return Decision(p_value, 1.0, True) if leaning else Decision(1.0, p_value, False)


def exists(having: int, lacking: int) -> Decision:
    """Whether repetitions have what was looked for: all of them, or none of several; anything else is undecided."""
    if not lacking:
        return HOLDS
    return Decision(1.0, 1.0, having > lacking) if having or lacking < 2 else FAILS


def between(sides: Sequence[Decision]) -> Decision:
    """Whether a value is on the right side of one bound, or of two; it can be beyond only one of them."""
    return _joined(sides, max(side.holds for side in sides), min(side.fails for side in sides), False)


def every(decisions: Sequence[Decision]) -> Decision:
    """Whether all of them hold."""
    return _joined(decisions, max(one.holds for one in decisions), simes([one.fails for one in decisions]), False)


def some(decisions: Sequence[Decision]) -> Decision:
    """Whether one of them holds."""
    return _joined(decisions, simes([one.holds for one in decisions]), max(one.fails for one in decisions), True)


def whichever(decisions: Sequence[Decision]) -> Decision:
    """Whether a condition holds that is one of several, where it is not known which: decided only if all agree."""
    joined = _joined(decisions, max(one.holds for one in decisions), max(one.fails for one in decisions), False)
    leanings = {one.leaning for one in decisions}
    return Decision(joined.holds, joined.fails, None, void=True) if len(leanings) > 1 else joined


def _joined(decisions: Sequence[Decision], holds: float, fails: float, leaning: bool) -> Decision:
    """One decision of several, of which one that leans to ``leaning`` is enough."""
    leanings = [decision.leaning for decision in decisions]
    leans = leaning if leaning in leanings else None if None in leanings else not leaning
    return Decision(holds, fails, leans, any(decision.void for decision in decisions))


def simes(p_values: Sequence[float]) -> float:
    """How likely the least of several independent p-values are by chance where all hypotheses are true."""
    return min(len(p_values) * p_value / rank for rank, p_value in enumerate(sorted(p_values), 1))
