# SPDX-License-Identifier: Apache-2.0
"""From a YAML file to checked experiments; every error names file, field, value and what is allowed."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from narrows.errors import InputError
from narrows.experiment.model import Experiment
from narrows.experiment.workload import ALLOWED_CDF, read_cdf

Location = tuple[int | str, ...]
Checked = TypeVar("Checked", bound=BaseModel)

# What pydantic's own errors allow, in our words; everything else carries its `allowed` itself.
_ALLOWED = {
    "int_type": "a whole number",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of field names to values",
    "model_type": "a mapping of field names to values",
    "model_attributes_type": "a mapping of field names to values",
}
# What pydantic says of numbers out of bounds: the bound's name, the problem, and what is allowed.
_BOUNDS = {
    "greater_than_equal": ("ge", "too small", "{} or more"),
    "less_than_equal": ("le", "too large", "{} or less"),
    "greater_than": ("gt", "too small", "more than {}"),
    "less_than": ("lt", "too large", "less than {}"),
}


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping that names a key twice, where YAML loaders silently take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key '{key}' is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_experiment(path: Path) -> dict[str, Any]:
    """The data of an experiment file as written, with the distributions that it names; `validate` checks it.

    Raises:
        InputError: a file cannot be read, or is not YAML.
    """
    data = read_mapping(path, "an experiment; allowed: a mapping with name, bottleneck and flows")
    _inline_distributions(data, path)
    return data


def load(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        InputError: the file cannot be read, is not YAML, or is not an experiment.
    """
    return validate(read_experiment(path), str(path))


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """Read a YAML file that holds a mapping.

    Raises:
        InputError: it cannot be read, is not YAML, or "is not" ``what``.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from error
    try:
        data = yaml.load(text, _UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {_yaml_problem(error)}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not {what}")
    return data


def _inline_distributions(data: dict[str, Any], path: Path) -> None:
    """Put the contents of empirical distributions in place of their files' names, which are relative to ``path``.

    Raises:
        InputError: a file cannot be read.
    """
    groups = data.get("flows")
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        workload = group.get("workload") if isinstance(group, dict) else None
        for field in ("sizes", "gaps"):
            drawn = workload.get(field) if isinstance(workload, dict) else None
            if isinstance(drawn, dict) and isinstance(drawn.get("cdf"), str):
                try:
                    drawn["cdf"] = [list(point) for point in read_cdf(path.parent / drawn["cdf"])]
                except ValueError as error:
                    raise InputError(
                        f"{path}: flows.{number}.workload.{field}.cdf: {error}; allowed: {ALLOWED_CDF}"
                    ) from None


def validate(data: dict[str, Any], origin: str) -> Experiment:
    """Check an experiment's data.

    Raises:
        InputError: one line for every error; ``origin`` (the file, and the point of a sweep) begins each.
    """
    return check(Experiment, data, origin)


def check(model: type[Checked], data: dict[str, Any], origin: str) -> Checked:
    """Data of a file as a model.

    Raises:
        InputError: one line for every error; ``origin`` begins each.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        errors = [details for details in error.errors(include_url=False) if not _consequence(details)]
        lines = [f"{origin}: {describe(details, model)}" for details in errors]
        raise InputError("\n".join(lines)) from error


def describe(error: ErrorDetails, model: type[BaseModel]) -> str:
    """One validation error as ``field: value problem; allowed: ...``; without the field if it is about the whole."""
    location = error["loc"]
    problem = _problem(error, model)
    return f"{dotted(location)}: {problem}" if location else problem


def _problem(error: ErrorDetails, model: type[BaseModel]) -> str:
    location, kind, context = error["loc"], error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown field{suggestion(str(location[-1]), fields_at(model, location[:-1]))}"
    if kind == "missing":
        return f"is missing; fields here: {', '.join(fields_at(model, location[:-1]))}"
    value = _show(error["input"])
    if kind == "narrows":
        whole = isinstance(error["input"], dict | list | tuple)
        problem = context["problem"] if whole else f"{value} {context['problem']}"
        return f"{problem}; allowed: {context['allowed']}"
    if kind == "literal_error":
        return f"{value} is not one of the choices; allowed: {context['expected']}"
    if kind in _BOUNDS:
        name, problem, allowed = _BOUNDS[kind]
        return f"{value} is {problem}; allowed: {allowed.format(context[name])}"
    if kind == "too_short":
        least, found = context["min_length"], len(error["input"])
        has = f"has only {found}" if found else "is empty"
        return f"{has}; allowed: a list with at least {'one entry' if least == 1 else f'{least} entries'}"
    return f"{value} is of the wrong kind; allowed: {_ALLOWED.get(kind, error['msg'])}"


def _consequence(error: ErrorDetails) -> bool:
    """Pydantic calls a list too short when its only entries are wrong; their own errors say it better."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def dotted(location: Iterable[int | str]) -> str:
    """``("flows", 0, "cca")`` as ``flows.0.cca``."""
    return ".".join(str(part) for part in location)


def fields_at(model: type[BaseModel], location: Location) -> list[str]:
    """Names of the fields that the mapping at a location of an experiment may have."""
    current: Any = model
    for part in location:
        if isinstance(part, int):
            continue
        current = _model_in(current.model_fields[part].annotation)
    return sorted(current.model_fields)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?); allowed: ...`` for a misspelt name."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    guess = f", did you mean '{near[0]}'?" if near else ";"
    return f"{guess} allowed: {', '.join(known)}"


def _model_in(annotation: Any) -> Any:
    """The model inside ``Model``, ``tuple[Model, ...]`` or ``Model | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (tuple, list, types.UnionType, typing.Union, typing.Annotated):
        for argument in typing.get_args(annotation):
            found = _model_in(argument)
            if found is not None:
                return found
    return None


def _show(value: object) -> str:
    text = "nothing" if value is None else f"'{value}'"
    return text if len(text) <= 80 else text[:77] + "...'"


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return f"is not YAML: {error}"
