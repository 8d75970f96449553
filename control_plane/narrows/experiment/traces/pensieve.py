# SPDX-License-Identifier: Apache-2.0
"""The "cooked" traces of Pensieve and of what came after it: lines of seconds and Mbit/s."""

from __future__ import annotations

from narrows.experiment.traces.base import RatePoint, TraceError, nanoseconds, number


def read(text: str) -> list[RatePoint]:
    """Every line.

    Raises:
        TraceError: a line is not two numbers.
    """
    found: list[RatePoint] = []
    for line, words in enumerate(map(str.split, text.splitlines()), 1):
        where = f"line {line}"
        if not words:
            continue
        if len(words) != 2:
            raise TraceError(f"{where} is not two numbers", "seconds and Mbit/s in each line")
        seconds, rate = (number(word, where) for word in words)
        found.append(RatePoint(nanoseconds(seconds), round(rate * 1_000_000), where))
    return found
