# SPDX-License-Identifier: Apache-2.0
"""A user's own P4 program as the bottleneck, in a plan, and what it excludes.

What is in the program's files is checked where the switch is (`narrows.switch.own_program`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from narrows_formats.suggestion import suggestion

from narrows.errors import InputError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import OwnProgram
from narrows.experiment.topology import Topology


def planned_program(experiment: Experiment, network: Topology) -> OwnProgram | None:
    """The program as a plan has it.

    Raises:
        InputError: the experiment asks for what only Narrows' program does, or for a place that the program has not.
    """
    settings = None if experiment.bottleneck is None else experiment.bottleneck.program
    if settings is None:
        return None
    field = "bottleneck.program"
    _check_names(settings.ports, [host.name for host in network.end_hosts], field)
    problems = list(_only_ours(experiment, network)) or list(_shared(network))
    if problems:
        raise InputError("\n".join(problems))
    return OwnProgram(
        field=field,
        json=Path(str(settings.compiled)),
        p4info=Path(str(settings.p4info)),
        entries=None if settings.entries is None else Path(settings.entries),
    )


def _check_names(ports: Collection[str], hosts: list[str], field: str) -> None:
    for name in ports:
        if name not in hosts:
            raise InputError(f"{field}.ports: there is no host '{name}'{suggestion(name, hosts)}")


def _only_ours(experiment: Experiment, network: Topology) -> Iterator[str]:
    """What Narrows' own program does, which this one takes the place of."""
    ours = "Narrows' own P4 program, which bottleneck.program takes the place of"
    for link in network.links:
        if link.loss:
            yield f"{link.field}.loss: is made by {ours}; allowed: none"
        if link.ecn_threshold is not None:
            yield f"{link.field}.ecn_threshold: packets are marked by {ours}; allowed: none"
        if link.management is not None and link.management.by_program:
            yield (
                f"{link.field}.queue: {link.management.kind} is decided in {ours}; allowed: what the traffic manager "
                "does by itself: tail-drop, head-drop"
            )
        for name, varies in (
            ("delay", link.delay_steps is not None),
            ("jitter", link.jitter is not None),
            ("duplication", link.duplication > 0),
        ):
            if varies:
                yield f"{link.field}.{name}: is not for a link with a program of your own; allowed: a constant delay"
    if experiment.telemetry.acks:
        yield "telemetry.acks: the reverse direction is not reported with bottleneck.program; allowed: a `reverse`"
    for number, event in enumerate(experiment.events):
        if event.loss is not None:
            yield f"events.{number}.loss: is made by {ours}; allowed: none"


def _shared(network: Topology) -> Iterator[str]:
    """Links that are no host's port: the program would have to know of ports that no host is at."""
    for link in network.links:
        if link.loopback:
            yield (
                f"{link.field}: several hosts are behind it, or packets reach its host by other ways as well; allowed "
                "with bottleneck.program: one host behind the link, all of whose packets cross it"
            )
