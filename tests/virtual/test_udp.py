# SPDX-License-Identifier: Apache-2.0
"""UDP flows and probes in virtual time: the switch's counts against the hosts', and both against arithmetic."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

HEADERS = 14 + 20 + 8


def flows_of(tmp_path: Path, text: str) -> dict[str, Any]:
    """The flows of a complete run's summary, by name."""
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["status"] == "complete", run["reason"]
    assert run["drop_cross_check"]["bottleneck"]["holds"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    return {flow["name"]: flow for flow in summary["flows"]}


@pytest.mark.long
def test_a_flow_that_does_not_respond_loses_what_the_link_does_not_carry(tmp_path: Path) -> None:
    """20 Mbit/s of 1,000-byte payloads into 10 Mbit/s: what the link serves in 2 s and what the queue holds arrives."""
    payload, rate, link, buffer, seconds = 1000, 20e6, 10e6, 50, 2
    text = (
        f"name: cbr\nbottleneck: {{rate: 10Mbit, buffer: {buffer}packets, rtt: 20ms}}\n"
        f"flows: [{{udp: {{rate: 20Mbit, payload: {payload}B}}, duration: {seconds}s}}]\n"
    )
    flow = flows_of(tmp_path, text)["udp-1"]
    counted = flow["datagrams"]
    assert counted["sent"] == math.ceil(seconds * rate / (8 * payload))
    served = seconds * link / (8 * (payload + HEADERS))
    # One is in service beside those that wait; one more or less for the ends.
    assert counted["received"] == pytest.approx(served + buffer + 1, abs=2)
    assert counted["lost"] == flow["drops"] == counted["sent"] - counted["received"]
    assert flow["departures"] == counted["received"]
    # The last to get in waits behind a full queue; 20 ms are the path's, of which half lie on the way there.
    full_s = buffer * 8 * (payload + HEADERS) / link
    delays = counted["delay_s"]
    assert delays["max"] - delays["min"] == pytest.approx(full_s, rel=0.03)


def test_a_probe_of_a_slow_link_has_the_times_of_the_path(tmp_path: Path) -> None:
    """20 ms, and a frame of 106 bytes at 500 kbit/s; what hosts take of their own is microseconds, half of 12 on
    average, and less than two for the frame on both links of hosts."""
    text = (
        "name: idle\nbottleneck: {rate: 500kbit, buffer: 20packets, rtt: 20ms}\n"
        "flows: [{probe: {interval: 100ms}, duration: 5s}]\n"
    )
    found = flows_of(tmp_path, text)["probe-1"]["datagrams"]["rtt_s"]
    path_s = 20e-3 + 8 * (HEADERS + 64) / 500e3
    assert round(path_s * 1e3, 2) == round(found["mean"] * 1e3, 2) == 21.70
    assert path_s <= found["min"] and found["max"] < path_s + 14e-6
    assert "host jitter up to 12.11 \N{MICRO SIGN}s" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.long
def test_beside_tcp_each_loss_is_one_that_the_switch_counted(tmp_path: Path) -> None:
    text = (
        "name: beside\nbottleneck: {rate: 20Mbit, buffer: 0.5bdp, rtt: 40ms}\nflows:\n"
        "- {cca: cubic, duration: 4s}\n"
        "- {udp: {rate: 10Mbit}, duration: 3s, start: 1s}\n"
        "- {name: bursts, udp: {rate: 8Mbit, payload: 300B, bursts: {length: 50ms, pause: 150ms, "
        "distribution: exponential}}, duration: 3s}\n"
        "- {probe: {interval: 20ms}, duration: 4s}\n"
    )
    flows = flows_of(tmp_path, text)
    assert flows["udp-1"]["drops"] > 0
    for name in ("udp-1", "bursts-1"):
        flow, counted = flows[name], flows[name]["datagrams"]
        assert (flow["arrivals"], flow["departures"]) == (counted["sent"], counted["received"])
        assert flow["drops"] == counted["lost"]
        assert (counted["reordered"], counted["duplicates"]) == (0, 0)
    assert [name for name, flow in flows.items() if flow["probe"]] == ["probe-1"]
    probe = flows["probe-1"]["datagrams"]
    assert flows["probe-1"]["rtt_s"] == {name: probe["rtt_s"][name] for name in ("min", "mean")}
    assert probe["sent"] == 200
    # No less than the path, no more than path and full queue; half a BDP is 20 ms.
    assert 0.040 < probe["rtt_s"]["min"] < 0.042
    assert probe["rtt_s"]["max"] < 0.040 + 0.020 + 0.002
    assert flows["cubic-1"]["datagrams"] is None


def test_marks_are_seen_by_the_receiver(tmp_path: Path) -> None:
    """ECT(1) into a step threshold: every packet that finds 10 packets or more is marked."""
    text = (
        "name: marks\nbottleneck: {rate: 10Mbit, buffer: 100packets, rtt: 20ms, ecn_threshold: 10packets}\n"
        "flows: [{udp: {rate: 10Mbit, payload: 1000B, ecn: ect1}, duration: 1s}]\n"
    )
    flow = flows_of(tmp_path, text)["udp-1"]
    assert flow["drops"] == 0
    assert 0 < flow["ce_marks"] == flow["datagrams"]["ce_marked"]


@pytest.mark.long
def test_packets_of_thresholds_and_buffers_are_of_any_size(tmp_path: Path) -> None:
    """12 Mbit/s of 500 B into 10 Mbit/s: marked is what finds 40 packets or more, and 100 of 542 B are full."""
    text = (
        "name: packets\nbottleneck: {rate: 10Mbit, buffer: 100packets, rtt: 20ms, ecn_threshold: 40packets}\n"
        "flows: [{name: u, udp: {rate: 12Mbit, payload: 500B, ecn: ect0}, duration: 2s}]\n"
    )
    flow = flows_of(tmp_path, text)["u-1"]
    reports = pd.concat(map(pd.read_parquet, sorted((tmp_path / "out" / "telemetry").glob("reports-*.parquet"))))
    found, marked = reports["enqueue_depth"] / (500 + HEADERS), reports["flags"] & 1
    assert found.max() == 99 and ((found >= 40) == (marked == 1)).all()
    # 3,000 packets/s come and 2,306 go. Once 40 wait, after 58 ms and 173 packets, all are marked: those of 2 s, and
    # the 100 that wait then.
    assert flow["drops"] > 0
    assert flow["ce_marks"] == marked.sum() == pytest.approx(2 * 2306.3 + 100 - 173, abs=10)
    link = json.loads((tmp_path / "out" / "summary.json").read_text())["bottleneck"]
    assert (link["buffer_bytes"], link["buffer_packets"]) == (None, 100)
    assert link["queue_bytes"]["max"] == 100 * (500 + HEADERS)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<td>100 packets</td>" in page and "<td>40 packets</td>" in page


def test_what_is_under_way_at_the_end_arrives(tmp_path: Path) -> None:
    """60 ms of each flow are behind the queue when the last datagram leaves it, and hosts that send receive them."""
    text = (
        "name: ends\nbottleneck: {rate: 20Mbit, buffer: 1bdp, rtt: 20ms, delay: 50ms, "
        "reverse: {rate: 20Mbit, buffer: 1bdp, delay: 50ms}}\nflows:\n"
        "- {name: down, udp: {rate: 2Mbit, payload: 500B}, from: a, to: b, duration: 1s}\n"
        "- {name: up, udp: {rate: 2Mbit, payload: 500B}, from: b, to: a, direction: reverse, duration: 1s}\n"
        "- {probe: {interval: 2ms}, duration: 1s}\n"
    )
    flows = flows_of(tmp_path, text)
    counted = {name: flow["datagrams"] for name, flow in flows.items()}
    assert all(flow["drops"] == 0 for flow in flows.values())
    assert {name: (one["sent"], one["received"], one["lost"]) for name, one in counted.items()} == {
        "down-1": (500, 500, 0), "up-1": (500, 500, 0), "probe-1": (500, 500, 0),
    }  # fmt: skip


@pytest.mark.parametrize("way", ["forward", "reverse"])
def test_a_direction_that_nothing_crosses_is_no_fault(tmp_path: Path, way: str) -> None:
    """Nothing answers to UDP: the run is complete, and the other direction has no figures."""
    reverse = "reverse: {rate: 5Mbit, buffer: 20packets}"
    text = f"name: one-way\nbottleneck: {{rate: 5Mbit, buffer: 20packets, rtt: 20ms, {reverse}}}\n"
    text += f"flows: [{{udp: {{rate: 1Mbit}}, duration: 1s, direction: {way}}}]\n"
    (flow,) = flows_of(tmp_path, text).values()
    crossed, other = ("bottleneck", "bottleneck.reverse")[:: 1 if way == "forward" else -1]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    links = {link["name"]: link for link in summary["links"]}
    assert links[crossed]["flows"][0]["departures"] == flow["datagrams"]["received"] > 0
    assert links[other]["telemetry"]["reports"] == 0 and links[other]["utilization"] is None
    assert [(one["code"], one["message"].partition(":")[0]) for one in summary["warnings"]] == [("unused_link", other)]
    assert "has no effect: no flow's data cross it" in (tmp_path / "said").read_text()
