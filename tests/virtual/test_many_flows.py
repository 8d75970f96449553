# SPDX-License-Identifier: Apache-2.0
"""Many TCP flows at once through one bottleneck, in virtual time; a thousand in `make stress` (NARROWS_STRESS=1)."""

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

BEGINNING, RTT_S = 100, 1e-3
TOGETHER = f"""\
name: together
bottleneck: {{rate: 100Gbit, buffer: 1bdp, rtt: {RTT_S * 1e3:g}ms}}
flows: [{{cca: cubic, size: 18kB, count: {BEGINNING}, stagger: 0s}}]
"""


@pytest.mark.long
@pytest.mark.needs("seeded-kernel", "narrows-softswitch", "narrows-collector", "ip")
def test_flows_that_begin_together_take_the_time_that_packets_take(tmp_path: Path) -> None:
    """Three round trips each: the handshake, ten segments (RFC 6928), and the other three to the answer to the last."""
    assert start(tmp_path, TOGETHER).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["losses_elsewhere"] == [] and run["traffic_manager"]["queues"][0]["dropped_packets"] == 0
    took = [flow["ended_s"] - flow["started_s"] for flow in run["flows"]]
    # Behind one another 1,300 segments take 0.16 ms at 100 Gbit/s. What hosts do takes none.
    assert len(took) == BEGINNING and min(took) >= 3 * RTT_S and max(took) < 3 * RTT_S + 0.2e-3


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
