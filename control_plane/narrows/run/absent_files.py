# SPDX-License-Identifier: Apache-2.0
"""Files and directories that a run's experiment names by their paths, and that results do not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from narrows.traffic.applications import named_paths

# Fields that are a path, and those that are a command.
PATHS, COMMANDS = ("p4", "json", "p4info", "entries", "bpf", "cwd"), ("client", "server", "controller")
# What names a file whose name in the experiment has a placeholder.
A_COMMAND = "a command"


class Absent(NamedTuple):
    """A path, its SHA-256 where it is recorded, else nothing, and the field that names it."""

    path: str
    digest: str
    field: str


def absent_files(experiment: object, digests: Mapping[str, str]) -> list[Absent]:
    """What a run needs and its directory does not have; traces and distributions are in the experiment itself.

    Args:
        experiment: its data, as results have them.
        digests: ``programs`` of its run.json, by paths and by names of what is Narrows' own.
    """
    found = dict.fromkeys(_named(experiment, "", digests))
    named = {path for path, _ in found}
    more = [(path, A_COMMAND) for path in digests if path.startswith("/") and path not in named]
    return [Absent(path, digests.get(path, ""), field) for path, field in (*found, *more)]


def _named(data: object, field: str, digests: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Paths, with the fields that name them."""
    if isinstance(data, list):
        data = dict(enumerate(data))
    if not isinstance(data, dict):
        return
    for name, value in data.items():
        where = f"{field}.{name}" if field else str(name)
        if name in PATHS and isinstance(value, str) and value.startswith("/"):
            yield value, where
        elif name in COMMANDS and isinstance(value, list):
            program, *arguments = map(str, value) if value else [""]
            yield from ((path, where) for path in _of_program(program, digests))
            yield from ((path, where) for path in _of_arguments(arguments, data.get("cwd"), digests))
        else:
            yield from _named(value, where, digests)


def _of_program(word: str, digests: Mapping[str, str]) -> list[str]:
    """Where a command's program is; one without a directory was searched for."""
    if word.startswith("/"):
        return [word]
    return [path for path in digests if path.startswith("/") and Path(path).name == word]


def _of_arguments(words: list[str], cwd: object, digests: Mapping[str, str]) -> list[str]:
    """Those that were files when the run began, or are whole paths."""
    whole = {name for word in words for name in (word, word.partition("=")[2]) if name.startswith("/")}
    paths = map(str, named_paths(words, cwd if isinstance(cwd, str) else None))
    return [path for path in paths if path in digests or path in whole]
