# SPDX-License-Identifier: Apache-2.0
"""The connections of programs, each with figures of its own."""

from __future__ import annotations

import socket

from narrows_formats.summary import ConnectionSummary

from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.records.flow_table import FlowTable
from narrows_analysis.records.sockets import SocketRecords


def connection_rows(
    aggregation: Aggregation | None, table: FlowTable, position: int, number: int, sockets: SocketRecords
) -> list[ConnectionSummary]:
    """What telemetry has of each connection of a flow at a link, in the order of their first packets.

    Args:
        aggregation: of the link.
        table: of its flows.
        position: of the flow among them.
        number: of the flow in the run.
        sockets: what was read of them.
    """
    if aggregation is None:
        return []
    unit_s, found = aggregation.clock.unit_s, []
    for key in table.keys_of[position]:
        total = aggregation.connections.get(key)
        if total is None:
            continue
        one = table.connections[key]
        # A socket of TCP with the same ports as a connection of another protocol does not belong to it.
        record = sockets.connections.get((number, *one[-2:]))
        if record is not None and one.protocol != (socket.IPPROTO_UDP if record.logged else socket.IPPROTO_TCP):
            record = None
        seen, reports = aggregation.run.profile.queue_reported, total["reports"]
        counted = seen and not aggregation.collided[key[0]]
        row: ConnectionSummary = {
            "protocol": one.protocol,
            "src": one.src,
            "dst": one.dst,
            "src_port": one.src_port,
            "dst_port": one.dst_port,
            "start_s": aggregation.ticks_from_origin(total["first_arrival"]) * unit_s,
            "end_s": aggregation.ticks_from_origin(total["last_timestamp"]) * unit_s,
            "payload_bytes": round(aggregation.scaled(total, "payload_bytes")),
            "arrivals": total["arrivals"] if counted else None,
            "departures": total["departures"],
            "drops": total["drops"] if counted else None,
            "ce_marks": round(aggregation.scaled(total, "ce_marks")) if seen else None,
            "queue_delay_mean_s": total["delay_sum"] / reports * unit_s if seen and reports else None,
            "queue_delay_max_s": total["delay_max"] * unit_s if seen and aggregation.complete and reports else None,
            "rtt_s": {"min": record.rtt_min_s, "mean": record.rtt_mean_s} if record else {"min": None, "mean": None},
            "inflight_bytes": {
                "mean": record.inflight_mean_bytes if record else None,
                "max": record.inflight_max_bytes if record else None,
            },
        }
        found.append(row)
    return sorted(found, key=lambda row: row["start_s"])
