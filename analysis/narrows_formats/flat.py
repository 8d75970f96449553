# SPDX-License-Identifier: Apache-2.0
"""Nested settings as flat ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any


def flat(data: Any) -> dict[str, object]:
    """The plain values of nested settings by the names that ``--set`` uses, such as ``flows.0.cca``."""
    return dict(_leaves(data, ""))


def shown(value: Any) -> str:
    """A plain value in a line: of the contents of a file, such as a trace's, what tells them from others."""
    text = str(value)
    if "\n" not in text:
        return text
    return f"{len(text.splitlines())} lines, SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value
