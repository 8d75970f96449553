# SPDX-License-Identifier: Apache-2.0
"""Generators by the kind of the flows that they make; their modules are imported when a plan has such flows."""

from __future__ import annotations

import importlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from narrows.experiment.plan import Flow, Plan
    from narrows.hosts.base import Testbed
    from narrows.traffic.generator import Generator

    Make = Callable[[Plan, Testbed, Path, Sequence[Flow]], Generator]


@dataclass(frozen=True)
class Kind:
    """A kind of flow: ``make`` is module and function, or class, of its generator.

    Flows with the same one are made together. ``commands`` are those that their hosts must have.
    """

    make: str
    commands: tuple[str, ...] = ()


_FLOW_SOCKETS = Kind("narrows.traffic.flows:make")
_DATAGRAMS = Kind("narrows.traffic.datagrams:make")
_EXCHANGES = Kind("narrows.traffic.exchanges:make")
KINDS = {
    "bulk": _FLOW_SOCKETS,
    "finite": _FLOW_SOCKETS,
    "workload": _FLOW_SOCKETS,
    "udp": _DATAGRAMS,
    "probe": _DATAGRAMS,
    "requests": _EXCHANGES,
    "video": _EXCHANGES,
    "application": Kind("narrows.traffic.applications:make"),
    "shell": Kind("narrows.traffic.shell:Shell"),
}


def missing_commands(plan: Plan) -> list[str]:
    """What this machine, or a guest with its files, lacks for the flows of a plan; one message for each command."""
    from narrows.traffic.applications import missing_programs  # most experiments have none

    kinds = dict.fromkeys(flow.kind for flow in plan.flows)
    return missing_programs(plan) + [
        f"flows of the kind {kind} need the command '{command}', which is not installed"
        for kind in kinds
        for command in KINDS[kind].commands
        if shutil.which(command) is None
    ]


def needs_commands(plan: Plan) -> bool:
    """Whether some flows of a plan are made by commands of their hosts."""
    return any(KINDS[flow.kind].commands or flow.payload.is_program for flow in plan.flows)


def generators(plan: Plan, testbed: Testbed, results: Path) -> tuple[Generator, ...]:
    """What makes all flows of a plan; nothing is done yet. ``results`` takes connections' records."""
    flows: dict[str, list[Flow]] = defaultdict(list)
    for flow in plan.flows:
        flows[KINDS[flow.kind].make].append(flow)
    return tuple(_make(name)(plan, testbed, results, made) for name, made in flows.items())


def _make(name: str) -> Make:
    module, _, attribute = name.partition(":")
    return cast("Make", getattr(importlib.import_module(module), attribute))
