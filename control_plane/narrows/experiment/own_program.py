# SPDX-License-Identifier: Apache-2.0
"""Users' own P4 programs as links, in a plan, and what they exclude.

What is in the program's files is checked where the switch is (`narrows.switch.own_program`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from narrows_formats.link_names import REVERSE
from narrows_formats.units import format_time

from narrows.errors import InputError
from narrows.experiment.impairments import LONGEST_DEVIATIONS
from narrows.experiment.model import Experiment
from narrows.experiment.plan import FIRST_DEVICE, Link, OwnProgram
from narrows.experiment.program_settings import PRIORITIES, NamedProgram, read_watched
from narrows.experiment.topology import Topology


def planned_programs(experiment: Experiment, network: Topology) -> tuple[OwnProgram, ...]:
    """The programs as a plan has them.

    Raises:
        InputError: the experiment asks for what only Narrows' program does, or for a place that a program has not.
    """
    named = experiment.programs
    # Narrows' own program, where a link has it, is the first device's.
    first = FIRST_DEVICE + (len(experiment.all_links) > sum(len(one.links) for one in named))
    problems = [problem for one in named for problem in _problems(experiment, network, one)]
    problems += _together(named)
    if problems:
        raise InputError("\n".join(problems))
    there = {port.host for port in network.ports} | {link.name for link in network.links}
    return tuple(_planned(one, number, there) for number, one in enumerate(named, first))


def _planned(named: NamedProgram, device_id: int, there: Collection[str]) -> OwnProgram:
    settings = named.settings
    cells, fields = read_watched(settings.watch)
    return OwnProgram(
        field=named.field,
        json=Path(str(settings.compiled)),
        p4info=Path(str(settings.p4info)),
        entries=None if settings.entries is None else Path(settings.entries),
        links=named.links,
        device_id=device_id,
        watch=cells,
        fields=fields,
        controller=settings.controller,
        cwd=Path(settings.cwd or "/"),
        cpu_port=settings.cpu_port,
        unused=tuple((place.port, name) for name, place in settings.ports.items() if name not in there),
        quanta=(*settings.quanta, *settings.quanta[-1:] * (PRIORITIES - len(settings.quanta))),
    )


def _problems(experiment: Experiment, network: Topology, named: NamedProgram) -> Iterator[str]:
    """What keeps a program from being that of its links."""
    field, settings = named.field, named.settings
    links = [link for link in network.links if link.name.removesuffix(REVERSE) in named.links]
    yield from list(_only_ours(experiment, links, field)) or list(_shared(links, field))
    cells, _ = read_watched(settings.watch)
    if cells and any(event.buffer is not None or event.when is not None for event in experiment.events):
        halts = "whose events change a buffer or have a condition"
        yield f"{field}.watch: is not read in runs {halts}; allowed: one of them"
    if cells and not experiment.telemetry.sockets:
        yield f"{field}.watch: nothing is read with telemetry.sockets: 0; allowed: another interval"
    taken = {port.number for port in network.ports}
    if settings.controller and settings.cpu_port in taken:
        yield f"{field}.cpu_port: {settings.cpu_port} is the port of a host; allowed: one that no host is at"


def _together(named: Sequence[NamedProgram]) -> Iterator[str]:
    """What several programs cannot have in one switch."""
    watching = [(one, fields) for one in named if (fields := read_watched(one.settings.watch)[1])]
    for one, fields in watching[1:]:
        if fields != watching[0][1]:
            yield (
                f"{one.field}.watch: has other fields of metadata than {watching[0][0].field}, and the reports of a "
                f"run have one set of columns; allowed: none, or {', '.join(watching[0][1])}"
            )
    controlled = [one for one in named if one.settings.controller]
    for number, one in enumerate(controlled):
        if (port := one.settings.cpu_port) in {other.settings.cpu_port for other in controlled[:number]}:
            yield f"{one.field}.cpu_port: {port} is that of another program's controller; allowed: a port of its own"


def _only_ours(experiment: Experiment, links: Sequence[Link], field: str) -> Iterator[str]:
    """What Narrows' own program does, which this one takes the place of at some links."""
    ours = f"Narrows' own P4 program, which {field} takes the place of"
    for link in links:
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
        if event.loss is not None and event.link in {link.name for link in links}:
            yield f"events.{number}.loss: is made by {ours}; allowed: none"


def _shared(links: Sequence[Link], field: str) -> Iterator[str]:
    """Links that are no host's port: the program would have to know of ports that no host is at."""
    for link in links:
        if link.direction == "reverse":
            yield (
                f"{link.field}: Narrows' own program sends packets of the reverse direction through it, and "
                f"{field} sends them to the ports of their hosts; allowed: no reverse"
            )
        elif link.loopback and link.cable is None:
            yield (
                f"{link.field}: several hosts are behind it, or packets reach its host by other ways as well; allowed "
                f"with {field}: one host behind the link, all of whose packets cross it"
            )
