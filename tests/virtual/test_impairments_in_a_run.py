# SPDX-License-Identifier: Apache-2.0
"""Loss in bursts, delays that vary, reordering and duplication in whole runs, as datagrams with numbers count them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

# One datagram a millisecond on a link that is never busy.
UDP = "flows: [{udp: {rate: 1Mbit, payload: 125B}, duration: %ds}]\n"
LINK = "name: x\nbottleneck: {rate: 1Gbit, buffer: 100packets, rtt: 20ms, %s}\n"
# What a sender's NIC takes for a frame is drawn, up to a full-size frame's time on the link; and it has to send it.
CARD_S = 2e-5


def flow_of(tmp_path: Path, link: str, seconds: int) -> dict[str, Any]:
    """The only flow of a complete run's summary."""
    assert start(tmp_path, LINK % link + UDP % seconds).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["status"] == "complete", run["reason"]
    assert run["drop_cross_check"]["bottleneck"]["holds"]
    (flow,) = json.loads((tmp_path / "out" / "summary.json").read_text())["flows"]
    found: dict[str, Any] = flow
    return found


def within(found: int, trials: int, chance: float) -> bool:
    """Whether a count is within 4.5 standard deviations of a binomial distribution's mean."""
    return bool(abs(found - trials * chance) < 4.5 * (trials * chance * (1 - chance)) ** 0.5)


@pytest.mark.long
def test_reordering_is_what_was_set(tmp_path: Path) -> None:
    """Half of the datagrams take 1.5 ms more: one is overtaken by the next one if only the former does, by no other."""
    (tmp_path / "times").write_text("0s\n1.5ms\n")
    flow = flow_of(tmp_path, "jitter: {samples: {file: times}, reorder: true}", 5)
    counted = flow["datagrams"]
    assert (counted["sent"], counted["lost"], flow["drops"]) == (5000, 0, 0)
    assert within(counted["reordered"], 4999, 0.25)
    delays = counted["delay_s"]
    assert delays["max"] - delays["min"] == pytest.approx(0.0015, abs=CARD_S)


def test_packets_leave_in_bursts_at_the_ends_of_intervals(tmp_path: Path) -> None:
    """Sent each millisecond, a little behind intervals of 4 ms: four leave together, and wait for 4, 3, 2 and 1 ms."""
    counted = flow_of(tmp_path, "aggregation: {period: 4ms}", 4)["datagrams"]
    assert (counted["sent"], counted["lost"], counted["reordered"]) == (4000, 0, 0)
    delays = counted["delay_s"]
    assert delays["max"] - delays["min"] == pytest.approx(0.003, abs=CARD_S)
    assert delays["mean"] - delays["min"] == pytest.approx(0.0015, abs=CARD_S)
    assert delays["max"] - delays["p95"] == pytest.approx(0, abs=CARD_S)


def test_what_an_outage_holds_leaves_at_the_end_of_an_interval_too(tmp_path: Path) -> None:
    """What is sent as 10 ms without a rate begin leaves with all that comes until the end of the third interval."""
    (tmp_path / "rates.csv").write_text("t,down\n2,0\n2.01,100\n")
    trace = "{file: rates.csv, columns: {time: t, rate: down}, units: {rate: Mbit}}"
    counted = flow_of(tmp_path, f"aggregation: {{period: 4ms}}, trace: {trace}", 4)["datagrams"]
    assert (counted["sent"], counted["lost"], counted["reordered"]) == (4000, 0, 0)
    delays = counted["delay_s"]
    assert delays["max"] - delays["min"] == pytest.approx(0.011, abs=CARD_S)
    # Twelve of 4,000 wait for 6.5 ms in the mean, not for 2.5.
    assert delays["mean"] - delays["min"] == pytest.approx(0.0015 + 12 * 0.004 / 4000, abs=CARD_S)


