# SPDX-License-Identifier: Apache-2.0
"""Weighted sums of measures at settings, estimated from their repetitions.

Measures of one run are summed within each repetition, so that variation that they share (two shares that add up to 1,
for example) does not count twice; settings are independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from narrows_analysis.metrics.confidence import Estimate, estimate
from narrows_analysis.study_results import MeasuredPoint

from narrows_studies.checks import Pick, meets
from narrows_studies.decision import Bound

Key = tuple[tuple[str, str], ...]
ROUNDING = 1e-9
# Measures that depend on the buffer even if no packet does; and how many measures two points must have so that, if all
# others are equal, they are one and the same run.
OF_BUFFER = {"queue_fill", "queue_max_fill", "buffer_bdp", "fillings", "model_share", "model_min_rtt_s", "cpu_s"}
MANY_MEASURES = 20


@dataclass(frozen=True)
class Term:
    """A picked measure at one setting."""

    key: Key
    # Conditions have no hash; two picks that differ only in these may have the same one.
    pick: Pick = field(hash=False)


@dataclass(frozen=True)
class Linear:
    """A weighted sum of terms, and a constant."""

    weights: Mapping[Term, float]
    constant: float = 0.0

    def __add__(self, other: Linear) -> Linear:
        """The sum of two sums; weights of a term in both are added."""
        weights = dict(self.weights)
        for term, weight in other.weights.items():
            weights[term] = weights.get(term, 0.0) + weight
        return Linear(weights, self.constant + other.constant)

    def __mul__(self, factor: float) -> Linear:
        """The sum with all weights multiplied."""
        return Linear({term: weight * factor for term, weight in self.weights.items()}, self.constant * factor)

    __rmul__ = __mul__

    def __sub__(self, other: Linear) -> Linear:
        """The difference of two sums."""
        return self + other * -1

    @property
    def is_mean(self) -> bool:
        """Whether it is a weighted mean of its terms, and so has their bounds."""
        weights = self.weights.values()
        return self.constant == 0 and all(weight >= 0 for weight in weights) and abs(sum(weights) - 1) < ROUNDING

    def plus(self, constant: float) -> Linear:
        """The sum and a number."""
        return Linear(self.weights, self.constant + constant)


def mean(sums: Sequence[Linear]) -> Linear:
    """The mean of several sums, with equal weights."""
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    return total * (1 / len(sums))


@dataclass(frozen=True)
class Projection:
    """What would be judged instead of the repetitions that there are, and of the limits that a check has.

    Attributes:
        size: repetitions of each setting; 0: as many as there are.
        power: how likely they are to show what those that there are suggest.
        relief: how far all limits are moved, in the unit of the measure, so that more meets them (or less, below 0).
    """

    size: int = 0
    power: float = 0.0
    relief: float = 0.0


class Repetitions:
    """The runs of an experiment by setting."""

    def __init__(self, points: Sequence[MeasuredPoint], projection: Projection | None = None) -> None:
        """Take all points that a statement may look at, and how many there would be of each."""
        self._points = points
        self.projection = projection
        self._samples: dict[Key, Key] | None = None

    def by_value(self, parameter: str) -> dict[str, Repetitions]:
        """The points at each value of a parameter, of those that have it."""
        values = dict.fromkeys(point.parameters[parameter] for point in self._points if parameter in point.parameters)
        return {
            value: Repetitions(
                [point for point in self._points if point.parameters.get(parameter) == value], self.projection
            )
            for value in values
        }

    def terms(self, pick: Pick) -> list[Term]:
        """Every setting that a pick selects and that has been run, whether its runs have the measure or not."""
        return [Term(key, pick) for key, runs in self._by_setting.items() if meets(runs[0], pick.where)]

    def runs(self, key: Key) -> list[MeasuredPoint]:
        """The repetitions at a setting."""
        return self._by_setting[key]

    @cached_property
    def _by_setting(self) -> dict[Key, list[MeasuredPoint]]:
        """The runs at each setting, in the order in which settings come first."""
        found: dict[Key, list[MeasuredPoint]] = {}
        for point in self._points:
            found.setdefault(setting(point), []).append(point)
        return found

    def _sample(self, key: Key) -> Key:
        """The first setting whose runs are the same ones: with one seed, runs are where nothing binds that differs."""
        if self._samples is None:
            first: dict[tuple[object, ...], Key] = {}
            self._samples = {one: first.setdefault(_traces(one, runs), one) for one, runs in self._by_setting.items()}
        return self._samples[key]

    def estimate(self, total: Linear) -> tuple[Estimate | None, Bound]:
        """A sum, and whether it is a bound only; None if a setting has no run with all measures."""
        samples_of: dict[Key, list[tuple[Term, float]]] = {}
        for term, weight in total.weights.items():
            if weight:
                samples_of.setdefault(self._sample(term.key), []).append((term, weight))
        samples: list[list[float]] = []
        missing = 0
        directions: set[int] = set()
        for parts in samples_of.values():
            values: list[float] = []
            for runs in zip(*(self.runs(term.key) for term, _ in parts), strict=False):
                found = [(weight, *value_of(term.pick, run)) for (term, weight), run in zip(parts, runs, strict=True)]
                known = [(weight, value) for weight, value, _ in found if value is not None]
                if len(known) < len(found):
                    missing += 1
                    continue
                directions |= {1 if weight > 0 else -1 for weight, _, bounded in found if bounded}
                values.append(sum(weight * value for weight, value in known))
            samples.append(values)
        bounds: dict[frozenset[int], Bound] = {
            frozenset(): "exact",
            frozenset({1}): "at least",
            frozenset({-1}): "at most",
            frozenset({1, -1}): "unknown",
        }
        estimated = estimate(*samples, constant=total.constant, missing=missing)
        return self.projected(estimated), bounds[frozenset(directions)]

    def projected(self, found: Estimate | None) -> Estimate | None:
        """An estimate as it would be with as many repetitions as are asked for."""
        if found is None or self.projection is None or not self.projection.size or found.count < 2:
            return found
        return found.projected(self.projection.size, self.projection.power)


def single(term: Term) -> Linear:
    """A single term as a sum."""
    return Linear({term: 1.0})


def setting(point: MeasuredPoint) -> Key:
    """What sets a point apart from others of its experiment, without the repetition."""
    return (("experiment", point.experiment), *sorted(point.parameters.items()))


def _traces(key: Key, runs: Sequence[MeasuredPoint]) -> tuple[object, ...]:
    """What runs of a setting have in common with those of another one only if they are the same runs.

    That is all that is measured but for what is in parts of the buffer. A run with a seed of its own is none but
    itself.
    """
    if any(run.provenance or len(run.measures) < MANY_MEASURES for run in runs):
        return (key,)
    return (
        key[0],
        *(frozenset((name, run.measures[name]) for name in run.measures.keys() - OF_BUFFER) for run in runs),
    )


def value_of(pick: Pick, point: MeasuredPoint) -> tuple[float | None, bool]:
    """The picked measure of a run, and whether that is only a lower bound; None if it says nothing."""
    if pick.needs is not None and (point.measures.get(pick.needs[0]) or 0.0) < pick.needs[1]:
        return None, False
    value = point.measures.get(pick.measure)
    if value is not None and pick.absolute:
        return abs(value), False
    if value is None and pick.absent not in ("unknown", "differs"):
        return (point.measures.get(pick.absent), True) if pick.measure in point.measures else (None, False)
    return value, False
