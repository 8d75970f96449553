# SPDX-License-Identifier: Apache-2.0
"""Several configurations in one process: each as it is alone, and none where one of them is wrong."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import BINARY, COMPILED, CROSS_CONNECT

pytestmark = pytest.mark.needs("narrows-softswitch")


def configuration(directory: Path, name: str, seed: int, **changes: Any) -> Path:
    """Poisson arrivals at nine tenths of a link's rate."""
    path = directory / f"{name}.json"
    action, through = "NarrowsIngress.cross_connect.bottleneck", {"index": 0, "port": 2, "queue": 0}
    generator = {"arrivals": "poisson", "rate_bps": 900_000_000, "frame_bytes": 1000, "flows": 9, "stop_ns": 50_000_000}
    config = {
        "program": str(COMPILED / "narrows.json"),
        "seed": seed,
        "ports": [1, 2],
        "entries": [
            {"table": CROSS_CONNECT, "match": {"ingress_port": 1}, "priority": 1, "action": action, "params": through}
        ],
        "queues": [{"port": 2, "rate_bps": 1_000_000_000, "limit_bytes": 5000, "limit_packets": 0}],
        "inputs": [{"port": 1, "generator": generator}],
        "outputs": [{"port": 2, "pcap": "left.pcap", "snap_bytes": 60}],
    }
    path.write_text(json.dumps(config | changes))
    return path


def replay(out: Path, *configs: Path) -> subprocess.CompletedProcess[str]:
    words = [word for config in configs for word in ("--config", str(config))]
    return subprocess.run([str(BINARY), "replay", *words, "--out", str(out)], capture_output=True, text=True)


def test_each_is_as_it_is_alone(tmp_path: Path) -> None:
    configs = [configuration(tmp_path, f"link-{seed}", seed) for seed in (1, 2, 3)]
    together = replay(tmp_path / "together", *configs)
    assert together.returncode == 0, together.stderr
    assert [line.split(": ")[0] for line in together.stderr.splitlines()] == [str(config) for config in configs]
    for config in configs:
        assert replay(tmp_path / "alone", config).returncode == 0
        for name in ("summary.json", "left.pcap"):
            found = (tmp_path / "together" / config.stem / name).read_bytes()
            assert found == (tmp_path / "alone" / name).read_bytes()
    drops = {
        json.loads((tmp_path / "together" / config.stem / "summary.json").read_text())["queues"][0]["dropped_packets"]
        for config in configs
    }
    # Other seeds, other arrivals: none has another's results.
    assert len(drops) == 3 and 0 not in drops


def test_nothing_is_written_where_one_is_wrong(tmp_path: Path) -> None:
    right = configuration(tmp_path, "right", 1)
    wrong = configuration(tmp_path, "wrong", 1, inputs=[{"port": 9, "pcap": "absent.pcap"}])
    found = replay(tmp_path / "out", right, wrong)
    assert (found.returncode, (tmp_path / "out").exists()) == (2, False)
    assert f"{wrong}: inputs[0]: port 9 is not among ports" in found.stderr


def test_results_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = configuration(tmp_path, "link", 1), configuration(tmp_path / "other", "link", 2)
    found = replay(tmp_path / "out", one, other)
    assert (found.returncode, (tmp_path / "out").exists()) == (2, False)
    assert f"{one} and {other} have one name" in found.stderr
