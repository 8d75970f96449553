# SPDX-License-Identifier: Apache-2.0
"""Checks that the events of an experiment are possible, and applies them to the times of its flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from narrows_formats.flow_names import flow_name
from narrows_formats.units import format_time

from narrows.errors import InputError
from narrows.experiment.comparison import Condition
from narrows.experiment.conditions import BadCondition, parse
from narrows.experiment.conditions import number as read_number
from narrows.experiment.events import at_ns
from narrows.flows.kinds import LASTING
from narrows.flows.tcp import BulkGroup

if TYPE_CHECKING:
    from narrows.experiment.events import Event
    from narrows.experiment.model import DirectionSettings, Experiment
    from narrows.flows.group import FlowGroup


def check_events(experiment: Experiment) -> None:
    """Check that every event can happen, and changes something.

    Raises:
        InputError: a line for each that does not.
    """
    problems = [*_of_links(experiment), *_of_groups(experiment)]
    if problems:
        raise InputError("\n".join(problems))


def conditions(experiment: Experiment) -> dict[int, Condition]:
    """The conditions of events, by the event's number.

    Raises:
        InputError: a line for each that cannot be evaluated.
    """
    flows: dict[str, str | None] = {}
    alone: dict[str, str] = {}
    for group in experiment.flows:
        names = [group.name, flow_name(group.name, 1)] if group.count == 1 else []
        names += [flow_name(group.name, number + 1) for number in range(group.count)]
        if group.connections_each == 1 and group.made_of.match_by_host_pair is None:
            flows |= dict.fromkeys(names, group.kernel_cca)
            alone |= {group.name: names[1]} if group.count == 1 else {}
    found, problems = {}, []
    for number, event in enumerate(experiment.events):
        if event.when is None:
            continue
        field = "when"
        try:
            one = parse(event.when, flows, tuple(experiment.directions))
            field = "hysteresis"
            beyond = 0.0 if event.hysteresis is None else read_number(event.hysteresis, one.reading)
            if beyond < 0 or (event.hysteresis is not None and one.comparison in ("==", "!=")):
                raise BadCondition("needs an order, and an amount", "0 or more, with <, <=, > or >=")
            found[number] = replace(
                one,
                name=alone.get(one.name, one.name),
                for_ns=event.for_ or 0,
                once=event.once is not False,
                hysteresis=beyond,
            )
        except BadCondition as error:
            problems.append(f"events.{number}.{field}: '{getattr(event, field)}' {error}; allowed: {error.allowed}")
    if problems:
        raise InputError("\n".join(problems))
    return found


def flow_times(group: FlowGroup, experiment: Experiment) -> tuple[int, int | None]:
    """When a group's first flow starts, and when all of its flows stop where an event says so, in nanoseconds."""
    timed = [event for event in experiment.events if event.at is not None]
    start = next((at_ns(event) for event in timed if event.start == group.name), group.start)
    return start, next((event.at for event in timed if event.stop == group.name), None)


def unchangeable(
    settings: DirectionSettings, changed: Iterable[str], delay_ns: int | None
) -> Iterator[tuple[str, str]]:
    """Settings of a link that are to change and cannot, each with the reason and what is allowed.

    ``delay_ns`` is the new delay, if there is to be one.
    """
    for name in changed:
        aggregation = settings.aggregation
        if aggregation is not None and aggregation.bursts is not None and name in ("rate", "delay"):
            yield (
                name,
                "carries bursts, each with one rate and delay; allowed: a link without aggregation by frames or size",
            )
            continue
        aggregates = aggregation is not None and (
            name == "delay" or (name == "rate" and not aggregation.takes_any_rate)
        )
        recorded = settings.trace is not None and name in settings.trace.settings
        if aggregates or recorded or (name != "buffer" and not isinstance(getattr(settings, name), int | float)):
            yield name, "has one that varies by itself; allowed: a link whose own is constant"
    jitter = settings.jitter
    if delay_ns is not None and jitter is not None and delay_ns + jitter.planned.least_ns < 0:
        least = format_time(-jitter.planned.least_ns)
        yield "delay", f"has a jitter that takes more than that; allowed: {least} or more"


