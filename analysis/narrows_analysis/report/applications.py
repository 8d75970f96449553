# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of programs, requests and players: their connections."""

from __future__ import annotations

from typing import Literal

from narrows_formats.summary import ConnectionSummary, Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, Table, number, table, text

MAX_ROWS = 40
PROTOCOLS = {6: "TCP", 17: "UDP", 132: "SCTP"}
_NAMES = (
    "Flow", "From", "To", "Active\n(s)", "Payload", "Packets", "Drops", "CE", "Queue delay\nmean", "maximum",
    "RTT\nmean",
)  # fmt: skip
_DELAYS: tuple[Literal["queue_delay_mean_s", "queue_delay_max_s"], ...] = ("queue_delay_mean_s", "queue_delay_max_s")
_TEXT = ("Flow", "From", "To")


def connection_table(summary: Summary) -> Table:
    """A row for each connection, of many those with the most payload."""
    found = [(flow["name"], one) for flow in summary["flows"] for one in flow["connections"] or []]
    most = sorted(range(len(found)), key=lambda number: -found[number][1]["payload_bytes"])[:MAX_ROWS]
    left = f" The {MAX_ROWS} of {len(found)} that carried most; summary.json has all." if len(most) < len(found) else ""
    note = f"Connections of programs, of requests and of players, in the direction of their flow.{left}"
    rows = [_row(*found[number]) for number in sorted(most)]
    return table("connections", "Connections", _NAMES, rows, note, _TEXT)


def _row(flow: str, one: ConnectionSummary) -> list[Cell]:
    protocol = PROTOCOLS.get(one["protocol"], str(one["protocol"]))
    ends = (f"{protocol} {_end(one['src'], one['src_port'])}", _end(one["dst"], one["dst_port"]))
    life = number(f"{one['start_s']:.2f}\u2013{one['end_s']:.2f}", one["start_s"])
    texts = [text(one) for one in (flow, *ends)]
    values = (one["payload_bytes"], one["departures"], one["drops"], one["ce_marks"])
    counts = [number(units.count(value), value) for value in values]
    spans = (*(one[name] for name in _DELAYS), one["rtt_s"]["mean"])
    return [*texts, life, *counts, *(number(units.duration(value), value) for value in spans)]


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
