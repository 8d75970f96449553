# SPDX-License-Identifier: Apache-2.0
"""A workload as users write it, and the flows that a seed makes of it.

Draws are inversions of the distribution at numbers of `random.Random`, so that a seed gives the same flows on every
machine and every version of Python.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Self

from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import refuse
from pydantic import Field, StrictInt, WithJsonSchema, field_validator, model_validator

from narrows.experiment.quantities import Count, Model, Size, Time

ALLOWED_CDF = "pairs of value and fraction, both ascending, fractions from 0 to a last one of 1"
_PAIR = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
# Where a file is named, the loader puts in what the file has.
Cdf = Annotated[
    tuple[tuple[float, float], ...],
    WithJsonSchema({"title": "pairs, or a file", "anyOf": [{"type": "array", "items": _PAIR}, {"type": "string"}]}),
]
Positive = Annotated[float, Field(gt=0)]


@dataclass(frozen=True)
class Arrival:
    """One flow of a workload: nanoseconds from the workload's start, and bytes."""

    start_ns: int
    size: int


class Pareto(Model):
    """Sizes with a power-law tail, bounded above."""

    shape: Positive = Field(description="Exponent of the tail.")
    smallest: Size = Field(description="Smallest size.")
    largest: Size = Field(description="Largest size, above `smallest`: the tail is bounded there.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.largest <= self.smallest:
            raise refuse("has a largest size that is not above its smallest", "largest above smallest")
        return self

    def quantile(self, fraction: float) -> float:
        """Size in bytes that a ``fraction`` of the flows do not exceed."""
        tail = 1 - (self.smallest / self.largest) ** self.shape
        return float(self.smallest * (1 - fraction * tail) ** (-1 / self.shape))


class Lognormal(Model):
    """Gaps whose logarithm is normal."""

    median: Time = Field(description="Median gap.")
    sigma: Positive = Field(description="Standard deviation of the gap's natural logarithm.")

    def quantile(self, fraction: float) -> float:
        """Gap in nanoseconds that a ``fraction`` of the gaps do not exceed; 0 < fraction < 1."""
        return self.median * math.exp(self.sigma * NormalDist().inv_cdf(fraction))


class _Drawn(Model):
    """What sizes and gaps have in common: one distribution, by formula or as an empirical one."""

    cdf: Cdf | None = Field(
        default=None,
        description="Empirical distribution: pairs of value (bytes of sizes, seconds of gaps) and cumulative fraction, "
        "both ascending, the last fraction 1; linear in between. Or a file (relative to the experiment file) with one "
        "pair on each line.",
    )

    @field_validator("cdf")
    @classmethod
    def _is_cdf(cls, cdf: Cdf | None) -> Cdf | None:
        if cdf is not None and not is_cdf(cdf):
            raise refuse("is no cumulative distribution", ALLOWED_CDF)
        return cdf

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        (formula,) = type(self).model_fields.keys() - {"cdf"}
        if (self.cdf is None) == (getattr(self, formula) is None):
            raise refuse("needs exactly one distribution", f"{formula} or cdf")
        return self


class Sizes(_Drawn):
    """Distribution of flow sizes: exactly one of `pareto` and `cdf`."""

    pareto: Pareto | None = Field(default=None, description="A bounded Pareto distribution.")

    def draw(self, fraction: float) -> int:
        """Bytes at a fraction of the distribution, 1 at least."""
        value = self.pareto.quantile(fraction) if self.pareto is not None else interpolate(self.cdf or (), fraction)
        return max(1, round(value))


class Gaps(_Drawn):
    """Distribution of the times between the starts of two flows: exactly one of `lognormal` and `cdf`."""

    lognormal: Lognormal | None = Field(default=None, description="A lognormal distribution.")

    def draw(self, fraction: float) -> int:
        """Nanoseconds at a fraction of the distribution."""
        if self.lognormal is not None:
            return round(self.lognormal.quantile(fraction))
        return round(interpolate(self.cdf or (), fraction) * NANOSECONDS)


class Workload(Model):
    """Flows of drawn sizes, started at drawn gaps. Groups may share one workload, by `seed`, `every` and `offset`."""

    flows: Count = Field(description="Flows of the workload.")
    sizes: Sizes = Field(description="Distribution of their sizes.")
    gaps: Gaps = Field(description="Distribution of the times between two starts.")
    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1)] | None = Field(
        default=None,
        description="Groups with the same seed draw the same flows. Without it, the experiment's.",
    )
    every: Count = Field(default=1, description="Plays every n-th flow of the workload only, at its time.")
    offset: Annotated[StrictInt, Field(ge=0)] = Field(
        default=0, description="The first flow that is played, from 0; below `every` and `flows`."
    )

    @model_validator(mode="after")
    def _plays_something(self) -> Self:
        if self.offset >= min(self.every, self.flows):
            raise refuse("plays no flow", "offset below every, and below flows")
        return self

    def arrivals(self, seed: int) -> tuple[Arrival, ...]:
        """The flows that this group plays; ``seed`` is used if the workload has none of its own."""
        random_numbers = random.Random(seed if self.seed is None else self.seed)
        arrivals: list[Arrival] = []
        now = 0
        for _ in range(self.flows):
            arrivals.append(Arrival(now, self.sizes.draw(_inside(random_numbers))))
            now += self.gaps.draw(_inside(random_numbers))
        return tuple(arrivals[self.offset :: self.every])


def is_cdf(points: Sequence[tuple[float, float]]) -> bool:
    """Whether the points rise from fractions of 0 or more to exactly 1, at values that are not negative."""
    values, fractions = [value for value, _ in points], [fraction for _, fraction in points]
    rising = all(a < b for a, b in itertools.pairwise(values))
    growing = all(a < b for a, b in itertools.pairwise(fractions))
    return bool(points) and rising and growing and values[0] >= 0 and fractions[0] >= 0 and fractions[-1] == 1


def interpolate(points: Sequence[tuple[float, float]], fraction: float) -> float:
    """Value at a fraction of an empirical distribution: linear between points, the first value below the first."""
    position = bisect.bisect_left([known for _, known in points], fraction)
    if position == 0:
        return points[0][0]
    (low, below), (high, above) = points[position - 1], points[position]
    return low + (high - low) * (fraction - below) / (above - below)


def read_cdf(path: Path) -> list[tuple[float, float]]:
    """Read a file of lines ``value fraction``; empty lines and what follows a # are skipped.

    Raises:
        ValueError: it cannot be read, or a line is something else; says which.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    points: list[tuple[float, float]] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            value, fraction = (float(word) for word in words)
        except ValueError:
            # Without the line: the file may be one that only root can read.
            raise ValueError(f"{path}, line {number}: is not two numbers") from None
        points.append((value, fraction))
    return points


def _inside(random_numbers: random.Random) -> float:
    """A number strictly between 0 and 1."""
    while (fraction := random_numbers.random()) == 0:
        pass
    return fraction
