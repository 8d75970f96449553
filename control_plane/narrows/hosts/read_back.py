# SPDX-License-Identifier: Apache-2.0
"""Settings are read back, and a run that would have others fails: docs/read-back.md lists them all."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.errors import RunError


def require(where: str, asked: Mapping[str, object], found: Mapping[str, object]) -> None:
    """Compare settings, by name, with what is read back; words are compared however they are spaced.

    Raises:
        RunError: some differ, or cannot be read; the message names where, each setting, and both values.
    """
    wrong = [
        f"{where}: {name} is {' '.join(str(found.get(name, 'not there')).split())}, not {' '.join(str(value).split())}"
        for name, value in asked.items()
        if str(found.get(name)).split() != str(value).split()
    ]
    if wrong:
        raise RunError("\n".join(wrong))
