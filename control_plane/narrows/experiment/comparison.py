# SPDX-License-Identifier: Apache-2.0
"""Conditions as they are evaluated while traffic flows: a reading against a value, and when that counts.

`narrows.experiment.conditions` makes them of what a file says.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A ``reading`` of a flow or of a link (``section``) of that ``name`` against a ``value``, in SI units or text.

    With ``of_socket`` the flow's socket says it, else the switch. It counts once it has held at every reading for
    ``for_ns``, and then not again before it has not held, by ``hysteresis`` more than that where there is one; with
    ``once`` not at all.
    """

    text: str
    section: str
    name: str
    reading: str
    comparison: str
    value: float | str
    of_socket: bool
    for_ns: int = 0
    once: bool = True
    hysteresis: float = 0.0

    def holds(self, found: float | str | None) -> bool:
        """Whether a reading is so; None, which is no reading, never is."""
        if isinstance(found, str) or isinstance(self.value, str):
            return found is not None and (found == self.value) == (self.comparison == "==")
        return found is not None and COMPARISONS[self.comparison](found, self.value)

    def is_over(self, found: float | str | None) -> bool:
        """Whether a reading ends it, so that it may begin again."""
        if not self.hysteresis or isinstance(found, str) or isinstance(self.value, str):
            return not self.holds(found)
        further = self.hysteresis if self.comparison in ("<", "<=") else -self.hysteresis
        return found is not None and not COMPARISONS[self.comparison](found, self.value + further)


class Watcher:
    """One condition over the readings of a run."""

    def __init__(self, condition: Condition) -> None:
        """Nothing was read yet."""
        self._condition = condition
        self._since_ns: int | None = None
        self._is_armed = True

    def take(self, at_ns: int, found: float | str | None) -> bool:
        """Whether the condition counts at a reading, later than the one before."""
        one = self._condition
        if not one.holds(found):
            self._since_ns = None
            self._is_armed = self._is_armed or (not one.once and one.is_over(found))
            return False
        self._since_ns = at_ns if self._since_ns is None else self._since_ns
        counts = self._is_armed and at_ns - self._since_ns >= one.for_ns
        self._is_armed = self._is_armed and not counts
        return counts
