# SPDX-License-Identifier: Apache-2.0
"""How long the rest of several runs takes."""

from __future__ import annotations

from collections.abc import Sequence


class TimeLeft:
    """Time that the rest of several runs takes: what was expected of them, corrected by what they have taken so far."""

    def __init__(self, expected: Sequence[float], at_once: int = 1) -> None:
        """Take what every run that is to be made is expected to take, in seconds."""
        self._left = list(expected)
        self._at_once = at_once
        self._expected_s = self._took_s = 0.0

    def done(self, expected: float, took_s: float) -> None:
        """Take note of a run that has ended."""
        self._left.remove(expected)
        self._expected_s += expected
        self._took_s += took_s

    @property
    def seconds(self) -> float:
        """Seconds left."""
        return sum(self._left) * (self._took_s / self._expected_s if self._expected_s else 1.0) / self._at_once
