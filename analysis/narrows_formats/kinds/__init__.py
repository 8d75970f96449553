# SPDX-License-Identifier: Apache-2.0
"""What is a kind of flow's own in results: a module of its name with its record (hosts/NAME.json), its part of
summary.json, and the columns of its table in reports.

Kinds without a module have none. Modules are found by name: there is no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from narrows_formats.connection_record import ConnectionRecord

Value = float | int | None


@dataclass(frozen=True)
class Column:
    """A column of a kind's table: heading, kind of value (`narrows_formats.flow_rows.UNITS`), and the value, in SI
    units, of a flow's part of summary.json."""

    heading: str
    unit: str
    of: Callable[[Any], Value]


@dataclass(frozen=True)
class Figure:
    """A number of such a flow: its name in `figures` of summary.json, its heading, its kind of value and what it is of
    a record, in SI units; None: the record does not say."""

    name: str
    heading: str
    unit: str
    of: Callable[[Any], Value]

    @property
    def column(self) -> Column:
        """Its column in the kind's table."""
        return Column(self.heading, self.unit, lambda figures: figures[self.name])


def measured(figures: tuple[Figure, ...], record: ConnectionRecord) -> dict[str, Value]:
    """The numbers of a record, as its kind's part of summary.json has them."""
    return {figure.name: figure.of(record) for figure in figures}


@dataclass(frozen=True)
class KindOfFlow:
    """A kind's ``record``, which its ``names`` in records mean, and its table in reports: columns, title and note.

    The table ``id`` is the field of a flow in summary.json that it is made of, or the name of the kind whose
    ``figures`` it has: then `figures` are its part of summary.json.
    """

    names: tuple[str, ...]
    record: type[ConnectionRecord]
    id: str
    title: str
    note: str
    columns: tuple[Column, ...] = ()
    figures: tuple[Figure, ...] = ()


@cache
def kinds_of_flows() -> tuple[KindOfFlow, ...]:
    """What is each kind's own, in the order of their modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").KIND for name in names)


def record_of(kind: object) -> type[ConnectionRecord]:
    """The model of a record by its `kind`; that of all records where the kind has nothing of its own."""
    return next((one.record for one in kinds_of_flows() if kind in one.names), ConnectionRecord)
