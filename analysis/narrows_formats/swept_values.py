# SPDX-License-Identifier: Apache-2.0
"""What the values of a swept field are called in results and in names of directories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Characters of the name of a value that is not a plain one.
LONGEST = 60
# Contents of a file that a value names, which are filled in.
CONTENTS = "text"


def labels(values: Sequence[Any]) -> list[Any]:
    """A name for each of the different values of a field: a plain value itself, a short one for what has parts.

    No two are alike, since results are put together by these names: of values that have the same short name each is
    called by all its parts, and by its number as well where that does not tell them apart.
    """
    found = [_short(value) for value in values]
    for longer in (_whole, _numbered):
        often = Counter(map(str, found))
        found = [
            name if often[str(name)] == 1 else longer(value, number) if isinstance(value, dict) else value
            for number, (value, name) in enumerate(zip(values, found, strict=True), 1)
        ]
    return found


def _short(value: Any) -> Any:
    """Of a file its name, of a trace its file's, of a wave its kind, of what else has parts the plain values in it."""
    if isinstance(value, str) and value.startswith("/"):
        return Path(value).name
    if not isinstance(value, dict):
        # A date becomes text in sweep.json.
        return value if isinstance(value, str | int | float | list) else str(value)
    trace, wave = value.get("trace"), value.get("wave")
    if isinstance(trace, dict):
        return Path(str(trace.get("file"))).stem
    if isinstance(wave, dict):
        return str(wave.get("kind"))
    return _whole(value)


def _whole(value: dict[str, object], _number: int = 0) -> str:
    return "-".join((str(next(iter(value), "")), *_leaves(value)))[:LONGEST]


def _numbered(value: dict[str, object], number: int) -> str:
    return f"{_whole(value)}-{number}"


def _leaves(value: Any) -> Iterator[str]:
    """The plain values in nested ones, in order."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name != CONTENTS:
                yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)
