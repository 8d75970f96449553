# SPDX-License-Identifier: Apache-2.0
"""Mean and confidence interval of repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# 97.5 % quantiles of Student's t distribution for 1, 2, ... 30 degrees of freedom, and beyond.
_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_T975_MANY = 1.96


@dataclass(frozen=True)
class Estimate:
    """Mean of ``count`` values, and half the width of its 95 % confidence interval; None from one value."""

    mean: float
    half_width: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and 95 % confidence interval of the values; None if there are none.

    Source: Student's t interval, for independent repetitions.
    """
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    quantile = _T975[count - 2] if count - 2 < len(_T975) else _T975_MANY
    return Estimate(mean, quantile * math.sqrt(variance / count), count)
