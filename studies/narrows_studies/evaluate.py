# SPDX-License-Identifier: Apache-2.0
"""From a statement and measured points to a verdict: pure functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from narrows_analysis.metrics.confidence import LEVEL, Estimate, holm
from narrows_analysis.study_results import MeasuredPoint

from narrows_studies.checks import Pick, picks
from narrows_studies.decision import NOTHING_KNOWN, Decision, Value
from narrows_studies.judge import NotRun, describe, judge
from narrows_studies.linear import Key, Repetitions, single
from narrows_studies.model import Statement
from narrows_studies.showing import show

Verdict = Literal["agrees", "differs", "undecided", "not comparable", "not run here"]
VERDICTS: dict[Value, Verdict] = {
    "holds": "agrees", "fails": "differs", "open": "undecided", "void": "not comparable",
}  # fmt: skip
# A value is near a limit if it cannot be distinguished from it with this confidence. A verdict then takes this many
# repetitions, because the variance of a few values is itself uncertain.
NEAR, ENOUGH = 0.99, 10


@dataclass(frozen=True)
class Finding:
    """A verdict and what it is based on.

    Attributes:
        ours: the values, with their 95 % confidence intervals.
        count: repetitions of the setting that has the fewest.
        decision: what the values alone say.
        p_value: of the verdict, with those that it is judged with.
        covered: which of the statement's settings were run, if not all.
        level: p-value at which it would be decided among those that it is judged with and that chance may explain.
    """

    statement: Statement
    verdict: Verdict
    ours: str
    count: int = 0
    decision: Decision = NOTHING_KNOWN
    p_value: float = 1.0
    covered: str = ""
    level: float = 1 - LEVEL

    @property
    def leaning(self) -> bool | None:
        """Whether the means alone agree; None if that is not known."""
        return self.decision.leaning

    @property
    def differs(self) -> bool:
        """Whether our results differ, or seem to."""
        return self.verdict == "differs" or (self.verdict == "undecided" and self.leaning is False)


def evaluate(statement: Statement, points: Sequence[MeasuredPoint]) -> Finding:
    """Judge a statement by the points of its figure's experiments, as the only one of its study."""
    return _together([_alone(statement, points)])[0]


def evaluate_all(judged: Sequence[tuple[Statement, Sequence[MeasuredPoint]]]) -> list[Finding]:
    """Judge statements, each by its points, so that 5 % is the chance of one false verdict in all (`decision.holm`)."""
    return _together([_alone(statement, points) for statement, points in judged])


def _alone(statement: Statement, points: Sequence[MeasuredPoint]) -> Finding:
    try:
        found = judge(statement.check, points)
    except NotRun as missing:
        return Finding(statement, "not run here", str(missing))
    return Finding(statement, "undecided", found.ours, found.count, found.decision, found.decision.p_value)


def _together(findings: Sequence[Finding]) -> list[Finding]:
    there = [number for number, one in enumerate(findings) if one.verdict != "not run here"]
    found = list(findings)
    for number, p_value in zip(there, holm([findings[number].decision.p_value for number in there]), strict=True):
        one = findings[number]
        near = one.decision.p_value > 1 - NEAR and one.count < ENOUGH
        verdict = VERDICTS[one.decision.value(1.0 if near else p_value)]
        found[number] = replace(one, verdict=verdict, p_value=p_value)
    # Those that Holm's procedure has not taken out, with the ones that no number of runs could decide.
    left = sum(found[number].p_value > 1 - LEVEL for number in there)
    return [replace(one, level=(1 - LEVEL) / max(1, left)) if one.verdict == "undecided" else one for one in found]


def verdict_text(found: Finding, needed: int | None = None) -> str:
    """The verdict as pages have it: the number of repetitions, what the means alone say, and what would decide it."""
    if found.verdict == "not run here":
        return found.verdict
    said = [f"n={found.count}"]
    if found.verdict == "undecided":
        said.append({True: "means agree", False: "means differ", None: "no value"}[found.leaning])
        if needed is not None:
            said.append(f"{needed} repetitions would decide it")
        elif found.count < ENOUGH and found.leaning is not None:
            said.append(f"takes {ENOUGH} repetitions or more")
    said += [found.covered] if found.covered else []
    return f"{found.verdict} ({'; '.join(said)})"


def settings(pick: Pick, points: Sequence[MeasuredPoint]) -> dict[Key, Estimate]:
    """Mean over the repetitions at each setting that a pick selects; settings without the measure are left out."""
    repetitions = Repetitions(points)
    found = {term.key: repetitions.estimate(single(term))[0] for term in repetitions.terms(pick)}
    return {key: value for key, value in found.items() if value is not None}


def evidence(statement: Statement, points: Sequence[MeasuredPoint]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """For each setting of the check the measures that its statement names as evidence; "-" for those not there."""
    rows: dict[Key, tuple[str, ...]] = {}
    names = statement.evidence
    for pick in picks(statement.check):
        columns = [settings(Pick(name, pick.where), points) for name in names]
        for key in dict.fromkeys(key for column in columns for key in column):
            rows[key] = tuple(show(column.get(key), name) for column, name in zip(columns, names, strict=True))
    return tuple((describe(key).removesuffix(": "), values) for key, values in rows.items())


def moved(statement: Statement, points: Sequence[MeasuredPoint], others: Sequence[MeasuredPoint]) -> str:
    """The setting at which a measure of a statement differs most certainly between two sets of runs.

    All settings are judged together, as verdicts are; "" if none differs.
    """
    found: list[tuple[float, str]] = []
    for pick in picks(statement.check):
        ours, theirs = (Repetitions(of) for of in (points, others))
        elsewhere = {term.key[1:]: term for term in theirs.terms(pick)}
        for term in ours.terms(pick):
            if (other := elsewhere.get(term.key[1:])) is None:
                continue
            (mine, bound), (its, its_bound) = ours.estimate(single(term)), theirs.estimate(single(other))
            if mine is None or its is None or (bound, its_bound) != ("exact", "exact"):
                continue
            apart = Estimate(mine.mean - its.mean, mine.samples + its.samples).p_value
            if apart is not None:
                values = " against ".join(show(one, pick.measure) for one in (mine, its))
                found.append((apart, f"{describe(term.key)}{pick.measure} {values}"))
    adjusted = holm([p_value for p_value, _ in found])
    least = min(zip(adjusted, found, strict=True), default=(1.0, (1.0, "")))
    return least[1][1] if least[0] <= 1 - LEVEL else ""
