# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of the experiment's events: marks in its figures, and how exactly each was timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows_formats.run_record import EventRecord
from narrows_formats.units import NANOSECONDS

from narrows_analysis.report import units
from narrows_analysis.report.cells import number, table, text
from narrows_analysis.report.charts import Chart, Mark

_NOTE = (
    "Late: when the switch, or a flow's host, did it, less when that was planned. Timed by schedule: the switch had it "
    "before. By software: the switch was asked at that time. By host: a flow started or stopped."
)


def add_marks(charts: Sequence[Chart], events: Sequence[EventRecord]) -> None:
    """Put what happened into the figures over time, where it did."""
    marks = [Mark(event.achieved_ns / NANOSECONDS, event.what) for event in events if event.achieved_ns is not None]
    for chart in charts:
        if chart.time:
            chart.marks = marks


def event_table(events: Sequence[EventRecord]) -> dict[str, Any]:
    """A row for each event."""
    rows = [
        [
            text(event.what),
            number(f"{event.at_ns / NANOSECONDS:.9f}", event.at_ns),
            number(*_late(event)),
            text(event.timed_by),
        ]
        for event in events
    ]
    names = ("Event", "Planned\ns", "Late", "Timed by")
    return table("events", "Events", names, rows, _NOTE, ("Event", "Timed by"))


def _late(event: EventRecord) -> tuple[str, float | None]:
    if event.achieved_ns is None:
        return "did not happen", None
    late_ns = event.achieved_ns - event.at_ns
    return ("0 ns" if not late_ns else units.duration(late_ns / NANOSECONDS)), late_ns
