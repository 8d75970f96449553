# SPDX-License-Identifier: Apache-2.0
"""Empirical distributions: pairs of value and cumulative fraction, in an experiment or in a file of their own."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from pathlib import Path

from narrows_formats import named_file

MOST_BYTES = 1 << 20
ALLOWED_CDF = "pairs of value and fraction, neither descending, none negative, fractions up to 1, or to 100 for percent"
Points = Sequence[tuple[float, float]]


def fault(points: Points) -> tuple[int, str] | None:
    """The first pair, from 0, that cannot be in a cumulative distribution, and why; None if all can.

    Two pairs at one value are a jump: that value itself has the probability between their fractions. Two at one
    fraction are a range of values that do not occur. The reason names no value: the file may be one that only root can
    read.
    """
    if not points:
        return 0, "has no pair"
    for number, pair in enumerate(points):
        if not all(math.isfinite(part) and part >= 0 for part in pair):
            return number, "has a value or a fraction that is negative, or no number"
    for number, ((value, fraction), (next_value, next_fraction)) in enumerate(itertools.pairwise(points), 1):
        if next_value < value:
            return number, "has a smaller value than the pair before it"
        if next_fraction < fraction:
            return number, "has a smaller fraction than the pair before it"
    if points[-1][1] not in (1, 100):
        return len(points) - 1, "is the last pair, and its fraction is neither 1 nor 100 (percent)"
    return None


def as_fractions(points: Points) -> tuple[tuple[float, float], ...]:
    """The same distribution with fractions up to 1, where it was in percent."""
    whole = points[-1][1]
    return tuple((value, fraction / whole) for value, fraction in points)


def interpolate(points: Points, fraction: float) -> float:
    """Value at a fraction of a distribution: linear between points, the first value below the first."""
    position = bisect.bisect_left([known for _, known in points], fraction)
    if position == 0:
        return points[0][0]
    (low, below), (high, above) = points[position - 1], points[position]
    return low + (high - low) * (fraction - below) / (above - below)


def read_cdf(path: Path) -> list[tuple[float, float]]:
    """Read a file of lines ``value fraction``; empty lines and what follows a # are skipped.

    Raises:
        ValueError: it cannot be read, or is not a distribution; begins with the file, and the line that is wrong.
    """
    try:
        lines = named_file.read_text(path, MOST_BYTES).splitlines()
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None
    points: list[tuple[float, float]] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            value, fraction = (float(word) for word in words)
        except ValueError:
            # Without the line: the file may be one that only root can read.
            raise ValueError(f"{path}:{number}: is not two numbers") from None
        points.append((value, fraction))
        numbers.append(number)
    if (wrong := fault(points)) is not None:
        pair, why = wrong
        raise ValueError(f"{path}:{numbers[pair] if numbers else 1}: {why}")
    return points