def test_an_interval_begins_with_its_overhead(tmp_path: Path) -> None:
    """Nothing starts in the first of each 5 ms; the others carry 4 ms of 20 Mbit/s, 16 Mbit/s in the mean."""
    text = """\
name: x
bottleneck: {rate: 20Mbit, buffer: 60packets, rtt: 20ms, aggregation: {period: 5ms, overhead: 1ms}}
flows: [{cca: cubic, duration: 3s}]
"""
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    (link,) = run["links"]
    assert link["delay_steps"] == {"steps": [[0, 0]], "period_ns": 5_000_000, "gathers": True, "jitters": []}
    files = sorted((tmp_path / "out/telemetry").glob("reports-*.parquet"))
    reports = pd.concat(pd.read_parquet(path) for path in files)
    left = reports["timestamp"].astype("int64") - run["clock_origin_ns"]
    assert (left % 5_000_000 >= 1_000_000).all()
    steady = reports["packet_length"][(left >= 1_000_000_000) & (left < 3_000_000_000)]
    assert steady.sum() * 8 / 2 == pytest.approx(16e6, abs=2 * 1514 * 8)


@pytest.mark.long
def test_full_bursts_take_their_overhead_and_their_bytes(tmp_path: Path) -> None:
    """16 frames of 1,514 bytes at 100 Mbit/s and 0.5 ms: 2,437,920 ns each. CoDel drops cost no time of the link."""
    text = """\
name: x
bottleneck: {rate: 100Mbit, buffer: 1bdp, rtt: 40ms, queue: codel, aggregation: {frames: 16, overhead: 500us}}
flows: [{cca: cubic, duration: 3s, count: 2}]
"""
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["links"][0]["aggregation"] == {"packets": 16, "bytes": None, "overhead_ns": 500_000}
    assert run["drop_cross_check"]["bottleneck"]["holds"]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["bottleneck"]["aqm_drops"] > 0
    files = sorted((tmp_path / "out/telemetry").glob("reports-*.parquet"))
    reports = pd.concat(pd.read_parquet(path) for path in files)
    bursts = reports.groupby("timestamp")["packet_length"].agg(["count", "sum"])
    assert bursts["count"].max() == 16
    begun = bursts.index.astype("int64")
    full = (bursts["sum"] == 16 * 1514).to_numpy()[:-1]
    took = (begun[1:] - begun[:-1])[full]
    assert len(took) > 500 and took.min() == 2_437_920
    assert (took == 2_437_920).mean() > 0.95


def test_frames_take_the_time_of_their_cells(tmp_path: Path) -> None:
    """1,514 + 26 bytes are 33 cells of 53 bytes: 1.3992 ms at 10 Mbit/s. 254 + 26 bytes are 6."""
    text = """\
name: x
bottleneck:
  {rate: 10Mbit, buffer: 40packets, rtt: 40ms, queue: codel, framing: {overhead: 26, linklayer: atm}}
flows: [{cca: cubic, duration: 3s}, {udp: {rate: 100kbit, payload: 212B}, duration: 3s}]
"""
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["links"][0]["framing"] == {"overhead": 26, "mpu": 0, "linklayer": "atm"}
    files = sorted((tmp_path / "out/telemetry").glob("reports-*.parquet"))
    reports = pd.concat(pd.read_parquet(path) for path in files)
    took = -reports["timestamp"].astype("int64").diff(-1)
    for length, most_ns, least in ((1514, 1_399_200, 1000), (254, 6 * 53 * 800, 100)):
        of_length = took[reports["packet_length"] == length]
        # One that leaves an idle link behind is followed later.
        assert (of_length == most_ns).sum() > least, length
        assert of_length.min() == most_ns, length


@pytest.mark.long
def test_jitter_changes_with_a_recording(tmp_path: Path) -> None:
    """One datagram a millisecond: a second at 10 ms, then three at 20 ms, more or less by up to 0.4 ms, uniformly.

    Of all, 95 % are at most where 0.7 / 0.75 of the later ones are: 19.6 + 0.8 * 0.7 / 0.75 = 20.347 ms.
    """
    (tmp_path / "t.csv").write_text("t,owd,ipdv\n0,10,\n1,20,400\n")
    units = "columns: {time: t, delay: owd, jitter: ipdv}, units: {delay: ms, jitter: us}"
    counted = flow_of(tmp_path, f"trace: {{file: t.csv, {units}}}", 4)["datagrams"]
    assert (counted["sent"], counted["lost"], counted["reordered"]) == (4000, 0, 0)
    delays = counted["delay_s"]
    assert delays["mean"] - delays["min"] == pytest.approx(0.0075, abs=CARD_S + 1e-5)
    assert delays["p95"] - delays["min"] == pytest.approx(0.010347, abs=2 * CARD_S)
    assert delays["max"] - delays["min"] == pytest.approx(0.0104, abs=CARD_S)


