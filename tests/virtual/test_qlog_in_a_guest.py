# SPDX-License-Identifier: Apache-2.0
"""The qlog of a QUIC stack in a run: its sender's state at the run's times, as the switch has seen its packets."""

from __future__ import annotations

import json
from pathlib import Path

import narrows_analysis
import numpy as np
import pytest
import yaml
from narrows.paths import REPOSITORY
from narrows_formats.programs import COLLECTOR
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs(
    "programs-kernel", "default-kernel", "narrows-softswitch", COLLECTOR, "ip", "gtlsclient", "gtlsserver", "openssl"
)

BASE_RTT_S, SECONDS = 0.04, 3
# ngtcp2 logs whole milliseconds.
TICK_S = 1e-3


@pytest.mark.long
def test_what_ngtcp2_has_logged_is_what_the_switch_saw(tmp_path: Path) -> None:
    """The packets that a sender has counted at a time are those that have come to the switch by then.

    Its log begins with its connection: the handshake's packets, which carry no stream, are the difference, and what
    comes in two ticks, as the log's zero and each of its times are rounded.
    """
    program = yaml.safe_load((REPOSITORY / "experiments" / "quic" / "ngtcp2.yaml").read_text())
    text = yaml.safe_dump(
        {
            "name": "logged",
            "bottleneck": {"rate": "10Mbit", "buffer": "4bdp", "rtt": f"{BASE_RTT_S}s"},
            "telemetry": {"sockets": "10ms"},
            "flows": [{**program, "name": "tested", "start": "1s", "duration": f"{SECONDS}s"}],
            "expect": ["senders.tested.acked_bps.mean[2s:4s] > 9.2Mbit", "senders.tested.ssthresh_bytes.count == 0"],
        }
    )
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    out = tmp_path / "out"
    loaded = narrows_analysis.load(out)
    assert isinstance(loaded, narrows_analysis.RunData)
    state, reports = loaded.sockets, loaded.reports()
    times_s = state["time_s"].to_numpy()
    assert set(state["source"]) == {"qlog"} and np.allclose(np.diff(times_s), 0.01)
    assert 1 <= times_s[0] < 1 + 2 * BASE_RTT_S and 1 + SECONDS - 0.05 < times_s[-1] <= 1 + SECONDS
    came_s = np.sort(reports.loc[reports["flow"] == 0, "arrival_s"].to_numpy())
    sent = state["data_packets"].fillna(0).to_numpy()
    handshake = np.searchsorted(came_s, times_s[-1]) - sent[-1]
    assert 0 < handshake < 20
    for at_s, count in zip(times_s, sent, strict=True):
        low, high = np.searchsorted(came_s, [at_s - 2 * TICK_S, at_s + 2 * TICK_S])
        assert low - handshake <= count <= high
    # Of 10 Mbit/s of Ethernet frames some 97 % are stream data.
    assert 0.9 < state["acked_bytes"].iloc[-1] / (sent[-1] * 1400) <= 1.01
    rtts_s = state["min_rtt_s"].dropna()
    assert BASE_RTT_S - TICK_S <= rtts_s.min() <= BASE_RTT_S + 2 * TICK_S
    unseen = ["bbr_phase", "bbr_bandwidth_bps", "pacing_rate_bps", "congestion_state", "busy_s"]
    assert state[unseen].isna().all(axis=None)
    (flow,) = json.loads((out / "summary.json").read_text())["flows"]
    assert flow["rtt_source"] == "the hosts (qlog of the sender)"
    said = (tmp_path / "said").read_text()
    assert "pass  senders.tested.acked_bps.mean[2s:4s] > 9.2Mbit" in said
    assert "FAIL  senders.tested.ssthresh_bytes.count == 0" in said and "does not show ssthresh_bytes" in said
    assert "qlog of the sender" in (out / "report.html").read_text()
