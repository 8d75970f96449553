# SPDX-License-Identifier: Apache-2.0
"""A user's own P4 program as the bottleneck, in a plan, and what it excludes.

What is in the program's files is checked where the switch is (`narrows.switch.own_program`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from narrows_formats.units import format_time

from narrows.errors import InputError
from narrows.experiment.impairments import LONGEST_DEVIATIONS
from narrows.experiment.model import Experiment
from narrows.experiment.plan import OwnProgram
from narrows.experiment.program_settings import PRIORITIES, read_watched
from narrows.experiment.topology import Topology


def planned_program(experiment: Experiment, network: Topology) -> OwnProgram | None:
    """The program as a plan has it.

    Raises:
        InputError: the experiment asks for what only Narrows' program does, or for a place that the program has not.
    """
    if experiment.program is None:
        return None
    field, settings = experiment.program
    problems = list(_only_ours(experiment, network, field)) or list(_shared(network, field))
    cells, fields = read_watched(settings.watch)
    if cells and any(event.buffer is not None or event.when is not None for event in experiment.events):
        halts = "whose events change a buffer or have a condition"
        problems.append(f"{field}.watch: is not read in runs {halts}; allowed: one of them")
    if cells and not experiment.telemetry.sockets:
        problems.append(f"{field}.watch: nothing is read with telemetry.sockets: 0; allowed: another interval")
    taken = {host.port for host in (*network.end_hosts, network.collector_host)}
    if settings.controller and settings.cpu_port in taken:
        problems.append(f"{field}.cpu_port: {settings.cpu_port} is the port of a host; allowed: one that no host is at")
    if problems:
        raise InputError("\n".join(problems))
    return OwnProgram(
        field=field,
        json=Path(str(settings.compiled)),
        p4info=Path(str(settings.p4info)),
        entries=None if settings.entries is None else Path(settings.entries),
        watch=cells,
        fields=fields,
        controller=settings.controller,
        cwd=Path(settings.cwd or "/"),
        cpu_port=settings.cpu_port,
        quanta=(*settings.quanta, *settings.quanta[-1:] * (PRIORITIES - len(settings.quanta))),
    )


def _only_ours(experiment: Experiment, network: Topology, field: str) -> Iterator[str]:
    """What Narrows' own program does, which this one takes the place of."""
    ours = f"Narrows' own P4 program, which {field} takes the place of"
    for link in network.links:
        if link.loss:
            yield f"{link.field}.loss: is made by {ours}; allowed: none"
        if link.ecn_threshold is not None:
            yield f"{link.field}.ecn_threshold: packets are marked by {ours}; allowed: none"
        if link.policer is not None and link.policer.marks:
            yield f"{link.field}.policer.excess: packets are marked by {ours}; allowed: drop"
        if link.aqm is not None and link.aqm.by_program:
            yield (
                f"{link.field}.queue: {link.aqm.kind} is decided in {ours}; allowed: what the traffic manager "
                "does by itself: tail-drop, head-drop"
            )
        if link.jitter is not None and link.lowest_delay_ns < 0:
            # The port also has what its host adds to RTTs: a draw would not be cut where the link's delay ends.
            yield (
                f"{link.field}.jitter: few draws take more than the delay of {format_time(link.delay_ns)}, and are not "
                f"cut there with {field}; allowed: a delay of {LONGEST_DEVIATIONS} deviations at all times, "
                f"{format_time(-link.jitter.lowest_ns)}"
            )
    if experiment.telemetry.acks:
        yield f"telemetry.acks: the reverse direction is not reported with {field}; allowed: false"
    for number, event in enumerate(experiment.events):
        if event.loss is not None:
            yield f"events.{number}.loss: is made by {ours}; allowed: none"


def _shared(network: Topology, field: str) -> Iterator[str]:
    """Links that are no host's port: the program would have to know of ports that no host is at."""
    for link in network.links:
        if link.direction == "reverse":
            yield (
                f"{link.field}: Narrows' own program sends packets of the reverse direction through it, and "
                f"{field} sends them to the ports of their hosts; allowed: no reverse"
            )
        elif link.loopback:
            yield (
                f"{link.field}: several hosts are behind it, or packets reach its host by other ways as well; allowed "
                f"with {field}: one host behind the link, all of whose packets cross it"
            )
