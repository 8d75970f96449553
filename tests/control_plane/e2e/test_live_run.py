# SPDX-License-Identifier: Apache-2.0
"""The live view of real runs, and that nothing of it stays. Needs root and the built binaries."""

from __future__ import annotations

import json
import re
import signal
import socket
import statistics
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import EXIT_INTERRUPTED, EXIT_OK
from test_run import RATE_BPS, Running, pytestmark, write

__all__ = ["pytestmark"]
FLOWS: list[dict[str, Any]] = [{"cca": "cubic", "count": 2, "duration": "7s"}, {"cca": "reno", "duration": "7s"}]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def events(page: str) -> list[dict[str, Any]]:
    """Everything that the page receives, to the end."""
    with urllib.request.urlopen(f"{page}events", timeout=60) as stream:
        return [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]


def is_closed(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.long
@pytest.mark.parametrize("version", [4, 6])
def test_the_page_follows_a_run(tmp_path: Path, version: int) -> None:
    port = free_port()
    running = Running(write(tmp_path, flows=FLOWS, ip_version=version), tmp_path / "result", "--live-port", str(port))
    found = events(running.live_page())
    printed = running.finish(60)
    assert running.process.returncode == EXIT_OK, printed
    assert running.left_over() == [] and is_closed(port)
    assert f"live view: http://127.0.0.1:{port}/" in printed

    kinds = Counter(event["kind"] for event in found)
    assert kinds["run"] == kinds["end"] == 1
    snapshots = [event for event in found if event["kind"] == "snapshot"]
    steady = [snapshot for snapshot in snapshots if 2 < snapshot["time_s"] < 6.5]
    assert all(len(snapshot["links"]) == 1 for snapshot in snapshots)
    # A busy machine has some readings late, and with them the rates on either side of them.
    rates = [snapshot["links"][0]["rate_bps"] for snapshot in steady]
    assert len(rates) >= 3 and 0.8 * RATE_BPS < statistics.median(rates) < 1.05 * RATE_BPS, rates
    sums = [sum(flow["rate_bps"] for flow in snapshot["flows"]) for snapshot in steady]
    assert statistics.median(sums) == pytest.approx(statistics.median(rates), rel=0.1)
    assert all(abs(snapshot["time_s"] + snapshot["remaining_s"] - 7) < 0.01 for snapshot in steady)
    assert {flow["name"] for flow in steady[-1]["flows"] if flow["rate_bps"] > 0} == {"cubic-1", "cubic-2", "reno-1"}
    links = [snapshot["links"][0] for snapshot in snapshots]
    assert max(link["queue_bytes"] for link in links) <= links[0]["limit_bytes"]
    counts = [link["drops"] for link in links]
    assert counts == sorted(counts)
    run = json.loads((tmp_path / "result" / "run.json").read_text())
    assert run["drop_cross_check"]["bottleneck"]["holds"]
    assert 0 < counts[-1] <= run["drop_cross_check"]["bottleneck"]["port_drops"]
    # The queue was read just before its drops by flow.
    by_flow = sum(flow["drops"] for flow in snapshots[-1]["flows"])
    assert 0.9 * counts[-1] <= by_flow <= run["drop_cross_check"]["bottleneck"]["port_drops"]
    # The first snapshot from 5 s on makes the line; on a busy machine that one is late.
    assert re.search(r"\b[5-7] s: .*\bcubic-1\b.* s left", printed), printed


@pytest.mark.long
def test_marks_are_those_of_the_reports_so_far(tmp_path: Path) -> None:
    port = free_port()
    link = {"rate": "10Mbit", "buffer": "4bdp", "rtt": "20ms", "ecn_threshold": "8packets"}
    flows = [{"cca": "cubic", "duration": "5s"}]
    running = Running(write(tmp_path, bottleneck=link, flows=flows), tmp_path / "result", "--live-port", str(port))
    found = events(running.live_page())
    printed = running.finish(60)
    assert running.process.returncode == EXIT_OK, printed
    shown = [event["links"][0]["ce_marks"] for event in found if event["kind"] == "snapshot"]
    marks = [count for count in shown if count is not None]
    total = json.loads((tmp_path / "result" / "summary.json").read_text())["bottleneck"]["ce_marks"]
    # Slow start alone passes the threshold, long before the last reading.
    assert marks == sorted(marks) and 0 < marks[-1] <= total


@pytest.mark.long
def test_an_interrupted_run_takes_the_page_with_it(tmp_path: Path) -> None:
    port = free_port()
    flows = [{"cca": "cubic", "duration": "60s"}]
    running = Running(write(tmp_path, flows=flows), tmp_path / "result", "--live-port", str(port))
    running.wait_for_traffic()
    reader = urllib.request.urlopen(f"{running.live_page()}events", timeout=60)
    running.process.send_signal(signal.SIGINT)
    printed = running.finish(60)
    assert running.process.returncode == EXIT_INTERRUPTED, printed
    assert b'"kind": "end"' in reader.read()
    reader.close()
    assert running.left_over() == [] and is_closed(port)
