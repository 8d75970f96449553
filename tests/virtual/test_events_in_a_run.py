# SPDX-License-Identifier: Apache-2.0
"""Events of an experiment, in virtual time: each at its very nanosecond, as the packets around it show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows_formats.programs import COLLECTOR
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", COLLECTOR, "ip")
MS = 1_000_000
# A datagram of 125 bytes each millisecond, which a link of 20 Mbit/s is not busy with.
UDP = """\
name: events
bottleneck: {rate: 20Mbit, buffer: 10packets, rtt: 20ms}
flows: [{udp: {rate: 1Mbit, payload: 125B}, duration: 2s}]
hosts: {jitter: 0s}
events: [%s]
"""


def run(directory: Path, text: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Reports in the order of departures, times in nanoseconds from the experiment's start; and run.json."""
    directory.mkdir(exist_ok=True)
    assert start(directory, text).wait(PATIENCE_S) == 0, (directory / "said").read_text()
    record = json.loads((directory / "out/run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert all(check["holds"] for check in record["drop_cross_check"].values())
    reports = pd.concat(
        pd.read_parquet(path) for path in sorted((directory / "out/telemetry").glob("reports-*.parquet"))
    )
    left = reports["timestamp"].astype("int64") - record["clock_origin_ns"]
    return reports.assign(left=left, came=left - reports["queue_delay"].astype("int64")), record


@pytest.mark.long
def test_loss_begins_and_ends_at_its_nanosecond(tmp_path: Path) -> None:
    """What arrives at the instant of a change is the last that does not meet it, what arrives a nanosecond later does.

    All but one in 2^32 are lost in between. The arrivals are those of a run whose loss changes from nothing to nothing,
    to the nanosecond that a guest's reading of its clock takes: a sender that reads it once more is that much later.
    """
    at = "{at: %dns, link: bottleneck, loss: %s}"
    before, _ = run(tmp_path / "before", UDP % ", ".join((at % (500 * MS, "0"), at % (600 * MS, "0"))))
    came = list(before["came"])
    assert len(came) == 2000
    for begins, ends in ((0, 0), (-1, -1), (-1, 0)):
        events = at % (came[500] + begins, "0.9999999998"), at % (came[600] + ends, "0")
        reports, record = run(tmp_path / f"{-begins}{-ends}", UDP % ", ".join(events))
        assert list(reports["came"]) == pytest.approx(came[: 501 + begins] + came[601 + ends :], abs=1, rel=0)
        assert [(one["at_ns"], one["achieved_ns"]) for one in record["events"]] == [
            (came[500] + begins, came[500] + begins),
            (came[600] + ends, came[600] + ends),
        ]


@pytest.mark.long
def test_a_law_has_the_new_limit(tmp_path: Path) -> None:
    """PIE itself drops what finds no room: with its old limit no more than before would ever wait."""
    text = """\
name: events
bottleneck: {rate: 20Mbit, buffer: 5packets, rtt: 20ms, queue: {kind: pie, target: 1s}}
flows: [{cca: cubic, duration: 2s}]
events: [{at: 1s, link: bottleneck, buffer: 60packets}]
"""
    reports, _ = run(tmp_path, text)
    depths, early = reports["enqueue_depth"], reports["came"] < 1_000_000_000
    assert depths[early].max() <= 4 * 1514 and depths[~early].max() > 10 * 1514
    record, summary = (json.loads((tmp_path / "out" / name).read_text()) for name in ("run.json", "summary.json"))
    assert record["links"][0]["later_buffers_packets"] == [60]
    assert not {"queue_above_buffer", "late_service"} & {one["code"] for one in summary["warnings"]}


@pytest.mark.long
def test_links_and_flows_change_at_their_times(tmp_path: Path) -> None:
    """The rate halves, the buffer shrinks, a flow comes and goes: each is seen in the packets."""
    text = """\
name: events
bottleneck: {rate: 20Mbit, buffer: 40packets, rtt: 20ms, delay: 8ms}
flows:
  - {cca: cubic, duration: 4s}
  - {name: guest, udp: {rate: 2Mbit, payload: 500B}, duration: 3s}
events:
  - {at: 3000000007ns, link: bottleneck, buffer: 5packets}
  - {at: 1500000003ns, link: bottleneck, rate: 10Mbit, delay: 2ms}
  - {at: 1s, start: guest}
  - {at: 2.25s, stop: guest}
"""
    reports, record = run(tmp_path, text)
    assert [(one["at_ns"], one["timed_by"]) for one in record["events"]] == [
        (1_000_000_000, "host"), (1_500_000_003, "schedule"), (2_250_000_000, "host"), (3_000_000_007, "software"),
    ]  # fmt: skip
    late = [one["achieved_ns"] - one["at_ns"] for one in record["events"]]
    assert (late[1], late[3]) == (0, 0)
    # A sender of datagrams ends with the last of them, 2 ms before there would be another one.
    assert 0 <= late[0] < 1000 and -2 * MS <= late[2] < 1000
    # Full-size frames back to back: 1514 bytes are 605,600 ns at 20 Mbit/s and 1,211,200 at 10.
    full = reports[(reports["packet_length"] == 1514) & (reports["queue_delay"] > 0)]
    for first, last, gap in ((0, 1_500_000_003, 605_600), (1_503_000_000, 4_000_000_000, 1_211_200)):
        starts = full[(full["left"] >= first) & (full["left"] < last)]["left"]
        assert abs(starts.diff().min() - gap) <= 1
    depths = reports["enqueue_depth"]
    early = reports["came"] < 3_000_000_007
    assert depths[early].max() > 30 * 1514 and depths[~early].max() <= 4 * 1514
    flow = next(
        one for one in json.loads((tmp_path / "out/summary.json").read_text())["flows"] if one["group"] == "guest"
    )
    # 2 Mbit/s in datagrams of 500 bytes are one every 2 ms, for 1.25 s.
    assert flow["datagrams"]["sent"] == 625


def test_an_application_pauses_and_is_limited_at_its_times(tmp_path: Path) -> None:
    """2 Mbit/s are a segment of 1448 bytes each 5.792 ms: 172 of them in a second, and none in a pause."""
    text = """\
name: events
bottleneck: {rate: 20Mbit, buffer: 40packets, rtt: 20ms}
flows: [{name: a, cca: cubic, duration: 4s}]
events:
  - {at: 500ms, flow: a, send_rate: 2Mbit}
  - {at: 1.5s, flow: a, send: off}
  - {at: 2.5s, flow: a, send: on}
  - {at: 3.5s, flow: a, send_rate: unlimited}
"""
    reports, record = run(tmp_path, text)
    assert [(one["what"], one["timed_by"]) for one in record["events"]] == [
        ("a: send_rate 2Mbit", "host"), ("a: send off", "host"), ("a: send on", "host"),
        ("a: send_rate unlimited", "host"),
    ]  # fmt: skip
    assert all(0 <= one["achieved_ns"] - one["at_ns"] < 1000 for one in record["events"])
    given = [one["bytes"] for one in json.loads((tmp_path / "out/hosts/a-1.json").read_text())["changes"]]
    assert [later - given[0] for later in given] == [0, 172 * 1448, 172 * 1448, 2 * 172 * 1448]
    # On the wire: full-size frames at the writes' times, and none after half of the base RTT, and 17 kB that the socket
    # may hold unsent, in the pause.
    full = reports[reports["packet_length"] == 1514]["came"]
    assert not len(full[(full > 1_530_000_000) & (full < 2_500_000_000)])
    limited = full[(full > 2_500_000_000) & (full < 3_500_000_000)]
    assert len(limited) == 172
    # A frame waits up to 12.2 us at its host (`hosts.jitter`: the time of a full-size frame at 1 Gbit/s).
    assert limited.diff().dropna().between(5_792_000 - 12_200, 5_792_000 + 12_200).all()


def test_a_condition_is_met_at_the_first_reading_at_which_it_holds(tmp_path: Path) -> None:
    """From then on all is lost: what came later, by a nanosecond and more, is not there."""
    condition = '{when: "links.bottleneck.departed_packets >= 50", link: bottleneck, loss: 0.9999999998}'
    text = UDP % condition + "telemetry: {conditions: 300us}\n"
    reports, record = run(tmp_path, text)
    (event,) = record["events"]
    left = sorted(reports["left"])
    expected = -(-left[49] // 300_000) * 300_000
    assert (event["at_ns"], event["achieved_ns"], event["when"]) == (
        expected, expected, "links.bottleneck.departed_packets >= 50",
    )  # fmt: skip
    assert reports["came"].max() <= expected and expected - MS < reports["came"].max()


def test_two_conditions_keep_a_queue_between_two_depths(tmp_path: Path) -> None:
    """Fed by 15 Mbit/s a queue grows by 5 Mbit/s at 10 Mbit/s and shrinks as fast at 20: 40 kB each 64 ms."""
    text = """\
name: events
bottleneck: {rate: 10Mbit, buffer: 200kB, rtt: 20ms}
flows: [{udp: {rate: 14.3Mbit, payload: 858B}, duration: 1s}]
hosts: {jitter: 0s}
events:
  - {when: links.bottleneck.queue_bytes > 50kB, once: false, link: bottleneck, rate: 20Mbit}
  - {when: links.bottleneck.queue_bytes < 10kB, once: false, link: bottleneck, rate: 10Mbit}
"""
    reports, record = run(tmp_path, text)
    # 858 bytes of payload are frames of 900: 14.3 Mbit/s of the one are 15 Mbit/s of the other.
    events = [(one["what"], one["at_ns"]) for one in record["events"]]
    faster = [at for what, at in events if what == "bottleneck: rate 20Mbit"]
    slower = [at for what, at in events if what == "bottleneck: rate 10Mbit"]
    assert len(faster) == len(slower) or len(slower) == len(faster) + 1
    # A reading is up to 1 ms late, which is 625 bytes at each turn, and depths are whole frames: 3 ms in all.
    for begin, end in zip(faster, slower[1:], strict=False):
        assert end - begin == pytest.approx(64 * MS, abs=3 * MS)
    for begin, end in zip(slower[1:], faster[1:], strict=False):
        assert end - begin == pytest.approx(64 * MS, abs=3 * MS)
    assert len(faster) >= 7
    steady = reports[reports["came"] > 200 * MS]["enqueue_depth"]
    assert steady.min() >= 10_000 - 625 - 1800 and steady.max() <= 50_000 + 625 + 1800


def test_a_rate_changes_once_packets_wait_too_long(tmp_path: Path) -> None:
    """At the first reading at which a packet had waited for more than 20 ms, as reports show of each packet."""
    text = """\
name: events
bottleneck: {rate: 10Mbit, buffer: 200kB, rtt: 20ms}
flows: [{udp: {rate: 14.3Mbit, payload: 858B}, duration: 1s}]
hosts: {jitter: 0s}
events: [{when: links.bottleneck.queue_delay_s > 20ms, link: bottleneck, rate: 50Mbit}]
"""
    reports, record = run(tmp_path, text)
    (event,) = record["events"]

    def waited(at_ns: int) -> int:
        waiting = reports[(reports["came"] <= at_ns) & (reports["left"] > at_ns)]
        return at_ns - int(waiting["came"].min()) if len(waiting) else 0

    # It grows by a third of a millisecond each millisecond.
    assert event["at_ns"] == next(at_ns for at_ns in range(0, 1000 * MS, MS) if waited(at_ns) > 20 * MS)
    assert 55 * MS < event["at_ns"] < 65 * MS


@pytest.mark.long
def test_a_phase_of_bbr_is_seen_when_it_begins(tmp_path: Path) -> None:
    """BBR's DRAIN, read each millisecond, against the table of such readings: two of them apart at most."""
    text = """\
name: events
bottleneck: {rate: 20Mbit, buffer: 80packets, rtt: 40ms}
flows: [{name: a, cca: bbr, duration: 1s}]
telemetry: {sockets: 1ms}
events:
  - {when: 'flows.a.bbr.phase == "DRAIN"', flow: a, send_rate: 2Mbit}
  - {when: links.bottleneck.queue_bytes > 1MB, stop: a}
"""
    _, record = run(tmp_path, text)
    sockets = pd.read_parquet(tmp_path / "out/hosts/sockets.parquet")
    first_ns = sockets[sockets["bbr_phase"] == "DRAIN"]["time_s"].iloc[0] * 1e9
    happened, never = record["events"]
    assert abs(happened["at_ns"] - first_ns) <= 2 * MS and happened["at_ns"] % MS == 0
    assert 0 <= happened["achieved_ns"] - happened["at_ns"] < 1000
    assert (never["what"], never["at_ns"], never["achieved_ns"]) == ("a stops", None, None)
    said = (tmp_path / "said").read_text()
    assert "events.1: did not happen: 'links.bottleneck.queue_bytes > 1MB' has not held" in " ".join(said.split())


def test_each_column_of_a_recording_is_at_its_nanosecond(tmp_path: Path) -> None:
    """Loss and delay of datagrams, which come 1.3 us after each millisecond: the time of 167 bytes at 1 Gbit/s."""
    (tmp_path / "drive.csv").write_text("t,owd,plr\n500001,20,99.99999998\n600001,20,0\n1000007,35.25,\n")
    text = """\
name: events
bottleneck:
  {rate: 20Mbit, buffer: 10packets, rtt: 20ms, delay: 20ms,
  trace: {file: drive.csv, columns: {time: t, delay: owd, loss: plr}, units: {time: us, delay: ms, loss: "%"}}}
flows: [{udp: {rate: 1Mbit, payload: 125B}, duration: 2s}]
hosts: {jitter: 0s}
"""
    reports, record = run(tmp_path, text)
    came = reports["came"]
    assert len(came) == 1900 and not ((came > 500_001_000) & (came <= 600_001_000)).any()
    assert ((came > 499_001_000) & (came <= 500_001_000)).sum() == 1
    assert ((came > 600_001_000) & (came <= 601_001_000)).sum() == 1
    steps = [[0, 20 * MS], [500_001_000, 20 * MS], [600_001_000, 20 * MS], [1_000_007_000, 35_250_000]]
    assert record["links"][0]["delay_steps"]["steps"] == steps
    delays = json.loads((tmp_path / "out/summary.json").read_text())["flows"][0]["datagrams"]["delay_s"]
    assert delays["max"] - delays["min"] == pytest.approx(0.01525, abs=1e-6)


def test_a_recording_has_both_directions(tmp_path: Path) -> None:
    """A full-size frame takes 605,600 ns at 20 Mbit/s and 1,211,200 at 10; fewer fit into the smaller buffer."""
    (tmp_path / "drive.csv").write_text("t,down,up,queue\n0,20,5,60\n1500003,10,,\n2000007,,2.5,7.57\n")
    table = "{file: drive.csv, columns: {time: t, %s}, units: {time: us, rate: Mbit%s}}"
    text = f"""\
name: events
bottleneck:
  rate: 20Mbit
  buffer: 60kB
  rtt: 20ms
  trace: {table % ("rate: down, buffer: queue", ", buffer: kB")}
  reverse: {{rate: 5Mbit, buffer: 60kB, trace: {table % ("rate: up", "")}}}
flows: [{{cca: cubic, duration: 3s}}]
"""
    reports, record = run(tmp_path, text)
    forward, back = record["links"]
    assert forward["rate_schedule"]["start_ns"] == [0, 1_500_003_000]
    assert (back["rate_schedule"]["start_ns"], back["rate_schedule"]["rate_bps"]) == (
        [0, 2_000_007_000], [5_000_000, 2_500_000],
    )  # fmt: skip
    data = reports[reports["bottleneck"] == forward["index"]]
    full = data[(data["packet_length"] == 1514) & (data["queue_delay"] > 0)]
    for first, last, gap in ((0, 1_500_003_000, 605_600), (1_502_000_000, 3_000_000_000, 1_211_200)):
        starts = full[(full["left"] >= first) & (full["left"] < last)]["left"]
        assert abs(starts.diff().min() - gap) <= 1
    early = data["came"] < 2_000_007_000
    assert data["enqueue_depth"][early].max() > 30_000
    # A queue of 7,570 bytes has room for a fifth full-size frame when it has four.
    assert data["enqueue_depth"][data["came"] > 2_100_000_000].max() <= 4 * 1514


@pytest.mark.parametrize(("packets", "every_ms", "starts"), [(100, 1, True), (5000, 20, False)])
def test_a_condition_starts_flows_or_they_do_not_start(
    tmp_path: Path, packets: int, every_ms: int, starts: bool
) -> None:
    """The reading of the 100th departure, and what a host takes, 1 ms; 1,000 departures are all that there are."""
    text = f"""\
name: events
bottleneck: {{rate: 20Mbit, buffer: 10packets, rtt: 20ms}}
flows:
  - {{udp: {{rate: 1Mbit, payload: 125B}}, duration: 1s}}
  - {{name: guest, udp: {{rate: 1Mbit, payload: 500B}}, duration: 1s}}
hosts: {{jitter: 0s}}
telemetry: {{conditions: {every_ms}ms}}
events: [{{when: links.bottleneck.departed_packets >= {packets}, start: guest}}]
"""
    reports, record = run(tmp_path, text)
    (event,) = record["events"]
    guests = reports[reports["packet_length"] == 542]["came"]
    if not starts:
        assert (event["at_ns"], event["achieved_ns"], len(guests)) == (None, None, 0)
        assert max(flow["ended_s"] for flow in record["flows"]) < 1.001
        return
    at_ns = -(-sorted(reports["left"])[99] // MS) * MS
    assert event["at_ns"] == at_ns and 0 <= event["achieved_ns"] - at_ns - MS < 1000
    # 1 Mbit/s in datagrams of 500 bytes, one each 4 ms, for a second.
    assert len(guests) == 250 and guests.min() - at_ns == pytest.approx(MS, abs=20_000)
