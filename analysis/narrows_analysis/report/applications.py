# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of programs, requests and players: their connections."""

from __future__ import annotations

from typing import Any, Literal

from narrows_formats.summary import Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, number

MAX_ROWS = 200
PROTOCOLS = {6: "TCP", 17: "UDP", 132: "SCTP"}
_NAMES = (
    "Flow", "Protocol", "From", "To", "Begins", "Ends", "Payload", "Packets", "Drops", "CE", "Queue delay\nmean",
    "maximum",
)  # fmt: skip
_DELAYS: tuple[Literal["queue_delay_mean_s", "queue_delay_max_s"], ...] = ("queue_delay_mean_s", "queue_delay_max_s")
_TEXT = ("Flow", "Protocol", "From", "To")


def connection_table(summary: Summary) -> dict[str, Any] | None:
    """A row for each connection; None if there is none."""
    rows = []
    for flow in summary["flows"]:
        for one in flow["connections"] or []:
            protocol = PROTOCOLS.get(one["protocol"], str(one["protocol"]))
            ends = (f"{one['src']} {one['src_port']}", f"{one['dst']} {one['dst_port']}")
            texts = [Cell(text, text, text_column=True) for text in (flow["name"], protocol, *ends)]
            times = [number(units.duration(value), value) for value in (one["start_s"], one["end_s"])]
            values = (one["payload_bytes"], one["departures"], one["drops"], one["ce_marks"])
            counts = [number(units.count(value), value) for value in values]
            delays = [number(units.duration(one[name]), one[name]) for name in _DELAYS]
            rows.append([*texts, *times, *counts, *delays])
    if not rows:
        return None
    columns = [{"name": name, "text": name in _TEXT} for name in _NAMES]
    left = f" The first {MAX_ROWS} of {len(rows)}; summary.json has all." if len(rows) > MAX_ROWS else ""
    note = f"Connections of programs, of requests and of players, in the direction of their flow.{left}"
    return {"id": "connections", "title": "Connections", "columns": columns, "rows": rows[:MAX_ROWS], "note": note}
