# SPDX-License-Identifier: Apache-2.0
"""A capture with the reports of data and of acknowledgements: RTT and bytes in flight as they were made."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import line_rate
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from narrows_analysis import SourceSettings, analyze_source
from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

SWITCH = find_binary(SOFTSWITCH)
pytestmark = pytest.mark.needs(SOFTSWITCH, COLLECTOR)
PACKETS = 500
PAYLOAD = 1000
# From the switch to the receiver and back, and to the sender and back, in packets, of which one comes each millisecond.
RECEIVER, SENDER = 7, 3
BACK = 32
EARLIER_NS = 2_000_000


def frames(data: bool) -> list[Packet]:
    """One direction of a flow. Every packet is acknowledged, and every acknowledgement's timestamp echoed."""
    made: list[Packet] = []
    ports: dict[str, Any]
    fields: dict[str, Any]
    for number in range(PACKETS):
        mine, theirs = number + 1, number + 100_001
        if data:
            echo = max(theirs - RECEIVER - SENDER, 100_001)
            ip, ports = IP(src="10.0.0.1", dst="10.1.0.1"), {"sport": 40_000, "dport": 5201}
            fields = {"seq": 1 + number * PAYLOAD, "ack": 1, "options": [("Timestamp", (mine, echo))]}
            load = bytes(PAYLOAD)
        else:
            ip, ports = IP(src="10.1.0.1", dst="10.0.0.1"), {"sport": 5201, "dport": 40_000}
            fields = {"seq": 1, "ack": 1 + (number + 1) * PAYLOAD, "options": [("Timestamp", (theirs, mine))]}
            load = b""
        frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / TCP(flags="A", **ports, **fields) / load
        frame.time = (number + (0 if data else RECEIVER)) / 1000
        made.append(frame)
    return made


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Reports of both directions, as the switch sends them."""
    document = line_rate.configuration(1_000_000_000, 1_000_000, tmp_path / "data.pcap")
    there = document["entries"]
    back = [
        {**there[0], "match": {"ingress_port": 2}, "params": {"index": BACK, "port": 1, "queue": 0}},
        *({**entry, "match": {"bottleneck": BACK}} for entry in there[1:]),
    ]
    document["entries"] = [*there, *back]
    document["inputs"].append(
        {"port": 2, "pcap": str(tmp_path / "back.pcap"), "start_ns": 1_000 + RECEIVER * 1_000_000}
    )
    wrpcap(str(tmp_path / "data.pcap"), frames(data=True), nano=True)
    wrpcap(str(tmp_path / "back.pcap"), frames(data=False), nano=True)
    (tmp_path / "replay.json").write_text(json.dumps(document))
    command = [SWITCH, "replay", "--config", tmp_path / "replay.json", "--out", tmp_path / "replayed"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return tmp_path / "replayed" / "reports.pcap"


def test_rtt_and_bytes_in_flight_of_a_capture(capture: Path, tmp_path: Path) -> None:
    summary: Any = analyze_source(capture, tmp_path / "out", SourceSettings(bottleneck=0))
    (flow,) = summary["flows"]
    assert flow["rtt_source"] == "the switch (TCP timestamps of both directions)"
    # Times in captures written by floating point are whole to a few nanoseconds.
    expected = pytest.approx((RECEIVER + SENDER) / 1000, abs=1e-7)
    assert (flow["rtt_s"]["min"], flow["rtt_s"]["mean"]) == (expected, expected)
    assert flow["inflight_bytes"]["max"] in ((RECEIVER + SENDER) * PAYLOAD, (RECEIVER + SENDER + 1) * PAYLOAD)
    assert not [path.name for path in (tmp_path / "out").rglob(".*")], "what was made for it is removed"


def test_a_telemetry_directory_tells_the_same(capture: Path, tmp_path: Path) -> None:
    collector = find_binary(COLLECTOR)
    subprocess.run([str(collector), "convert", str(capture), "--out", str(tmp_path / "telemetry")], check=True)
    found = [
        analyze_source(source, tmp_path / f"out-{number}", SourceSettings(bottleneck=0))["flows"][0]
        for number, source in enumerate((capture, tmp_path / "telemetry"))
    ]
    for name in ("rtt_s", "inflight_bytes", "rtt_source"):
        assert found[0][name] == found[1][name], name


def test_acknowledgements_that_cross_several_links_are_taken_at_the_last(capture: Path, tmp_path: Path) -> None:
    """Those of all links together were groups that no queue had compressed, and RTTs of parts of two packets' ways."""
    telemetry = tmp_path / "telemetry"
    subprocess.run([str(find_binary(COLLECTOR)), "convert", str(capture), "--out", str(telemetry)], check=True)
    alone: Any = analyze_source(telemetry, tmp_path / "one-link", SourceSettings(bottleneck=0))["flows"][0]
    # A link before it, where each second acknowledgement waits until the next one comes, a millisecond later.
    for name in ("reports-00000.parquet", "flow_keys.parquet"):
        table = pq.read_table(telemetry / name)
        rows = [row for row in table.to_pylist() if row["bottleneck"] == BACK]
        before = [{**row, "bottleneck": BACK + 1, **_earlier(row)} for row in rows]
        both = pa.concat_tables([table, pa.Table.from_pylist(before, table.schema)])
        pq.write_table(both, telemetry / name, compression="lz4")
    found: Any = analyze_source(telemetry, tmp_path / "two-links", SourceSettings(bottleneck=0))["flows"][0]
    for name in ("rtt_s", "inflight_bytes", "ack_compression"):
        assert found[name] == alone[name], name
    assert found["ack_compression"] == 0


def _earlier(row: dict[str, Any]) -> dict[str, Any]:
    """A report, or a flow's key, of the link before."""
    if "timestamp" not in row:
        return {"first_timestamp": row["first_timestamp"] - EARLIER_NS}
    waited_ns = row["sequence"] % 2 * 1_000_000
    return {"timestamp": row["timestamp"] - EARLIER_NS + waited_ns, "queue_delay": waited_ns}
