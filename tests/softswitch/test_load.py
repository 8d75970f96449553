# SPDX-License-Identifier: Apache-2.0
"""The softswitch in virtual time under much load for a long time: every packet is accounted for, memory stays flat.

NARROWS_HOURS sets how long settings are changed every second (ten hours take some minutes).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

from harness import BINARY, COMPILED

HOURS = float(os.environ.get("NARROWS_HOURS", "0.05"))
SECOND = 1_000_000_000
FRAME = 500
CROSS_CONNECT = "NarrowsIngress.cross_connect.cross_connect"
GROWTH_KB = 8 << 10


def bottleneck(index: int, ingress: int, egress: int) -> dict[str, Any]:
    return {
        "table": CROSS_CONNECT,
        "match": {"ingress_port": ingress},
        "priority": 1,
        "action": "NarrowsIngress.cross_connect.bottleneck",
        "params": {"index": index, "port": egress, "queue": 0},
    }


def generator(port: int, rate_bps: int, stop_ns: int, flows: int = 1) -> dict[str, Any]:
    source = {"arrivals": "constant", "rate_bps": rate_bps, "frame_bytes": FRAME, "flows": flows, "stop_ns": stop_ns}
    return {"port": port, "generator": source}


def replay(directory: Path, config: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The summary, and the most memory that the switch had, in kB."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"program": str(COMPILED / "narrows.json"), **config}))
    command = [str(BINARY), "replay", "--config", str(directory / "config.json"), "--out", str(directory / "out")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    summary: dict[str, Any] = json.loads((directory / "out" / "summary.json").read_text())
    return summary, used.ru_maxrss


def balanced(summary: dict[str, Any]) -> tuple[int, int]:
    """Packets that left and packets that were dropped, once every account agrees."""
    assert not any(summary["discards"].values())
    received = sum(one["packets"] for one in summary["inputs"])
    left = dropped = waiting = 0
    for queue in summary["queues"]:
        assert queue["enqueued_packets"] == queue["dequeued_packets"] + queue["depth_packets"]
        assert queue["enqueued_bytes"] == queue["dequeued_bytes"] + queue["depth_bytes"]
        assert queue["pool_dropped_packets"] == 0
        assert sum(drops["packets"] for drops in queue["flow_drops"]) == queue["dropped_packets"]
        assert sum(drops["bytes"] for drops in queue["flow_drops"]) == queue["dropped_bytes"]
        left += queue["dequeued_packets"]
        dropped += queue["dropped_packets"]
        waiting += queue["depth_packets"]
    assert received == left + dropped + waiting
    return left, dropped


def test_settings_changed_every_second(tmp_path: Path) -> None:
    """Rate, depth and delay, in a random walk; a tenth of the time needs as much memory as all of it."""
    chance = random.Random(1)
    seconds = int(HOURS * 3600)
    changes = [
        {
            "port": 2,
            "at_ns": second * SECOND + chance.randrange(SECOND),
            "rate_bps": chance.randrange(500_000, 4_000_000),
            "limit_bytes": chance.randrange(1_500, 100_000),
            "delay_ns": chance.randrange(100_000_000),
        }
        for second in range(seconds)
    ]
    memory = []
    for share in (10, 1):
        config = {
            "ports": [1, 2],
            "entries": [bottleneck(0, 1, 2)],
            "queues": changes,
            "inputs": [generator(1, 2_000_000, seconds * SECOND // share, flows=100)],
        }
        summary, most = replay(tmp_path / f"share{share}", config)
        left, dropped = balanced(summary)
        assert summary["queues"][0]["epoch"] == seconds + 1
        assert left + dropped == seconds * SECOND // share // (FRAME * 8 * SECOND // 2_000_000)
        assert dropped > 0
        memory.append(most)
    print(
        f"cases: {left + dropped} packets, {seconds} changes; {dropped} dropped, memory {memory[0]} kB, {memory[1]} kB"
    )
    assert memory[1] < memory[0] + GROWTH_KB


def test_64_bottlenecks_at_once(tmp_path: Path) -> None:
    """Each with a rate of its own, all overloaded: what leaves is the rate, to the packet, and the rest is dropped."""
    rates = {index: 10_000_000 + 1_234_567 * index for index in range(64)}
    config = {
        "ports": list(range(1, 129)),
        "entries": [bottleneck(index, index + 1, index + 65) for index in rates],
        "queues": [{"port": index + 65, "rate_bps": rate, "limit_bytes": 50_000} for index, rate in rates.items()],
        "inputs": [generator(index + 1, rate * 3 // 2, 2 * SECOND, flows=10) for index, rate in rates.items()],
        "until_ns": 2 * SECOND,
    }
    summary, _ = replay(tmp_path / "many", config)
    left, dropped = balanced(summary)
    queues = {queue["port"] - 65: queue for queue in summary["queues"]}
    for index, rate in rates.items():
        # The link is busy from the first frame on; one more has begun.
        expected = 2 * rate / 8
        assert 0 <= queues[index]["dequeued_bytes"] - expected <= FRAME + 2 * FRAME, index
    print(f"cases: {left + dropped} packets; {dropped} dropped")
    assert dropped > left / 4


def test_60000_flow_identities(tmp_path: Path) -> None:
    """Drops are accounted to flows, however many; those that share an index share an account, and none is lost."""
    flows = 60_000
    config = {
        "ports": [1, 2],
        "entries": [bottleneck(0, 1, 2)],
        "queues": [{"port": 2, "rate_bps": 100_000_000, "limit_bytes": 100_000}],
        "inputs": [generator(1, 1_000_000_000, 2 * SECOND, flows=flows)],
    }
    summary, _ = replay(tmp_path / "flows", config)
    left, dropped = balanced(summary)
    accounts = len(summary["queues"][0]["flow_drops"])
    # There are 65,536 indices: some flows share one.
    assert flows / 2 < accounts <= flows
    print(f"cases: {left + dropped} packets of {flows} flows; {dropped} dropped, {accounts} accounts")
