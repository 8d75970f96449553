# SPDX-License-Identifier: Apache-2.0
"""What a flow is called: in run.json, in the terminal, on every page and in every figure."""

from __future__ import annotations

from collections.abc import Sequence


def flow_name(group: str, number: int) -> str:
    """``bbr-1``: the group's name, and which of its flows it is, counted from 1."""
    return f"{group}-{number}"


def flow_names(groups: Sequence[str]) -> list[str]:
    """The name of each flow, given each flow's group."""
    seen: dict[str, int] = {}
    names = []
    for group in groups:
        seen[group] = seen.get(group, 0) + 1
        names.append(flow_name(group, seen[group]))
    return names
