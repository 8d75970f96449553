# SPDX-License-Identifier: Apache-2.0
"""Capture -> collector -> telemetry -> analysis, at 100 Gbit/s, against the truth that the capture was made with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from narrows_analysis import analyze_run

COLLECTOR = Path(__file__).parents[2] / "target" / "release" / "narrows-collector"
pytestmark = pytest.mark.needs("narrows-collector")


def collector(*arguments: str | Path) -> None:
    subprocess.run([COLLECTOR, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("options", [(), ("--mixed-headers", "--loss-one-in", "50", "--flows", "40")])
def test_hundred_gigabits_equal_the_truth(tmp_path: Path, options: tuple[str, ...]) -> None:
    capture, truth_file = tmp_path / "capture.pcap", tmp_path / "truth.json"
    collector("generate", capture, "--truth", truth_file, "--reports", "300000", *options)
    collector("convert", capture, "--out", tmp_path / "run" / "telemetry")
    truth = json.loads(truth_file.read_text())["bottlenecks"][0]
    keys = pq.read_table(tmp_path / "run" / "telemetry" / "flow_keys.parquet").to_pylist()
    names = ("src", "dst", "src_port", "dst_port")
    flows: list[dict[str, Any]] = [{"group": "all", **{name: key[name] for name in names}} for key in keys]
    run = {
        "status": "complete",
        "target_profile": {"name": "soft", "time_unit_s": 1e-9, "depth_unit": "bytes", "depth_unit_bytes": 1},
        "bottleneck": {"rate_bps": 100_000_000_000, "buffer_bytes": 12_500_000},
        "flows": flows,
        "clock_origin_ns": 0,
    }
    (tmp_path / "run" / "run.json").write_text(json.dumps(run))
    summary: Any = analyze_run(tmp_path / "run", interval_s=0.001)

    link = summary["bottleneck"]
    assert summary["telemetry"]["reports"] == truth["departures"] and summary["telemetry"]["lost"] == 0
    assert link["queue_delay_s"]["mean"] == pytest.approx(truth["delay_sum"] / truth["departures"] / 1e9, rel=1e-12)
    assert link["queue_delay_s"]["max"] == pytest.approx(truth["delay_max"] / 1e9, rel=1e-12)
    assert link["saturated_rate_bps"] == pytest.approx(100e9, rel=1e-4)
    by_flow = {(flow["flow"], flow["signature"]): flow for flow in truth["flows"]}
    assert len(summary["flows"]) == len(by_flow)
    for key, flow in zip(keys, summary["flows"], strict=True):
        expected = by_flow[key["flow"], key["signature"]]
        for name in ("departures", "drops", "ce_marks"):
            assert flow[name] == expected[name], name
        assert flow["loss_emulation_drops"] == expected["loss_drops"]
        assert flow["arrivals"] == expected["departures"] + expected["drops"]
    assert {warning["code"] for warning in summary["warnings"]} <= {"unsaturated"}
