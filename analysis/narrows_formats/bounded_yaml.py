# SPDX-License-Identifier: Apache-2.0
"""YAML that others have written: bounded, without keys that are given twice, and without objects of Python's."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from narrows_formats.validation import show

# Values of a file. A few lines with aliases of aliases can expand to billions.
MAX_VALUES = 100_000


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping that names a key twice, where YAML loaders silently take the last one, and names bad values."""

    _composed = 0

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

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # While it is read: a large file is refused before the most of it.
        self._composed += 1
        if self._composed > MAX_VALUES:
            raise yaml.composer.ComposerError(
                problem=f"has too many values; allowed: at most {MAX_VALUES}", problem_mark=self.get_mark()
            )
        return super().compose_node(parent, index)

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


def parse(text: str | bytes) -> Any:
    """The value that a text is.

    Raises:
        ValueError: it is not YAML, nested too deeply, or too much; the message says where.
    """
    with _as_value_errors():
        data = yaml.load(text, _UniqueKeyLoader)
    if _size(data, {}) > MAX_VALUES:
        raise ValueError(f"has too many values, its aliases written out; allowed: at most {MAX_VALUES}")
    return data


def compose(text: str) -> yaml.Node | None:
    """The nodes of a text, which know their places in it; None if it is empty.

    Raises:
        ValueError: as `parse`.
    """
    with _as_value_errors():
        return yaml.compose(text, _UniqueKeyLoader)


@contextmanager
def _as_value_errors() -> Iterator[None]:
    try:
        yield
    except yaml.YAMLError as error:
        raise ValueError(_problem(error)) from error
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _size(data: object, known: dict[int, int]) -> int:
    """Number of values, each alias counted as what it refers to; more than any bound for one that contains itself."""
    if not isinstance(data, dict | list):
        return 1
    if id(data) not in known:
        known[id(data)] = MAX_VALUES + 1  # while it is being counted
        known[id(data)] = 1 + sum(_size(value, known) for value in (data.values() if isinstance(data, dict) else data))
    return known[id(data)]


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return f"is not YAML: {error}"
