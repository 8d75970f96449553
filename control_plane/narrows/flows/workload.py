# SPDX-License-Identifier: Apache-2.0
"""A workload as users write it, and the flows that a seed makes of it.

Draws are inversions of the distribution at numbers of `random.Random`, so that a seed gives the same flows on every
machine and every version of Python.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from functools import lru_cache
from statistics import NormalDist
from typing import Annotated, Self

from narrows_formats.units import NANOSECONDS
from narrows_formats.validation import refuse
from pydantic import Field, StrictInt, WithJsonSchema, field_validator, model_validator

from narrows.field_types import Count, Model, Size, Time
from narrows.flows.cdf import ALLOWED_CDF, as_fractions, fault, interpolate
from narrows.flows.group import FlowGroup, Place
from narrows.onhost import tcp

_PAIR = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
# Where a file is named, the loader puts in what the file has.
Cdf = Annotated[
    tuple[tuple[float, float], ...],
    WithJsonSchema({"title": "pairs, or a file", "anyOf": [{"type": "array", "items": _PAIR}, {"type": "string"}]}),
]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# Beyond it gaps differ by more than a clock can tell.
MAX_SIGMA = 10


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
    sigma: Annotated[float, Field(gt=0, le=MAX_SIGMA)] = Field(
        description="Standard deviation of the gap's natural logarithm."
    )

    def quantile(self, fraction: float) -> float:
        """Gap in nanoseconds that a ``fraction`` of the gaps do not exceed; 0 < fraction < 1."""
        return self.median * math.exp(self.sigma * NormalDist().inv_cdf(fraction))


class Exponential(Model):
    """Gaps of a Poisson process."""

    mean: Annotated[Time, Field(gt=0)] = Field(description="Mean gap; starts are a Poisson process.")

    def quantile(self, fraction: float) -> float:
        """Gap in nanoseconds that a ``fraction`` of the gaps do not exceed; 0 <= fraction < 1."""
        return -self.mean * math.log1p(-fraction)


class _Drawn(Model):
    """What sizes and gaps have in common: one distribution, by formula or as an empirical one."""

    cdf: Cdf | None = Field(
        default=None,
        description="Empirical distribution: pairs of value (bytes of sizes, seconds of gaps) and cumulative fraction, "
        "neither descending, the last fraction 1 (or 100: percent); linear in between, two pairs at one value are a "
        "jump. Or a file (relative to the experiment file) with one pair on each line.",
    )

    @field_validator("cdf")
    @classmethod
    def _is_cdf(cls, cdf: Cdf | None) -> Cdf | None:
        if cdf is None:
            return None
        if (wrong := fault(cdf)) is not None:
            number, why = wrong
            raise refuse(f"is not a cumulative distribution: pair {number + 1} {why}", ALLOWED_CDF)
        return as_fractions(cdf)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        known = type(self).model_fields
        if sum(getattr(self, name) is not None for name in known) != 1:
            raise refuse("needs exactly one distribution", " or ".join(sorted(known, reverse=True)))
        return self


class Sizes(_Drawn):
    """Distribution of flow sizes: exactly one of `pareto` and `cdf`."""

    pareto: Pareto | None = Field(default=None, description="A bounded Pareto distribution.")

    def draw(self, fraction: float) -> int:
        """Bytes at a fraction of the distribution, 1 at least."""
        value = self.pareto.quantile(fraction) if self.pareto is not None else interpolate(self.cdf or (), fraction)
        return max(1, round(value))


class Gaps(_Drawn):
    """Distribution of the times between the starts of two flows: exactly one of `exponential`, `lognormal`, `cdf`."""

    exponential: Exponential | None = Field(default=None, description="An exponential distribution.")
    lognormal: Lognormal | None = Field(default=None, description="A lognormal distribution.")

    def draw(self, fraction: float) -> int:
        """Nanoseconds at a fraction of the distribution."""
        formula = self.exponential or self.lognormal
        if formula is not None:
            return round(formula.quantile(fraction))
        return round(interpolate(self.cdf or (), fraction) * NANOSECONDS)


# Flows that are drawn, though groups may play only some of them: a second's work.
MAX_DRAWN = 1_000_000


class Workload(Model):
    """Flows of drawn sizes, started at drawn gaps. Groups may share one workload, by `seed`, `every` and `offset`."""

    flows: Annotated[StrictInt, Field(ge=1, le=MAX_DRAWN)] = Field(
        description="Flows of the workload; up to 1,000,000, and to 30,000 that a group plays."
    )
    sizes: Sizes = Field(description="Distribution of their sizes.")
    gaps: Gaps = Field(description="Distribution of the times between two starts.")
    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1)] | None = Field(
        default=None,
        description="Groups with the same seed draw the same flows. Without it, each group draws its own, by the "
        "experiment's.",
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

    @property
    def played(self) -> int:
        """How many flows of it this group plays."""
        return len(range(self.offset, self.flows, self.every))

    def payload(self, seed: int) -> tcp.Workload:
        """The flows that this group plays; ``seed`` is used if the workload has none of its own."""
        return _drawn(self, seed if self.seed is None else self.seed)


# Flows of a group have the same.
@lru_cache(maxsize=1)
def _drawn(workload: Workload, seed: int) -> tcp.Workload:
    random_numbers, now = random.Random(seed), 0
    starts: list[int] = []
    sizes: list[int] = []
    for _ in range(workload.flows):
        starts.append(now)
        sizes.append(workload.sizes.draw(inside(random_numbers)))
        now += workload.gaps.draw(inside(random_numbers))
    played = slice(workload.offset, None, workload.every)
    return tcp.Workload(tuple(starts[played]), tuple(sizes[played]))


def inside(random_numbers: random.Random) -> float:
    """A number strictly between 0 and 1."""
    while (fraction := random_numbers.random()) == 0:
        pass
    return fraction


class WorkloadGroup(FlowGroup):
    """Many flows of random sizes."""

    made_of = tcp.Workload
    key = "workload"

    workload: Workload = Field(description="Many flows of random sizes; instead of `duration` and `size`.")

    @property
    def connections_each(self) -> int:
        """See `FlowGroup.connections_each`."""
        return self.workload.played

    def payload(self, place: Place) -> tcp.Workload:
        """See `FlowGroup.payload`."""
        return self.workload.payload(place.group_seed)

    def check_kind(self, others: Collection[str]) -> None:
        """See `FlowGroup.check_kind`."""
        self.needs_cca()
        if "size" in others or self.duration is not None:
            raise refuse("has a workload beside duration or size", "one of duration, size and workload")
        if {"repeat", "gap"} & set(others):
            raise refuse("has repeat or gap without size", "repeat and gap together with size")
        if "until" in others:
            raise refuse("has until without size", "until together with size and repeat")
