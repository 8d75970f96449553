# SPDX-License-Identifier: Apache-2.0
"""What is wrong with data that a model refuses, in plain words: field, value, and what is allowed."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from narrows_formats.suggestion import suggestion
from narrows_formats.units import format_rate, format_size, format_time, magnitude

Location = tuple[int | str, ...]

# What pydantic's own errors allow, in our words; everything else carries its `allowed` itself.
_MAPPING = "a mapping of field names to values"
_ALLOWED = {
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    **dict.fromkeys(("dict_type", "dataclass_type", "model_type", "model_attributes_type"), _MAPPING),
}
# What pydantic says of numbers out of bounds: the bound's name, the problem, and what is allowed.
_BOUNDS = {
    "greater_than_equal": ("ge", "too small", "{} or more"),
    "less_than_equal": ("le", "too large", "{} or less"),
    "greater_than": ("gt", "too small", "more than {}"),
    "less_than": ("lt", "too large", "less than {}"),
}


def refuse(problem: str, allowed: str) -> PydanticCustomError:
    """An error whose message the loader completes with file, field and value."""
    return PydanticCustomError("narrows", "{problem}; allowed: {allowed}", {"problem": problem, "allowed": allowed})


def problems(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One line for each thing that is wrong."""
    return [describe(one, model) for one in error.errors(include_url=False) if not _consequence(one)]


def describe(error: ErrorDetails, model: type[BaseModel]) -> str:
    """One validation error as ``field: value problem; allowed: ...``; without the field if it is about the whole."""
    location = _untagged(error["loc"])
    problem = _problem(error, model)
    return f"{dotted(location)}: {problem}" if location else problem


def _untagged(location: Location) -> Location:
    """Without the tags of unions, which are in brackets: no file has them."""
    return tuple(part for part in location if not (isinstance(part, str) and part.startswith("(")))


def _problem(error: ErrorDetails, model: type[BaseModel]) -> str:
    location, kind, context = _untagged(error["loc"]), error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown field{suggestion(str(location[-1]), fields_at(model, error['loc'][:-1]))}"
    if kind == "missing" and (choices := _choices_at(model, error["loc"])):
        return f"is missing; allowed: {', '.join(choices)}"
    if kind == "missing":
        return f"is missing; fields here: {', '.join(fields_at(model, error['loc'][:-1]))}"
    value = show(error["input"])
    if kind == "narrows":
        whole = isinstance(error["input"], dict | list | tuple)
        problem = context["problem"] if whole else f"{value} {context['problem']}"
        return f"{problem}; allowed: {context['allowed']}"
    if kind == "literal_error":
        choices = [choice.strip("'") for choice in re.split(", | or ", context["expected"])]
        return f"{value} is not one of the choices{suggestion(str(error['input']), choices)}"
    if kind in _BOUNDS:
        name, problem, allowed = _BOUNDS[kind]
        return f"{value} is {problem}; allowed: {allowed.format(_in_unit(context[name], error['input']))}"
    if kind == "too_short":
        least, found = context["min_length"], len(error["input"])
        has = f"has only {found}" if found else "is empty"
        return f"{has}; allowed: a list with at least {'one entry' if least == 1 else f'{least} entries'}"
    if kind == "string_type" and isinstance(error["input"], int | float) and not isinstance(error["input"], bool):
        return f"{value} is a number; allowed: text, in quotes"
    allowed = _ALLOWED.get(kind, error["msg"])
    if allowed == _MAPPING and (names := fields_at(model, error["loc"])):
        allowed = f"a mapping with fields of these: {', '.join(names)}"
    return f"{value} is of the wrong kind; allowed: {allowed}"


def _in_unit(bound: object, given: object) -> object:
    """A bound in the kind of unit that what is compared with it was given in."""
    kind, _ = magnitude(given) or ("", None)
    write = {"s": format_time, "bit/s": format_rate, "bytes": format_size}.get(kind)
    return write(bound) if write is not None and isinstance(bound, int) and bound else bound


