# SPDX-License-Identifier: Apache-2.0
"""Nested settings as flat ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def flat(data: Any) -> dict[str, Any]:
    """The plain values of nested settings by the names that ``--set`` uses, such as ``flows.0.cca``."""
    return dict(_leaves(data, ""))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value
