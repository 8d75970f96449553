# SPDX-License-Identifier: Apache-2.0
"""The examples of link monitoring and of multi-hop inspection, with real TCP: what probes bring is what reports say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = [pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip"), pytest.mark.long]

EXAMPLE = Path(__file__).parents[2] / "experiments" / "own-program"
LEFT, RIGHT = 0, 1


def visits(directory: Path, name: str, replaced: dict[str, str], columns: list[str]) -> pd.DataFrame:
    """What the probes of a shortened example have brought, a row for each visit of a queue."""
    shutil.copytree(EXAMPLE, directory, dirs_exist_ok=True)
    text = (EXAMPLE / name).read_text()
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    assert start(directory, text).wait(PATIENCE_S) == 0, (directory / "said").read_text()
    record = json.loads((directory / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["losses_elsewhere"] == []
    # A packet that has left one queue for the next is reported by both.
    assert all(link["holds"] and not link["problems"] for link in record["drop_cross_check"].values())
    (said,) = (directory / "out" / "hosts").glob("probes*/server.stdout")
    ready, *lines = said.read_text().splitlines()
    assert ready == "ready"
    return pd.DataFrame([[int(word) for word in line.split()] for line in lines], columns=columns, dtype=np.int64)


def packets(directory: Path) -> pd.DataFrame:
    """Every packet that has left a queue, in order; ``is_probe`` is of UDP."""
    (file,) = (directory / "out" / "telemetry").glob("reports-*.parquet")
    names = ["timestamp", "bottleneck", "sequence", "packet_length", "protocol", "queue_delay", "dequeue_depth"]
    found = pd.DataFrame(pq.read_table(file, columns=names).to_pandas().astype(np.int64))
    found["is_probe"] = found.protocol == 17
    return found.sort_values(["bottleneck", "sequence"], ignore_index=True)


def test_probes_bring_the_bytes_of_each_link(tmp_path: Path) -> None:
    """Of every interval between two probes they are those of the reports, to the byte, and the time to the us."""
    short = {"duration: 10s": "duration: 3s", "start: 2s, duration: 6s": "start: 1s, duration: 1s", '"90"': '"28"'}
    found = visits(tmp_path, "link-monitor.yaml", short, ["probe", "port", "bytes", "us"])
    reports = packets(tmp_path)
    for link, port in ((LEFT, 3), (RIGHT, 4)):
        of_link = reports[reports.bottleneck == link].reset_index(drop=True)
        at = of_link.index[of_link.is_probe]
        sent = of_link.packet_length.where(~of_link.is_probe, 0).cumsum().to_numpy()
        times = of_link.timestamp.to_numpy()[at] // 1_000
        expected = pd.DataFrame({"bytes": np.diff(sent[at], prepend=0), "us": np.diff(times, prepend=0)})
        # A probe that a full queue of the left link has dropped has been at the right one all the same.
        brought = found[found.port == port][["bytes", "us"]].reset_index(drop=True)
        if link == LEFT:
            assert brought.equals(expected.astype(np.int64))
        else:
            seen = set(map(tuple, expected.to_numpy().tolist()))
            assert len(brought) > 20 and set(map(tuple, brought.to_numpy().tolist())) <= seen
    # While the other link has no flow it sends nothing, and 20 Mbit/s are used of the first.
    idle = found[(found.port == 4) & (found.probe < 9)]
    assert not idle.bytes.any()
    later = found[(found.port == 3) & (found.probe > 8)]
    assert 19.5e6 < 8e6 * later.bytes.sum() / later.us.sum() <= 20e6


def test_inspected_packets_bring_the_depth_of_each_queue(tmp_path: Path) -> None:
    """How long each waited is in its report in ns, and what waited behind it in bytes."""
    short = {"duration: 10s": "duration: 3s", "start: 2s, duration: 6s": "start: 1s, duration: 2s", '"450"': '"140"'}
    found = visits(tmp_path, "queue-inspection.yaml", short, ["probe", "hop", "depth", "us"])
    reports = packets(tmp_path)
    deep = 0
    for link, hop in ((RIGHT, 1), (LEFT, 2)):
        of_link = reports[(reports.bottleneck == link) & reports.is_probe]
        brought = found[found.hop == hop]
        assert brought.probe.is_monotonic_increasing and len(brought) > 120
        # Datagrams that the second queue has dropped bring nothing of the first.
        by_wait = {(wait // 1_000, bytes_) for wait, bytes_ in of_link[["queue_delay", "dequeue_depth"]].to_numpy()}
        for depth, waited in brought[["depth", "us"]].to_numpy().tolist():
            # Segments are 1,514 bytes long, and what else waits is shorter.
            assert any(
                us == waited and bytes_ <= 1_514 * depth and (depth == 0) == (bytes_ == 0) for us, bytes_ in by_wait
            )
            deep += depth > 5
    assert deep > 40
