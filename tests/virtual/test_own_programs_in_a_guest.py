# SPDX-License-Identifier: Apache-2.0
"""The example of a user's own P4 program, with real TCP: what it decides is what is measured."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from narrows_formats.file_digest import file_digest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
# What the example's entries say of its queue, in ns.
TARGET, INTERVAL = 5_000_000, 50_000_000
MANAGEMENT = 2


@pytest.mark.long
def test_drops_are_those_that_the_program_decides(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (EXAMPLE / "cubic-and-bbr.yaml").read_text()
    assert start(tmp_path, text.replace("20s", "5s")).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    assert record["losses_elsewhere"] == []
    assert record["links"][0]["drops_recorded"]
    assert record["switch"]["program"] == {
        path.name: file_digest(path) for path in (*sorted((EXAMPLE / "compiled").iterdir()), EXAMPLE / "entries.json")
    }

    drops = pq.read_table(tmp_path / "out" / "telemetry" / "drops.parquet").sort_by("timestamp").to_pylist()
    decided = [drop for drop in drops if drop["cause"] == MANAGEMENT]
    # One flow or the other is above the target most of the time: five seconds have room for 100 drops.
    assert 20 < len(decided) <= 100
    # The program counts whole microseconds.
    assert all(drop["waited"] > TARGET - 1_000 for drop in decided)
    assert all(later["timestamp"] - drop["timestamp"] > INTERVAL - 1_000 for drop, later in pairwise(decided))

    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {flow["cca"] for flow in summary["flows"]} == {"cubic", "bbr"}
    assert sum(flow["drops"] for flow in summary["flows"]) == summary["bottleneck"]["drops"] == len(drops)
    # A buffer of 8 BDP would be 160 ms; what is dropped at departure costs the link no time.
    assert summary["bottleneck"]["queue_delay_s"]["p50"] < 0.08
    assert summary["bottleneck"]["utilization"] > 0.9
    # All hosts' packets are those of TCP, in both directions of the handshake.
    assert all(flow["goodput_bps"] > 0 for flow in summary["flows"])
