# SPDX-License-Identifier: Apache-2.0
"""The media of a call in virtual time, against what RFC 8698 has its rate and its queue be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

PAYLOAD, FRAME = 1000, 1042


@pytest.mark.long
def test_a_call_fills_its_link_and_keeps_the_queue_of_its_equilibrium(tmp_path: Path) -> None:
    """Equation 5 at rest: the queueing delay is 10 ms x 1.5 Mbit/s by the rate, which is the link's, of the payload.

    The receiver's time has 15 packets of the delay, of which it takes the least: one serialization, 8.3 ms, less.
    """
    text = (
        "name: call\nbottleneck: {rate: 1Mbit, buffer: 300ms, rtt: 100ms}\nhosts: {jitter: 0s}\nflows:\n"
        "- {name: call, cca: nada, media: {}, duration: 30s}\n"
    )
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    out = tmp_path / "out"
    record = json.loads((out / "hosts" / "call-1.json").read_text())
    rate_bps = 1e6 * PAYLOAD / FRAME
    last = [one for one in record["reports"] if one["time_s"] > 20]
    assert len(last) == pytest.approx(100, abs=2)
    assert all(one["rate_bps"] == pytest.approx(rate_bps, rel=0.01) for one in last)
    assert all(one["signal_s"] == pytest.approx(0.010 * 1.5e6 / rate_bps, rel=0.02) for one in last)
    summary = json.loads((out / "summary.json").read_text())
    (flow,) = summary["flows"]
    assert flow["cca"] == "nada" and flow["datagrams"]["lost"] == 0 == flow["drops"]
    assert flow["figures"]["reports"] == len(record["reports"])
    assert "Media of calls" in (out / "report.html").read_text()


@pytest.mark.long
def test_marks_in_place_of_drops_slow_a_call(tmp_path: Path) -> None:
    """CoDel marks what waits for more than 5 ms, of the 15 ms of the equilibrium: nothing is lost."""
    text = (
        "name: call\nbottleneck: {rate: 1Mbit, buffer: 300ms, rtt: 100ms, queue: {kind: codel, ecn: true}}\n"
        "hosts: {jitter: 0s}\nflows:\n- {name: call, cca: nada, media: {ecn: ect0}, duration: 30s}\n"
    )
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    (flow,) = summary["flows"]
    assert flow["datagrams"]["lost"] == 0 < flow["datagrams"]["ce_marked"] and flow["goodput_bps"] > 0.5e6
    assert summary["bottleneck"]["queue_delay_s"]["p50"] < 0.012
    assert not [one for one in summary["warnings"] if "do not respond" in one["message"]]
