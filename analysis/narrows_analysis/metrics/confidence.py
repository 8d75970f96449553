# SPDX-License-Identifier: Apache-2.0
"""Means of repetitions and shares with 95 % confidence intervals, sums of means, and how likely one is by chance.

An estimate is a sum of means of independent samples, such as the difference of two settings. Its interval is Student's
t with the degrees of freedom of Welch and Satterthwaite (B. L. Welch, "The generalization of Student's problem when
several different population variances are involved", Biometrika 34, 1947); for one sample this is the ordinary t
interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import variance
from typing import NamedTuple

LEVEL = 0.95


class Sample(NamedTuple):
    """Variance of one value of a sample (already with the square of its weight) and number of values."""

    variance: float
    size: int


@dataclass(frozen=True)
class Estimate:
    """A mean, or a sum of means, and the samples that it is made of.

    ``missing`` is the number of repetitions that do not have the measured quantity, ``possible`` the least and the
    greatest value that it can have.
    """

    mean: float
    samples: tuple[Sample, ...]
    missing: int = 0
    possible: tuple[float, float] = (-math.inf, math.inf)

    @property
    def count(self) -> int:
        """Number of values of the smallest sample."""
        return min((sample.size for sample in self.samples), default=0)

    @property
    def half_width(self) -> float | None:
        """Half the width of the 95 % confidence interval by Student's t; None if a sample has one value only."""
        return self.half_width_at(LEVEL)

    def half_width_at(self, level: float) -> float | None:
        """Half the width of the confidence interval of another level, such as 0.99; None as for `half_width`."""
        if self.count < 2:
            return None
        from scipy.special import stdtrit  # Slow to import, and only intervals need it.

        error, freedom = self._error
        # All values alike: there is no doubt, and no degree of freedom either.
        return float(stdtrit(freedom, (1 + level) / 2) * error) if error else 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 95 % confidence interval, within what is possible."""
        half = self.half_width
        least, greatest = self.possible
        return None if half is None else (max(least, self.mean - half), min(greatest, self.mean + half))

    @property
    def p_value(self) -> float | None:
        """How likely a mean at least as far from 0 is where the truth is 0 (two-sided); None as for `half_width`.

        It is below 1 - LEVEL where the confidence interval does not hold 0. Of values that are all alike it is 0, or 1
        where they are 0.
        """
        if self.count < 2:
            return None
        from scipy.special import stdtr

        error, freedom = self._error
        if not error:
            return float(self.mean == 0)
        return float(2 * stdtr(freedom, -abs(self.mean) / error))

    def projected(self, size: int, power: float) -> Estimate:
        """What ``size`` values a sample, or more where there are more, show with a probability of ``power`` or more.

        The mean is as it is, and brought nearer to 0 by what so many values may miss it by. A variance of few values is
        uncertain: the one that is taken is exceeded with a probability of 1 - ``power`` only (R. H. Browne, "On the Use
        of a Pilot Sample for Sample Size Determination", Statistics in Medicine 14, 1995).
        """
        from scipy.special import chdtri, stdtrit

        samples = tuple(
            Sample(one.variance * (one.size - 1) / float(chdtri(one.size - 1, power)), max(size, one.size))
            for one in self.samples
        )
        larger = replace(self, samples=samples)
        error, freedom = larger._error
        missed = float(stdtrit(freedom, power)) * error if error else 0.0
        return replace(larger, mean=math.copysign(max(0.0, abs(self.mean) - missed), self.mean))

    @property
    def _error(self) -> tuple[float, float]:
        """Standard error of the mean, and the degrees of freedom of Welch and Satterthwaite."""
        variances = [sample.variance / sample.size for sample in self.samples]
        total = math.fsum(variances)
        # A variance so small that its square is none has no degree of freedom that could be worked out.
        squares = math.fsum(one**2 / (sample.size - 1) for one, sample in zip(variances, self.samples, strict=True))
        return (math.sqrt(total), total**2 / squares) if squares else (0.0, 0.0)


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


def wilson(found: int, of: int) -> tuple[float, float]:
    """Ends of the 95 % interval of a share, of ``found`` in ``of`` independent trials, at least one.

    Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the
    American Statistical Association 22, 1927.
    """
    from scipy.special import ndtri

    share, squared = found / of, float(ndtri((1 + LEVEL) / 2)) ** 2
    center = (share + squared / (2 * of)) / (1 + squared / of)
    half = math.sqrt(squared * (share * (1 - share) / of + squared / (4 * of**2))) / (1 + squared / of)
    # A share of 0 or 1 is an end itself, but for rounding.
    return (max(0.0, center - half) if found else 0.0, min(1.0, center + half) if found < of else 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several hypotheses that are judged together, so that 5 % is the chance of one false verdict in all.

    Source: S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6,
    1979.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
