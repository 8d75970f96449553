# SPDX-License-Identifier: Apache-2.0
"""The connections of programs, each with figures of its own."""

from __future__ import annotations

from narrows_formats.summary import ConnectionSummary

from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.records.flow_table import FlowTable


def connection_rows(aggregation: Aggregation | None, table: FlowTable, number: int) -> list[ConnectionSummary]:
    """What telemetry has of each connection of a flow at a link, in the order of their first packets."""
    if aggregation is None:
        return []
    unit_s, found = aggregation.clock.unit_s, []
    for key in table.keys_of[number]:
        total = aggregation.connections.get(key)
        if total is None:
            continue
        one = table.connections[key]
        shared, reports = bool(aggregation.collided[key[0]]), total["reports"]
        row: ConnectionSummary = {
            "protocol": one.protocol,
            "src": one.src,
            "dst": one.dst,
            "src_port": one.src_port,
            "dst_port": one.dst_port,
            "start_s": aggregation.ticks_from_origin(total["first_arrival"]) * unit_s,
            "end_s": aggregation.ticks_from_origin(total["last_timestamp"]) * unit_s,
            "payload_bytes": total["payload_bytes"],
            "arrivals": None if shared else total["arrivals"],
            "departures": total["departures"],
            "drops": None if shared else total["drops"],
            "ce_marks": total["ce_marks"],
            "queue_delay_mean_s": total["delay_sum"] / reports * unit_s if reports else None,
            "queue_delay_max_s": total["delay_max"] * unit_s if reports else None,
        }
        found.append(row)
    return sorted(found, key=lambda row: row["start_s"])
