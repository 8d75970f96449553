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

BASE_RTT_S, SECONDS = 0.04, 4
# ngtcp2 logs whole milliseconds.
TICK_S = 1e-3
# Frames with nothing but acknowledgements are shorter.
ACK_BYTES = 200


@pytest.mark.long
def test_what_ngtcp2_has_logged_is_what_the_switch_saw(tmp_path: Path) -> None:
    """The packets that a sender has counted at a time are those that have come to the switch by then.

    Its log begins with its connection: the handshake's packets and probes of the MTU, which carry no stream, are the
    difference, and what comes in two ticks, as the log's zero and each of its times are rounded. What the queue drops
    is known to be lost within 9/8 of a round trip of its acknowledgements (RFC 9002, section 6.1.2), here two with the
    queue.
    """
    program = yaml.safe_load((REPOSITORY / "experiments" / "quic" / "ngtcp2.yaml").read_text())
    text = yaml.safe_dump(
        {
            "name": "logged",
            "bottleneck": {"rate": "10Mbit", "buffer": "20packets", "rtt": f"{BASE_RTT_S}s"},
            "telemetry": {"sockets": "10ms"},
            "flows": [{**program, "name": "tested", "start": "1s", "duration": f"{SECONDS}s"}],
            "expect": ["senders.tested.retransmits.growth > 0", "senders.tested.phase.begin_s.count[DRAIN] == 1"],
        }
    )
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    out = tmp_path / "out"
    loaded = narrows_analysis.load(out)
    assert isinstance(loaded, narrows_analysis.RunData)
    state, reports, drops = loaded.sockets, loaded.reports(), loaded.drops()
    times_s = state["time_s"].to_numpy()
    assert set(state["source"]) == {"qlog"} and np.allclose(np.diff(times_s), 0.01)
    assert 1 <= times_s[0] < 1 + 2 * BASE_RTT_S and 1 + SECONDS - 0.05 < times_s[-1] <= 1 + SECONDS
    left, dropped = (rows[(rows["flow"] == 0) & (rows["packet_bytes"] > ACK_BYTES)] for rows in (reports, drops))
    dropped_s = (dropped["time_s"] - dropped["waited_s"]).to_numpy()
    came_s = np.sort(np.concatenate([left["arrival_s"].to_numpy(), dropped_s]))
    sent = state["data_packets"].to_numpy()
    others = np.searchsorted(came_s, times_s[-1]) - sent[-1]
    assert 0 < others < 20
    for at_s, count in zip(times_s, sent, strict=True):
        low, high = np.searchsorted(came_s, [at_s - 2 * TICK_S, at_s + 2 * TICK_S])
        assert low - others <= count <= high
    known_by_s = [times_s[-1] - 4 * BASE_RTT_S, times_s[-1]]
    least, most = ((dropped_s <= at_s).sum() for at_s in known_by_s)
    assert 0 < least <= state["retransmits"].iloc[-1] <= most
    assert 0.9 < state["acked_bytes"].iloc[-1] / ((sent[-1] - most) * 1400) <= 1.01
    rtts_s = state["min_rtt_s"].dropna()
    assert BASE_RTT_S - TICK_S <= rtts_s.min() <= BASE_RTT_S + 2 * TICK_S
    unseen = ["bbr_phase", "bbr_bandwidth_bps", "pacing_rate_bps", "congestion_state", "busy_s"]
    assert state[unseen].isna().all(axis=None)
    (flow,) = json.loads((out / "summary.json").read_text())["flows"]
    assert flow["rtt_source"] == "the hosts (qlog of the sender)"
    said = (tmp_path / "said").read_text()
    assert "pass  senders.tested.retransmits.growth > 0" in said
    assert "FAIL  senders.tested.phase.begin_s.count[DRAIN] == 1" in said and "does not show bbr_phase" in said
    assert "qlog of the sender" in (out / "report.html").read_text()
