# SPDX-License-Identifier: Apache-2.0
"""Settings that change nothing of a run: allowed, but their author expects an effect.

What contradicts itself is refused instead, by the model or by the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from narrows_formats.link_names import REVERSE
from narrows_formats.units import NANOSECONDS, format_time

from narrows.experiment.event_checks import flow_times
from narrows.experiment.model import DirectionSettings, Experiment, LinkSettings
from narrows.experiment.plan import ETHERNET_HEADER_BYTES
from narrows.flows.tcp import FiniteGroup


def no_op_settings(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Dotted fields that change nothing, each with why.

    Args:
        experiments: the points of a sweep, one at least; what matters in one of them has an effect.
    """
    found = [dict(_found(experiment)) for experiment in experiments]
    return {field: why for field, why in found[0].items() if all(field in other for other in found)}


def _found(experiment: Experiment) -> Iterator[tuple[str, str]]:
    groups, rates = experiment.flows, [_most_bps(link) for link in experiment.all_links.values()]
    sending = None if experiment.hosts is None else experiment.hosts.rate
    hosts = sum(group.senders for group in groups)
    if sending is not None and experiment.bottleneck is not None and sending * hosts < min(rates):
        yield "bottleneck.rate", "limits nothing: the links of all senders (hosts.rate) carry less"
    for field in _uncrossed(experiment):
        yield field, "has no effect: no flow's data cross it, nor acknowledgements (UDP has none)"
    for number, group in enumerate(groups):
        for field, why in group.no_op():
            yield f"flows.{number}.{field}", why
    yield from _of_queues(experiment)
    yield from _of_hosts(experiment)
    ends = [
        flow_times(group, experiment)[0] + (group.count - 1) * group.stagger + (group.duration or 0) for group in groups
    ]
    if all(group.duration is not None and not isinstance(group, FiniteGroup) for group in groups):
        yield from _too_late(experiment, max(ends))
        packets = max(ends) * max(rates) // (8 * NANOSECONDS * (experiment.mtu + ETHERNET_HEADER_BYTES))
        sample, sockets = experiment.telemetry.sample, experiment.telemetry.sockets
        if isinstance(sample, int) and sample > max(1, packets):
            yield "telemetry.sample", f"leaves next to nothing: the link carries {packets} full-size packets in the run"
        if sockets > max(ends):
            yield "telemetry.sockets", "is longer than the run: sockets are read once at most"


def _uncrossed(experiment: Experiment) -> Iterator[str]:
    """Fields of links, and of directions of links, that the flows send nothing across."""
    crossed = set()
    for group in experiment.flows:
        data, acks = ("", REVERSE) if group.direction == "forward" else (REVERSE, "")
        ways = (data, acks) if group.made_of.acknowledged else (data,)
        crossed |= {name + way for name in group.path or experiment.all_links for way in ways}
    for name, link in experiment.all_links.items():
        field = name if experiment.bottleneck is not None else f"links.{name}"
        if name not in crossed:
            yield f"{field}.rate" if name + REVERSE in crossed else field
        if link.reverse is not None and name + REVERSE not in crossed and name in crossed:
            yield f"{field}.reverse"


def _too_late(experiment: Experiment, end_ns: int) -> Iterator[tuple[str, str]]:
    """What is to happen at a time at which nothing is sent any more."""
    why = f"is too late to have an effect: the flows end at {format_time(end_ns)}"
    for number, event in enumerate(experiment.events):
        if event.at is not None and event.at >= end_ns:
            yield f"events.{number}.at", why
    for field, direction in _directions(experiment):
        for name in ("rate", "delay"):
            steps = getattr(getattr(direction, name), "steps", None) or ()
            for number, step in enumerate(steps):
                if step.at >= end_ns:
                    yield f"{field}.{name}.steps.{number}.at", why


def _directions(experiment: Experiment) -> Iterator[tuple[str, DirectionSettings]]:
    """Each direction of a link that has settings, by its dotted field."""
    for name, direction in experiment.directions.items():
        yield name if experiment.bottleneck is not None else f"links.{name}", direction


def _of_queues(experiment: Experiment) -> Iterator[tuple[str, str]]:
    can_be_marked = any(group.takes_marks for group in experiment.flows)
    for field, direction in _directions(experiment):
        if direction.ecn_threshold is not None and not can_be_marked:
            yield f"{field}.ecn_threshold", "marks nothing: no flow has packets that can be marked (ecn)"
        if direction.policer is not None and direction.policer.excess == "mark" and not can_be_marked:
            yield f"{field}.policer.excess", "marks nothing: no flow has packets that can be marked (ecn)"
        for setting, why in direction.queue.no_op_settings():
            yield f"{field}.queue.{setting}", why


def _of_hosts(experiment: Experiment) -> Iterator[tuple[str, str]]:
    if experiment.tcp_buffer is not None and not any(group.made_of.has_tcp() for group in experiment.flows):
        yield "tcp_buffer", "has no effect: no flow is TCP"
    if experiment.hosts is None or any(group.made_of.is_program for group in experiment.flows):
        return
    for field in ("date", "syscall"):
        if getattr(experiment.hosts, field) is not None:
            yield f"hosts.{field}", "has no effect: no flow is made by a program (client)"


def _most_bps(link: LinkSettings) -> int:
    return link.rate if isinstance(link.rate, int) else link.rate.schedule.span_bps.most
