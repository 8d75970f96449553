# SPDX-License-Identifier: Apache-2.0
"""Reports as INT-XD postcards: Telemetry Report Format 2.0 of the P4.org Applications Working Group, over UDP."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from narrows_analysis.errors import AnalysisError
from narrows_analysis.interchange.raw import Report, flow_keys, raw_reports, start_ns
from narrows_analysis.interchange.rebuilt import ETHERNET, FlowKey, Tcp, headers
from narrows_analysis.records.reports import FLAG_CE_MARKED
from narrows_analysis.records.run_directory import Run

VERSION = 2
INT = 1
# What follows the metadata: nothing, or a truncated packet from its IP header on, which is whole words.
INNER = {4: 4, 6: 5}
INNER_NONE = 0
DROPPED, CONGESTED, TRACKED = 0x80, 0x40, 0x20
# Hop latency; queue and occupancy; ingress and egress timestamps.
BASELINE = 0x3C00
BASELINE_WORDS = 6
# Ours, one word each, in the order of their bits; a field that the run's reports do not have is left out.
DOMAIN = 0x4E57
DOMAIN_FIELDS = ("arrivals", "departures", "loss_drops", "sequence", "epoch", "aqm_drops")
FIXED_WORDS = 2
# The reserved value of a word that is not available.
ABSENT = 0xFFFFFFFF
SEQUENCE = (1 << 22) - 1
OCCUPANCY = (1 << 24) - 1
QUEUE = (1 << 8) - 1


@dataclass
class Sent:
    """Postcards sent, those with the dropped bit, and the drops behind them."""

    postcards: int = 0
    dropped: int = 0
    drops: int = 0


def postcard(report: Report, key: FlowKey | None, node: int, since_ns: int, depth_unit_bytes: float) -> bytes:
    """The UDP payload: a group of one report. ``since_ns`` is the experiment's start in ns since 1970.

    A latency or an occupancy that its field cannot hold is the reserved value. The group's sequence number counts
    reports of the bottleneck, which is the hardware's number, so that lost ones show.
    """
    fields = report.fields
    bottleneck, queue = fields["bottleneck"], fields.get("queue", 0)
    ours = [(0x8000 >> bit, fields[name]) for bit, name in enumerate(DOMAIN_FIELDS) if name in fields]
    inner = b"" if key is None or key.ip_version not in INNER else _inner(fields, key)
    kind = INNER[key.ip_version] if inner and key else INNER_NONE
    bits = TRACKED | (DROPPED if report.drops or report.loss_drops else 0)
    bits |= CONGESTED if fields["flags"] & FLAG_CE_MARKED else 0
    # Each row of 2^sample_shift departures has one report.
    number = ((fields["sequence"] - 1) % (1 << 32) >> fields["sample_shift"]) + 1 & SEQUENCE
    group = struct.pack("!II", VERSION << 28 | bottleneck << 22 | number, node)
    metadata = BASELINE_WORDS + len(ours)
    words = FIXED_WORDS + metadata + len(inner) // 4
    present = sum(bit for bit, _ in ours)
    head = struct.pack("!BBBBHHHH", INT << 4 | kind, words, metadata, bits, BASELINE, DOMAIN, present, 0)
    latency = report.left_ns - report.arrived_ns
    found = round(fields["enqueue_depth"] * depth_unit_bytes)
    baseline = struct.pack(
        "!IIQQ",
        latency if latency < ABSENT else ABSENT,
        queue << 24 | found if found < OCCUPANCY and queue <= QUEUE else ABSENT,
        since_ns + report.arrived_ns,
        since_ns + report.left_ns,
    )
    return group + head + baseline + struct.pack(f"!{len(ours)}I", *(value for _, value in ours)) + inner


def _inner(fields: dict[str, int], key: FlowKey) -> bytes:
    tcp = Tcp(*(fields[f"tcp_{name}"] for name in ("seq", "ack", "flags", "tsval", "tsecr")))
    return headers(key, fields["packet_length"], fields["payload_length"], fields["ecn"], tcp)[ETHERNET:]


def send_postcards(run: Run, host: str, port: int, node: int) -> Sent:
    """Send every report of the run as a postcard.

    Raises:
        AnalysisError: it is not an address, there is no listener, or the telemetry is damaged.
    """
    keys, since_ns, sent = flow_keys(run), start_ns(run), Sent()
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as connection:
            connection.connect(address)
            for report in raw_reports(run):
                fields = report.fields
                key = keys.get((fields["bottleneck"], fields["flow"], fields["signature"]))
                connection.send(postcard(report, key, node, since_ns, run.depth_unit_bytes))
                sent.postcards += 1
                sent.dropped += bool(report.drops or report.loss_drops)
                sent.drops += report.drops
    except OSError as error:
        raise AnalysisError(f"{host}:{port}: {error.strerror or error}") from None
    return sent
