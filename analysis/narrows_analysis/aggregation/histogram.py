# SPDX-License-Identifier: Apache-2.0
"""Distribution of unsigned integers in bounded memory: exact below 2^13, then 2^13 bins an octave."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from narrows_formats.summary import Distribution

PRECISION_BITS = 13
_VALUE_BITS = 48
_LINEAR = 1 << (PRECISION_BITS + 1)
_BINS = _LINEAR + (_VALUE_BITS - PRECISION_BITS - 1) * (1 << PRECISION_BITS)


class LogLinearHistogram:
    """Counts of integers in 0..2^48-1, in bins of at most 2^-13 (0.012 %) of it; mean and maximum are exact."""

    def __init__(self) -> None:
        """Start empty."""
        self._counts = np.zeros(_BINS, dtype=np.int64)
        self._sum = 0
        self.count = 0
        self.maximum = 0

    @staticmethod
    def _bin(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        exponent = np.frexp(np.maximum(values, 1).astype(np.float64))[1].astype(np.int64)
        shift = np.maximum(exponent - (PRECISION_BITS + 1), 0)
        return np.asarray(shift * (1 << PRECISION_BITS) + (values >> shift), dtype=np.int64)

    def add_bins(self, lowest: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
        """Count values by the lowest value of their bin; `set_totals` then has to give their exact sum and maximum."""
        np.add.at(self._counts, self._bin(lowest), counts)
        self.count += int(counts.sum())

    def set_totals(self, total: int, maximum: int) -> None:
        """Exact sum and maximum of all values."""
        self._sum, self.maximum = total, maximum

    @property
    def mean(self) -> float | None:
        """Arithmetic mean; None if empty."""
        return self._sum / self.count if self.count else None

    @property
    def variance(self) -> float:
        """Variance of the values as a sample, by their bins; 0 with less than two of them."""
        filled = np.flatnonzero(self._counts)
        if self.count < 2:
            return 0.0
        values, counts = self._upper_end(filled), self._counts[filled]
        return float((counts * (values - np.average(values, weights=counts)) ** 2).sum() / (self.count - 1))

    def _upper_end(self, bins: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The largest value that a bin can hold: no value that counts in it, or below it, is larger."""
        shift = np.maximum(bins // (1 << PRECISION_BITS) - 1, 0)
        low = (bins - shift * (1 << PRECISION_BITS)) << shift
        return np.asarray(np.minimum(low + (np.int64(1) << shift) - 1, self.maximum), dtype=np.float64)

    def percentile(self, percent: float) -> float | None:
        """Smallest counted value that `percent` % of the values do not exceed (nearest rank); None if empty."""
        if not self.count:
            return None
        rank = max(1, int(np.ceil(self.count * percent / 100)))
        index = np.searchsorted(np.cumsum(self._counts), rank)
        return float(self._upper_end(np.array([index]))[0])

    def distribution(self, scale: float, maximum: int | None = None) -> Distribution:
        """Mean, percentiles and maximum in a unit of which a counted one is ``scale``; None each if empty.

        ``maximum`` replaces that of the counted values where a greater one is known.
        """

        def scaled(value: float | None) -> float | None:
            return None if value is None else value * scale

        top = self.maximum if maximum is None else maximum
        return {
            "mean": scaled(self.mean),
            "p50": scaled(self.percentile(50)),
            "p99": scaled(self.percentile(99)),
            "max": scaled(top) if self.count else None,
        }

    def cdf(self, points: int = 400) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Values and cumulative fractions (0..1] of at most about `points` steps, extremes kept."""
        filled = np.flatnonzero(self._counts)
        if not len(filled):
            return np.zeros(0), np.zeros(0)
        fraction = np.cumsum(self._counts[filled]) / self.count
        values = self._upper_end(filled)
        if len(filled) > points:
            # Evenly spaced in probability as well as in value, so that neither steps nor tails are lost.
            by_fraction = np.searchsorted(fraction, np.linspace(0, 1, points // 2))
            by_value = np.searchsorted(values, np.linspace(values[0], values[-1], points // 2))
            chosen = np.unique(
                np.clip(np.concatenate((by_fraction, by_value, [0, len(filled) - 1])), 0, len(filled) - 1)
            )
            values, fraction = values[chosen], fraction[chosen]
        return values, fraction
