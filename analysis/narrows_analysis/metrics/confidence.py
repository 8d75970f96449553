# SPDX-License-Identifier: Apache-2.0
"""Means of repetitions with 95 % confidence intervals, their sums, and how many repetitions an interval needs.

An estimate is a sum of means of independent samples, such as the difference of two settings. Its interval is Student's
t with the degrees of freedom of Welch and Satterthwaite (B. L. Welch, "The generalization of Student's problem when
several different population variances are involved", Biometrika 34, 1947); for one sample this is the ordinary t
interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import variance
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
# More repetitions than this are no advice.
MAX_REPETITIONS = 1000


class Sample(NamedTuple):
    """Variance of one value of a sample (already with the square of its weight) and number of values."""

    variance: float
    size: int


@dataclass(frozen=True)
class Estimate:
    """A mean, or a sum of means, and the samples that it is made of.

    ``missing`` is the number of repetitions that do not have the measured quantity.
    """

    mean: float
    samples: tuple[Sample, ...]
    missing: int = 0

    @property
    def count(self) -> int:
        """Number of values of the smallest sample."""
        return min((sample.size for sample in self.samples), default=0)

    @property
    def half_width(self) -> float | None:
        """Half the width of the 95 % confidence interval; None if a sample has one value only."""
        if self.count < 2:
            return None
        return float(half_widths(self.samples, np.array([[sample.size for sample in self.samples]], dtype=float))[0])

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 95 % confidence interval."""
        half = self.half_width
        return None if half is None else (self.mean - half, self.mean + half)

    def repetitions_apart_from(self, value: float) -> int | None:
        """The smallest number of values a sample with which, mean and variances staying as they are, the interval does
        not hold a value; None if no reasonable number would do, or if a sample has one value only."""
        if self.count < 2:
            return None
        counts = np.arange(2, MAX_REPETITIONS + 1, dtype=float)
        halves = half_widths(self.samples, np.repeat(counts[:, None], len(self.samples), axis=1))
        enough = np.flatnonzero(halves < abs(self.mean - value))
        return int(counts[enough[0]]) if len(enough) else None


def half_widths(samples: Sequence[Sample], counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Half the width of the interval with other numbers of values; ``counts`` has a row for each case."""
    from scipy.special import stdtrit  # Slow to import, and only intervals need it.

    variances = np.array([sample.variance for sample in samples]) / counts
    total = variances.sum(axis=1)
    with np.errstate(invalid="ignore"):
        freedom = total**2 / (variances**2 / (counts - 1)).sum(axis=1)
        widths = stdtrit(freedom, (1 + LEVEL) / 2) * np.sqrt(total)
    # All values alike: there is no doubt, and no degree of freedom either.
    return np.where(total > 0, widths, 0.0)


def estimate(*samples: Sequence[float], constant: float = 0.0, missing: int = 0) -> Estimate | None:
    """The sum of the samples' means and a constant; None if a sample has no values.

    Args:
        samples: values of independent repetitions, a sequence for each sample.
        constant: what is added to the sum.
        missing: number of repetitions without a value.
    """
    if not samples or not all(len(values) for values in samples):
        return None
    return Estimate(
        constant + math.fsum(math.fsum(values) / len(values) for values in samples),
        tuple(Sample(variance(values) if len(values) > 1 else 0.0, len(values)) for values in samples),
        missing,
    )
