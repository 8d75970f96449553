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
    """Kinds of flows that are made in one way: ``make`` is module and class of its generator.

    Flows with the same one are made together. ``commands`` are those that their hosts must have.
    """

    make: str
    commands: tuple[str, ...] = ()


# By what makes them on hosts (`Payload.made_by`).
KINDS = {
    "tcp": Kind("narrows.traffic.tcp:TcpFlows"),
    "datagrams": Kind("narrows.traffic.datagrams:DatagramFlows"),
    "media": Kind("narrows.traffic.datagrams:MediaFlows"),
    "requests": Kind("narrows.traffic.requests:RequestFlows"),
    "program": Kind("narrows.traffic.applications:Applications"),
    "shell": Kind("narrows.traffic.terminal_command:Shell"),
}


def missing_commands(plan: Plan, remade: Sequence[Path] = ()) -> list[str]:
    """What this machine, or a guest with its files, lacks for the flows of a plan; one message for each command.

    ``remade`` as `missing_programs`.
    """
    from narrows.traffic.missing_programs import missing_programs  # most experiments have none

    kinds = {flow.kind: flow.payload.made_by for flow in plan.flows}
    return missing_programs(plan, remade) + [
        f"flows of the kind {kind} need the command '{command}', which is not installed"
        for kind, made_by in kinds.items()
        for command in KINDS[made_by].commands
        if shutil.which(command) is None
    ]


def needs_commands(plan: Plan) -> bool:
    """Whether some flows of a plan are made by commands of their hosts."""
    return any(KINDS[flow.payload.made_by].commands or flow.payload.is_program for flow in plan.flows)


def generators(plan: Plan, testbed: Testbed, results: Path) -> tuple[Generator, ...]:
    """What makes all flows of a plan; nothing is done yet. ``results`` takes connections' records."""
    flows: dict[str, list[Flow]] = defaultdict(list)
    for flow in plan.flows:
        flows[KINDS[flow.payload.made_by].make].append(flow)
    return tuple(_make(name)(plan, testbed, results, made) for name, made in flows.items())


def _make(name: str) -> Make:
    module, _, attribute = name.partition(":")
    return cast("Make", getattr(importlib.import_module(module), attribute))
