# SPDX-License-Identifier: Apache-2.0
"""Writes to the switch as they are planned: shown by ``narrows plan``, carried out by `Programmer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from narrows_tofino.bfrt.client import ALL_PIPES, Operation, describe_key
from narrows_tofino.bfrt.values import Data, Entry, Key, Value


@dataclass(frozen=True)
class PlannedWrite:
    """One entry to write.

    ``table`` is the table's name, or a unique ending of it; of what is cleared as a whole, the name of the register or
    counter. A key of None is the default entry. ``units`` says in words what a field's number means; ``expect`` lists
    what a field may read back as where that is not simply what was written, and ``within`` the bounds of a number that
    the switch rounds; ``telling`` says what other numbers of a field mean. What ``stays`` is not taken back: nothing
    refers to it once all else is. ``why`` is for people.
    """

    operation: Operation
    table: str
    key: Key | None
    data: Data
    why: str
    action: str | None = None
    pipe: int = ALL_PIPES
    units: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    within: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    telling: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    stays: bool = False

    def __str__(self) -> str:
        """One line for people."""
        where = "" if self.pipe == ALL_PIPES else f" pipe {self.pipe}"
        action = f" {self.action}" if self.action else ""
        fields = ", ".join(self._field(name, value) for name, value in self.data.items())
        whole = self.operation is Operation.CLEAR and self.key is None
        key = "all entries" if whole else describe_key(self.key)
        text = f"{self.operation} {self.table}{where} [{key}]{action}"
        return f"{text} {{{fields}}}" if fields else text

    def _field(self, name: str, value: Value) -> str:
        words = self.units.get(name)
        return f"{name}={value}" if words is None else f"{name}={value} ({words})"


class Reader(Protocol):
    """What the planner needs to know of the switch: one entry by table, key and pipe."""

    def entry(self, table: str, key: Key | None, pipe: int = ALL_PIPES) -> Entry | None:
        """The entry, None if the switch has none with this key."""
        ...

    def entries(self, table: str) -> list[Entry]:
        """Every entry of a table."""
        ...


def number(entry: Entry, name: str) -> int:
    """A field that must be a number."""
    value = entry.data.get(name)
    if not isinstance(value, int):
        raise KeyError(name)
    return int(value)


def text(entry: Entry, name: str) -> str:
    """A field that must be a name."""
    return str(entry.data[name])


def numbers(entry: Entry, name: str) -> list[int]:
    """A field that must be an array of numbers."""
    value = entry.data.get(name)
    if not isinstance(value, list):
        raise KeyError(name)
    return [int(one) for one in value]
