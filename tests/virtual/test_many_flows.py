# SPDX-License-Identifier: Apache-2.0
"""A thousand TCP flows at once through one bottleneck, in virtual time. `make stress` runs it (NARROWS_STRESS=1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_in_a_guest import start

FLOWS = 1000
DURATION_S = 2.0
PATIENCE_S = 1200.0
MANY = f"""\
name: many
bottleneck: {{rate: 1Gbit, buffer: 1bdp, rtt: 20ms}}
flows: [{{cca: cubic, count: {FLOWS}, duration: {DURATION_S:g}s}}]
"""


@pytest.mark.needs("guest-kernel", "stress", "narrows-softswitch", "narrows-collector", "ip")
def test_1000_concurrent_tcp_flows(tmp_path: Path) -> None:
    """All of them flow at the same time, each one's drops are exact, and the link is full."""
    assert start(tmp_path, MANY).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run, summary = (json.loads((tmp_path / "out" / name).read_text()) for name in ("run.json", "summary.json"))
    assert run["status"] == "complete"
    assert len(run["flows"]) == len(summary["flows"]) == FLOWS
    started, ended = ([flow[name] for flow in run["flows"]] for name in ("started_s", "ended_s"))
    assert max(started) + DURATION_S / 2 < min(ended)
    assert min(flow["goodput_bps"] for flow in summary["flows"]) > 0
    identity = run["drop_cross_check"]["bottleneck"]
    assert identity["holds"] and identity["problems"] == []
    assert identity["sum_of_flows"] == identity["port_drops"] > FLOWS
    assert run["losses_elsewhere"] == [] and summary["telemetry"]["lost"] == 0
    assert summary["bottleneck"]["utilization"] > 0.9
    reports = summary["telemetry"]["reports"]
    print(f"cases: {reports} packets of {FLOWS} flows; {identity['port_drops']} dropped")
