# SPDX-License-Identifier: Apache-2.0
"""One connection as run.json tells of it, whatever made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Flow


@dataclass
class Connection:
    """One connection of a flow, as it really went. Times are seconds since the experiment's start.

    ``changes`` are the events that its application has followed: the event's number, and when that was in ns.
    ``record`` is the file with what its sender knows of it (`narrows_formats.connection_record`), if there is one;
    ``notes`` are what a user should know of how it went.
    """

    flow: Flow
    number: int
    started_s: float
    record: Path | None = None
    ended_s: float | None = None
    bytes_sent: int | None = None
    notes: list[str] = field(default_factory=list)
    changes: tuple[tuple[int, int], ...] = ()

    @property
    def src_port(self) -> int:
        """Source port of the data connection."""
        return self.flow.port_of(self.number)

    @property
    def size_bytes(self) -> int | None:
        """What it has to send; None if it lasts for a time."""
        return self.flow.payload.size_of(self.number)

    def as_json(self) -> dict[str, object]:
        """The connection as an entry of run.json's ``flows``."""
        flow = self.flow
        start = self._planned_start_s()
        src, dst = flow.ends
        no_ports = {"src_port": None, "dst_port": None, "by_addresses": True} if flow.match_by_host_pair else {}
        return {
            "name": flow.connection_name(self.number),
            "group": flow.group,
            "cca": flow.cca,
            "protocol": flow.protocol,
            "src": src,
            "dst": dst,
            "src_port": self.src_port,
            "dst_port": flow.dst_port,
            **({} if flow.payload.competes else {"probe": True}),
            "links": list(flow.links),
            "ack_links": list(flow.ack_links),
            "connection": self.number,
            "start_s": start,
            "duration_s": None if flow.duration_ns is None else flow.duration_ns / NANOSECONDS,
            "size_bytes": self.size_bytes,
            "rtt_s": flow.rtt_ns / NANOSECONDS,
            "started_s": _whole_ns(self.started_s),
            "ended_s": None if self.ended_s is None else _whole_ns(self.ended_s),
            "bytes_sent": self.bytes_sent,
            "record": None if self.record is None else f"{self.record.parent.name}/{self.record.name}",
            **no_ports,
        }

    def _planned_start_s(self) -> float:
        """When it was to start; connections of a finite flow after the first start when the one before has ended."""
        if arrivals_ns := self.flow.payload.arrivals_ns:
            return (self.flow.start_ns + arrivals_ns[self.number]) / NANOSECONDS
        return self.flow.start_ns / NANOSECONDS if self.number == 0 else _whole_ns(self.started_s)


def _whole_ns(time_s: float) -> float:
    """Differences of a clock's readings, which counts nanoseconds, without what subtraction adds."""
    return round(time_s * NANOSECONDS) / NANOSECONDS
