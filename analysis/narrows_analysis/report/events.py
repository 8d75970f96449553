# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of the experiment's events: marks in its figures, and how exactly each was timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows_formats.run_record import EventRecord
from narrows_formats.units import NANOSECONDS

from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, number
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


def event_table(events: Sequence[EventRecord]) -> dict[str, Any] | None:
    """A row for each event; None if there is none."""
    if not events:
        return None
    rows = [
        [
            Cell(event.what, event.what, text_column=True),
            number(f"{event.at_ns / NANOSECONDS:.9f}", event.at_ns),
            number(*_late(event)),
            Cell(event.timed_by, event.timed_by, text_column=True),
        ]
        for event in events
    ]
    columns = [
        {"name": "Event", "text": True},
        {"name": "Planned\ns", "text": False},
        {"name": "Late", "text": False},
        {"name": "Timed by", "text": True},
    ]
    return {"id": "events", "title": "Events", "columns": columns, "rows": rows, "note": _NOTE}


def _late(event: EventRecord) -> tuple[str, float | None]:
    if event.achieved_ns is None:
        return "did not happen", None
    late_ns = event.achieved_ns - event.at_ns
    return ("0 ns" if not late_ns else units.duration(late_ns / NANOSECONDS)), late_ns
