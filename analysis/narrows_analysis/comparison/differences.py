# SPDX-License-Identifier: Apache-2.0
"""Differences of means with 95 % confidence intervals, and effect sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance

import numpy as np
import pandas as pd

from narrows_analysis.comparison.sides import Place, Side
from narrows_analysis.errors import AnalysisError
from narrows_analysis.metrics.confidence import LEVEL, Estimate, estimate, holm
from narrows_analysis.sweep import drops_beside


@dataclass(frozen=True)
class Difference:
    """A quantity at a place of both sides.

    ``difference`` is the second side's mean less the first one's; ``effect`` Hedges' g, None where values do not vary
    or are too few; ``p_value`` how likely so large a difference is by chance, corrected for all that were compared
    together (Holm), None where there is no interval or a repetition does not have the quantity.
    """

    place: Place
    first: Estimate
    second: Estimate
    difference: Estimate
    effect: float | None
    p_value: float | None = None

    @property
    def clear(self) -> bool | None:
        """Whether there is a difference: with at most 5 % any of those that are called clear is due to chance."""
        return None if self.p_value is None else self.p_value < 1 - LEVEL


def compare(first: Side, second: Side) -> list[Difference]:
    """Differences at all places that both sides have, in the order of the first one.

    Raises:
        AnalysisError: a run is compared with repetitions, or there is no common place.
    """
    if first.basis != second.basis:
        raise AnalysisError(
            f"{first.name} is from {first.basis}, {second.name} from {second.basis}; allowed: two runs, or two sweeps"
        )
    found = [
        _difference(place, values, second.values[place])
        for place, values in first.values.items()
        if place in second.values and not (_told_by_drops(place, first) and _told_by_drops(place, second))
    ]
    differences = [one for one in found if one is not None]
    if not differences:
        raise AnalysisError(f"{first.name} and {second.name} have no setting and quantity in common")
    return _judged_together(differences)


def _told_by_drops(place: Place, side: Side) -> bool:
    """Whether this is all loss where loss emulation took nothing: judged twice, it only makes others less clear."""
    column = drops_beside(place.quantity)
    dropped = next((values for one, values in side.values.items() if one.is_at(place, column)), ())
    return column is not None and np.array_equal(side.values[place], dropped, equal_nan=True)


def _judged_together(differences: Sequence[Difference]) -> list[Difference]:
    known = {
        number: p_value
        for number, one in enumerate(differences)
        if (p_value := one.difference.p_value) is not None and not one.difference.missing
    }
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    return [replace(one, p_value=adjusted.get(number)) for number, one in enumerate(differences)]


def warnings(first: Side, second: Side) -> list[str]:
    """What a reader of their differences must know of two sides."""
    mixed = [f"{side.name}: {side.mixture}" for side in (first, second) if side.mixture]
    return [*mixed, *only_in_one(first, second)]


def only_in_one(first: Side, second: Side) -> list[str]:
    """Settings and groups that one side lacks, in words; a group that it lacks at all settings once."""
    lines = []
    for one, other in ((first, second), (second, first)):
        others, groups = {str(place) for place in other.values}, {place.group for place in other.values}
        places = [str(place) if place.group in groups else place.group for place in one.values]
        lines += [f"{place}: only in {one.name}" for place in dict.fromkeys(places) if place not in others]
    return lines


def _difference(place: Place, before: Sequence[float], after: Sequence[float]) -> Difference | None:
    known = [[value for value in values if math.isfinite(value)] for values in (before, after)]
    missing = [len(values) - len(some) for values, some in zip((before, after), known, strict=True)]
    first, second = (estimate(values, missing=lost) for values, lost in zip(known, missing, strict=True))
    between = estimate(known[1], [-value for value in known[0]], missing=sum(missing))
    if first is None or second is None or between is None:
        return None
    return Difference(place, first, second, between, hedges_g(*known))


def hedges_g(before: Sequence[float], after: Sequence[float]) -> float | None:
    """The difference of two means in pooled standard deviations, corrected for small samples.

    Source: L. V. Hedges, "Distribution theory for Glass's estimator of effect size and related estimators", Journal of
    Educational Statistics 6, 1981.
    """
    from scipy.special import gammaln  # Slow to import, and only comparisons need it.

    if min(len(before), len(after)) < 2:
        return None
    freedom = len(before) + len(after) - 2
    pooled = ((len(before) - 1) * variance(before) + (len(after) - 1) * variance(after)) / freedom
    if pooled <= 0:
        return None
    correction = math.exp(gammaln(freedom / 2) - gammaln((freedom - 1) / 2)) / math.sqrt(freedom / 2)
    return float(correction * (fmean(after) - fmean(before)) / math.sqrt(pooled))


def as_frame(differences: Sequence[Difference]) -> pd.DataFrame:
    """The differences as a table in SI units, a row each."""
    return pd.DataFrame([_row(one) for one in differences])


def _row(one: Difference) -> dict[str, object]:
    low, high = one.difference.interval or (math.nan, math.nan)
    return {
        **dict(one.place.setting),
        "group": one.place.group,
        "quantity": one.place.quantity.column,
        "first_mean": one.first.mean,
        "first_half_width": one.first.half_width,
        "first_n": one.first.count,
        "first_missing": one.first.missing,
        "second_mean": one.second.mean,
        "second_half_width": one.second.half_width,
        "second_n": one.second.count,
        "second_missing": one.second.missing,
        "difference": one.difference.mean,
        "difference_low": low,
        "difference_high": high,
        "hedges_g": one.effect,
        "p_value": one.p_value,
        "clear": one.clear,
    }
