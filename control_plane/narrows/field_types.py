# SPDX-License-Identifier: Apache-2.0
"""The kinds of values that experiment files are made of: quantities with units, names, and closed models of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from narrows_formats.units import (
    ALLOWED_BUFFER,
    ALLOWED_PROBABILITY,
    ALLOWED_RATE,
    ALLOWED_RATIO,
    ALLOWED_SIZE,
    ALLOWED_TIME,
    PACKET_UNITS,
    RATE_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    QueueDepth,
    UnitError,
    format_rate,
    format_size,
    format_time,
    parse_probability,
    parse_rate,
    parse_rate_or_none,
    parse_ratio,
    parse_size,
    parse_time,
)
from narrows_formats.validation import refuse
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictInt,
    WithJsonSchema,
)

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


def _written(kind: str, units: Iterable[str], *examples: str, bare: dict[str, Any] | None = None) -> WithJsonSchema:
    """How editors know a quantity: a number with one of ``units``, or something ``bare``. ``kind`` says it in words."""
    number = r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
    text = {"type": "string", "pattern": f"^ *{number} *({'|'.join(units)}) *$", "examples": list(examples)}
    return WithJsonSchema({"title": kind, **(text if bare is None else {"anyOf": [text, bare]})})


Rate = Annotated[
    int,
    _reader(parse_rate),
    _writer(format_rate),
    _written(f"rate: {ALLOWED_RATE}", (f"{unit}(/s)?" for unit in RATE_UNITS), "100Mbit", "2.5Gbit"),
]
RateOrNone = Annotated[
    int,
    _reader(parse_rate_or_none),
    _writer(format_rate),
    _written("rate, or 0bit", (f"{unit}(/s)?" for unit in RATE_UNITS), "100Mbit", "0bit", bare={"const": 0}),
]
UNLIMITED = "unlimited"


def _read_rate_or_unlimited(value: object) -> float:
    if value == UNLIMITED:
        return math.inf
    try:
        return parse_rate(value)
    except UnitError as error:
        raise refuse(str(error), f"{error.allowed}, or {UNLIMITED}") from None


RateOrUnlimited = Annotated[
    float,
    BeforeValidator(_read_rate_or_unlimited),
    _writer(lambda rate: UNLIMITED if math.isinf(rate) else format_rate(int(rate))),
    _written(
        f"rate, or {UNLIMITED}",
        (f"{unit}(/s)?" for unit in RATE_UNITS),
        "100Mbit",
        UNLIMITED,
        bare={"const": UNLIMITED},
    ),
]
Size = Annotated[
    int,
    _reader(parse_size),
    _writer(format_size),
    _written(f"size: {ALLOWED_SIZE}", SIZE_UNITS, "1500B", "64KiB"),
]
Time = Annotated[
    int,
    _reader(parse_time),
    _writer(format_time),
    _written(f"time: {ALLOWED_TIME}", TIME_UNITS, "30s", "40ms", bare={"const": 0}),
]
Ratio = Annotated[
    float, _reader(parse_ratio), _written(f"ratio: {ALLOWED_RATIO}", ["%"], "0.1%", bare={"type": "number"})
]
Probability = Annotated[
    float,
    _reader(parse_probability),
    _written(f"probability: {ALLOWED_PROBABILITY}", ["%"], "20%", bare={"type": "number"}),
]
Depth = Annotated[
    QueueDepth,
    _reader(_read_depth),
    _writer(str),
    _written(
        f"depth: {ALLOWED_BUFFER}",
        [*SIZE_UNITS, *TIME_UNITS, *PACKET_UNITS, "bdp"],
        "1bdp",
        "375kB",
        "250packets",
        "30ms",
    ),
]
Count = Annotated[StrictInt, Field(ge=1)]


def _check_name(name: str) -> str:
    if NAME.match(name) is None:
        raise refuse("is not a name", ALLOWED_NAME)
    return name


Name = Annotated[
    str,
    BeforeValidator(lambda value: _check_name(str(value))),
    WithJsonSchema(
        {"title": f"name: {ALLOWED_NAME}", "type": ["string", "number"], "pattern": NAME.pattern.replace(r"\Z", "$")}
    ),
]


def _check_link_name(name: str) -> str:
    if "." in name:
        raise refuse("has a dot", "a name without dots: fields of a link are written links.NAME.buffer")
    return name


LinkName = Annotated[Name, AfterValidator(_check_link_name)]


class Model(BaseModel):
    """Immutable, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=False)


class TextFile(Model):
    """A file of values."""

    file: str = Field(description="The file, relative to the experiment file.")
    text: str | None = Field(
        default=None,
        description="Contents of the file, filled in when it is read: a resolved experiment needs no file.",
    )


def groups_in(data: Mapping[str, object]) -> list[Any]:
    """The groups of flows of an experiment's data before it is checked; none where it has something else there."""
    flows = data.get("flows")
    return list(flows) if isinstance(flows, list | tuple) else []
