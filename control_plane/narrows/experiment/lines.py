# SPDX-License-Identifier: Apache-2.0
"""Adds line numbers to messages that name a YAML file and a field."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from narrows_formats import bounded_yaml, named_file

# FILE: [sweep at ...: ]FIELD: PROBLEM, as the loader writes it.
_MESSAGE = re.compile(r"(?P<file>.+?): (?P<sweep>sweep at .*?: )?(?P<field>[A-Za-z0-9_.*-]+): ")


def with_line(message: str) -> str:
    """``x.yaml: mtu: ...`` as ``x.yaml:7: mtu: ...``; a message that names no field of a file is left unchanged."""
    found = _MESSAGE.match(message)
    if found is None:
        return message
    file, field = found["file"], found["field"]
    line = _line_of(Path(file), f"sweep.{field}") if found["sweep"] else None
    line = line or _line_of(Path(file), field)
    return message if line is None else f"{file}:{line}{message[len(file) :]}"


def _line_of(path: Path, field: str) -> int | None:
    """The line (from 1) of a dotted field, or, where the file lacks its last part, of what that would belong to."""
    try:
        node = bounded_yaml.compose(named_file.read_text(path))
    except ValueError:
        return None
    line = None
    while node is not None and field:
        node, found, field = _step(node, field)
        line = found or line
    return line


def _step(node: yaml.Node, field: str) -> tuple[yaml.Node | None, int | None, str]:
    """One key or index down: the node there, its line, and what is left of the field."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            # The keys of a sweep have dots of their own.
            if isinstance(key, yaml.ScalarNode) and (field == key.value or field.startswith(f"{key.value}.")):
                return value, key.start_mark.line + 1, field[len(key.value) + 1 :]
    head, _, rest = field.partition(".")
    if isinstance(node, yaml.SequenceNode) and head.isdigit() and int(head) < len(node.value):
        return node.value[int(head)], node.value[int(head)].start_mark.line + 1, rest
    return None, None, ""
