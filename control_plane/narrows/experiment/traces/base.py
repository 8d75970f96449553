# SPDX-License-Identifier: Apache-2.0
"""What the readers of rate traces have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from narrows_formats.units import NANOSECONDS

# Written out, 1e999999999 is a gigabyte.
MOST_DIGITS, HUGE = 100, re.compile(r"e[+-]?\d{3}", re.IGNORECASE)


class TraceError(ValueError):
    """A trace that cannot be read; says where, without the text: the file may be one that only root reads."""

    def __init__(self, problem: str, allowed: str) -> None:
        """Keep the problem and what is allowed apart."""
        super().__init__(problem)
        self.allowed = allowed


@dataclass(frozen=True)
class RatePoint:
    """A rate in bit/s at a time in nanoseconds, and where the file has it (``line 3``)."""

    time_ns: int
    rate_bps: int
    where: str


def number(word: object, where: str) -> Fraction:
    """A number of 0 or more, exactly as it is written.

    Raises:
        TraceError: it is none.
    """
    allowed = "a number of 0 or more"
    if isinstance(word, bool) or not isinstance(word, str | int | float):
        raise TraceError(f"{where} has no number", allowed)
    written = str(word).strip()
    if len(written) > MOST_DIGITS or HUGE.search(written):
        raise TraceError(f"{where} has a number that is too large, or too fine", f"{allowed}, below 1e99")
    try:
        found = Fraction(written)
    except (ValueError, ZeroDivisionError):
        raise TraceError(f"{where} has no number", allowed) from None
    if found < 0:
        raise TraceError(f"{where} has a negative number", allowed)
    return found


def nanoseconds(seconds: Fraction) -> int:
    """The nearest whole nanosecond."""
    return round(seconds * NANOSECONDS)


def median_ns(intervals: Sequence[int]) -> int:
    """The middle one of several times."""
    return sorted(intervals)[len(intervals) // 2]
