# SPDX-License-Identifier: Apache-2.0
"""What run.json says of an experiment's events: when each was to happen, and when it did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narrows_formats.units import NANOSECONDS

from narrows.experiment.events import Event
from narrows.experiment.model import Experiment
from narrows.run.measurement import Measured


def events(experiment: Experiment, measured: Measured) -> list[dict[str, Any]]:
    """The events in order of time, as `narrows_formats.run_record.EventRecord` has them."""
    return [_as_json(event, measured) for event in sorted(experiment.events, key=lambda event: event.at)]


def _as_json(event: Event, measured: Measured) -> dict[str, Any]:
    parts = list(_of_link(event, measured) if event.link is not None else _of_group(event, measured))
    times = [time for time, _ in parts]
    known = [time for time in times if time is not None]
    # What was timed least exactly speaks for all of it.
    timed_by = min((how for _, how in parts), key=("software", "host", "schedule").index)
    return {
        "what": event.what,
        "at_ns": event.at,
        "achieved_ns": max(known) if len(known) == len(times) else None,
        "timed_by": timed_by,
    }


def _of_link(event: Event, measured: Measured) -> Iterator[tuple[int | None, str]]:
    """When each setting was changed, and by whom."""
    ended_ns = max((round((one.ended_s or 0) * NANOSECONDS) for one in measured.connections), default=0)
    for setting in event.settings:
        steps = measured.rate_steps.get(event.link or "") if setting == "rate" else None
        if steps is not None:
            achieved = dict(zip(steps["planned_ns"], steps["achieved_ns"], strict=True))
            yield achieved.get(event.at), "software"
        elif setting in ("rate", "delay"):
            yield event.at if event.at <= ended_ns else None, "schedule"
        else:
            made = (one.achieved_ns for one in measured.changes if _is_of(one.change.at_ns, one.change.link, event))
            yield next(made, None), "software"


def _is_of(at_ns: int, link: str, event: Event) -> bool:
    return (at_ns, link) == (event.at, event.link)


def _of_group(event: Event, measured: Measured) -> Iterator[tuple[int | None, str]]:
    """When the group's first flow started, or each of its flows stopped."""
    group = [one for one in measured.connections if one.flow.group in (event.start, event.stop)]
    if not group:
        yield None, "host"
    elif event.start is not None:
        yield round(min(one.started_s for one in group) * NANOSECONDS), "host"
    else:
        for one in group:
            yield None if one.ended_s is None else round(one.ended_s * NANOSECONDS), "host"
