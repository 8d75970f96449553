# SPDX-License-Identifier: Apache-2.0
"""A run in other programs' formats: values as the truth and summary.json have them, read by independent readers."""

from __future__ import annotations

import csv
import json
import re
import shutil
import socket
import struct
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows.cli import app
from narrows_analysis import analyze_run, load
from narrows_analysis.records.reports import FLAG_CE_MARKED
from narrows_formats import registers
from narrows_formats.columns import NUMBER, START
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader
from typer.testing import CliRunner

Competition = tuple[Path, synthetic.Truth, Any]
STARTED_NS = 1_767_323_045 * synthetic.NS  # 2026-01-02T03:04:05Z


def _export(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["export", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def _packets(path: Path) -> list[tuple[int, int, bytes, int, str]]:
    """Interface, time (ns), frame, length and comment of each packet, as scapy reads them; it dissects slowly."""
    found = []
    with RawPcapNgReader(str(path)) as reader:
        names: dict[bytes, int] = {}
        packets: Any = reader
        for data, meta in packets:
            time_ns = ((meta.tshigh << 32) + meta.tslow) * synthetic.NS // meta.tsresol
            number = names.setdefault(meta.ifname, len(names))
            comment = b"; ".join(getattr(meta, "comments", None) or [getattr(meta, "comment", None) or b""]).decode()
            found.append((number, time_ns, data, meta.wirelen, comment))
        assert list(names) == [b"bottleneck in", b"bottleneck out"]
    return found


@pytest.fixture(scope="module")
def packets(
    competition: Competition, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, int, bytes, int, str]]:
    path = tmp_path_factory.mktemp("export") / "run.pcapng"
    _export(competition[0], "--pcapng", path)
    return _packets(path)


@pytest.mark.long
def test_every_packet_stands_in_front_of_the_queue_and_behind_it(competition: Competition, packets: Any) -> None:
    _, truth, summary = competition
    rows = truth.rows
    behind = [one for one in packets if one[0] == 1]
    before = [one for one in packets if one[0] == 0]
    assert len(before) == len(behind) == sum(truth.departures)
    assert sum(one[3] for one in behind) == sum(truth.l2_bytes)
    left = rows["timestamp"] - 123_456_789_000 + STARTED_NS
    assert [one[1] for one in behind] == left.tolist()
    assert [one[1] for one in before] == (left - truth.delays_ns).tolist()
    times = [one[1] for one in packets]
    assert times == sorted(times)
    frames = [Ether(one[2]) for one in behind]
    assert [frame[TCP].seq for frame in frames] == rows["tcp_seq"].tolist()
    assert Counter((frame[IP].src, frame[TCP].sport) for frame in frames) == {
        ("10.0.0.1", 40000): truth.departures[0], ("10.0.1.1", 40001): truth.departures[1]
    }  # fmt: skip
    assert [flow["departures"] for flow in summary["flows"]] == truth.departures


def test_times_of_day_are_those_of_traffic_and_not_of_the_setting_up(tmp_path: Path) -> None:
    """So that a capture of a host, merged with it, has the same packets at the same times."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.0))
    began_ns = STARTED_NS + 2_345_678_901
    record = json.loads((tmp_path / "run" / "run.json").read_text()) | {"clock_origin_unix_ns": began_ns}
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    analyze_run(tmp_path / "run")
    _export(tmp_path / "run", "--pcapng", tmp_path / "run.pcapng")
    left = [one[1] for one in _packets(tmp_path / "run.pcapng") if one[0] == 1]
    assert left == (truth.rows["timestamp"] - record["clock_origin_ns"] + began_ns).tolist()


def test_drops_of_the_comments_are_those_of_the_summary(competition: Competition, packets: Any) -> None:
    _, truth, summary = competition
    drops: Counter[str] = Counter()
    for interface, _, frame, _, comment in packets:
        if found := re.search(r"(\d+) dropped by the queue before it", comment):
            assert interface == 0
            drops[Ether(frame)[IP].src] += int(found[1])
    assert sum(truth.drops) > 0
    # What was dropped after a flow's last report is in no report: at most that, and the summary's own count is equal.
    assert drops == {f"10.0.{number}.1": flow["drops"] for number, flow in enumerate(summary["flows"])}


def test_csv_has_watched_registers(tmp_path: Path) -> None:
    """Values of 64 bits are whole ones."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.0))
    analyze_run(tmp_path / "run")
    cells = [(0.0, "a[0]", 0), (0.1, "a[0]", (1 << 64) - 1)]
    registers.write(cells, tmp_path / "run" / "telemetry" / "registers.parquet")
    out = tmp_path / "tables"
    assert "registers.csv" in _export(tmp_path / "run", "--csv", out)
    assert (out / "registers.csv").read_text() == "time_s,register,value\n0,a[0],0\n0.1,a[0],18446744073709551615\n"
    columns = pd.read_csv(out / "columns.csv")
    assert columns[columns.table == "registers.csv"].column.tolist() == ["time_s", "register", "value"]


def test_drops_and_marks_of_a_users_program_are_not_said_to_be_the_queues(tmp_path: Path) -> None:
    """Reports count all drops of a link together: they are the program's or the queue's; only the program marks."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.0))
    path = tmp_path / "run" / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"bottleneck": record["bottleneck"] | {"scheduling": "strict"}}))
    rows = {**truth.rows, "flags": truth.rows["flags"] | FLAG_CE_MARKED, "ecn": np.full(len(truth.rows["ecn"]), 3)}
    for file in (tmp_path / "run" / "telemetry").glob("reports-*.parquet"):
        file.unlink()
    synthetic.write_reports(tmp_path / "run" / "telemetry" / "reports-00000.parquet", rows)
    analyze_run(tmp_path / "run")
    _export(tmp_path / "run", "--pcapng", tmp_path / "run.pcapng")
    comments = Counter(re.sub(r"\d+", "N", comment) for *_, comment in _packets(tmp_path / "run.pcapng") if comment)
    assert comments.keys() == {"N dropped by the queue or the program before it", "the program marked it CE"}
    assert comments["the program marked it CE"] == len(rows["flags"])


def test_headers_are_whole(competition: Competition, packets: Any) -> None:
    """Lengths and the checksum of IP fit, and the timestamps option is the packet's own."""
    tsval = competition[1].rows["tcp_tsval"]
    behind = [one for one in packets if one[0] == 1][100:200]
    for number, (_, _, data, length, _) in enumerate(behind, 100):
        frame = Ether(data)
        ip = frame[IP]
        assert 14 + ip.len == length
        assert ip.len - ip.ihl * 4 - frame[TCP].dataofs * 4 == 1448
        assert dict(option for option in frame[TCP].options if option[0] == "Timestamp") == {
            "Timestamp": (tsval[number], 0)
        }
        given, ip.chksum = ip.chksum, None
        assert IP(bytes(ip)).chksum == given


def test_an_address_of_several_flows_has_the_name_of_their_group(tmp_path: Path) -> None:
    """And a text that is not an IP address has none. Blocks of type 4, as draft-ietf-opsawg-pcapng has them."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.0))
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    first = record["flows"][0]
    record["flows"] += [first | {"src_port": 40002}, first | {"src": "2001:db8::1"}, first | {"src": "afar"}]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    _export(tmp_path / "run", "--pcapng", tmp_path / "run.pcapng")
    data, at, found = (tmp_path / "run.pcapng").read_bytes(), 0, b""
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        found += data[at + 8 : at + size - 4] if kind == 4 else b""
        at += size
    ipv4 = b"\x01\x00\x08\x00\x0a\x00\x00\x01bbr\0", b"\x01\x00\x0c\x00\x0a\x00\x01\x01cubic-1\0"
    ipv6 = b"\x02\x00\x16\x00" + bytes.fromhex("20010db8" + "00" * 11 + "01") + b"bbr-3\0\0\0"
    assert found == b"".join((*ipv4, ipv6, bytes(4)))


def test_loss_emulation_is_named_apart(tmp_path: Path) -> None:
    senders = [synthetic.Sender("cubic", "cubic", duration_s=4.0)]
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders, loss=0.02))
    output = _export(tmp_path / "run", "--pcapng", tmp_path / "run.pcapng")
    shown = int(truth.rows["loss_drops"][-1])
    assert shown > 0
    assert f" {shown} by loss emulation" in output


def test_packets_that_overtake_others_are_in_order_of_arrival(tmp_path: Path) -> None:
    """As where a link has several queues: those of the second flow wait a tenth of the time of the first one's."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0), files=1)
    rows = {**truth.rows, "queue_delay": np.where(truth.rows["flow"] == 1007, truth.delays_ns // 10, truth.delays_ns)}
    arrived = rows["timestamp"] - rows["queue_delay"]
    assert (np.diff(arrived) < 0).any()
    synthetic.write_reports(tmp_path / "run" / "telemetry" / "reports-00000.parquet", rows)
    _export(tmp_path / "run", "--pcapng", tmp_path / "run.pcapng")
    packets = _packets(tmp_path / "run.pcapng")
    times = [one[1] for one in packets]
    assert times == sorted(times)
    assert [one[1] for one in packets if one[0] == 0] == sorted(arrived - 123_456_789_000 + STARTED_NS)


def test_csv_has_every_table_and_what_its_columns_mean(competition: Competition, tmp_path: Path) -> None:
    run_dir, truth, summary = competition
    out = tmp_path / "tables"
    _export(run_dir, "--csv", out)
    flows = pd.read_csv(out / "flows.csv")
    for flow in summary["flows"]:
        mine = flows[flows["name"] == flow["name"]]
        assert mine["departures"].sum() == flow["departures"]
        assert mine["drops"].sum() == flow["drops"]
    reports = pd.read_csv(out / "reports.csv")
    assert len(reports) == sum(truth.departures)
    np.testing.assert_allclose(reports["queue_delay_s"], truth.delays_ns / 1e9)
    with (out / "columns.csv").open() as file:
        meanings = {(row["table"], row["column"]): row["meaning"] for row in csv.DictReader(file)}
    assert all(meanings.values())
    for path in out.glob("*.csv"):
        if path.name != "columns.csv":
            assert {(path.name, column) for column in pd.read_csv(path, nrows=1).columns} <= set(meanings)
    assert not (out / "registers.csv").exists()
    # Tables have the same names for different things.
    starts = {table: meanings[f"{table}.csv", "time_s"] for table in ("flows", "queue", "sockets", "reports")}
    assert starts["flows"] == starts["queue"] == START and len(set(starts.values())) == 3
    assert meanings["flows.csv", "flow"].startswith(NUMBER) and meanings["reports.csv", "flow"].startswith(NUMBER)
    assert meanings["flow_keys.csv", "flow"] == meanings["reports.csv", "flow_index"]


def test_csv_has_all_digits(competition: Competition, tmp_path: Path) -> None:
    run_dir, _, summary = competition
    _export(run_dir, "--csv", tmp_path / "tables")
    rows = pd.read_csv(tmp_path / "tables" / "summary.csv")
    goodputs = [flow["goodput_bps"] / 1e6 for flow in summary["flows"]]
    np.testing.assert_allclose(rows["goodput Mbit/s"], goodputs, rtol=1e-12)
    assert list(rows["drops"]) == [flow["drops"] for flow in summary["flows"]]


def test_arrow_by_file_and_over_a_socket(competition: Competition, tmp_path: Path) -> None:
    run_dir, truth, _ = competition
    _export(run_dir, "--arrow", tmp_path / "run.arrows")
    with pa.OSFile(str(tmp_path / "run.arrows")) as file:
        from_file = pa.ipc.open_stream(file).read_all()
    received: list[pa.Table] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def listen() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                received.append(pa.ipc.open_stream(stream).read_all())

        listener = threading.Thread(target=listen)
        listener.start()
        _export(run_dir, "--arrow", f"127.0.0.1:{server.getsockname()[1]}")
        listener.join(30)
    assert received[0].equals(from_file)
    assert from_file.num_rows == sum(truth.departures)
    assert from_file.schema.field("queue_delay_s").metadata == {b"unit": b"s"}
    assert from_file["sequence"].to_pylist() == truth.rows["sequence"].tolist()


def test_what_cannot_be_done_is_refused(competition: Competition, tmp_path: Path) -> None:
    run_dir = competition[0]
    there = tmp_path / "there.pcapng"
    there.write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for arguments, expected in (
        ([run_dir], "--csv DIRECTORY"),
        ([run_dir, "--pcapng", there], "exists already"),
        ([run_dir, "--arrow", f"127.0.0.1:{port}"], "Connection refused"),
        ([tmp_path, "--csv", tmp_path / "csv"], "run.json"),
    ):
        result = CliRunner().invoke(app, ["export", *map(str, arguments)])
        assert result.exception is not None
        assert expected in str(result.exception)
    assert there.read_text() == "kept"
    # Damaged halfway: nothing stays.
    shutil.copytree(run_dir, tmp_path / "run")
    (tmp_path / "run" / "telemetry" / "flow_keys.parquet").unlink()
    result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--pcapng", str(tmp_path / "new.pcapng")])
    assert "flow_keys.parquet" in str(result.exception)
    assert not list(tmp_path.glob("new.pcapng*"))


@pytest.mark.parametrize(("flags", "before"), [(0x01, 2), (0x01 | 1 << 3, 1), (0x01 | 2 << 3, 2)])
def test_a_marked_packet_came_as_its_report_says(tmp_path: Path, flags: int, before: int) -> None:
    """L4S packets carry ECT(1) (RFC 9331). Reports of version 1 have no ECN field of the arrival."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5))
    for file in (tmp_path / "run" / "telemetry").glob("reports-*.parquet"):
        rows = pd.read_parquet(file).assign(flags=flags, ecn=3)
        synthetic.write_reports(file, {name: rows[name].to_numpy() for name in synthetic.REPORT_TYPES})
    _export(tmp_path / "run", "--pcapng", tmp_path / "run.pcapng")
    found = {(interface, frame[15] & 3) for interface, _, frame, _, _ in _packets(tmp_path / "run.pcapng")}
    assert found == {(0, before), (1, 3)}


def test_a_flow_without_its_key_is_left_out_and_counted(tmp_path: Path) -> None:
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))
    keys = tmp_path / "run" / "telemetry" / "flow_keys.parquet"
    pq.write_table(pq.read_table(keys).slice(0, 1), keys)
    output = _export(tmp_path / "run", "--pcapng", tmp_path / "run.pcapng")
    assert f": {truth.departures[0]} packets;" in output
    assert f"{truth.departures[1]} packets of flows without addresses" in output


def test_a_run_that_is_not_analysed_says_so(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--csv", str(tmp_path / "csv")])
    assert result.exception is not None
    assert not (tmp_path / "csv").exists()
    analyze_run(tmp_path / "run")
    _export(tmp_path / "run", "--csv", tmp_path / "csv")
    assert len(load(tmp_path / "run").table) == len(pd.read_csv(tmp_path / "csv" / "summary.csv"))