def _consequence(error: ErrorDetails) -> bool:
    """Pydantic calls a list too short when its only entries are wrong; their own errors say it better."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def dotted(location: Iterable[int | str]) -> str:
    """``("flows", 0, "cca")`` as ``flows.0.cca``."""
    return ".".join(str(part) for part in location)


def fields_at(model: type[BaseModel], location: Location, data: object = None) -> list[str]:
    """Names of the fields that the mapping at a location of an experiment may have; empty where its keys are free.

    ``data`` is the experiment's: where there are several kinds of mapping, the names are those of the kind it has.
    """
    current = _model_at(model, location, data)
    if current is None or isinstance(current, _Mapping):
        return []
    if dataclasses.is_dataclass(current):
        return sorted(field.name for field in dataclasses.fields(current))
    return sorted(_fields(current))


def has_kinds_at(model: type[BaseModel], location: Location, data: object) -> bool:
    """Whether what is at a location of an experiment's data is a mapping of one of several kinds, as queues are."""
    return bool(_kinds(_annotation_at(model, location, data)))


def _choices_at(model: type[BaseModel], location: Location) -> list[str]:
    """What the field at a location may be where that is one of a few words; else empty."""
    annotation = _annotation_at(model, location)
    return list(typing.get_args(annotation)) if typing.get_origin(annotation) is typing.Literal else []


def _annotation_at(model: type[BaseModel], location: Location, data: object = None) -> Any:
    """The annotation of the field at a location; None where there is none."""
    holder, name = _model_at(model, location[:-1], data), location[-1]
    if not (isinstance(holder, type) and issubclass(holder, BaseModel)) or name not in (fields := _fields(holder)):
        return None
    return fields[str(name)].annotation


def _model_at(model: type[BaseModel], location: Location, data: Any = None) -> Any:
    """The model, dataclass or `_Mapping` of what is at a location of an experiment, with this data."""
    current: Any = model
    annotation: Any = None
    for part in location:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list | tuple) and isinstance(part, int):
            data = data[part]
        if isinstance(part, int):
            continue
        if part.startswith("("):
            # The tag of a union's member: its model's name, where there are several.
            current = _named(annotation, part.strip("()")) or current
            continue
        if isinstance(current, _Mapping):
            current = current.of
            continue
        annotation = _fields(current)[part].annotation
        kind = data.get("kind") if isinstance(data, dict) else None
        current = _kinds(annotation).get(str(kind)) or _model_in(annotation)
    return current


def _kinds(annotation: Any) -> dict[str, type[BaseModel]]:
    """The models that an annotation allows by the `kind` that each is of; empty unless there are several."""
    models = [one for one in _models(annotation) if "kind" in one.model_fields]
    if len(models) < 2:
        return {}
    return {kind: one for one in models for kind in typing.get_args(one.model_fields["kind"].annotation)}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """All models that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)


@dataclasses.dataclass(frozen=True)
class _Mapping:
    """A mapping from names to models of a kind."""

    of: Any


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by the names that files use; ``as_written`` of a model is what files have of it."""
    model = getattr(model, "as_written", model)
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> Any:
    """The model inside ``Model``, ``tuple[Model, ...]`` or ``Model | None``."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        return annotation
    if typing.get_origin(annotation) is dict:
        inner = _model_in(typing.get_args(annotation)[1])
        return None if inner is None else _Mapping(inner)
    if typing.get_origin(annotation) in (tuple, list, types.UnionType, typing.Union, typing.Annotated):
        for argument in typing.get_args(annotation):
            found = _model_in(argument)
            if found is not None:
                return found
    return None


def _named(annotation: Any, name: str) -> type[BaseModel] | None:
    """The model of that name among those that an annotation allows."""
    return next((found for found in _models(annotation) if found.__name__ == name), None)


def show(value: object) -> str:
    """A value as messages show it, cut where it is long."""
    text = "nothing" if value is None else f"'{value}'"
    return text if len(text) <= 80 else text[:77] + "...'"
