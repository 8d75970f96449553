# SPDX-License-Identifier: Apache-2.0
"""The columns of a run's Parquet files: unit and meaning of each, which are in the files' metadata too.

Those of the files that the collector writes are in *.columns.json, which are compiled into it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats import files

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER = "number of the flow in run.json's `flows`, from 0"
LABEL = "name of the flow, as everywhere: the group's, and which of its flows it is"
START = "start of the interval, from the experiment's start"


@dataclass(frozen=True)
class Column:
    """One column. ``unit`` is empty where there is none, and "1" for ratios."""

    name: str
    unit: str
    meaning: str

    @property
    def metadata(self) -> dict[str, str]:
        """For the column's field in the file."""
        return {"unit": self.unit, "meaning": self.meaning}


FLOWS = (
    Column("link", "", "name of the link, as in run.json"),
    Column("time_s", "s", START),
    Column("interval_s", "s", "length of the interval"),
    Column("flow", "", f"{NUMBER}; -1: all traffic that is not part of the experiment"),
    Column("name", "", f"{LABEL}; (other) for -1"),
    Column("group", "", "name of the flow's group; (other) for -1"),
    Column("cca", "", "congestion control of the flow; null for -1"),
    Column("packets", "", "data, or acks where the link is crossed by the flow's acknowledgements"),
    Column("throughput_bps", "bit/s (L2)", "all bytes of Ethernet frames that left the queue"),
    Column("goodput_bps", "bit/s (payload)", "payload bytes that left the queue for the first time"),
    Column("arrivals", "packets", "offered to the queue, by the time of their arrival"),
    Column("departures", "packets", "left the queue, by the time they left"),
    Column("drops", "packets", "arrived and did not leave, by the time of their arrival"),
    Column("aqm_drops", "packets", "part of the drops that queue management, or a user's program, made"),
    Column("policer_drops", "packets", "part of the drops that a policer made"),
    Column("ack_filter_drops", "packets", "part of the drops that an ACK filter made; the others found no room"),
    Column("loss_drops", "packets", "discarded by loss emulation in front of the queue"),
    Column("loss_ratio", "1", "drops over arrivals; null where nothing arrived"),
    Column("ce_marks", "packets", "departures that the queue marked with CE"),
    Column("data_packets", "packets", "departures with payload"),
    Column("retransmitted_packets", "packets", "departures with payload below the highest sequence number seen before"),
    Column("queue_delay_mean_s", "s", "mean time in the queue of the departures; null where nothing left"),
    Column("queue_delay_max_s", "s", "longest time in the queue of the departures; null where nothing left"),
)
QUEUE = (
    Column("link", "", "name of the link, as in run.json"),
    Column("time_s", "s", START),
    Column("interval_s", "s", "length of the interval"),
    Column("depth_mean_bytes", "bytes", "mean depth that departures left behind; null where nothing left"),
    Column("depth_min_bytes", "bytes", "smallest depth that any packet saw, arriving or leaving"),
    Column("depth_max_bytes", "bytes", "largest depth that any packet saw, arriving or leaving"),
    Column("delay_mean_s", "s", "mean time in the queue of the departures; null where nothing left"),
    Column("delay_min_s", "s", "shortest of them"),
    Column("delay_max_s", "s", "longest of them"),
    Column("departures", "packets", "left the queue, of all flows"),
    Column("throughput_bps", "bit/s (L2)", "all bytes of Ethernet frames that left the queue"),
    Column("drops", "packets", "arrived and did not leave"),
    Column("aqm_drops", "packets", "part of the drops that queue management, or a user's program, made"),
    Column("policer_drops", "packets", "part of the drops that a policer made"),
    Column("ack_filter_drops", "packets", "part of the drops that an ACK filter made; the others found no room"),
    Column("loss_drops", "packets", "discarded by loss emulation in front of the queue"),
    Column("ce_marks", "packets", "departures that the queue marked with CE"),
    Column("missing_reports", "reports", "gaps in the numbering of reports: lost between switch and file"),
)
# The same of each of the two queues of DualPI2.
QUEUES = (
    Column("link", "", "name of the link, as in run.json"),
    Column("queue", "", "classic or low latency (ECT(1) and CE)"),
    Column("time_s", "s", START),
    Column("interval_s", "s", "length of the interval"),
    Column("depth_mean_bytes", "bytes", "mean of what departures left behind in this queue; null if not known"),
    Column("depth_min_bytes", "bytes", "smallest of these"),
    Column("depth_max_bytes", "bytes", "largest of these"),
    Column("delay_mean_s", "s", "mean time in the queue of the departures; null where nothing left"),
    Column("delay_min_s", "s", "shortest of them"),
    Column("delay_max_s", "s", "longest of them"),
    Column("departures", "packets", "left the queue, of all flows"),
    Column("throughput_bps", "bit/s (L2)", "all bytes of Ethernet frames that left the queue"),
    Column("ce_marks", "packets", "departures that the queue marked with CE"),
)
DISTRIBUTIONS = (
    Column("link", "", "name of the link, as in run.json"),
    Column("quantity", "", "queue_bytes (depth that departures left behind) or queue_delay_s"),
    Column("value", "bytes (queue_bytes), s (queue_delay_s)", "upper end of a bin at most 0.013 % wide"),
    Column("fraction", "1", "of the departures, those up to value"),
)
# As draft-ietf-ccwg-bbr calls them, in the order of Linux's enum tcp_bbr_phase, from 1 on.
BBR_PHASES = ("STARTUP", "DRAIN", "PROBE_RTT", "PROBE_UP", "PROBE_DOWN", "PROBE_CRUISE", "PROBE_REFILL")
BBR3 = "only of BBRv3"
# What a sender's state is known from: its kernel, or what a QUIC stack has logged.
OF_KERNEL, OF_QLOG = "inet_diag", "qlog"
_LOGGED = f"null unless `source` is {OF_QLOG}"
ONLY_LOGGED = (
    Column("ssthresh_bytes", "bytes", f"slow start threshold; {_LOGGED}"),
    Column("latest_rtt_s", "s", f"the last RTT that was measured; {_LOGGED}"),
    Column("congestion_state", "", f"what the stack calls the state of its congestion control; {_LOGGED}"),
)
SOCKETS = (
    Column("time_s", "s", "when the socket was read, from the experiment's start"),
    Column("flow", "", NUMBER),
    Column("src_port", "", "port of the sender's socket: with `dst_port`, which of `flows[].connections` it is"),
    Column("dst_port", "", "port at the other end"),
    Column("cwnd_bytes", "bytes", "congestion window"),
    Column("pacing_rate_bps", "bit/s", "the kernel's; in use where congestion control paces (BBR) or `rate` is set"),
    Column("rtt_s", "s", "smoothed RTT (TCP_INFO tcpi_rtt); null before the first sample"),
    Column("min_rtt_s", "s", "smallest RTT lately (TCP_INFO tcpi_min_rtt); null before the first sample"),
    Column("delivery_rate_bps", "bit/s", "payload acknowledged lately, over the time it took"),
    Column("inflight_bytes", "bytes", "sent and not acknowledged yet"),
    Column("retransmits", "packets so far", "segments sent again; of qlog packets lost, whose data are"),
    Column("acked_bytes", "bytes so far", "payload acknowledged"),
    Column("data_packets", "packets so far", "segments with payload sent, those sent again included"),
    Column("bbr_bandwidth_bps", "bit/s", "BBR's estimate of the bottleneck; null for other congestion control"),
    Column("bbr_min_rtt_s", "s", "BBR's estimate of the RTT without queue; null for other congestion control"),
    Column("bbr_pacing_gain", "1", "of BBR's present phase; null for other congestion control"),
    Column("bbr_cwnd_gain", "1", "of BBR's present phase; null for other congestion control"),
    Column("busy_s", "s so far", "time with data to send"),
    Column("buffer_limited_s", "s so far", "part of that in which receive window or send buffer were in the way"),
    Column("bbr_phase", "", f"BBR's: {', '.join(BBR_PHASES)}; null for other congestion control"),
    Column("bbr_max_bandwidth_bps", "bit/s", f"BBR.max_bw; {BBR3}"),
    Column("bbr_shortterm_bandwidth_bps", "bit/s", f"BBR.bw_shortterm (bw_lo); null while unset; {BBR3}"),
    Column("bbr_shortterm_inflight_bytes", "bytes", f"BBR.inflight_shortterm (inflight_lo); null while unset; {BBR3}"),
    Column("bbr_longterm_inflight_bytes", "bytes", f"BBR.inflight_longterm (inflight_hi); null while unset; {BBR3}"),
    Column("bbr_extra_acked_bytes", "bytes", f"BBR.extra_acked, acknowledged beyond the estimate; {BBR3}"),
    Column("source", "", f"{OF_KERNEL}: the kernel; {OF_QLOG}: what the program has logged"),
    *ONLY_LOGGED,
)
# Not numbers.
TEXTS = ("bbr_phase", "source", "congestion_state")
# Of drops and reports as `load` gives them and `narrows export` writes them: in seconds and bytes.
DROPS = (
    Column("time_s", "s", "when it was dropped, from the experiment's start"),
    Column("link", "", "the link that dropped it"),
    Column("flow", "", f"{NUMBER}; -1: acknowledgements, and what is not part of the experiment"),
    Column("name", "", f"{LABEL}; (other): traffic that is not the experiment's"),
    Column(
        "cause", "", "full queue, queue management, policer, ACK filter, loss emulation, or program (ingress or egress)"
    ),
    Column("packet_bytes", "bytes", "Ethernet frame"),
    Column("waited_s", "s", "how long it had waited"),
    Column("depth_bytes", "bytes", "what waited just after it"),
    Column("depth_packets", "packets", "the same in packets"),
)
REPORTS = (
    Column("time_s", "s", "when the packet left the queue, from the experiment's start"),
    Column("arrival_s", "s", "when it came to the queue"),
    Column("bottleneck", "", "index of the link, as in run.json"),
    Column("flow", "", f"{NUMBER}, whose data it is; -1: acknowledgements, and what is not part of the experiment"),
    Column("flow_index", "", "hash of bottleneck and 5-tuple"),
    Column("packet_bytes", "bytes", "Ethernet frame"),
    Column("payload_bytes", "bytes", "payload of TCP or UDP"),
    Column("queue_delay_s", "s", "time in the queue"),
    Column("enqueue_depth_bytes", "bytes", "depth that it found"),
    Column("dequeue_depth_bytes", "bytes", "depth that it left behind, or found where the target does not report that"),
    Column("sequence", "packets", "departures of this bottleneck so far; wraps"),
    Column("arrivals", "packets", "packets of this flow index offered to the queue, this one included; wraps"),
    Column("departures", "packets", "packets of this flow index that left the queue, this one included; wraps"),
    Column("loss_drops", "packets", "packets of this flow index that loss emulation dropped before it; wraps"),
    Column("ce_marked", "", "the queue marked it with CE"),
    Column("ecn", "", "ECN field as it left: 0 not capable, 1 or 2 capable, 3 CE"),
    Column("epoch", "", "generation of the queue's settings when it came"),
    Column("protocol", "", "of IP: 6 TCP, 17 UDP"),
    Column("tcp_flags", "", "12 bits: reserved, AE, CWR, ECE, URG, ACK, PSH, RST, SYN, FIN"),
    Column("tcp_seq", "bytes", "sequence number"),
    Column("tcp_ack", "bytes", "acknowledgement number"),
    Column("tcp_tsval", "ticks", "value of the timestamps option (RFC 7323)"),
    Column("tcp_tsecr", "ticks", "echo of the timestamps option (RFC 7323)"),
    Column("aqm_drops", "packets", "packets of this flow index dropped by queue management so far"),
    Column("queue", "", "which of the bottleneck's queues it left; 0 where there is one"),
    Column("arrival_ecn", "", "ECN field as it came"),
)
# Registers of a user's P4 program that were watched.
REGISTERS = (
    Column("time_s", "s", "when it was read, from the experiment's start"),
    Column(
        "register",
        "",
        "the cell, as the experiment names it; with its program's first link in front where there are several",
    ),
    Column("value", "", "what it had"),
)
# Files by their names, SOCKETS in `files.HOSTS`; the collector's: `telemetry_columns`.
TABLES = {
    files.FLOWS: FLOWS,
    files.QUEUE: QUEUE,
    files.QUEUES: QUEUES,
    files.DISTRIBUTIONS: DISTRIBUTIONS,
    f"{files.HOSTS}/{files.SOCKETS}": SOCKETS,
    f"{files.TELEMETRY}/{files.REGISTERS}": REGISTERS,
}


def telemetry_columns(table: str) -> tuple[Column, ...]:
    """Columns of a Parquet file in telemetry/: "reports" (reports-NNNNN.parquet), "flow_keys", "drops" or
    "watched", whose columns for the fields themselves are not among them."""
    described = json.loads(Path(__file__).with_name(f"{table}.columns.json").read_text(encoding="utf-8"))
    return tuple(Column(name, column["unit"], column["meaning"]) for name, column in described.items())


def units(columns: tuple[Column, ...]) -> dict[str, str]:
    """Unit of each column."""
    return {column.name: column.unit for column in columns}


def with_metadata(schema: pa.Schema, columns: tuple[Column, ...]) -> pa.Schema:
    """The schema with the metadata of each column.

    Raises:
        KeyError: it has a column that is not described.
    """
    import pyarrow as pa

    known = {column.name: column.metadata for column in columns}
    return pa.schema([field.with_metadata(known[field.name]) for field in schema])
