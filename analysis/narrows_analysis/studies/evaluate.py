# SPDX-License-Identifier: Apache-2.0
"""From a statement and measured points to a verdict: pure functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from narrows_analysis.metrics.confidence import Estimate
from narrows_analysis.studies.checks import Pick, picks
from narrows_analysis.studies.judge import NotRun, describe, judge
from narrows_analysis.studies.linear import Key, Repetitions, single
from narrows_analysis.studies.model import Point, Statement
from narrows_analysis.studies.units import Unit

Verdict = Literal["agrees", "differs", "undecided", "not run here"]
VERDICTS: dict[str, Verdict] = {"holds": "agrees", "fails": "differs", "open": "undecided"}
MIN_REPETITIONS = 3  # repetitions from which a variance says something


@dataclass(frozen=True)
class Finding:
    """A verdict and what it is based on.

    Attributes:
        ours: the values, with their 95 % confidence intervals.
        count: repetitions of the setting that has the fewest.
        leaning: for what is undecided, whether the means alone agree; None if they say nothing.
        more: for what is undecided, how many more repetitions of each setting would decide it; None if unknown.
        evidence: settings with the measures that go with a difference.
    """

    statement: Statement
    verdict: Verdict
    ours: str
    count: int = 0
    leaning: bool | None = None
    more: int | None = None
    evidence: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def differs(self) -> bool:
        """Whether ours differs, or looks as if it did."""
        return self.verdict == "differs" or (self.verdict == "undecided" and self.leaning is False)


def evaluate(statement: Statement, points: Sequence[Point]) -> Finding:
    """Judge a statement by the points of its figure's experiments."""
    try:
        found = judge(statement.check, points, show)
    except NotRun as missing:
        return Finding(statement, "not run here", str(missing))
    decision = found.decision
    verdict = VERDICTS[decision.value]
    more = None
    if verdict == "undecided":
        more = MIN_REPETITIONS - found.count if found.count < 2 else None
        if decision.repetitions is not None:
            more = max(1, decision.repetitions - found.count)
    judged = Finding(statement, verdict, found.ours, found.count, decision.leaning, more)
    if not judged.differs:
        return judged
    return Finding(statement, verdict, found.ours, found.count, decision.leaning, more, _evidence(statement, points))


def verdict_text(found: Finding) -> str:
    """The verdict as pages say it: with the number of repetitions, and what would decide it."""
    if found.verdict == "not run here":
        return found.verdict
    if found.verdict != "undecided":
        return f"{found.verdict} (n={found.count})"
    means = {True: "means agree", False: "means differ", None: "no value"}[found.leaning]
    if found.count < 2:
        needed = f"at least {found.more} more repetitions"
    elif found.more is not None:
        needed = f"about {found.more} more repetition{'s' if found.more > 1 else ''} would decide"
    else:
        needed = "more repetitions of this kind would not decide"
    return f"undecided (n={found.count}; {means}; {needed})"


def show(value: float | Estimate | None, unit: Unit) -> str:
    """A value in its unit, with the half-width of its confidence interval if it has one, and who lacks the value."""
    if value is None:
        return "-"
    if isinstance(value, Estimate):
        half = value.half_width
        parts = [] if half is None else [f"+-{show(half, unit)}", f"n={value.count}"]
        parts += [f"{value.missing} without it"] if value.missing else []
        return show(value.mean, unit) + (f" ({', '.join(parts)})" if parts else "")
    scale = 100.0 if unit == "%" else 1.0
    text = f"{value * scale:.3g}"
    return f"{text} {unit}".strip() if unit != "x" else f"{text}x"


def settings(pick: Pick, points: Sequence[Point]) -> dict[Key, Estimate]:
    """Mean over the repetitions at each setting that a pick selects; settings without the measure are left out."""
    repetitions = Repetitions(points)
    found = {term.key: repetitions.estimate(single(term))[0] for term in repetitions.terms(pick)}
    return {key: value for key, value in found.items() if value is not None}


def _evidence(statement: Statement, points: Sequence[Point]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """For each setting of the check the measures that its statement names as evidence; "-" for those not there."""
    rows: dict[Key, tuple[str, ...]] = {}
    for pick in picks(statement.check):
        columns = [settings(Pick(name, pick.where), points) for name in statement.evidence]
        for key in dict.fromkeys(key for column in columns for key in column):
            rows[key] = tuple(show(column.get(key), "") for column in columns)
    return tuple((describe(key).removesuffix(": "), values) for key, values in rows.items())
