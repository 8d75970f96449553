# SPDX-License-Identifier: Apache-2.0
"""Several links and both directions with real senders in virtual time; what theory says of them comes first."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")
FRAME, ACK = 1514, 66
MODULUS = 1 << 32


@dataclass(frozen=True)
class Measured:
    """A run's files."""

    run: Any
    summary: Any
    reports: pd.DataFrame
    page: str

    def link(self, name: str) -> Any:
        """What summary.json says of a link."""
        return next(link for link in self.summary["links"] if link["name"] == name)

    def at(self, name: str) -> pd.DataFrame:
        """Reports of a link in the order of departures."""
        index = next(link["index"] for link in self.run["links"] if link["name"] == name)
        mine: pd.DataFrame = self.reports[self.reports["bottleneck"] == index]
        return mine.sort_values("sequence", kind="stable")

    def flow(self, name: str) -> Any:
        """What summary.json says of a flow."""
        return next(flow for flow in self.summary["flows"] if flow["name"] == name)


def measure(directory: Path, text: str) -> Measured:
    """Run an experiment in virtual time; what has to hold of every run is looked at."""
    assert start(directory, text).wait(PATIENCE_S) == 0, (directory / "said").read_text()
    out = directory / "out"
    run, summary = (json.loads((out / name).read_text()) for name in ("run.json", "summary.json"))
    assert run["status"] == "complete" and run["losses_elsewhere"] == []
    assert summary["telemetry"]["lost"] == 0
    reports = pd.concat([pd.read_parquet(file) for file in sorted((out / "telemetry").glob("reports-*.parquet"))])
    found = Measured(run, summary, reports, (out / "report.html").read_text())
    for name, check in run["drop_cross_check"].items():
        conservation(found, name, check)
    return found


def conservation(found: Measured, name: str, check: Any) -> None:
    """At a link, arrivals - departures = drops for each flow, by reports and by the switch's own counters."""
    assert check["holds"] and check["problems"] == []
    counted = {drop["flow"]: drop["packets"] for drop in found.run["traffic_manager"]["flow_drops"][name]}
    assert sum(counted.values()) == check["port_drops"] == check["sum_of_flows"]
    after = {flow["flow"]: flow["after_last_report"] for flow in check["flows_with_drops"]}
    reports = found.at(name)
    for index in sorted(set(reports["flow"].tolist())):
        mine = reports[reports["flow"] == index]
        last = mine.iloc[-1]
        # Every packet that left has a report.
        assert len(mine) == int(last["departures"])
        in_reports = (int(last["arrivals"]) - int(last["departures"])) % MODULUS
        assert in_reports + after.get(index, 0) == counted.get(index, 0), (name, index)


PARKING = """
name: parking
links:
  a: {rate: 100Mbit, buffer: 1bdp, rtt: 4ms}
  b: {rate: 100Mbit, buffer: 1bdp, rtt: 4ms}
  c: {rate: 100Mbit, buffer: 1bdp, rtt: 4ms}
flows:
  - {name: long, cca: reno, duration: 3s, path: [a, b, c]}
  - {name: at-a, cca: reno, duration: 3s, path: [a]}
  - {name: at-b, cca: reno, duration: 3s, path: [b]}
  - {name: at-c, cca: reno, duration: 3s, path: [c]}
"""


@pytest.mark.long
def test_a_parking_lot(tmp_path: Path) -> None:
    """The long flow has less than its max-min share of a half, and within what Reno makes of three losses.

    Reno's rate is K / (RTT sqrt(p)). Links are alike: each drops a packet with the probability p, so that the long flow
    loses 3 p; its RTT, base and queues, is three times that of a short one. Short to long is 3 sqrt(3), and the long
    flow's share 1 / (1 + 3 sqrt(3)) = 0.161, if drops fall on packets at random. If each overflow of a queue hits both
    of its flows instead, and those of the three links do not coincide, windows grow for a time T between the halvings
    of a short flow and for T / 3 between those of the long one; a rate grows by 1 / RTT^2, so that short to long is
    3 x 3^2, and the share 1 / 28 = 0.036. A mean over the some 20 halvings of three seconds is off by 0.5 / sqrt(20),
    and by three times that in one run of some hundreds.
    """
    found = measure(tmp_path, PARKING)
    random, synchronized = 1 / (1 + 3 * math.sqrt(3)), 1 / 28
    for name in "abc":
        link = found.link(name)
        assert link["saturated_rate_bps"] == pytest.approx(100e6, rel=1e-6), name
        assert link["utilization"] > 0.9
        assert found.run["drop_cross_check"][name]["port_drops"] > 0
        shares = {flow["name"]: flow["share"] for flow in link["flows"]}
        assert shares.keys() == {"long-1", f"at-{name}-1"} and sum(shares.values()) == pytest.approx(1, abs=1e-6)
        assert synchronized < shares["long-1"] < random * (1 + 3 * 0.5 / math.sqrt(20)), (name, shares)
    path = [next(flow for flow in found.link(name)["flows"] if flow["name"] == "long-1") for name in "abc"]
    # What has left a link arrives at the next, but for what was dropped there after the last that left.
    for first, following in pairwise(path):
        assert 0 <= first["departures"] - following["arrivals"] <= 2
    long = found.flow("long-1")
    assert long["drops"] == sum(part["drops"] for part in path) > 0
    assert long["arrivals"] == path[0]["arrivals"] and long["departures"] == path[-1]["departures"]
    assert set(long["limited_by"]) == {"a", "b", "c"} and 0.8 < sum(long["limited_by"].values()) <= 1
    # Alike, each is the bottleneck for some of the time: for two intervals of 0.1 s at least.
    assert min(long["limited_by"].values()) > 0.06


