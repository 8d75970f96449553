# SPDX-License-Identifier: Apache-2.0
"""Sums of reports per flow and interval, filled batch by batch in bounded memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

MAX_CELLS = 4_000_000


def segments(index: Int64Array) -> Int64Array:
    """Start of each stretch of equal neighbours in `index`."""
    return np.flatnonzero(np.concatenate(([True], index[1:] != index[:-1]))) if len(index) else np.zeros(0, np.int64)


class Grid:
    """Named sums over `rows` flows x `bins` intervals, and their totals over all time."""

    def __init__(self, names: tuple[str, ...], rows: int, bins: int) -> None:
        """Allocate; rows x bins is bounded by the caller through MAX_CELLS."""
        self.rows, self.bins = rows, bins
        self.cells = {name: np.zeros((rows, bins)) for name in names}
        self.totals = {name: np.zeros(rows) for name in names}

    def add(self, row: Int64Array, column: Int64Array, **values: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> None:
        """Add each of `values` at (row, column); columns outside the grid count in the totals only."""
        if not len(row):
            return
        for name, value in values.items():
            self.totals[name] += np.bincount(row, weights=value, minlength=self.rows)
        inside = (column >= 0) & (column < self.bins)
        if not inside.all():
            row, column = row[inside], column[inside]
            values = {name: value[inside] for name, value in values.items()}
            if not len(row):
                return
        low, high = int(column.min()), int(column.max()) + 1
        width = high - low
        index = row * width + (column - low)
        for name, value in values.items():
            sums = np.bincount(index, weights=value, minlength=self.rows * width)
            self.cells[name][:, low:high] += sums.reshape(self.rows, width)


class Extremes:
    """Minimum and maximum per flow and interval; NaN where there is no sample."""

    def __init__(self, rows: int, bins: int) -> None:
        """Start without samples."""
        self.rows, self.bins = rows, bins
        self._minimum = np.full(rows * bins, np.inf)
        self._maximum = np.full(rows * bins, -np.inf)

    def add(self, row: Int64Array, column: Int64Array, values: Int64Array) -> None:
        """Take samples into account; columns outside the grid are left out."""
        inside = (column >= 0) & (column < self.bins)
        index, values = (row * self.bins + column)[inside], values[inside]
        starts = segments(index)
        if not len(starts):
            return
        # Neighbours mostly share a cell: reducing each stretch first keeps the unbuffered scatter short.
        np.minimum.at(self._minimum, index[starts], np.minimum.reduceat(values, starts))
        np.maximum.at(self._maximum, index[starts], np.maximum.reduceat(values, starts))

    @property
    def minimum(self) -> FloatArray:
        """Smallest sample of each cell."""
        return np.where(np.isinf(self._minimum), np.nan, self._minimum).reshape(self.rows, self.bins)

    @property
    def maximum(self) -> FloatArray:
        """Largest sample of each cell."""
        return np.where(np.isinf(self._maximum), np.nan, self._maximum).reshape(self.rows, self.bins)
