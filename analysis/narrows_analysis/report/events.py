# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of its events, the experiment's or a driver's: marks in figures, and how each was timed."""

from __future__ import annotations

from collections.abc import Sequence

from narrows_formats.run_record import EventRecord
from narrows_formats.units import NANOSECONDS

from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, Table, number, table, text
from narrows_analysis.report.charts import Chart, Mark

# A driver may change a link a thousand times.
MOST_MARKS, MOST_ROWS = 50, 100
_NOTE = (
    "Late: when the switch, or a flow's host, did it, less when that was planned. Timed by schedule: the switch had it "
    "before. By software: the switch was asked at that time. By host: a flow started or stopped. Asked by: the "
    "experiment's file, or the program that drove the run."
)


def add_marks(charts: Sequence[Chart], events: Sequence[EventRecord]) -> None:
    """Mark events in the figures over time; a driver's link changes are left out where there are too many marks."""
    happened = [(event, event.achieved_ns) for event in events if event.achieved_ns is not None]
    crowded = len(happened) > MOST_MARKS
    marks = [
        Mark(at_ns / NANOSECONDS, event.what)
        for event, at_ns in happened
        if not crowded or (event.asked_by, event.timed_by) != ("driver", "software")
    ]
    for chart in charts:
        if chart.time:
            chart.marks = marks


def event_table(events: Sequence[EventRecord]) -> Table:
    """A row for each event, up to `MOST_ROWS`."""
    rows = [
        [
            text(event.what),
            _planned(event),
            number(*_late(event)),
            text(event.timed_by),
            text(event.asked_by),
        ]
        for event in events[:MOST_ROWS]
    ]
    names = ("Event", "Planned\ns", "Late", "Timed by", "Asked by")
    note = _NOTE
    if (left := len(events) - MOST_ROWS) > 0:
        note += f" run.json has {left:,} more."
    return table("events", "Events", names, rows, note, ("Event", "Timed by", "Asked by"))


def _planned(event: EventRecord) -> Cell:
    if event.at_ns is None:
        return text("its condition has not held")
    return number(f"{event.at_ns / NANOSECONDS:.9f}", event.at_ns)


def _late(event: EventRecord) -> tuple[str, float | None]:
    if event.achieved_ns is None or event.at_ns is None:
        return "did not happen", None
    late_ns = event.achieved_ns - event.at_ns
    return ("0 ns" if not late_ns else units.duration(late_ns / NANOSECONDS)), late_ns
