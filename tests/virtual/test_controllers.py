# SPDX-License-Identifier: Apache-2.0
"""Senders that a driver steers in virtual time: what is set holds, and controllers in Python do what theory says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from narrows import api
from narrows.controllers import Aimd, Copa, DelayTarget, drive
from narrows.errors import InputError
from narrows.virtual import kernels
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("guest-kernel", "external-kernel", "narrows-softswitch", COLLECTOR, "ip")
FRAME, MSS = 1514, 1448


def bed(out: Path, cca: str, rate: str = "20Mbit", buffer: str = "1bdp", rtt: str = "40ms", **flow: Any) -> api.Session:
    experiment = {
        "name": "steered",
        "bottleneck": {"rate": rate, "buffer": buffer, "rtt": rtt},
        "hosts": {"jitter": "0s"},
        "flows": [{"name": "agent", "cca": cca, "duration": "10s", **flow}],
    }
    return api.testbed(experiment, virtual=True, kernel=kernels.installed()[0].name, out=out)


def test_a_window_holds_and_a_rate_does(tmp_path: Path) -> None:
    with bed(tmp_path / "out", "external", buffer="100packets") as driven:
        agent = driven.flows["agent-1"]
        assert agent.info() is None
        driven.step("200ms")
        began = agent.info()
        assert began is not None and began.cwnd == 10 and began.pacing_rate_bps is None
        window = agent.set(cwnd=20)
        assert window is not None and window.cwnd == 20
        # It is the second request at this halt.
        assert window.time_ns == 200_020_000
        # More is under way at that very instant.
        assert window.in_flight > began.in_flight
        driven.step("1s")
        after = agent.info()
        assert after is not None
        # 20 segments an RTT and the two frames that one acknowledgement is for (RFC 1122, section 4.2.3.2).
        expected = 20 * MSS * 8 / (0.04 + 2 * FRAME * 8 / 20e6)
        assert api.Interval(window, after).throughput_bps == pytest.approx(expected, rel=0.03)
        paced = agent.set(cwnd=1000, pacing_rate="5Mbit")
        driven.step("1s")
        later = agent.info()
        assert paced is not None and later is not None and later.pacing_rate_bps == 5e6 and later.cwnd == 1000
        # Linux paces payload (tcp_update_skb_after_send).
        assert api.Interval(paced, later).throughput_bps == pytest.approx(5e6, rel=0.03)
    events = [event["what"] for event in json.loads((tmp_path / "out" / "run.json").read_text())["events"]]
    assert events == ["agent-1: cwnd 20", "agent-1: cwnd 1000, pacing_rate 5Mbit"]


@pytest.mark.long
def test_what_a_loss_does_is_the_congestion_controls(tmp_path: Path) -> None:
    """With a window of twice what link and queue hold packets are lost; one keeps its window, one halves it."""
    found = {}
    for cca in ("external", "external_halve"):
        with bed(tmp_path / cca, cca, buffer="20packets") as driven:
            driven.step("200ms")
            agent = driven.flows["agent-1"]
            # A path of 40 ms at 20 Mbit/s holds 66 frames.
            agent.set(cwnd=160)
            driven.step("500ms")
            info = agent.info()
            assert info is not None and info.retransmits > 0
            found[cca] = info.cwnd
            agent.set(cwnd=160)
            assert (again := agent.info()) is not None and again.cwnd == 160
    assert found["external"] == 160 and found["external_halve"] <= 80


def test_only_what_can_be_steered_is(tmp_path: Path) -> None:
    with bed(tmp_path / "out", "cubic", count=2) as driven:
        driven.step("200ms")
        with pytest.raises(InputError, match=r"flow agent-1: has the congestion control cubic; allowed: external"):
            driven.flows["agent-1"].set(cwnd=5)
        info = driven.flows["agent-1"].info()
        assert info is not None and info.rtt_s is not None and info.rtt_s >= 0.04
        with pytest.raises(InputError, match="there is no such flow; allowed: agent-1, agent-2"):
            drive(driven, {"other": Aimd()})


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate_bps", "rtt_s", "duration_s", "host_bps"),
    [(10_000_000, 0.04, 60, 10**9), (100_000_000, 0.02, 40, 10**9), (1_000_000_000, 0.005, 25, 10**10)],
)
def test_a_window_stepped_once_an_rtt_is_renos(
    rate_bps: int, rtt_s: float, duration_s: int, host_bps: int, tmp_path: Path
) -> None:
    """A loss is acted upon up to one round trip later, in which one more packet is dropped, and nothing else differs.

    Path and queue hold S segments, with what the link serves of a burst of B while it arrives. Reno's window grows by
    one a round trip: one packet is dropped at S + 1, one more at S + 2 in the round trip until the kernel knows that,
    unless it still waits for the rest of its burst. With steps the first one is sent again before the window is halved,
    with what was waiting: part of a burst, of which the link serves less; where S is not a whole number the window
    exceeds it by less. The window W is a sawtooth from W / 2 to W = S + 2, with a round trip for each segment that it
    grows by. While the queue is not empty a round trip takes as long as W segments do: a cycle has 3 / 8 W^2 packets,
    and the mean over time is 7 / 9 W. What waits for a burst leaves the link idle for B^2 / 2 packets of a cycle.
    """
    # What is acknowledged, two segments at a time, until a millisecond is over; 64 KiB at most (tcp_tso_should_defer).
    burst = min(2 * math.ceil(rate_bps * 0.001 / 8 / FRAME / 2), 45)
    served = burst * rate_bps / host_bps
    most = 2 * rate_bps * rtt_s / 8 / FRAME + served + 2
    packets = 3 / 8 * most**2
    for cca, least_drops, most_drops in (("reno", 1, 2), ("external", 2, 3 + served)):
        options = {"rate": f"{rate_bps}bit", "rtt": f"{rtt_s * 1e3:g}ms", "duration": f"{duration_s}s"}
        with bed(tmp_path / cca, cca, **options) as driven:
            if cca == "external":
                drive(driven, {"agent-1": Aimd()})
            else:
                while not driven.step("1s").over:
                    pass
        sockets, queue = driven.result.sockets, driven.result.queue
        steady, later = sockets[sockets["time_s"] > duration_s / 4], queue[queue["time_s"] > duration_s / 4]
        # Of few cycles a part has a say in the mean, and in how often there was a loss.
        assert steady["cwnd_bytes"].mean() / MSS == pytest.approx(7 / 9 * most, rel=0.05)
        dropped, passed = later["drops"].sum(), later["departures"].sum()
        assert 0.8 * least_drops < dropped / passed * packets < 1.2 * most_drops
        used = (later["throughput_bps"] * later["interval_s"]).sum() / later["interval_s"].sum() / rate_bps
        assert used == pytest.approx(1 - burst**2 / 2 / packets, abs=0.002)


@pytest.mark.long
def test_a_target_of_delay_is_held(tmp_path: Path) -> None:
    with bed(tmp_path / "out", "external", buffer="4bdp", duration="15s") as driven:
        drive(driven, {"agent-1": DelayTarget(target_s=0.01)})
    series = driven.result.queue
    settled = series[series["time_s"] > 5]
    assert settled["delay_mean_s"].mean() == pytest.approx(0.01, rel=0.2)
    assert (used := driven.result.summary["bottleneck"]["utilization"]) is not None and used > 0.95


@pytest.mark.long
def test_copa_keeps_its_queue_short(tmp_path: Path) -> None:
    """One flow moves between an empty queue and 2.5 / delta packets (section 3, of the oscillation's bounds).

    Decided once a round trip, and three round trips late (velocity, section 2.2), the window falls below the path's 66
    segments by 2 + 2 + 4 + 8 at most: a quarter of the link.
    """
    with bed(tmp_path / "out", "external", buffer="4bdp", duration="15s") as driven:
        drive(driven, {"agent-1": Copa(delta=0.5)})
    series = driven.result.queue
    settled = series[series["time_s"] > 5]
    packets = settled["delay_mean_s"].mean() * 20e6 / 8 / FRAME
    assert 0 < packets <= 2.5 / 0.5 + 5
    assert (used := driven.result.summary["bottleneck"]["utilization"]) is not None and used > 0.75
