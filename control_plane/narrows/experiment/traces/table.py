# SPDX-License-Identifier: Apache-2.0
"""Tables of times and rates: CSV with named columns."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from narrows.experiment.traces.base import RatePoint, TraceError, nanoseconds, number


@dataclass(frozen=True)
class Columns:
    """Which columns (name in the first line, or number from 1), and how they are written.

    ``time_unit_s`` is for numbers, ``time_format`` (as of `datetime.strptime`) for dates. ``unit_bps`` is what 1 stands
    for in the column of rates.
    """

    time: str | int
    rate: str | int
    unit_bps: int
    time_unit_s: Fraction = Fraction(1)
    time_format: str | None = None
    delimiter: str = ","


def read(text: str, columns: Columns) -> list[RatePoint]:
    """Every row, in the file's order.

    Raises:
        TraceError: a column is not there, or a row has no time or rate in it.
    """
    rows = csv.reader(io.StringIO(text), delimiter=columns.delimiter)
    header = None if isinstance(columns.time, int) and isinstance(columns.rate, int) else next(rows, [])
    time, rate = (_place(column, header) for column in (columns.time, columns.rate))
    found: list[RatePoint] = []
    try:
        for row in rows:
            if not row:
                continue
            where = f"line {rows.line_num}"
            if len(row) <= max(time, rate):
                raise TraceError(f"{where} has {len(row)} columns", "as many as the line that names them")
            bps = round(number(row[rate], where) * columns.unit_bps)
            found.append(RatePoint(_time_ns(row[time], columns, where), bps, where))
    except csv.Error as error:
        raise TraceError(f"line {rows.line_num} is not CSV: {error}", "rows of columns") from None
    return found


def _place(column: str | int, header: list[str] | None) -> int:
    if isinstance(column, int):
        return column - 1
    names = [] if header is None else [name.strip() for name in header]
    if names.count(column) != 1:
        allowed = "a column that the first line names once, or its number, from 1"
        raise TraceError(f"has {names.count(column)} columns named '{column}' in its first line", allowed)
    return names.index(column)


def _time_ns(word: str, columns: Columns, where: str) -> int:
    if columns.time_format is None:
        return nanoseconds(number(word, where) * columns.time_unit_s)
    try:
        moment = datetime.strptime(word.strip(), columns.time_format).replace(tzinfo=UTC)
    except ValueError:
        raise TraceError(f"{where} has no time that is written as time_format says", "one in every row") from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
