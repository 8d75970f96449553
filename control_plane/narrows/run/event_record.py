# SPDX-License-Identifier: Apache-2.0
"""What run.json says of an experiment's events, and of what a driver did: when each was to happen, and when it did."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from narrows_formats.units import NANOSECONDS, format_rate, format_size, format_time

from narrows.experiment.events import Event, at_ns, flow_words, link_words
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Verb
from narrows.run.changes import Made, Reacted
from narrows.run.measured import Measured
from narrows.run.stepping import Action, FlowRequest, SenderSetting
from narrows.traffic.connection import Connection

if TYPE_CHECKING:
    from narrows_formats.run_record import EventRecord, TimedBy


def events(experiment: Experiment, measured: Measured) -> list[EventRecord]:
    """The events in order of time."""
    found = []
    for number, event in enumerate(experiment.events):
        if event.when is None:
            found.append(_of_file(number, event, measured))
        else:
            reacted: list[Reacted | None] = [one for one in measured.reacted if one.event == number]
            given = {"when": event.when}
            found += [_of_condition(event, one, measured).model_copy(update=given) for one in reacted or [None]]
    found += [_of_driver(one, measured).model_copy(update={"asked_by": "driver"}) for one in measured.by_driver]
    return sorted(found, key=lambda one: math.inf if one.at_ns is None else one.at_ns)


def _of_file(number: int, event: Event, measured: Measured) -> EventRecord:
    if event.flow is not None:
        changes = [dict(one.changes) for one in measured.connections if one.flow.group == event.flow]
        return _record(event.what, event.at, _last(made.get(number) for made in changes), "host")
    if event.link is None:
        verb, name = event.request
        group = [one for one in measured.connections if one.flow.group == name]
        return _record(event.what, event.at, _of_flows(verb, group), "host")
    parts = list(_of_link(event, measured))
    # The least exact timing is given for all of it.
    timed_by = min((how for _, how in parts), key=("software", "schedule").index)
    return _record(event.what, event.at, _last(time for time, _ in parts), timed_by)


def _changed(made: Made) -> EventRecord:
    """What a driver changed of a link."""
    change = made.change
    written: dict[str, object] = {}
    if change.rate_bps is not None:
        written["rate"] = format_rate(change.rate_bps)
    if change.limit is not None:
        size, packets = change.limit
        written["buffer"] = format_size(size) if packets is None else f"{packets}packets"
    if change.delay_ns is not None:
        written["delay"] = format_time(change.delay_ns)
    if change.loss is not None:
        written["loss"] = change.loss
    return _record(link_words(change.link, written), change.at_ns, made.achieved_ns, "software")


def _of_driver(one: Action, measured: Measured) -> EventRecord:
    match one:
        case Made():
            return _changed(one)
        case FlowRequest():
            return _requested(one, measured)
        case SenderSetting():
            return _set(one)


def _set(setting: SenderSetting) -> EventRecord:
    """What a driver set of a sender."""
    written = [] if setting.window is None else [f"cwnd {setting.window}"]
    if setting.rate_bps is not None:
        written.append(f"pacing_rate {format_rate(setting.rate_bps)}")
    return _record(f"{setting.flow}: {', '.join(written)}", setting.made_ns, setting.made_ns, "host")


def _requested(request: FlowRequest, measured: Measured) -> EventRecord:
    """What a driver had flows do: those of a group, or else the one of that name."""
    flows = [one for one in measured.connections if request.name in (one.flow.group, one.flow.name)]
    return _record(flow_words(request.verb, request.name), request.at_ns, _of_flows(request.verb, flows), "host")


def _of_condition(event: Event, reacted: Reacted | None, measured: Measured) -> EventRecord:
    """What became of an event once its condition held; None: it has not."""
    timed_by: TimedBy = "host" if event.link is None else "software"
    if reacted is None or reacted.why_not is not None:
        return _record(event.what, None if reacted is None else reacted.at_ns, None, timed_by)
    if reacted.made is not None:
        return _record(event.what, reacted.at_ns, reacted.made.achieved_ns, timed_by)
    if event.flow is None:
        verb, name = event.request
        flows = [one for one in measured.connections if one.flow.group == name]
        return _record(event.what, reacted.at_ns, _of_flows(verb, flows), timed_by)
    flows = [one for one in measured.connections if one.flow.group == event.flow]
    done = [at_ns for one in flows for number, at_ns in one.changes if number == reacted.event]
    return _record(
        event.what, reacted.at_ns, min((one for one in done if one >= reacted.at_ns), default=None), timed_by
    )


def _record(what: str, at_ns: int | None, achieved_ns: int | None, timed_by: TimedBy) -> EventRecord:
    # Models with descriptions take a while, and a run says something first.
    from narrows_formats.run_record import EventRecord

    return EventRecord(what=what, at_ns=at_ns, achieved_ns=achieved_ns, timed_by=timed_by)


def _last(times: Iterable[int | None]) -> int | None:
    """When all of something had happened; None if some of it did not."""
    found = list(times)
    known = [time for time in found if time is not None]
    return max(known) if known and len(known) == len(found) else None


def _of_link(event: Event, measured: Measured) -> Iterator[tuple[int | None, TimedBy]]:
    """When each setting was changed, and by whom."""
    ended_ns = max((round((one.ended_s or 0) * NANOSECONDS) for one in measured.connections), default=0)
    for setting in event.settings:
        steps = measured.rate_steps.get(event.link or "") if setting == "rate" else None
        if steps is not None:
            achieved = dict(zip(steps.planned_ns, steps.achieved_ns, strict=True))
            yield achieved.get(at_ns(event)), "software"
        elif setting in ("rate", "delay"):
            yield event.at if at_ns(event) <= ended_ns else None, "schedule"
        else:
            made = (one.achieved_ns for one in measured.changes if _is_of(one.change.at_ns, one.change.link, event))
            yield next(made, None), "software"


def _is_of(at_ns: int, link: str, event: Event) -> bool:
    return (at_ns, link) == (event.at, event.link)


def _of_flows(verb: Verb, flows: Sequence[Connection]) -> int | None:
    """When the first of some flows started, or the last of them had stopped."""
    if verb == "start":
        return min((round(one.started_s * NANOSECONDS) for one in flows), default=None)
    return _last(None if one.ended_s is None else round(one.ended_s * NANOSECONDS) for one in flows)
