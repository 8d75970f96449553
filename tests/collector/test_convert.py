# SPDX-License-Identifier: Apache-2.0
"""Captures to Parquet, read back with pyarrow and compared with the frames themselves."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from subprocess import PIPE

import pyarrow.parquet as pq
import pytest
from helpers import BINARY, account, collector, pcap_frames
from narrows_formats.columns import telemetry_columns
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

pytestmark = pytest.mark.needs("narrows-collector")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / "trace.pcap"
    truth = path.with_suffix(".json")
    result = collector("generate", path, "--reports", "50000", "--mixed-headers", "--flows", "8", "--truth", truth)
    assert result.returncode == 0, result.stderr
    return path


def test_every_column_equals_the_bytes_on_the_wire(capture: Path, tmp_path: Path) -> None:
    assert collector("convert", capture, "--out", tmp_path / "t").returncode == 0
    table = pq.read_table(tmp_path / "t" / "reports-00000.parquet").to_pandas()
    frames = list(pcap_frames(capture))
    assert len(table) == len(frames) == 50000
    offsets = {
        "flags": (1, 1), "bottleneck": (2, 1), "sample_shift": (3, 1), "flow": (4, 2), "packet_length": (6, 2),
        "signature": (8, 4), "sequence": (12, 4), "arrivals": (16, 4), "departures": (20, 4), "loss_drops": (24, 4),
        "aqm_drops": (28, 4), "enqueue_depth": (32, 4), "dequeue_depth": (36, 4), "queue_delay": (40, 6),
        "epoch": (46, 2), "timestamp": (48, 6), "queue": (54, 2),
    }  # fmt: skip
    for row in range(0, 50000, 997):
        report = frames[row][42:]
        for name, (offset, width) in offsets.items():
            assert table[name][row] == int.from_bytes(report[offset : offset + width], "big"), name
        ethernet = report[56:]
        tags = sum(ethernet[12 + 4 * i : 14 + 4 * i] in (b"\x81\x00", b"\x88\xa8") for i in range(2))
        ip = ethernet[14 + 4 * tags :]
        version = ip[0] >> 4
        transport = ip[20:] if version == 4 else ip[40:]
        protocol = ip[9] if version == 4 else ip[6]
        length = int.from_bytes(ip[2:4], "big") - 20 if version == 4 else int.from_bytes(ip[4:6], "big")
        assert table["ip_version"][row] == version
        assert table["protocol"][row] == protocol
        if protocol == 6:
            assert table["tcp_seq"][row] == int.from_bytes(transport[4:8], "big")
            assert table["tcp_flags"][row] == transport[13]
            assert table["payload_length"][row] == length - 32
            # With two VLAN tags or IPv6 behind one, the option no longer fits in the report.
            full = len(transport) >= 32
            assert table["tcp_tsval"][row] == (int.from_bytes(transport[24:28], "big") if full else 0)
        else:
            assert table["payload_length"][row] == length - 8


def test_flow_keys_and_account(capture: Path, tmp_path: Path) -> None:
    assert collector("convert", capture, "--out", tmp_path / "t").returncode == 0
    keys = pq.read_table(tmp_path / "t" / "flow_keys.parquet").to_pandas()
    truth = json.loads(capture.with_suffix(".json").read_text())["bottlenecks"][0]["flows"]
    expected = sorted((flow["flow"], flow["signature"], flow["first_timestamp"]) for flow in truth)
    assert list(zip(keys["flow"], keys["signature"], keys["first_timestamp"], strict=True)) == expected
    assert set(keys["dst_port"]) == {5201}
    assert all((keys["ip_version"] == 6) == keys["src"].str.startswith("fd01:"))
    result = account(tmp_path / "t")
    assert (result["stop_reason"], result["rows"], result["flows"], result["error"]) == ("end_of_file", 50000, 8, None)
    assert result["bottlenecks"]["0"]["last_sequence"] == 50000


@pytest.mark.parametrize(("file", "table"), [("reports-00000.parquet", "reports"), ("flow_keys.parquet", "flow_keys")])
def test_a_file_says_what_its_columns_are(capture: Path, tmp_path: Path, file: str, table: str) -> None:
    """By the table of which the documentation is made, which has all columns in their order."""
    assert collector("convert", capture, "--out", tmp_path / "t").returncode == 0
    schema = pq.read_schema(tmp_path / "t" / file)
    types = {"uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "string": "text"}
    described = json.loads(schema.metadata[b"columns"])
    assert [(field.name, types[str(field.type)]) for field in schema] == [
        (name, column["type"]) for name, column in described.items()
    ]
    assert [(name, column["unit"], column["meaning"]) for name, column in described.items()] == [
        (column.name, column.unit, column.meaning) for column in telemetry_columns(table)
    ]
    assert schema.metadata[b"narrows_schema"] == b"2"


def test_rotation_keeps_every_row_in_order(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "t"
    result = collector("convert", capture, "--out", out, "--rotate-rows", "16384", "--row-group", "4096")
    assert result.returncode == 0
    files = sorted(out.glob("reports-*.parquet"))
    assert len(files) == account(out)["files"] == 4
    sequence = [value for file in files for value in pq.read_table(file)["sequence"].to_pylist()]
    assert sequence == list(range(1, 50001))
    assert not list(out.glob("*.partial"))


def test_a_file_has_as_many_rows_as_are_asked_for(capture: Path, tmp_path: Path) -> None:
    """Rows reach the writer 16,384 at a time."""
    assert collector("convert", capture, "--out", tmp_path / "t", "--rotate-rows", "3000").returncode == 0
    files = sorted((tmp_path / "t").glob("reports-*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [3000] * 16 + [2000]
    sequence = [value for file in files for value in pq.read_table(file)["sequence"].to_pylist()]
    assert sequence == list(range(1, 50001))
    assert account(tmp_path / "t")["files"] == 17


def test_telemetry_and_capture_aggregate_alike(capture: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    collector("convert", capture, "--out", run / "telemetry", "--rotate-rows", "20000")
    (run / "run.json").write_text(json.dumps({"target_profile": {"time_unit_s": 1e-9}}))
    for source, out in ((capture, "from_capture"), (run, "from_run")):
        result = collector("aggregate", source, "--out", tmp_path / out, "--interval", "1ms")
        assert result.returncode == 0, result.stderr
    for name in ("flow_series", "bottleneck_series", "flow_totals", "histograms", "envelope"):
        tables = [pq.read_table(tmp_path / out / f"{name}.parquet") for out in ("from_capture", "from_run")]
        assert tables[0].equals(tables[1]), name
        assert tables[0].schema.metadata[b"interval_units"] == b"1000000"


def test_the_time_unit_of_the_run_is_used(capture: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    collector("convert", capture, "--out", run / "telemetry")
    (run / "run.json").write_text(json.dumps({"target_profile": {"time_unit_s": 1e-6}}))
    assert collector("aggregate", run, "--out", tmp_path / "a", "--interval", "1ms").returncode == 0
    assert json.loads((tmp_path / "a" / "aggregate.json").read_text())["interval_units"] == 1000


def test_a_second_run_into_the_same_directory_is_refused(capture: Path, tmp_path: Path) -> None:
    assert collector("convert", capture, "--out", tmp_path).returncode == 0
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    result = collector("convert", capture, "--out", tmp_path)
    assert result.returncode == 2
    assert "already holds telemetry" in result.stderr
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("is_there", [False, True])
def test_a_capture_of_int_is_named_and_leaves_nothing(capture: Path, tmp_path: Path, is_there: bool) -> None:
    # The first word of a Telemetry Report 2.0's group header: version 2, hardware 0, sequence number 1.
    payload = (2 << 28 | 1).to_bytes(4, "big") + bytes(60)
    wrpcap(str(tmp_path / "int.pcap"), Ether() / IP() / UDP(dport=5500) / payload)
    out = tmp_path / "out"
    if is_there:
        out.mkdir()
    result = collector("convert", tmp_path / "int.pcap", "--out", out)
    assert result.returncode == 2
    assert "no reports to UDP port 5500 (1 frames, 1 of them bad reports; they begin with version 32" in result.stderr
    assert out.exists() == is_there and not list(tmp_path.glob("out/*"))
    assert collector("convert", capture, "--out", out).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--interval", "10"], "a unit is missing"),
        (["--interval", "10parsec"], "allowed are ns, us, ms and s"),
        (["--interval", "-1s"], "must be positive"),
        (["--interval", "0.5ns"], "not a whole number"),
        (["--interval", "1ms", "--port", "5501"], "no reports to UDP port 5501"),
    ],
)
def test_wrong_arguments_are_named(capture: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = collector("aggregate", capture, "--out", tmp_path / "a", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not list((tmp_path / "a").glob("*")) if (tmp_path / "a").exists() else True


@pytest.mark.needs("root", "unshare", "mount")
def test_a_full_disk_loses_nothing_that_was_stored(tmp_path: Path) -> None:
    capture = tmp_path / "trace.pcap"
    collector("generate", capture, "--reports", "400000")
    (tmp_path / "disk").mkdir()
    script = f"""
        mount -t tmpfs -o size=6m tmpfs {tmp_path}/disk || exit
        {BINARY} convert {capture} --out {tmp_path}/disk/t --row-group 16384 --rotate-rows 60000
        code=$?
        cp -r {tmp_path}/disk/t {tmp_path}/kept
        exit $code
    """
    result = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert "no space left" in result.stderr
    kept = tmp_path / "kept"
    files = sorted(kept.glob("reports-*.parquet"))
    sequence = [value for file in files for value in pq.read_table(file)["sequence"].to_pylist()]
    assert len(sequence) > 60000
    assert sequence == list(range(1, len(sequence) + 1))
    assert not list(kept.glob("*.partial"))
    result_account = account(kept)
    assert result_account["stop_reason"] == "disk_full"
    assert result_account["rows"] == len(sequence)
    assert result_account["rows"] + result_account["rows_not_stored"] == result_account["bottlenecks"]["0"]["reports"]


def test_what_comes_through_a_pipe_is_what_a_file_gives(capture: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([BINARY, "collect", "--pipe", pipe, "--out", tmp_path / "piped"], stdout=PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        data = capture.read_bytes()
        with pipe.open("wb") as file:
            # In pieces that end within records, and with a pause: it waits for more.
            for start in range(0, len(data), 999_999):
                file.write(data[start : start + 999_999])
                file.flush()
            time.sleep(0.1)
        process.terminate()
        assert process.wait(60) == 0
    assert collector("convert", capture, "--out", tmp_path / "converted").returncode == 0
    piped, converted = (pq.read_table(tmp_path / name / "reports-00000.parquet") for name in ("piped", "converted"))
    assert piped.equals(converted) and piped.num_rows == 50000
    assert account(tmp_path / "piped")["stop_reason"] == "signal"


def test_a_file_is_no_pipe(capture: Path, tmp_path: Path) -> None:
    result = collector("collect", "--pipe", capture, "--out", tmp_path / "t")
    assert (result.returncode, result.stderr) == (2, f"error: {capture}: it is not a pipe\n")
    result = collector("collect", "--out", tmp_path / "t")
    assert result.returncode == 2 and "--interface" in result.stderr