def test_redundant_acknowledgements_go_and_nothing_else(tmp_path: Path) -> None:
    """Without the filter 500 kbit/s carry 947 ACKs of 66 bytes a second, for twice as many segments: 22 Mbit/s."""
    text = """\
name: x
bottleneck:
  rate: 50Mbit
  buffer: 2bdp
  rtt: 20ms
  reverse: {rate: 500kbit, buffer: 20kB, ack_filter: aggressive}
flows: [{cca: bbr, duration: 3s}, {udp: {rate: 64kbit, payload: 200B}, duration: 3s, direction: reverse}]
"""
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [link.get("ack_filter") for link in run["links"]] == [None, "aggressive"]
    assert all(checked["holds"] for checked in run["drop_cross_check"].values())
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    (reverse,) = (link for link in summary["links"] if link["name"] == "bottleneck.reverse")
    drops = pd.concat(pd.read_parquet(path) for path in (tmp_path / "out/telemetry").glob("drops*.parquet"))
    of_link = drops[drops["bottleneck"] == 1]
    thinned = of_link[of_link["cause"] == 5]
    # Those with SACK stay, and may find the queue full.
    assert (reverse["ack_filter_drops"], reverse["drops"]) == (len(thinned), len(of_link))
    assert len(thinned) > 500
    assert (thinned["waited"] > 0).all() and thinned["packet_length"].max() <= 66
    acks, datagrams = (next(flow for flow in reverse["flows"] if flow["name"] == name) for name in ("bbr-1", "udp-1"))
    assert acks["arrivals"] == acks["departures"] + acks["drops"]
    assert acks["ack_filter_drops"] == len(thinned)
    assert (datagrams["drops"], datagrams["ack_filter_drops"]) == (0, 0)
    assert summary["flows"][0]["goodput_bps"] > 30e6
    # Of a flow's own packets none was one.
    assert [flow["ack_filter_drops"] for flow in summary["flows"]] == [0, 0]


def test_a_policer_drops_what_exceeds_its_rate_and_burst(tmp_path: Path) -> None:
    """Frames of 125 + 42 bytes, one a millisecond; the bucket has 1,670 bytes and gets 83.5 a millisecond, so that of
    5,000 in 4.999 s (1670 + 83.5 * 4999) / 167 = 2509.5 pass; NICs delay each frame a little."""
    flow = flow_of(tmp_path, "policer: {rate: 668kbit, burst: 1670B}", 5)
    assert flow["datagrams"]["sent"] == 5000 and abs(flow["policer_drops"] - (5000 - 2509)) <= 1
    assert flow["drops"] == flow["policer_drops"] == flow["datagrams"]["lost"]
    assert (flow["arrivals"], flow["departures"]) == (5000, 5000 - flow["drops"])


def test_a_policer_marks_what_may_be_marked_and_drops_the_rest(tmp_path: Path) -> None:
    """The same bucket, of which two flows of 2,500 frames each have more: what exceeds it is marked of the one that is
    ECN-capable, and dropped of the other."""
    sent = "flows:\n" + "".join(
        f"- {{name: {name}, udp: {{rate: 500kbit, payload: 125B, ecn: {ecn}}}, start: {start_}, duration: 5s}}\n"
        for name, ecn, start_ in (("may", "ect0", "0s"), ("not", "not-ect", "1ms"))
    )
    text = LINK % "policer: {rate: 668kbit, burst: 1670B, excess: mark}" + sent
    assert start(tmp_path, text).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    may, other = summary["flows"]
    assert may["datagrams"]["sent"] == other["datagrams"]["sent"] == 2500
    marked, dropped = may["datagrams"]["ce_marked"], other["policer_drops"]
    assert abs(marked + dropped - (5000 - 2509)) <= 1 and marked and dropped
    assert may["drops"] == 0 == may["datagrams"]["lost"] and may["ce_marks"] == marked
    assert other["ce_marks"] == 0 == other["datagrams"]["ce_marked"] and other["drops"] == dropped
    assert summary["bottleneck"]["policer_drops"] == dropped
    # The marks keep the checksum of the header right: what has a wrong one does not arrive.
    assert may["datagrams"]["received"] == 2500