TWO_WAY = """
name: two-way
bottleneck: {rate: 20Mbit, buffer: 1bdp, rtt: 40ms, reverse: {rate: 20Mbit, buffer: 1bdp}}
hosts: {jitter: 0s}
flows:
  - {name: down, cca: cubic, duration: 6s}
  - {name: up, cca: cubic, duration: 6s, direction: reverse}
"""


@pytest.mark.long
def test_traffic_both_ways_fills_both_queues_and_compresses_acknowledgements(tmp_path: Path) -> None:
    """Acknowledgements are sent a frame's time apart or more, and leave a queue of data together.

    A receiver sends at most one for each frame of data, and these come no closer than they left the other direction,
    1514 x 8 / 20 Mbit/s = 606 us apart; what is closer behind the queue was compressed by it (L. Zhang, S. Shenker and
    D. Clark 1991). CUBIC leaves 0.7 of two BDP after a loss, so that a queue of one BDP never has less than 0.4 of it
    in it once it was full.
    """
    found = measure(tmp_path, TWO_WAY)
    frame_ns = FRAME * 8 * 1_000_000_000 // 20_000_000
    for name in ("bottleneck", "bottleneck.reverse"):
        link = found.link(name)
        assert link["saturated_rate_bps"] == pytest.approx(20e6, rel=1e-6)
        assert 0.4 * 0.04 * 0.5 < link["queue_delay_s"]["mean"] < 0.04, name
        acks = found.at(name).query("payload_length == 0 and packet_length < 100")
        left = acks["timestamp"].astype("int64")
        came = (left - acks["queue_delay"].astype("int64")).sort_values()
        assert (came.diff().dropna() < 0.98 * frame_ns).mean() < 0.01, name
        assert (left.diff().dropna() < 0.5 * frame_ns).mean() > 0.05, name
    assert {flow["packets"] for flow in found.link("bottleneck")["flows"]} == {"data", "acks"}


ASYMMETRIC = """
name: asymmetric
bottleneck: {rate: 50Mbit, buffer: 2000packets, rtt: 20ms, reverse: {rate: 1Mbit, buffer: 500kB}}
tcp_buffer: 1MB
flows: [{cca: reno, duration: 6s}]
"""


def test_a_slow_reverse_path_limits_a_download(tmp_path: Path) -> None:
    """1 Mbit/s carry 1,894 acknowledgements of 66 bytes in a second, and each lets two segments go.

    Linux acknowledges as soon as more than one full-size segment has come since the last acknowledgement
    (`__tcp_ack_snd_check`): every second one. So 2 x 1514 / 66 x 1 Mbit/s = 45.9 Mbit/s of the forward direction's 50
    are used. Neither queue overflows: the window is what the socket's buffer holds.
    """
    found = measure(tmp_path, ASYMMETRIC)
    forward, reverse = found.at("bottleneck"), found.at("bottleneck.reverse")
    predicted = 2 * FRAME / ACK * 1e6
    assert predicted < 50e6
    time_s = (forward["timestamp"] - forward["timestamp"].iloc[0]) / 1e9
    steady = forward[(time_s > 2) & (time_s < 5.5)]
    rate = steady["packet_length"].iloc[1:].sum() * 8e9 / (steady["timestamp"].iloc[-1] - steady["timestamp"].iloc[0])
    assert rate == pytest.approx(predicted, rel=0.03)
    at_s = (reverse["timestamp"] - forward["timestamp"].iloc[0]) / 1e9
    assert set(reverse["packet_length"][(at_s > 2) & (at_s < 5.5)]) == {ACK}
    assert found.link("bottleneck.reverse")["saturated_rate_bps"] == pytest.approx(1e6, rel=1e-4)
    assert all(check["port_drops"] == 0 for check in found.run["drop_cross_check"].values())


MOVED = """
name: moved
links:
  near: {rate: 20Mbit, buffer: 2bdp, rtt: 20ms}
  far: {rate: 30Mbit, buffer: 2bdp, rtt: 20ms}
flows:
  - {name: through, cca: reno, duration: 8s, path: [near, far]}
  - {name: joining, cca: reno, duration: 4s, start: 4s, path: [far]}
"""


@pytest.mark.long
def test_the_bottleneck_moves_when_a_flow_joins(tmp_path: Path) -> None:
    """Alone, `through` fills `near` (20 of 30 Mbit/s); then it has to share `far`, where it gets less than 20.

    Two BDPs of the link are one of the path, with which Reno never empties the queue. The joining flow has half of its
    RTT, and so more than half of 30 Mbit/s: `near` is no longer filled.
    """
    found = measure(tmp_path, MOVED)
    limited_by = found.flow("through-1")["limited_by"]
    assert limited_by["near"] == pytest.approx(0.5, abs=0.1) and limited_by["far"] == pytest.approx(0.5, abs=0.15)
    reports = found.at("near")
    time_s = (reports["timestamp"] - reports["timestamp"].iloc[0]) / 1e9
    rates = [
        reports["packet_length"][(time_s >= low) & (time_s < high)].sum() * 8 / (high - low)
        for low, high in ((1, 4), (5, 8))
    ]
    assert rates[0] == pytest.approx(20e6, rel=0.01) and rates[1] < 15e6
    assert "near" in found.page and "far" in found.page
