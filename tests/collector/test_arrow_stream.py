# SPDX-License-Identifier: Apache-2.0
"""The collector's Arrow stream while reports come in, against the file of the same rows."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import BINARY, ROOT, account, collector

REPORTS = 50_000


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of reports, and a pipe beside it."""
    path = tmp_path / "trace.pcap"
    assert collector("generate", "--reports", str(REPORTS), path).returncode == 0
    os.mkfifo(tmp_path / "pipe")
    return path


def _collect(capture: Path, server: socket.socket) -> subprocess.Popen[str]:
    directory = capture.parent
    address = f"127.0.0.1:{server.getsockname()[1]}"
    files = ("--pipe", str(directory / "pipe"), "--out", str(directory / "out"))
    command = [str(BINARY), "collect", *files, "--arrow", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_the_stream_is_the_file(capture: Path, tmp_path: Path) -> None:
    batches: list[pa.RecordBatch] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        first = threading.Event()

        def listen() -> None:
            connection, _ = server.accept()
            with connection, pa.ipc.open_stream(connection.makefile("rb")) as stream:
                for batch in stream:
                    batches.append(batch)
                    first.set()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        with _collect(capture, server) as process:
            (tmp_path / "pipe").write_bytes(capture.read_bytes())
            assert first.wait(20), "nothing comes before the collector ends"
            process.terminate()
            assert process.wait(60) == 0
            assert process.stderr is not None
            assert f"Arrow stream: {REPORTS} reports, 0 left out" in process.stderr.read()
        thread.join(20)
    streamed = pa.Table.from_batches(batches)
    stored = pq.read_table(tmp_path / "out" / "reports-00000.parquet")
    assert streamed.num_rows == REPORTS
    assert streamed.schema.names == stored.schema.names
    assert all(streamed[name].to_pylist() == stored[name].to_pylist() for name in stored.schema.names)
    described = json.loads((ROOT / "analysis/narrows_formats/reports.columns.json").read_text())
    assert {field.name: field.metadata[b"unit"].decode() for field in streamed.schema} == {
        name: described[name]["unit"] for name in streamed.schema.names
    }


def test_the_file_is_complete_when_asked_for(capture: Path, tmp_path: Path) -> None:
    """While the collector goes on: what a line says of the file is a stream of all that came, and no more than that."""
    file = tmp_path / "reports.arrows"
    arguments = ("--pipe", str(tmp_path / "pipe"), "--out", str(tmp_path / "out"), "--arrow-file", str(file))
    with subprocess.Popen([str(BINARY), "collect", *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline().startswith("0 reports in ")
        (tmp_path / "pipe").write_bytes(capture.read_bytes())
        process.send_signal(signal.SIGUSR1)
        said = process.stdout.readline().split()
        assert said[:3] == [str(REPORTS), "reports", "in"] and file.stat().st_size == int(said[3])
        streamed = pa.ipc.open_stream(file.read_bytes()).read_all()
        process.terminate()
        assert process.wait(60) == 0
    stored = pq.read_table(tmp_path / "out" / "reports-00000.parquet")
    assert streamed.num_rows == REPORTS and streamed.schema.names == stored.schema.names
    assert all(streamed[name].to_pylist() == stored[name].to_pylist() for name in stored.schema.names)
    again = collector("collect", *arguments[:3], tmp_path / "other", *arguments[4:])
    assert again.returncode == 2 and "File exists" in again.stderr


def test_a_receiver_that_goes_away_costs_no_report(capture: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = _collect(capture, server)
        server.accept()[0].close()
    with process:
        (tmp_path / "pipe").write_bytes(capture.read_bytes())
        process.terminate()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "Arrow stream: ended early" in process.stderr.read()
    assert account(tmp_path / "out")["rows"] == REPORTS


def test_an_address_without_a_listener_is_an_error(capture: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    result = collector("collect", "--pipe", tmp_path / "pipe", "--out", tmp_path / "out", "--arrow", address)
    assert result.returncode == 2
    assert f"--arrow {address}: Connection refused" in result.stderr
    assert not (tmp_path / "out").exists()
