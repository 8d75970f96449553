# SPDX-License-Identifier: Apache-2.0
"""Runs of which some packets are in a report: estimates within their standard errors of what arithmetic says."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

TEXT = """name: step
bottleneck: {rate: 20Mbit, buffer: 100packets, rtt: 20ms}
telemetry: {sample: 2}
hosts: {jitter: 0s}
flows:
  - {name: big, udp: {rate: 800kbit, payload: 1000B}, duration: 5s}
  - {name: small, udp: {rate: 80kbit, payload: 100B}, start: 5ms, duration: 5s}
"""


@pytest.mark.long
def test_flows_in_step_with_the_sampling_are_estimated_right(tmp_path: Path) -> None:
    """A big and a small packet in turn, and one of two in a report: 100 of 1,042 B and 100 of 142 B a second."""
    assert start(tmp_path, TEXT).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    link, flows = summary["bottleneck"], {flow["name"]: flow for flow in summary["flows"]}
    used, error = link["utilization"], link["standard_errors"]["utilization"]
    # Of 500 draws of one size or the other, 900 B apart: 450 / sqrt(500) of a mean of 592 B, 3.4 %.
    assert error / used == pytest.approx(0.034, abs=0.006)
    assert abs(used - 8 * 100 * (1042 + 142) / 20e6) < 3 * error
    for name, rate_bps in (("big-1", 800e3), ("small-1", 80e3)):
        flow = flows[name]
        assert abs(flow["goodput_bps"] - rate_bps) < 3 * flow["standard_errors"]["goodput_bps"] < 0.05 * rate_bps
        # Counted by the switch, up to the flow's last report.
        assert 490 < flow["departures"] <= 500 and flow["drops"] == 0
    assert (summary["telemetry"]["reports"], summary["telemetry"]["lost"]) == (500, 0)
    assert link["queue_bytes"]["max"] is link["queue_delay_s"]["max"] is link["standing_queue_bytes"] is None
    assert link["sampling_reason"].startswith("one report in 2 packets")
    queue = pd.read_parquet(tmp_path / "out" / "queue.parquet")
    assert queue[["depth_max_bytes", "delay_max_s"]].isna().all(axis=None) and queue["delay_mean_s"].notna().any()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "\u00b1" in page and "drawn at random" in page
