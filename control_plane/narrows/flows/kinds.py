# SPDX-License-Identifier: Apache-2.0
"""The kinds of flows. To add one: its group here, as docs/adding-a-flow-kind.md says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from narrows_formats.validation import refuse
from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from narrows.field_types import Model
from narrows.flows.datagrams import ProbeGroup, UdpGroup
from narrows.flows.group import FlowGroup
from narrows.flows.media import MediaGroup
from narrows.flows.onoff import OnOffGroup
from narrows.flows.program import ProgramGroup
from narrows.flows.requests import RequestsGroup
from narrows.flows.tcp import BulkGroup, FiniteGroup
from narrows.flows.video import VideoGroup
from narrows.flows.workload import WorkloadGroup

# What has the first one's key is of that kind; what has none is bulk.
GROUPS: tuple[type[FlowGroup], ...] = (
    MediaGroup, OnOffGroup, ProgramGroup, ProbeGroup, UdpGroup, VideoGroup, RequestsGroup, WorkloadGroup, FiniteGroup,
    BulkGroup,
)  # fmt: skip
LASTING = [group.made_of.kind for group in reversed(GROUPS) if group.made_of.lasts]
"""Those that send until they are stopped."""


# The fields that not all kinds have, each with a kind that has it.
OWN = {name: group for group in GROUPS for name in group.model_fields if name not in FlowGroup.model_fields}


def _as_written(field: FieldInfo) -> tuple[Any, FieldInfo]:
    """A field of a kind as a group of any kind may have it: none is needed."""
    if not field.is_required():
        return field.annotation, field
    given: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return given | None, FieldInfo(default=None, description=field.description)


_FIELDS = {**FlowGroup.model_fields, **{name: group.model_fields[name] for name, group in OWN.items()}}
_DEFINITIONS: Any = {name: _as_written(field) for name, field in _FIELDS.items()}
FlowGroup.as_written = create_model("FlowGroup", __base__=Model, __doc__=FlowGroup.__doc__, **_DEFINITIONS)


def of_a_kind(written: BaseModel) -> FlowGroup:
    """The group that a file has, of its kind.

    Raises:
        PydanticCustomError: it contradicts itself.
    """
    fields = type(written).model_fields
    given = [name for name in OWN if getattr(written, name) != fields[name].get_default(call_default_factory=True)]
    kind = next(group for group in GROUPS if not group.key or group.key in given)
    of_programs = [name for name in given if OWN[name] is ProgramGroup and name != "client"]
    if kind is not ProgramGroup and of_programs:
        raise refuse(f"has {of_programs[0]} without client", f"{of_programs[0]} together with client")
    found = kind.model_construct(**{name: getattr(written, name) for name in kind.model_fields})
    found.check([name for name in given if name not in kind.model_fields])
    return found


class _AsWritten:
    """How files have a group, whatever its kind is."""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any, flat: Callable[[Any], Any]) -> FlowGroup:
            return value if isinstance(value, FlowGroup) else of_a_kind(flat(value))

        return core_schema.no_info_wrap_validator_function(
            read,
            handler.generate_schema(FlowGroup.as_written),
            serialization=core_schema.plain_serializer_function_ser_schema(FlowGroup.written, info_arg=True),
        )


Group = Annotated[FlowGroup, _AsWritten()]
"""A group of flows as experiments have it."""


def read_group(data: object) -> FlowGroup:
    """One group as a file has it.

    Raises:
        pydantic.ValidationError: it is none.
    """
    group: FlowGroup = TypeAdapter(Group).validate_python(data)
    return group
