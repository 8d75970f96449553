# SPDX-License-Identifier: Apache-2.0
"""The kinds of values that experiment files are made of: quantities with units, names, and closed models of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from narrows_formats.units import (
    QueueDepth,
    UnitError,
    format_rate,
    format_size,
    format_time,
    parse_rate,
    parse_ratio,
    parse_size,
    parse_time,
)
from narrows_formats.validation import refuse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StrictInt

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
ALLOWED_NAME = "letters, digits, '.', '_' and '-', up to 63 characters, beginning with a letter or digit"


def _reader(parse: Callable[[object], Any]) -> BeforeValidator:
    def read(value: object) -> Any:
        try:
            return parse(value)
        except UnitError as error:
            raise refuse(str(error), error.allowed) from None

    return BeforeValidator(read)


def _read_depth(value: object) -> QueueDepth:
    return value if isinstance(value, QueueDepth) else QueueDepth.parse(value)


def _writer(write: Callable[[Any], str]) -> PlainSerializer:
    return PlainSerializer(write, return_type=str)


Rate = Annotated[int, _reader(parse_rate), _writer(format_rate)]
Size = Annotated[int, _reader(parse_size), _writer(format_size)]
Time = Annotated[int, _reader(parse_time), _writer(format_time)]
Ratio = Annotated[float, _reader(parse_ratio)]
Depth = Annotated[QueueDepth, _reader(_read_depth), _writer(str)]
Count = Annotated[StrictInt, Field(ge=1)]


def _check_name(name: str) -> str:
    if NAME.match(name) is None:
        raise refuse("is not a name", ALLOWED_NAME)
    return name


Name = Annotated[str, BeforeValidator(lambda value: _check_name(str(value)))]


class Model(BaseModel):
    """Immutable, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
