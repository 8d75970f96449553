# SPDX-License-Identifier: Apache-2.0
"""Reports read with scapy, dpkt and pandas alone, each in its own idiom: ``readers.py NAME CAPTURE PORT FIRST``.

Each stops after the FIRST reports.

Prints the number of reports and, for a check of the work done, the sum of their queue delays.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# report_t (p4src/common/headers.p4): names up to the first field of 48 bits, and the struct of all; such are two each.
NAMES = (
    *("version", "flags", "bottleneck", "sample_shift", "flow", "packet_length", "signature", "sequence", "arrivals"),
    *("departures", "loss_drops", "aqm_drops", "enqueue_depth", "dequeue_depth"),
)
REPORT = struct.Struct("!BBBBHHIIIIIIIIHIHHIH")
DELAY = len(NAMES)
HEADER_BYTES = 42
INTERVAL_NS = 10_000_000


def read_dpkt(path: str, port: int, first: int) -> tuple[int, int]:
    """Each frame as dpkt's Ethernet, each report through struct into columns."""
    import dpkt  # type: ignore[import-untyped]

    rows = []
    with Path(path).open("rb") as file:
        for _, frame in dpkt.pcap.Reader(file):
            udp = dpkt.ethernet.Ethernet(frame).data.data
            if udp.dport == port:
                rows.append(REPORT.unpack_from(udp.data))
                if len(rows) == first:
                    break
    columns = list(zip(*rows, strict=True))
    return len(rows), (sum(columns[DELAY]) << 32) + sum(columns[DELAY + 1])


def read_scapy(path: str, port: int, first: int) -> tuple[int, int]:
    """A scapy layer for the report, bound to the port; the fields of each into columns."""
    from scapy import fields
    from scapy.layers.inet import UDP
    from scapy.packet import Packet, bind_layers
    from scapy.utils import PcapReader

    class Report(Packet):
        name = "report"
        fields_desc = [  # noqa: RUF012, scapy's way to say it
            *(fields.ByteField(name, 0) for name in NAMES[:4]),
            *(fields.ShortField(name, 0) for name in NAMES[4:6]),
            *(fields.IntField(name, 0) for name in NAMES[6:]),
            fields.BitField("queue_delay", 0, 48),
            fields.ShortField("epoch", 0),
            fields.BitField("timestamp", 0, 48),
            fields.ShortField("queue", 0),
        ]

    bind_layers(UDP, Report, dport=port)
    rows = []
    with PcapReader(path) as reader:
        for frame in reader:
            if Report in frame:
                report = frame[Report]
                rows.append([getattr(report, field.name) for field in Report.fields_desc])
                if len(rows) == first:
                    break
    columns = list(zip(*rows, strict=True))
    return len(rows), sum(columns[DELAY])


def _frame(path: str, port: int, first: int) -> Any:
    """A DataFrame of the reports of a capture whose records are all equally long."""
    import numpy as np
    import pandas as pd

    with Path(path).open("rb") as file:
        file.seek(24)
        kept = struct.unpack("<IIII", file.read(16))[2]
    shorts = [(name, ">u1") for name in NAMES[:4]] + [(name, ">u2") for name in NAMES[4:6]]
    words = [(name, ">u4") for name in NAMES[6:]]
    delay = [("delay_high", ">u2"), ("delay_low", ">u4"), ("epoch", ">u2")]
    report = [*shorts, *words, *delay, ("high", ">u2"), ("low", ">u4"), ("queue", ">u2")]
    before = [("pcap", "V16"), ("headers", "V36"), ("port", ">u2"), ("udp", "V4")]
    record = np.dtype([*before, *report, ("original", f"V{kept - HEADER_BYTES - REPORT.size}")])
    rows = np.memmap(path, record, "r", offset=24)[:first]
    ours = rows["port"] == port
    columns = {name: rows[name][ours].astype(rows.dtype[name].newbyteorder("=")) for name in (*NAMES, "epoch", "queue")}
    for name, high, low in (("timestamp", "high", "low"), ("queue_delay", "delay_high", "delay_low")):
        columns[name] = rows[high][ours].astype(np.uint64) << np.uint64(32) | rows[low][ours]
    return pd.DataFrame(columns)


def read_pandas(path: str, port: int, first: int) -> tuple[int, int]:
    """The file as a structured array; columns in native byte order."""
    frame = _frame(path, port, first)
    return len(frame), int(frame["queue_delay"].astype("uint64").sum())


def aggregate_pandas(path: str, port: int, first: int) -> tuple[int, int]:
    """The same, and bytes, packets, queue depth and delay by flow in intervals of 10 ms."""
    frame = _frame(path, port, first)
    delays = int(frame["queue_delay"].astype("uint64").sum())
    interval = ((frame["timestamp"] - frame["timestamp"].iloc[0]) // INTERVAL_NS).rename("interval")
    groups = frame.groupby(["bottleneck", "flow", interval], sort=False)
    table = groups.agg(
        packets=("packet_length", "size"),
        octets=("packet_length", "sum"),
        depth=("enqueue_depth", "mean"),
        deepest=("enqueue_depth", "max"),
        delay=("queue_delay", "mean"),
    )
    return int(table["packets"].sum()), delays


READERS: dict[str, Callable[[str, int, int], tuple[int, int]]] = {
    "dpkt": read_dpkt,
    "scapy": read_scapy,
    "pandas": read_pandas,
    "pandas-aggregate": aggregate_pandas,
}

if __name__ == "__main__":
    print(*READERS[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
