# SPDX-License-Identifier: Apache-2.0
"""Settings that change nothing of a run: allowed, but their author expects an effect.

What contradicts itself is refused instead, by the model or by the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from narrows_formats.link_names import REVERSE
from narrows_formats.units import NANOSECONDS

from narrows.experiment.model import Experiment, FlowGroup, LinkSettings
from narrows.experiment.plan import ETHERNET_HEADER_BYTES


def without_effect(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Dotted fields that change nothing, each with why.

    Args:
        experiments: the points of a sweep, one at least; what matters in one of them has an effect.
    """
    found = [dict(_found(experiment)) for experiment in experiments]
    return {field: why for field, why in found[0].items() if all(field in other for other in found)}


def _found(experiment: Experiment) -> Iterator[tuple[str, str]]:
    groups, rates = experiment.flows, [_most_bps(link) for link in experiment.all_links.values()]
    sending = None if experiment.hosts is None else experiment.hosts.rate
    if sending is not None and experiment.bottleneck is not None and sending * len(groups) < min(rates):
        yield "bottleneck.rate", "limits nothing: the links of all senders (hosts.rate) carry less"
    for field in _uncrossed(experiment):
        yield field, "has no effect: no flow's data cross it, nor acknowledgements (UDP has none)"
    for number, group in enumerate(groups):
        for field, why in _of_group(group):
            yield f"flows.{number}.{field}", why
    ends = [group.start + (group.count - 1) * group.stagger + (group.duration or 0) for group in groups]
    if all(group.duration is not None and group.size is None for group in groups):
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
        ways = (data,) if group.udp is not None else (data, acks)
        crossed |= {name + way for name in group.path or experiment.all_links for way in ways}
    for name, link in experiment.all_links.items():
        field = name if experiment.bottleneck is not None else f"links.{name}"
        if name not in crossed:
            yield f"{field}.rate" if name + REVERSE in crossed else field
        if link.reverse is not None and name + REVERSE not in crossed and name in crossed:
            yield f"{field}.reverse"


def _most_bps(link: LinkSettings) -> int:
    return link.rate if isinstance(link.rate, int) else link.rate.schedule.span_bps.most


def _of_group(group: FlowGroup) -> Iterator[tuple[str, str]]:
    if group.stagger and group.count == 1:
        yield "stagger", "has no effect: the group has one flow (count: 1)"
    if group.size is not None and group.repeat == 1:
        given = {"gap": group.gap, "until": group.until, "duration": group.duration}
        for field in (name for name, value in given.items() if value):
            yield field, "has no effect: each flow has one connection (repeat: 1)"
