# SPDX-License-Identifier: Apache-2.0
"""What a plan leaves to the driver of a run: flows that are held back until they are started, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from narrows.errors import InputError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.onhost.wire import message


@message
@dataclass(frozen=True)
class Driving:
    """Groups of flows that the driver starts, and whether it sees the reports."""

    held: Sequence[str]
    shows_reports: bool


def driven(plan: Plan, experiment: Experiment, driving: Driving) -> Plan:
    """The plan of an experiment with the flows of some groups held back.

    Raises:
        InputError: there is no such group, or the experiment says itself when its flows start or stop.
    """
    for program in (one for one in plan.programs if one.watch):
        # Both would halt the switch.
        raise InputError(f"{program.field}.watch: is of runs that are not driven; allowed: none")
    groups = {group.name: group for group in experiment.flows}
    for name in driving.held:
        if name not in groups:
            raise InputError(f"held: unknown group '{name}'; allowed: {', '.join(groups)}")
        own = ["a start"] if groups[name].start else []
        own += ["events"] if any(name in (event.start, event.stop, event.flow) for event in experiment.events) else []
        if own:
            raise InputError(f"held: '{name}' has {own[0]} of its own; allowed: groups without start and events")
    return replace(
        plan,
        flows=tuple(replace(flow, held=flow.group in driving.held) for flow in plan.flows),
        end_ns=None if driving.held else plan.end_ns,
        driven=True,
        shows_reports=driving.shows_reports,
    )