def test_a_token_bucket_lets_a_burst_pass_and_then_the_rate(tmp_path: Path) -> None:
    """200 frames of 125 + 42 bytes come in 1.99 ms: 16,700 bytes pass at once, 83.5 of the others a millisecond."""
    sent = "flows: [{udp: {rate: 100Mbit, payload: 125B, bursts: {length: 2ms, pause: 1s}}, duration: 5s}]\n"
    link = LINK.replace("1Gbit", "668kbit").replace("100packets", "1000packets") % "burst: 16.7kB"
    assert start(tmp_path, link + sent).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    (flow,) = json.loads((tmp_path / "out" / "summary.json").read_text())["flows"]
    assert flow["drops"] == 0
    delays = flow["datagrams"]["delay_s"]
    assert delays["max"] - delays["min"] == pytest.approx(0.2 - 0.00199, abs=0.0025)
    # Half of each burst waits for no token.
    assert delays["p50"] - delays["min"] == pytest.approx(0, abs=0.0025)


def test_in_order_nothing_overtakes(tmp_path: Path) -> None:
    (tmp_path / "times").write_text("0s\n1.5ms\n")
    counted = flow_of(tmp_path, "jitter: {samples: {file: times}}", 1)["datagrams"]
    assert (counted["reordered"], counted["lost"]) == (0, 0)


def test_a_machine_is_not_said_to_reorder_where_a_link_duplicates(tmp_path: Path) -> None:
    """TCP takes some of what it has sent again for late, since what came twice is answered twice."""
    flows = "flows: [{cca: cubic, duration: 2s, count: 3}]\n"
    link = "bottleneck: {rate: 20Mbit, buffer: 20packets, rtt: 20ms, duplication: 5%}\n"
    assert start(tmp_path, f"name: x\n{link}{flows}").wait(PATIENCE_S) == 0
    said = (tmp_path / "said").read_text()
    assert "Jain's fairness index" in said and "reordered" not in said


@pytest.mark.long
def test_a_delay_steps_at_its_time_and_copies_arrive_too(tmp_path: Path) -> None:
    """2 s at 5 ms, 1 s at 25 ms: two thirds and a third; one in ten arrives twice, and the switch has seen it once."""
    steps = "delay: {steps: [{at: 0s, delay: 5ms}, {at: 2s, delay: 25ms}]}, duplication: 10%"
    flow = flow_of(tmp_path, steps, 3)
    counted = flow["datagrams"]
    assert (flow["arrivals"], flow["departures"], counted["lost"]) == (3000, 3000, 0)
    assert within(counted["duplicates"], 3000, 0.1)
    delays = counted["delay_s"]
    assert delays["max"] - delays["min"] == pytest.approx(0.020, abs=CARD_S)
    assert delays["p50"] == pytest.approx(delays["min"], abs=CARD_S)
    assert delays["p95"] == pytest.approx(delays["max"], abs=CARD_S)


@pytest.mark.long
def test_bursts_of_loss_are_no_drops_of_the_queue(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "loss: {gilbert_elliott: {p: 2%, r: 18%}}", 4)
    counted = flow["datagrams"]
    assert flow["drops"] == 0
    assert flow["loss_emulation_drops"] == counted["lost"] == counted["sent"] - flow["departures"]
    # A tenth; the state is correlated over five packets, so that there are about 4000 / 9 independent ones.
    assert counted["lost"] / counted["sent"] == pytest.approx(0.1, abs=4.5 * (0.1 * 0.9 * 9 / 4000) ** 0.5)
