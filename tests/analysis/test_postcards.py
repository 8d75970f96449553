# SPDX-License-Identifier: Apache-2.0
"""INT postcards, read by a decoder written from the Telemetry Report Format Specification 2.0."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
import synthetic
from narrows.cli import app
from narrows_formats.programs import COLLECTOR, find_binary
from scapy.fields import BitField, ByteField, IntField, ShortField, XShortField
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from typer.testing import CliRunner

Competition = tuple[Path, synthetic.Truth, Any]


class Group(Packet):
    """Telemetry Report Group Header."""

    name = "group"
    fields_desc: ClassVar = [
        BitField("ver", 0, 4), BitField("hw_id", 0, 6), BitField("sequence", 0, 22), IntField("node_id", 0)
    ]  # fmt: skip


class Individual(Packet):
    """Individual Report Header and the fixed part of RepType 1."""

    name = "individual"
    fields_desc: ClassVar = [
        BitField("rep_type", 0, 4), BitField("in_type", 0, 4), ByteField("report_length", 0), ByteField("md_length", 0),
        BitField("d", 0, 1), BitField("q", 0, 1), BitField("f", 0, 1), BitField("i", 0, 1), BitField("rsvd", 0, 4),
        XShortField("rep_md_bits", 0), XShortField("domain_id", 0), XShortField("ds_md_bits", 0),
        ShortField("ds_md_status", 0),
    ]  # fmt: skip


# Metadata of each bit of RepMdBits, bit 0 the most significant.
BASELINE = {
    1: [("ingress_port", 16), ("egress_port", 16)],
    2: [("hop_latency", 32)],
    3: [("queue", 8), ("occupancy", 24)],
    4: [("ingress_time", 64)],
    5: [("egress_time", 64)],
    6: [("ingress_interface", 32), ("egress_interface", 32)],
    7: [("utilization", 32)],
    8: [("buffer", 8), ("buffer_occupancy", 24)],
    15: [("drop_queue", 8), ("drop_reason", 8), ("padding", 16)],
}
# docs/export.md, of our domain.
DOMAIN = ("arrivals", "departures", "loss_drops", "sequence", "epoch", "aqm_drops")


def _decode(data: bytes) -> tuple[Group, Individual, dict[str, int], bytes]:
    """Headers, metadata by name and the truncated packet; every length is checked."""
    group = Group(data)
    report = Individual(bytes(group.payload))
    rest = bytes(report.payload)
    assert len(rest) == 4 * (report.report_length - 2), "Report Length counts all but the first word"
    metadata, inner = rest[: 4 * report.md_length], rest[4 * report.md_length :]
    layout = [field for bit, fields in BASELINE.items() if report.rep_md_bits & 0x8000 >> bit for field in fields]
    layout += [(name, 32) for bit, name in enumerate(DOMAIN) if report.ds_md_bits & 0x8000 >> bit]
    assert sum(width for _, width in layout) == 32 * report.md_length
    value, left, found = int.from_bytes(metadata), 32 * report.md_length, {}
    for name, width in layout:
        left -= width
        found[name] = value >> left & (1 << width) - 1
    return group, report, found, inner


def _received(run_dir: Path, expected: int) -> tuple[list[bytes], str]:
    received: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20)

        def listen() -> None:
            while len(received) < expected:
                received.append(listener.recv(2048))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        result = CliRunner().invoke(app, ["export", str(run_dir), "--int", address], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        thread.join(60)
    assert len(received) == expected
    return received, result.output


@pytest.mark.long
def test_every_field_of_every_postcard(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))
    rows, count = truth.rows, sum(truth.departures)
    received, output = _received(tmp_path / "run", count)
    assert f"{count} postcards" in output
    before: dict[int, int] = {}
    dropped = 0
    for number, data in enumerate(received):
        group, report, metadata, inner = _decode(data)
        row = {name: int(values[number]) for name, values in rows.items()}
        assert (group.ver, group.hw_id, group.node_id) == (2, 0, 1)
        assert group.sequence == row["sequence"] % (1 << 22)
        assert (report.rep_type, report.in_type, report.i, report.rsvd) == (1, 4, 0, 0)
        assert (report.f, report.q) == (1, 0)
        drops = row["arrivals"] - row["departures"]
        assert report.d == (drops > before.get(row["flow"], 0))
        dropped += drops - before.get(row["flow"], 0)
        before[row["flow"]] = drops
        left = row["timestamp"] - 123_456_789_000 + 1_767_323_045 * synthetic.NS
        assert metadata == {
            "hop_latency": row["queue_delay"], "queue": 0, "occupancy": row["enqueue_depth"],
            "ingress_time": left - row["queue_delay"], "egress_time": left,
            **{name: row[name] for name in DOMAIN if name in row},
        }  # fmt: skip
        packet = IP(inner)
        assert (packet.src, packet[TCP].seq) == (f"10.0.{(row['flow'] - 1000) // 7}.1", row["tcp_seq"])
    assert dropped == sum(int(rows["arrivals"][rows["flow"] == 1000 + 7 * n][-1]) - truth.departures[n] for n in (0, 1))
    assert f"{dropped} drops" in output


def test_what_does_not_fit_its_field_is_the_reserved_value(tmp_path: Path) -> None:
    from narrows_analysis.interchange.postcards import postcard
    from narrows_analysis.interchange.raw import Report

    fields = dict.fromkeys(synthetic.REPORT_TYPES, 0) | {"flags": 1, "bottleneck": 63, "sample_shift": 2,
                                                         "sequence": 0xFFFFFFFC}  # fmt: skip
    for depth, occupancy in ((0xFFFFFE, 0xFFFFFE), (0xFFFFFF, 0xFFFFFF), (1 << 26, 0xFFFFFF)):
        for latency, expected in ((0xFFFFFFFE, 0xFFFFFFFE), (1 << 33, 0xFFFFFFFF)):
            report = Report(fields | {"enqueue_depth": depth}, 5, 5 + latency, 0, 1)
            group, individual, metadata, inner = _decode(postcard(report, None, 7, 0, 1))
            assert (group.hw_id, group.node_id, group.sequence) == (63, 7, 0x3FFFFF)
            assert (individual.in_type, individual.d, individual.q, inner) == (0, 1, 1, b"")
            assert metadata["hop_latency"] == expected
            assert (metadata["queue"], metadata["occupancy"]) == (0 if depth < 0xFFFFFF else 255, occupancy)


def _portions(capture: bytes, records: int) -> Iterator[bytes]:
    """A little-endian pcap in portions of so many records; its header is part of the first."""
    begin, position, count = 0, 24, 0
    while position < len(capture):
        position += 16 + int.from_bytes(capture[position + 8 : position + 12], "little")
        count += 1
        if count % records == 0:
            yield capture[begin:position]
            begin = position


@pytest.mark.long
def test_the_collector_sends_one_for_every_report_as_it_comes(tmp_path: Path) -> None:
    binary = find_binary(COLLECTOR)
    assert binary is not None
    load = ("--rate-bps", "1000000000", "--buffer-bytes", "60000", "--ecn-threshold-bytes", "30000")
    options = ("--reports", "20000", "--flows", "9", "--loss-one-in", "50", *load)
    subprocess.run([binary, "generate", *options, str(tmp_path / "a.pcap")], check=True)
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        files = ("--pipe", str(tmp_path / "pipe"), "--out", str(tmp_path / "out"))
        units = ("--depth-unit-bytes", "2", "--empty-queue-delay", "100")
        command = [str(binary), "collect", *files, "--int", address, "--node-id", "7", *units]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline() == "ready\n"
            began = time.time_ns()
            received = []
            with (tmp_path / "pipe").open("wb") as pipe:
                # So many at a time as a socket's buffer holds.
                for records in _portions((tmp_path / "a.pcap").read_bytes(), 100):
                    pipe.write(records)
                    pipe.flush()
                    received += [listener.recv(2048) for _ in range(100)]
            process.terminate()
            assert process.wait(60) == 0
            assert "INT: 20000 postcards, 0 not sent" in process.stderr.read()
    rows = pq.read_table(tmp_path / "out" / "reports-00000.parquet").to_pylist()
    keys = {row["flow"]: row for row in pq.read_table(tmp_path / "out" / "flow_keys.parquet").to_pylist()}
    before: dict[int, tuple[int, int]] = {}
    clock, marked, with_drops = None, 0, 0
    for data, row in zip(received, rows, strict=True):
        group, report, metadata, inner = _decode(data)
        assert (group.ver, group.hw_id, group.node_id, group.sequence) == (2, 0, 7, row["sequence"] % (1 << 22))
        assert (report.rep_type, report.in_type, report.f, report.i) == (1, 3, 1, 0)
        drops = row["arrivals"] - row["departures"], row["loss_drops"]
        assert report.d == (drops != before.get(row["flow"], (0, 0)))
        before[row["flow"]] = drops
        assert report.q == row["flags"] & 1
        with_drops, marked = with_drops + report.d, marked + report.q
        # The first report left the switch when it came here.
        clock = metadata["egress_time"] - row["timestamp"] if clock is None else clock
        waited = max(row["queue_delay"] - 100, 0)
        assert metadata == {
            "hop_latency": waited, "queue": 0, "occupancy": 2 * row["enqueue_depth"],
            "ingress_time": clock + row["timestamp"] - waited, "egress_time": clock + row["timestamp"],
            **{name: row[name] for name in DOMAIN if name in row},
        }  # fmt: skip
        packet, key = Ether(inner), keys[row["flow"]]
        assert (packet[IP].src, packet[IP].sport, packet[IP].dst) == (key["src"], key["src_port"], key["dst"])
        if row["protocol"] == 6:
            assert packet[TCP].seq == row["tcp_seq"]
    assert with_drops > 100 and marked > 100
    assert clock is not None and began < clock + rows[0]["timestamp"] < began + 20 * 10**9


@pytest.mark.parametrize("text", ["nowhere", "127.0.0.1:0", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused(competition: Competition, text: str) -> None:
    result = CliRunner().invoke(app, ["export", str(competition[0]), "--int", text])
    assert result.exception is not None
    assert "HOST:PORT" in str(result.exception)


def test_a_queue_of_several_and_drops_by_queue_management_are_in_it() -> None:
    """Of reports that have them: which queue it was, and the last bit of the domain."""
    from narrows_analysis.interchange.postcards import postcard
    from narrows_analysis.interchange.raw import Report

    fields = dict.fromkeys(synthetic.REPORT_TYPES, 0) | {"aqm_drops": 5, "epoch": 3}
    for queue, shown in ((1, (1, 9)), (255, (255, 9)), (256, (255, 0xFFFFFF))):
        report = Report(fields | {"queue": queue, "enqueue_depth": 9}, 0, 0, 0, 0)
        _, individual, metadata, _ = _decode(postcard(report, None, 1, 0, 1))
        assert individual.ds_md_bits == 0xFC00
        assert (metadata["queue"], metadata["occupancy"]) == shown
        assert (metadata["aqm_drops"], metadata["epoch"]) == (5, 3)
