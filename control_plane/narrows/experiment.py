# SPDX-License-Identifier: Apache-2.0
"""The experiment as a user writes it: one YAML file, checked by these models.

Rates are held in bits per second, sizes in bytes and times in nanoseconds; written out again they take the form in
which people write them, so that a resolved experiment is itself a valid experiment file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictInt,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from narrows.units import (
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

SECOND = 1_000_000_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
ALLOWED_NAME = "letters, digits, '.', '_' and '-', up to 63 characters, beginning with a letter or digit"


def refuse(problem: str, allowed: str) -> PydanticCustomError:
    """An error whose message the loader completes with file, field and value."""
    return PydanticCustomError("narrows", "{problem}; allowed: {allowed}", {"problem": problem, "allowed": allowed})


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


class BottleneckSettings(Model):
    """The one link that is too narrow. ``buffer`` is the queue behind it, the packet in service not counted."""

    rate: Rate
    rate_layer: Literal["l2", "l1"] = "l2"
    buffer: Depth
    rtt: Time
    ecn_threshold: Depth | None = None
    loss: Ratio = 0.0


class FlowGroup(Model):
    """``count`` like flows. A flow is bulk (``duration``) or sized (``size``, ``repeat`` times, ``gap`` between).

    With both, no further connection of a sized flow starts ``duration`` after its first one did.
    """

    name: Name = ""
    cca: Name
    count: Count = 1
    start: Time = 0
    duration: Time | None = None
    size: Size | None = None
    repeat: Count = 1
    gap: Time = 0
    rtt: Time | None = None

    @model_validator(mode="after")
    def _bulk_or_sized(self) -> Self:
        if self.duration is None and self.size is None:
            raise refuse("has neither duration nor size", "duration for a bulk flow, size for a sized one")
        if self.size is None and (self.repeat != 1 or self.gap != 0):
            raise refuse("has repeat or gap without size", "repeat and gap together with size")
        return self

    @field_validator("duration")
    @classmethod
    def _some_duration(cls, duration: int | None) -> int | None:
        if duration is not None and (duration == 0 or duration % SECOND):
            raise refuse("is not one or more whole seconds", "whole seconds, such as 30s")
        return duration


class Telemetry(Model):
    """``sample``: one report in so many packets that leave the bottleneck, a power of two."""

    sample: Count = 1

    @field_validator("sample")
    @classmethod
    def _power_of_two(cls, sample: int) -> int:
        if sample & (sample - 1) or sample > 1 << 16:
            raise refuse("is not a power of two up to 65536", "1, 2, 4, ... 65536")
        return sample


class Experiment(Model):
    """One experiment file. ``sweep`` and ``repeat`` make several runs of it (`narrows.sweep`)."""

    name: Name
    bottleneck: BottleneckSettings
    flows: Annotated[tuple[FlowGroup, ...], Field(min_length=1)]
    telemetry: Telemetry = Telemetry()
    mtu: Annotated[StrictInt, Field(ge=576, le=9000)] = 1500
    ip_version: Literal[4, 6] = 4
    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1)] = 1
    repeat: Count = 1
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_groups(cls, data: Any) -> Any:
        """A group without a name is called after its CCA, with a number from the second one on."""
        if not isinstance(data, dict) or not isinstance(data.get("flows"), list | tuple):
            return data
        groups = [dict(group) if isinstance(group, dict) else group for group in data["flows"]]
        taken = {group.get("name") for group in groups if isinstance(group, dict)}
        for group in groups:
            if isinstance(group, dict) and not group.get("name") and isinstance(group.get("cca"), str):
                candidates = (group["cca"], *(f"{group['cca']}-{n}" for n in range(2, len(groups) + 2)))
                group["name"] = next(name for name in candidates if name not in taken)
                taken.add(group["name"])
        return {**data, "flows": groups}

    @field_validator("flows")
    @classmethod
    def _distinct_names(cls, groups: tuple[FlowGroup, ...]) -> tuple[FlowGroup, ...]:
        names = [group.name for group in groups]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise refuse(f"has two groups named '{twice}'", "one name a group")
        return groups

    def as_yaml_data(self) -> dict[str, Any]:
        """Plain data that, written as YAML, is this experiment again; defaults are written out."""
        return self.model_dump(mode="json", exclude_none=True)
