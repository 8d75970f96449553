# SPDX-License-Identifier: Apache-2.0
"""How long responses take in virtual time, against slow start and rate; no root."""

from __future__ import annotations

import json
from pathlib import Path

import narrows_analysis
import page
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

SEGMENT, FRAME = 1448, 1514


@pytest.mark.long
def test_response_times_are_those_of_slow_start_and_of_pacing(tmp_path: Path) -> None:
    """100 kB are 70 segments, which slow start from 10 (RFC 6928) has on their way in three rounds: 10, 20 and 40. The
    window is 10 again after a pause of more than the timeout (RFC 2861). So a response takes three round trips and, on
    the link, the time of its 70 frames; a connection of its own takes another round trip. A paced response of 1 MB has
    its rate's time, but for the first ten segments of a connection, which Linux does not pace; a round trip has fewer.
    """
    rtt, link, rate, paced_rtt = 0.1, 100e6, 8_000_000, 0.01
    assert -(-100_000 // SEGMENT) == 10 + 20 + 40
    text = (
        f"name: responses\nbottleneck: {{rate: {link:.0f}bit, buffer: 1bdp, rtt: 100ms}}\nflows:\n"
        "- {name: kept, cca: reno, duration: 6s, requests: {size: 100kB, think: 1s}}\n"
        "- {name: new, cca: reno, duration: 6s, requests: {size: 100kB, think: 1s, connections: new, users: 3}}\n"
        f"- {{name: paced, cca: reno, duration: 6s, rtt: 10ms, rate: {rate}bit, requests: {{size: 1MB, think: 1s}}}}\n"
        "- {name: drawn, cca: cubic, duration: 6s, requests: {gaps: {exponential: {mean: 20ms}}, size: 5kB}}\n"
        "expect: [flows.kept.responses.time_s.p50 < 310ms]\n"
    )
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["status"] == "complete", run["reason"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    flows = {flow["name"]: flow for flow in summary["flows"]}
    found = {name.removesuffix("-1"): flow["responses"] for name, flow in flows.items()}
    # Those of four users at once, and a tenth of the link's time is the others'.
    longest = 1.1 * 4 * 70 * FRAME * 8 / link
    assert longest < rtt / 2
    for name, trips, most in (("kept", 3, 4), ("new", 4, 4)):
        times = found[name]["time_s"]
        assert trips * rtt < times["min"] <= times["p50"] < trips * rtt + longest
        # The first response of a connection that is kept waits for the connection.
        assert times["max"] < most * rtt + longest
        assert found[name]["completed"] == found[name]["requests"]
    # 6 s of 1 s pauses and responses of 3 or 4 round trips; what is under way at the end is waited for.
    assert found["kept"]["requests"] == 5 and found["new"]["requests"] == 3 * 5
    assert [len(flows[f"{name}-1"]["connections"]) for name in ("kept", "new")] == [1, 15]
    assert [flows[f"{name}-1"]["bytes"] for name in ("kept", "new")] == [500_000, 1_500_000]
    kept = found["kept"]["time_s"]["p50"]
    page.shows("response of 70 segments, connection kept: time, s", 3 * rtt, kept, longest, repeats=False)
    paced, paced_s = found["paced"]["time_s"], paced_rtt + 1_000_000 * 8 / rate
    page.shows("response of 1 MB, paced to 8 Mbit/s: time, s", paced_s, paced["p50"], 0.003 * paced_s, repeats=False)
    assert paced["p50"] == pytest.approx(paced_s, rel=0.003)
    assert paced["min"] == pytest.approx(2 * paced_rtt + (1_000_000 - 10 * SEGMENT) * 8 / rate, rel=0.003)
    responses = narrows_analysis.load(tmp_path / "out").responses
    asked = {name: found[name.removesuffix("-1")]["requests"] for name in flows}
    assert responses.groupby("name").size().to_dict() == asked
    assert responses["done_s"].notna().all()
    assert '"id":"cdf-responses"' in (tmp_path / "out" / "report.html").read_text()
    # The sockets of all are read, also those that last for one response.
    sockets = narrows_analysis.load(tmp_path / "out").sockets
    assert set(sockets["name"]) == set(flows)
    assert sockets[sockets["name"] == "new-1"].groupby(["src_port", "dst_port"]).ngroups == 15
    assert found["drawn"]["completed"] == found["drawn"]["requests"] > 300 - 4 * 300**0.5