def _of_links(experiment: Experiment) -> Iterator[str]:
    directions = experiment.directions
    seen: set[tuple[str, str, int]] = set()
    conditional: set[tuple[str, str]] = {
        (event.link, name) for event in experiment.events if event.link and event.when for name in event.settings
    }
    last: dict[str, tuple[int, int, int]] = {}
    for number, event in enumerate(experiment.events):
        if event.link is None:
            continue
        settings = directions.get(event.link)
        if settings is None:
            yield f"events.{number}.link: unknown link '{event.link}'; allowed: {', '.join(directions)}"
            continue
        for name, why in unchangeable(settings, event.settings, event.delay):
            yield f"events.{number}.{name}: '{event.link}' {why}"
        if event.at is None:
            continue
        for name in event.settings:
            if (event.link, name) in conditional:
                yield f"events.{number}.{name}: is changed when a condition holds as well; allowed: one of at and when"
            if (key := (event.link, name, event.at)) in seen:
                yield f"events.{number}.{name}: is changed twice at {format_time(event.at)}; allowed: once at a time"
            seen.add(key)
        if event.rate is not None:
            last[event.link] = max(last.get(event.link, (0, 0, 0)), (event.at, number, event.rate))
    for _, number, rate in last.values():
        if not rate:
            yield f"events.{number}.rate: is 0 for good, so that what waits never leaves; allowed: a later one above 0"


def _of_groups(experiment: Experiment) -> Iterator[str]:
    groups = {group.name: group for group in experiment.flows}
    seen: set[tuple[str, str]] = set()
    for number, event in enumerate(experiment.events):
        for verb, name in (("start", event.start), ("stop", event.stop), ("flow", event.flow)):
            if name is None:
                continue
            field = f"events.{number}.{verb}"
            if name not in groups:
                yield f"{field}: unknown group '{name}'; allowed: {', '.join(groups)}"
                continue
            if verb == "flow":
                yield from _application(field, event, groups[name])
                continue
            if (verb, name) in seen:
                yield f"{field}: '{name}' has another one; allowed: one start and one stop of a group"
            seen.add((verb, name))
            group = groups[name]
            if verb == "start" and group.start:
                yield f"{field}: '{name}' has a start of its own; allowed: one of the two"
            if verb == "start" and event.when is not None:
                yield from _start_by_condition(field, group, experiment)
            if verb == "stop":
                yield from _stop(field, event, group, experiment)


def _application(field: str, event: Event, group: FlowGroup) -> Iterator[str]:
    if not isinstance(group, BulkGroup):
        allowed = "of bulk flows, which have a cca and a duration, and none of what makes another kind"
        yield f"{field}: the flows of '{group.name}' are of the kind {group.kind}; allowed: {allowed}"
    elif event.at is not None and event.at >= group.start + (group.duration or 0):
        end = format_time(group.start + (group.duration or 0))
        yield f"{field}: '{group.name}' has ended at {format_time(event.at)}; allowed: before {end}"


def _start_by_condition(field: str, group: FlowGroup, experiment: Experiment) -> Iterator[str]:
    name = group.name
    if group.made_of.is_program:
        yield f"{field}: the flows of '{name}' are programs, which start at a set time; allowed: other kinds"
    if any(event.stop == name and event.at is not None for event in experiment.events):
        yield f"{field}: '{name}' stops at a set time, and a condition starts it; allowed: a duration"
    if other := next((one.name for one in experiment.flows if one.ends_with == name), None):
        yield f"{field}: '{other}' lasts until '{name}', which may never start; allowed: another group in its until"


def _stop(field: str, event: Event, group: FlowGroup, experiment: Experiment) -> Iterator[str]:
    if group.kind not in LASTING:
        yield f"{field}: the flows of '{group.name}' end by themselves; allowed: of the kinds {', '.join(LASTING)}"
        return
    first, _ = flow_times(group, experiment)
    last, end = first + (group.count - 1) * group.stagger, first + (group.duration or 0)
    if last >= end:
        yield f"{field}: there is no time at which all flows of '{group.name}' send; allowed: a shorter stagger"
    elif event.at is not None and not last < event.at < end:
        yield (
            f"{field}: at {format_time(event.at)} not all flows of '{group.name}' send; "
            f"allowed: after {format_time(last)} and before {format_time(end)}"
        )
