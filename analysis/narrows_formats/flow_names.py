# SPDX-License-Identifier: Apache-2.0
"""What a flow is called. The plan makes the name, run.json carries it, and everything else takes it from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

OTHER_GROUP = "(other)"  # all traffic through the bottleneck that is not part of the experiment
ANYWHERE = "0.0.0.0"  # one end of a flow of programs, of which only the other is known


class Recorded(Protocol):
    """A flow as run.json has it."""

    @property
    def name(self) -> str | None:
        """Its name."""
        ...

    @property
    def group(self) -> str | None:
        """Its group."""
        ...

    @property
    def cca(self) -> str | None:
        """Its congestion control."""
        ...

    @property
    def connection(self) -> int | None:
        """Which connection of a repeated flow it is, from 0."""
        ...


def flow_name(group: str, number: int) -> str:
    """``bbr-1``: the group's name, and which of its flows it is, counted from 1."""
    return f"{group}-{number}"


def connection_name(flow: str, connection: int, of: int) -> str:
    """``web-1.3``: one of a flow's ``of`` connections, ``connection`` counted from 0; a single one is the flow."""
    return flow if of == 1 else f"{flow}.{connection + 1}"


def possible_ends(src: str, dst: str) -> tuple[tuple[str, str], ...]:
    """Ends that a flow of programs may have whose packets are between these addresses."""
    return (src, dst), (ANYWHERE, dst), (src, ANYWHERE)


def group_of(flow: Recorded) -> str:
    """The group that a flow belongs to; where none is recorded, all flows of a CCA are one."""
    return flow.group or flow.cca or "flows"


def recorded_names(flows: Sequence[Recorded]) -> list[str]:
    """The name of each flow of a run.json, also of those that older versions wrote.

    They gave no names, and flows of a group are then counted in their order; or all connections of a flow had one.

    Raises:
        ValueError: two flows have one name, and nothing tells them apart; the message says which.
    """
    shared = Counter(flow.name for flow in flows)
    counted: Counter[str] = Counter()
    names = []
    for flow in flows:
        group = group_of(flow)
        counted[group] += 1
        if flow.name is None:
            names.append(flow_name(group, counted[group]))
        elif flow.connection is None:
            names.append(flow.name)
        else:
            names.append(connection_name(flow.name, flow.connection, shared[flow.name]))
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"has two flows named '{twice}'")
    return names
