# SPDX-License-Identifier: Apache-2.0
"""From a check and points to a decision: every check comes down to weighted sums of means that must be positive."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatchmethod

from narrows_analysis.metrics.confidence import Estimate, estimate
from narrows_analysis.study_results import MeasuredPoint

from narrows_studies import checks
from narrows_studies.checks import number
from narrows_studies.decision import (
    FAILS,
    HOLDS,
    NOTHING_KNOWN,
    VOID,
    Bound,
    Decision,
    between,
    every,
    exists,
    positive,
    some,
    whichever,
)
from narrows_studies.linear import Key, Linear, Projection, Repetitions, Term, mean, single, value_of
from narrows_studies.showing import show

FEW = 2  # settings, or points of a line; above this number only the range is given first
MANY = 6  # settings that do not meet a rule, more than which are not all listed


class NotRun(Exception):
    """The points that a check needs are not there; says what is missing."""


@dataclass(frozen=True)
class Judgement:
    """A decision and the values it rests on, in words; ``count`` is the least number of repetitions of a setting."""

    decision: Decision
    ours: str
    count: int


def judge(check: checks.Check, points: Sequence[MeasuredPoint], projection: Projection | None = None) -> Judgement:
    """Decide a check.

    Args:
        check: what must hold.
        points: runs that it may look at.
        projection: judges as with more repetitions than these, or with other limits.

    Raises:
        NotRun: points that it needs are missing.
    """
    return _Judge(Repetitions(points, projection)).judge(check)


def describe(key: Key) -> str:
    """A setting in words, with a colon behind it if there are any."""
    text = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in key if name != "experiment")
    return f"{text}: " if text else ""


class _Judge:
    def __init__(self, repetitions: Repetitions) -> None:
        self._repetitions = repetitions
        self._measure = ""
        self._relief = repetitions.projection.relief if repetitions.projection else 0.0

    def judge(self, check: checks.Check) -> Judgement:
        if isinstance(check, checks.Every | checks.Readings):
            parts = [self.judge(one) for one in check.checks]
            joined = every if isinstance(check, checks.Every) else whichever
            return Judgement(
                joined([part.decision for part in parts]),
                "; ".join(part.ours for part in parts),
                min(part.count for part in parts),
            )
        if isinstance(check, checks.AtOneOf):
            return self._at_one_of(check)
        self._measure = checks.picks(check)[0].measure
        there = [self._existence(pick) for pick in checks.picks(check)]
        count = min(len(self._repetitions.runs(term.key)) for pick in checks.picks(check) for term in self._terms(pick))
        try:
            decision, ours = self._of(check)
        except _NoValue as nothing:
            decision, ours = NOTHING_KNOWN, str(nothing)
        existing = [decision for decision in there if decision is not None]
        return Judgement(every([*existing, decision]) if existing else decision, ours, count)

    def _at_one_of(self, check: checks.AtOneOf) -> Judgement:
        found: dict[str, Judgement] = {}
        for value, there in self._repetitions.by_value(check.over).items():
            try:
                found[value] = _Judge(there).judge(check.check)
            except NotRun:
                continue
        if not found:
            raise NotRun(f"no value of {check.over} with all that is needed")
        return Judgement(
            whichever([one.decision for one in found.values()]),
            "; ".join(f"at {value}: {one.ours}" for value, one in found.items()),
            min(one.count for one in found.values()),
        )

    @singledispatchmethod
    def _of(self, check: checks.Check) -> tuple[Decision, str]:
        raise TypeError(f"{check!r} is not a check")

    # What checks are made of.

    def _terms(self, pick: checks.Pick) -> list[Term]:
        found = self._repetitions.terms(pick)
        if not found or not any(
            pick.measure in run.measures for term in found for run in self._repetitions.runs(term.key)
        ):
            conditions = ", ".join(f"{name} {_condition(wanted)}" for name, wanted in pick.where.items())
            raise NotRun(f"no point with {pick.measure}" + (f" at {conditions}" if conditions else ""))
        return found

    def _existence(self, pick: checks.Pick) -> Decision | None:
        """Whether what a pick looks for is there, if its absence says something."""
        if pick.absent != "differs":
            return None
        values = [value_of(pick, run)[0] for term in self._terms(pick) for run in self._repetitions.runs(term.key)]
        lacking = sum(value is None for value in values)
        return exists(len(values) - lacking, lacking)

    def _positive(self, total: Linear, strict: bool = False) -> Decision:
        return self._margin(*self._repetitions.estimate(total), strict)

    def _margin(self, estimate: Estimate | None, bound: Bound, strict: bool) -> Decision:
        if estimate is None:
            return NOTHING_KNOWN
        return positive(replace(estimate, mean=estimate.mean + self._relief), strict, bound)

    def _shown(self, total: Linear) -> str:
        estimate, bound = self._repetitions.estimate(total)
        if estimate is None:
            return "none"
        prefix = {"exact": "", "at least": "at least ", "at most": "at most ", "unknown": "about "}[bound]
        return prefix + show(estimate, self._measure, is_mean=total.is_mean)

    def _value(self, total: Linear) -> float:
        estimate, _ = self._repetitions.estimate(total)
        if estimate is None:
            raise _NoValue("none")
        return estimate.mean

    def _mean(self, pick: checks.Pick) -> Linear:
        return mean([single(term) for term in self._terms(pick)])

    def _along(self, pick: checks.Pick, over: str) -> list[tuple[float, Linear]]:
        """The measure at each number of a parameter, over all other parameters; two at least."""
        values: dict[float, list[Linear]] = {}
        for term in self._terms(pick):
            position = number(dict(term.key).get(over, ""))
            if position is not None:
                values.setdefault(position, []).append(single(term))
        if len(values) < 2:
            raise NotRun(f"fewer than two values of {over}")
        return [(position, mean(values[position])) for position in sorted(values)]

    def _listed(self, settings: Sequence[tuple[Term, Decision]]) -> str:
        """The values at settings; of several only the range, and those that do not meet what is asked of each."""
        values = [self._shown(single(term)) for term, _ in settings]
        texts = [f"{describe(term.key)}{value}" for (term, _), value in zip(settings, values, strict=True)]
        estimates = [self._repetitions.estimate(single(term))[0] for term, _ in settings]
        known = [(one.mean, value) for one, value in zip(estimates, values, strict=True) if one is not None]
        if len(texts) <= FEW or not known:
            return "; ".join(texts)
        ends = f"{min(known)[1]} to {max(known)[1]} at {len(texts)} settings"
        failing = [text for text, (_, decision) in zip(texts, settings, strict=True) if decision.value() == "fails"]
        unsure = [text for text, (_, decision) in zip(texts, settings, strict=True) if decision.value() == "open"]
        meeting = len(texts) - len(failing) - len(unsure)
        parts = [f"{ends}, of which {meeting} meet{'s' if meeting == 1 else ''} it"]
        for word, those in (("not", failing), ("undecided", unsure)):
            more = f", and {len(those) - MANY} more" if len(those) > MANY else ""
            parts += [f"{word}: {'; '.join(those[:MANY])}{more}"] if those else []
        return "; ".join(parts)

    def _line(self, line: Sequence[tuple[float, Linear]]) -> str:
        """The values along a line; of several first those at its ends."""
        if len(line) <= FEW:
            return "; ".join(f"{x:g}: {self._shown(y)}" for x, y in line)
        (low, first), *between, (high, last) = line
        ends = f"{self._shown(first)} at {low:g} to {self._shown(last)} at {high:g}"
        return f"{ends}; between them {', '.join(f'{x:g}: {self._shown(y)}' for x, y in between)}"

    # The checks.

    def _between(self, total: Linear, low: float, high: float, strict: bool = False) -> Decision:
        parts = [self._positive(total.plus(-low), strict)] if low > -checks.MORE else []
        parts += [self._positive(total * -1 + Linear({}, high), strict)] if high < checks.MORE else []
        return between(parts)

    @_of.register
    def _within(self, check: checks.Within) -> tuple[Decision, str]:
        if not check.each and not check.some:
            total = self._mean(check.pick)
            return self._between(total, check.low, check.high), self._shown(total)
        terms = self._terms(check.pick)
        parts = [self._between(single(term), check.low, check.high) for term in terms]
        text = self._listed(list(zip(terms, parts, strict=True)))
        return (every(parts) if check.each else some(parts)), text

    @_of.register
    def _compare(self, check: checks.Compare) -> tuple[Decision, str]:
        lefts, rights = (self._grouped(pick, check.by) for pick in (check.left, check.right))
        both = [value for value in lefts if value in rights]
        if not both:
            raise NotRun(f"no value of {check.by} with both")
        found = [self._quotient(lefts[value], rights[value], check) for value in both]
        texts = [f"{value}: {text}" if len(both) > 1 else text for value, (_, text) in zip(both, found, strict=True)]
        return every([decision for decision, _ in found]), "; ".join(texts)

    def _grouped(self, pick: checks.Pick, by: str) -> dict[str, Linear]:
        """The mean of what is picked at each value of a parameter; at the value "" without one."""
        groups: dict[str, list[Linear]] = {}
        for term in self._terms(pick):
            groups.setdefault(dict(term.key).get(by, ""), []).append(single(term))
        return {value: mean(sums) for value, sums in groups.items()}

    def _quotient(self, left: Linear, right: Linear, check: checks.Compare) -> tuple[Decision, str]:
        parts = [self._positive(left - check.low * right, strict=True)] if check.low > 0 else []
        parts += [self._positive(check.high * right - left, strict=True)] if check.high < checks.MORE else []
        text = f"{self._shown(left)} against {self._shown(right)}"
        values = [self._repetitions.estimate(total)[0] for total in (left, right)]
        if None in values:
            return NOTHING_KNOWN, text
        means = [value.mean for value in values if value is not None]
        if check.resolution is not None and max(means) <= check.resolution:
            return (
                VOID,
                f"{text}, neither of which is more than what is resolved, {show(check.resolution, self._measure)}",
            )
        return between(parts), text + (f" (quotient {means[0] / means[1]:.3g})" if means[1] else "")

    @_of.register
    def _farthest(self, check: checks.Farthest) -> tuple[Decision, str]:
        apart = self._apart_along(check.left, check.right, check.over)
        there = self._place(apart, check.over, check.at) if check.at else apart[-1][0]
        here = dict(apart)[there]
        parts = [self._positive(here, strict=True)]
        parts += [self._positive(here - difference, strict=True) for x, difference in apart if x != there]
        return every(parts), f"apart by {self._line(apart)}"

    @_of.register
    def _nearest(self, check: checks.Nearest) -> tuple[Decision, str]:
        apart = self._apart_along(check.left, check.right, check.over)
        there = self._place(apart, check.over, check.at)
        here = dict(apart)[there]
        # |here| < |other| where other - here and other + here are on the same side of 0.
        parts = [
            some(
                [
                    every([self._positive(way * (other + sign * here), strict=True) for sign in (1, -1)])
                    for way in (1, -1)
                ]
            )
            for x, other in apart
            if x != there
        ]
        return every(parts), f"apart by {self._line(apart)}"

    def _apart_along(self, left: checks.Pick, right: checks.Pick, over: str) -> list[tuple[float, Linear]]:
        """The difference of two picks at each number of a parameter that both have; two at least."""
        ends = dict(self._along(right, over))
        apart = [(x, y - ends[x]) for x, y in self._along(left, over) if x in ends]
        if len(apart) < 2:
            raise NotRun(f"fewer than two values of {over} with both")
        return apart

    def _place(self, line: Sequence[tuple[float, Linear]], over: str, at: str) -> float:
        """The number of a parameter's value, at which there have to be points."""
        place = number(at)
        if place is None or place not in dict(line):
            raise NotRun(f"no point with {self._measure} at {over} {at}")
        return place

    @_of.register
    def _trend(self, check: checks.Trend) -> tuple[Decision, str]:
        line = self._along(check.pick, check.over)
        sign = 1 if check.rising else -1
        change = sign * (line[-1][1] - line[0][1])
        parts = [self._positive(change.plus(-check.least)), self._positive(change, strict=True)]
        parts += [
            self._positive(check.slack * change + sign * (after - before))
            for (_, before), (_, after) in itertools.pairwise(line)
        ]
        return every(parts), self._line(line)

    @_of.register
    def _straight(self, check: checks.Straight) -> tuple[Decision, str]:
        line = self._along(check.pick, check.over)
        if len(line) < 3:
            raise NotRun(f"fewer than three values of {check.over}")
        ends = [line[0], line[-1]]
        parts = [self._between(y - _at(ends, x), -check.tolerance, check.tolerance) for x, y in line[1:-1]]
        return every(parts), self._line(line)

    @_of.register
    def _crossing(self, check: checks.Crossing) -> tuple[Decision, str]:
        line = self._along(check.pick, check.over)
        if check.low < line[0][0] or check.high > line[-1][0]:
            raise NotRun(f"no points around {check.low:g} to {check.high:g} of {check.over}")
        above = [(x, y.plus(-check.level)) for x, y in line]
        before = [y for x, y in above if x < check.low] + [_at(above, check.low)]
        after = _at(above, check.high)
        ways = [
            every([self._positive(sign * y) for y in before] + [self._positive(-sign * after, strict=True)])
            for sign in (1, -1)
        ]
        where = crossing([(x, self._value(y)) for x, y in above])
        return some(ways), f"{'never' if where is None else f'at {where:.3g}'}; {self._line(line)}"

    @_of.register
    def _extreme(self, check: checks.Extreme) -> tuple[Decision, str]:
        line = self._along(check.pick, check.over)
        place = self._place(line, check.over, check.at)
        here = dict(line)[place]
        others = [(x, y) for x, y in line if x != place]
        if not check.ends and not (line[0][0] < place < line[-1][0]):
            raise NotRun(f"no points on both sides of {check.over} {check.at}")
        sign = 1 if check.kind == "least" else -1
        return every([self._positive(sign * (y - here), strict=True) for _, y in others]), self._line(line)

    @_of.register
    def _model(self, check: checks.Model) -> tuple[Decision, str]:
        formulas = {term.key: single(term) for term in self._terms(checks.Pick(check.expected, check.pick.where))}
        # Where the formula says nothing there is nothing to compare.
        terms = [term for term in self._terms(check.pick) if self._repetitions.estimate(formulas[term.key])[0]]
        if not terms:
            raise NotRun(f"no point with {check.expected}")
        parts = [self._between(single(term) - formulas[term.key], -check.tolerance, check.tolerance) for term in terms]
        values = [(describe(term.key), self._shown(single(term)), self._shown(formulas[term.key])) for term in terms]
        return every(parts), "; ".join(f"{setting}{value}, formula {formula}" for setting, value, formula in values)

    @_of.register
    def _median_error(self, check: checks.MedianError) -> tuple[Decision, str]:
        medians = []
        terms = self._terms(check.pick)
        for runs in zip(*(self._repetitions.runs(term.key) for term in terms), strict=False):
            pairs = [(run.measures.get(check.pick.measure), run.measures.get(check.expected)) for run in runs]
            errors = [abs(ours - formula) for ours, formula in pairs if ours is not None and formula is not None]
            medians += [statistics.median(errors)] if errors else []
        found = estimate(medians)
        if found is None:
            raise NotRun(f"no point with {check.expected}")
        below = self._repetitions.projected(estimate([check.most - one for one in medians]))
        return self._margin(
            below, "exact", strict=False
        ), f"median error {show(found, self._measure, is_mean=True)} of {len(terms)} settings"

    @_of.register
    def _sometimes(self, check: checks.Sometimes) -> tuple[Decision, str]:
        runs = [run for term in self._terms(check.pick) for run in self._repetitions.runs(term.key)]
        values = [value for run in runs if (value := value_of(check.pick, run)[0]) is not None]
        if not values:
            raise _NoValue("none")
        having = sum(check.low <= value <= check.high for value in values)
        ends = " to ".join(show(end, self._measure) for end in (min(values), max(values)))
        text = f"{having} of {len(values)} runs, which are from {ends}"
        if having:
            return HOLDS, text
        # None of so many runs, although this part of all runs would have it.
        projection = self._repetitions.projection
        count = max(len(values), projection.size * len(self._terms(check.pick)) if projection else 0)
        return replace(FAILS, fails=max(0.0, 1 - check.part + self._relief) ** count), text

    @_of.register
    def _spread(self, check: checks.Spread) -> tuple[Decision, str]:
        rest: dict[Key, list[Term]] = {}
        for term in self._terms(check.pick):
            rest.setdefault(tuple(item for item in term.key if item[0] != check.across), []).append(term)
        groups = [terms for terms in rest.values() if len(terms) > 1]
        if not groups:
            raise NotRun(f"fewer than two values of {check.across}")
        parts = [every(self._apart(terms, check)) for terms in groups]
        text = self._listed([(term, part) for terms, part in zip(groups, parts, strict=True) for term in terms])
        return every(parts), text

    def _apart(self, terms: Sequence[Term], check: checks.Spread) -> list[Decision]:
        """Whether any two of some settings are no farther apart than allowed."""
        pairs = itertools.permutations([single(term) for term in terms], 2)
        if check.relative:
            return [self._positive(b - (1 - check.most) * a) for a, b in pairs]
        return [self._positive((b - a).plus(check.most)) for a, b in pairs]


class _NoValue(Exception):
    """No repetition has the measure."""


def _condition(wanted: object) -> str:
    return f"{wanted[0]:g} to {wanted[1]:g}" if isinstance(wanted, tuple) else str(wanted)


def _at(line: Sequence[tuple[float, Linear]], position: float) -> Linear:
    """A line's value between its points."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if x0 <= position <= x1:
            part = (position - x0) / (x1 - x0)
            return (1 - part) * y0 + part * y1
    raise ValueError(f"{position:g} is outside of the line")


def crossing(line: Sequence[tuple[float, float]]) -> float | None:
    """Where a line of (x, y), ascending in x, first crosses 0; None if it stays on one side."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if y0 * y1 <= 0 and y0 != y1:
            return x0 - (x1 - x0) * y0 / (y1 - y0)
    return None
