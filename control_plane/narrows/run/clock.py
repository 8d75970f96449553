# SPDX-License-Identifier: Apache-2.0
"""The experiment's start on the switch's clock, for switches whose clock can only be seen in their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from narrows_formats.files import FLOW_KEYS, REPORT_FILES
from narrows_formats.units import NANOSECONDS

from narrows.traffic.connection import Connection

# What identifies the reports of one flow, and those that carry data.
COLUMNS = ("bottleneck", "flow", "signature", "payload_length", "timestamp")


@dataclass(frozen=True)
class Origin:
    """The switch's time at the experiment's start in nanoseconds, and how it is known; both None if it is not."""

    ns: int | None
    source: str | None


def from_reports(
    telemetry: Path, indices: Mapping[str, int], connections: Sequence[Connection], time_unit_s: float
) -> Origin:
    """Put the first data of the first flow at the moment when that flow was started.

    The flow's own setting up, TCP's and the traffic tool's, is in between: reports seem to be early by that time. What
    has left no report of data, because it was lost or failed, is passed over for the next flow.

    Args:
        telemetry: the collector's directory.
        indices: index of each link, by its name.
        connections: what was started, in any order.
        time_unit_s: seconds of one unit of the reports' timestamps.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        keys = pq.read_table(telemetry / FLOW_KEYS).to_pylist()
    except (OSError, pa.ArrowInvalid):
        return Origin(None, None)
    known = {
        (
            key["protocol"],
            key["bottleneck"],
            ip_address(key["src"]),
            ip_address(key["dst"]),
            key["src_port"],
            key["dst_port"],
        ): key
        for key in keys
        if key["src"]
    }
    for connection in sorted(connections, key=lambda one: one.started_s):
        flow = connection.flow
        link = indices[flow.links[0]]
        ends = (ip_address(flow.src), ip_address(flow.dst), connection.src_port, flow.dst_port)
        key = known.get((flow.protocol, link, *ends))
        first = None if key is None else _first_data(telemetry, link, key["flow"], key["signature"])
        if first is not None:
            at_switch = round(first * time_unit_s * NANOSECONDS)
            source = f"first data report of {flow.name}, started at {connection.started_s:.6f} s"
            return Origin(at_switch - round(connection.started_s * NANOSECONDS), source)
    return Origin(None, None)


def _first_data(telemetry: Path, bottleneck: int, flow: int, signature: int) -> int | None:
    """Timestamp of a flow's first report of a packet with data; reports are written in the order of departures."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for path in sorted(telemetry.glob(REPORT_FILES)):
        try:
            file = pq.ParquetFile(path)
        except (OSError, pa.ArrowInvalid):
            # A collector that was killed leaves its last file open.
            continue
        for batch in file.iter_batches(columns=list(COLUMNS)):
            table = pa.Table.from_batches([batch])
            wanted = pc.and_(pc.equal(table["bottleneck"], bottleneck), pc.equal(table["flow"], flow))
            wanted = pc.and_(wanted, pc.equal(table["signature"], signature))
            times = table.filter(pc.and_(wanted, pc.greater(table["payload_length"], 0)))["timestamp"]
            if len(times):
                return int(times[0].as_py())
    return None
