# SPDX-License-Identifier: Apache-2.0
"""A recording of several properties of a link that change together: one table of rate, delay, jitter, loss, buffer."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Literal, Self

from narrows_formats.units import RATE_UNITS, SIZE_UNITS, TIME_UNITS, QueueDepth, UnitError
from narrows_formats.validation import refuse
from pydantic import Field, model_validator

from narrows.experiment.traces.base import TraceError, number
from narrows.field_types import Model, TextFile

# What units are worth in base units; others are base units.
_FACTORS: dict[str, Mapping[str, int | Fraction]] = {
    "time": TIME_UNITS, "delay": TIME_UNITS, "jitter": TIME_UNITS, "rate": RATE_UNITS, "buffer": SIZE_UNITS,
    "loss": {"%": Fraction(1, 100)},
}  # fmt: skip
# Each row with a loss or a buffer halts a run in virtual time for a moment.
MAX_ROWS = 1_000_000
SETTINGS = ("rate", "delay", "jitter", "loss", "buffer")
Column = Annotated[str, Field(min_length=1)]
TimeUnit = Literal["s", "ms", "us", "ns"]


@dataclass(frozen=True)
class Row:
    """What a link has from a time on, in nanoseconds since the experiment's start; None: what it had before."""

    at_ns: int
    rate_bps: int | None = None
    delay_ns: int | None = None
    jitter_ns: int | None = None
    loss: float | None = None
    buffer: QueueDepth | None = None


class JointColumns(Model):
    """Which columns of the table say what, by their names in its first line."""

    time: Column = Field(description="Times, which ascend, from the start of the experiment.")
    rate: Column | None = Field(default=None, description="Rates of the link; 0: nothing passes.")
    delay: Column | None = Field(default=None, description="One-way delays.")
    jitter: Column | None = Field(
        default=None,
        description="The most that a packet's delay differs by, either way, uniformly, as tc-netem's jitter; at most "
        "the delay. Packets stay in order.",
    )
    loss: Column | None = Field(default=None, description="Random loss.")
    buffer: Column | None = Field(default=None, description="What may wait in the queue.")

    @property
    def given(self) -> dict[str, str]:
        """The columns of settings, by the setting."""
        return {name: column for name in SETTINGS if (column := getattr(self, name)) is not None}


class JointUnits(Model):
    """What their numbers count."""

    time: TimeUnit = Field(default="s", description="Of times; nothing is finer than a nanosecond.")
    rate: Literal["bit", "kbit", "Mbit", "Gbit"] = Field(default="bit", description="Of rates, per second.")
    delay: TimeUnit = Field(default="s", description="Of delays.")
    jitter: TimeUnit = Field(default="s", description="Of jitters.")
    loss: Literal["ratio", "%"] = Field(default="ratio", description="Of losses.")
    buffer: Literal["B", "kB", "KiB", "MB", "packets"] = Field(default="B", description="Of buffers.")


class JointTrace(TextFile):
    """A CSV file whose rows change rate, delay, jitter, loss and buffer of a link together."""

    columns: JointColumns = Field(description="Its columns: the times, and one or more others.")
    units: JointUnits = Field(default=JointUnits(), description="Units of its numbers.")

    @property
    def settings(self) -> tuple[str, ...]:
        """Which settings of its link it changes."""
        return tuple(self.columns.given)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if not self.settings:
            raise refuse("has no column but time", f"one or more of {', '.join(SETTINGS)}")
        if self.text is not None:
            try:
                rows = self.rows
            except TraceError as error:
                raise refuse(f"{self.file}: {error}", error.allowed) from None
            if not 0 < len(rows) <= MAX_ROWS:
                raise refuse(f"{self.file} has {len(rows)} rows", f"1 to {MAX_ROWS}")
            rates = [row.rate_bps for row in rows if row.rate_bps is not None]
            if rates and not rates[-1]:
                raise refuse(f"{self.file} ends with a rate of 0, so that what waits never leaves", "one above 0")
        return self

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every row; an empty cell changes nothing.

        Raises:
            TraceError: a column is missing, a cell is not a number, or times do not ascend.
        """
        found: list[Row] = []
        for where, cells in self._cells():
            values = {name: self._value(name, word, where) for name, word in cells.items() if word.strip()}
            if "time" not in values:
                raise TraceError(f"{where} has no time", "one in every row")
            row = Row(
                at_ns=round(values["time"]),
                rate_bps=round(values["rate"]) if "rate" in values else None,
                delay_ns=round(values["delay"]) if "delay" in values else None,
                jitter_ns=round(values["jitter"]) if "jitter" in values else None,
                loss=float(values["loss"]) if "loss" in values else None,
                buffer=self._depth(values["buffer"], where) if "buffer" in values else None,
            )
            if row.loss is not None and row.loss >= 1:
                raise TraceError(f"{where} has a loss of {row.loss:g}", "from 0 up to, but not including, 1")
            if found and row.at_ns <= found[-1].at_ns:
                raise TraceError(f"{where} is not later than the row before it", "times that ascend")
            found.append(row)
        return tuple(found)

    def _cells(self) -> Iterator[tuple[str, dict[str, str]]]:
        rows = csv.reader(io.StringIO(self.text or ""))
        try:
            names = [name.strip() for name in next(rows, [])]
            places = {}
            for setting, column in {"time": self.columns.time, **self.columns.given}.items():
                if names.count(column) != 1:
                    problem = f"has {names.count(column)} columns named '{column}' in its first line"
                    raise TraceError(problem, f"one of {', '.join(names) or 'several names'}")
                places[setting] = names.index(column)
            for row in rows:
                where = f"line {rows.line_num}"
                if row and len(row) <= max(places.values()):
                    raise TraceError(f"{where} has {len(row)} columns", "as many as the line that names them")
                if row:
                    yield where, {setting: row[place] for setting, place in places.items()}
        except csv.Error as error:
            raise TraceError(f"line {rows.line_num} is not CSV: {error}", "rows of columns") from None

    def _value(self, setting: str, word: str, where: str) -> Fraction:
        """A number in base units, exactly; a depth in its own unit."""
        return number(word, where) * _FACTORS[setting].get(getattr(self.units, setting), 1)

    def _depth(self, amount: Fraction, where: str) -> QueueDepth:
        unit = "packets" if self.units.buffer == "packets" else "B"
        try:
            return QueueDepth.parse(f"{round(amount)}{unit}")
        except UnitError as error:
            raise TraceError(f"{where}: {error}", error.allowed) from None
