# SPDX-License-Identifier: Apache-2.0
"""Reads and checks experiments in YAML; every error names file, field, value and what is allowed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from narrows_formats.validation import problems, show
from pydantic import BaseModel, ValidationError

from narrows.errors import InputError
from narrows.experiment.application import resolve_paths
from narrows.experiment.assignment import override
from narrows.experiment.cdf import ALLOWED_CDF, read_cdf
from narrows.experiment.model import Experiment
from narrows.experiment.trace_files import inline_traces

Checked = TypeVar("Checked", bound=BaseModel)


# Values of a file. A few lines with aliases of aliases can expand to billions.
MAX_VALUES = 100_000


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping that names a key twice, where YAML loaders silently take the last one, and names bad values."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if isinstance(node, yaml.ScalarNode):
                node.value.encode()  # "\\ud83d" is half of a character, which no file can hold
            return super().construct_object(node, deep=deep)
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
            # PyYAML takes a value's form, or its tag, for granted: 2026-13-45, !!int x.
            shown = show(node.value.encode(errors="replace").decode()) if isinstance(node, yaml.ScalarNode) else "this"
            raise yaml.constructor.ConstructorError(
                problem=f"{shown} is not the number, date or text that it is written as", problem_mark=node.start_mark
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused below
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key '{key}' is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_experiment(path: Path, settings: Sequence[str] = ()) -> dict[str, Any]:
    """The data of an experiment file as written, with the distributions and traces that it names; `validate` checks it.

    ``settings`` replace its own (`override`).

    Raises:
        InputError: a file cannot be read, or is not YAML, or a setting is wrong.
    """
    data = read_mapping(path, "an experiment; allowed: a mapping with name, bottleneck and flows")
    override(data, settings, str(path))
    _inline_distributions(data, path)
    inline_traces(data, path)
    resolve_paths(data, path)
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
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply") from None
    if _size(data, {}) > MAX_VALUES:
        raise InputError(f"{path}: has too many values, its aliases written out; allowed: at most {MAX_VALUES}")
    if not isinstance(data, dict):
        raise InputError(f"{path}: is not {what}")
    return data


def _size(data: object, known: dict[int, int]) -> int:
    """Number of values, each alias counted as what it refers to; more than any bound for one that contains itself."""
    if not isinstance(data, dict | list):
        return 1
    if id(data) not in known:
        known[id(data)] = MAX_VALUES + 1  # while it is being counted
        known[id(data)] = 1 + sum(_size(value, known) for value in (data.values() if isinstance(data, dict) else data))
    return known[id(data)]


# Where a group of flows may name the file of a distribution.
_DISTRIBUTIONS = [
    ("workload", "sizes"), ("workload", "gaps"), ("requests", "size"), ("requests", "gaps"), ("requests", "think"),
]  # fmt: skip


def _inline_distributions(data: dict[str, Any], path: Path) -> None:
    """Replace file names of empirical distributions, relative to ``path``, with the contents of the files.

    Raises:
        InputError: a file cannot be read, or is not a distribution.
    """
    groups = data.get("flows")
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        for kind, field in _DISTRIBUTIONS:
            kept = group.get(kind) if isinstance(group, dict) else None
            drawn = kept.get(field) if isinstance(kept, dict) else None
            if isinstance(drawn, dict) and isinstance(drawn.get("cdf"), str):
                try:
                    drawn["cdf"] = [list(point) for point in read_cdf(path.parent / drawn["cdf"])]
                except ValueError as error:
                    raise InputError(
                        f"{path}: flows.{number}.{kind}.{field}.cdf: {error}; allowed: {ALLOWED_CDF}"
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
        raise InputError("\n".join(f"{origin}: {problem}" for problem in problems(error, model))) from error


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return f"is not YAML: {error}"
