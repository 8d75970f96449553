# SPDX-License-Identifier: Apache-2.0
"""What is a kind of flow's own in results: a module of its name with its part of hosts/NAME.json and its figures.

Kinds without a module have none. Modules are found by name: there is no list.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

Value = float | int | None


@dataclass(frozen=True)
class Figure:
    """A number of such a flow: its name in summary.json, its heading, its kind of value (`narrows_formats.flow_rows`)
    and what it is of a record, in SI units; None: the record does not say."""

    name: str
    heading: str
    unit: str
    of: Callable[[Any], Value]


@dataclass(frozen=True)
class KindOfFlow:
    """The ``record`` of such a flow, by its own fields, its ``figures``, and title and note of its table in reports."""

    record: type[BaseModel]
    figures: tuple[Figure, ...]
    title: str
    note: str

    def summary(self, data: Mapping[str, Any]) -> dict[str, Value]:
        """The figures of a record.

        Raises:
            pydantic.ValidationError: it breaks its format.
        """
        record = self.record.model_validate(data)
        return {figure.name: figure.of(record) for figure in self.figures}


@cache
def kinds_of_flows() -> dict[str, KindOfFlow]:
    """What is each kind's own, by the kind's name in records; of kinds without a module nothing is."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").KIND for name in names}
