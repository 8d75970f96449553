# SPDX-License-Identifier: Apache-2.0
"""Least, mean, percentiles and most of times: how results have a distribution of delays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict


@with_config(ConfigDict(extra="forbid"))
class DelayDistribution(TypedDict):
    """Of each datagram, or response, in seconds."""

    min: float
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


def distribution(values: Sequence[float]) -> DelayDistribution | None:
    """Least, mean, percentiles (nearest rank) and most of values in any unit; None of none.

    Source of the percentiles: R. Hyndman, Y. Fan, "Sample Quantiles in Statistical Packages", American Statistician
    50(4), 1996, definition 1.
    """
    if not values:
        return None
    ordered = sorted(values)
    p50, p95, p99 = (ordered[math.ceil(part * len(ordered)) - 1] for part in (0.5, 0.95, 0.99))
    return {"min": ordered[0], "mean": fmean(ordered), "p50": p50, "p95": p95, "p99": p99, "max": ordered[-1]}
