# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of programs, requests and players: their connections."""

from __future__ import annotations

from typing import Any, Literal

from narrows_formats.summary import ConnectionSummary, Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, number

MAX_ROWS = 40
PROTOCOLS = {6: "TCP", 17: "UDP", 132: "SCTP"}
_NAMES = (
    "Flow", "From", "To", "Active\n(s)", "Payload", "Packets", "Drops", "CE", "Queue delay\nmean", "maximum",
    "RTT\nmean",
)  # fmt: skip
_DELAYS: tuple[Literal["queue_delay_mean_s", "queue_delay_max_s"], ...] = ("queue_delay_mean_s", "queue_delay_max_s")
_TEXT = ("Flow", "From", "To")


def connection_table(summary: Summary) -> dict[str, Any] | None:
    """A row for each connection, of many those with the most payload; None if there is none."""
    found = [(flow["name"], one) for flow in summary["flows"] for one in flow["connections"] or []]
    if not found:
        return None
    most = sorted(range(len(found)), key=lambda number: -found[number][1]["payload_bytes"])[:MAX_ROWS]
    columns = [{"name": name, "text": name in _TEXT} for name in _NAMES]
    left = f" The {MAX_ROWS} of {len(found)} that carried most; summary.json has all." if len(most) < len(found) else ""
    note = f"Connections of programs, of requests and of players, in the direction of their flow.{left}"
    rows = [_row(*found[number]) for number in sorted(most)]
    return {"id": "connections", "title": "Connections", "columns": columns, "rows": rows, "note": note}


def _row(flow: str, one: ConnectionSummary) -> list[Cell]:
    protocol = PROTOCOLS.get(one["protocol"], str(one["protocol"]))
    ends = (f"{protocol} {_end(one['src'], one['src_port'])}", _end(one["dst"], one["dst_port"]))
    texts = [Cell(text, text, text_column=True) for text in (flow, *ends)]
    life = number(f"{one['start_s']:.2f}\u2013{one['end_s']:.2f}", one["start_s"])
    values = (one["payload_bytes"], one["departures"], one["drops"], one["ce_marks"])
    counts = [number(units.count(value), value) for value in values]
    spans = (*(one[name] for name in _DELAYS), one["rtt_s"]["mean"])
    return [*texts, life, *counts, *(number(units.duration(value), value) for value in spans)]


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
