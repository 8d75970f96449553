# SPDX-License-Identifier: Apache-2.0
"""Flows that are started and stopped, and reports that are read, by the driver of a run in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from narrows import api
from narrows.errors import InputError
from narrows.virtual import kernels
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", COLLECTOR, "ip")
MS = 10**6
# Hosts' links have 1 Gbit/s, so that a byte takes 8 ns on its way to the switch.
EXPERIMENT: dict[str, Any] = {
    "name": "driven-flows",
    "bottleneck": {"rate": "100Mbit", "buffer": "100packets", "rtt": "20ms"},
    "hosts": {"jitter": "0s"},
    "flows": [
        {"name": "base", "udp": {"rate": "1Mbit", "payload": "125B"}, "duration": "2s"},
        {"name": "guest", "udp": {"rate": "1Mbit", "payload": "125B"}, "duration": "2s"},
        {"name": "late", "cca": "cubic", "duration": "2s", "count": 2, "stagger": "1ms"},
        {"name": "page", "cca": "reno", "size": "30kB", "repeat": 2, "gap": "10ms"},
        {"name": "asks", "cca": "cubic", "duration": "1s", "to": "user",
         "requests": {"size": "3kB", "gaps": "50ms"}},
        {"name": "never", "cca": "reno", "duration": "1s"},
    ],
}  # fmt: skip
HELD = ("guest", "late", "page", "asks", "never")
# The base flow's datagrams are sent at whole milliseconds, by the same thread.
GUEST, STOPPED = (700_300_123, 1_200_300_456), (1_300_000_001, 800_000_007)
SYN, RST = 0x02, 0x04
# What the clock moves while the host's process comes to it.
LATE_NS = 1_000
# What the switch's clock at the experiment's start is known to.
CLOCK_NS = 10


def bed(out: Path, experiment: dict[str, Any] = EXPERIMENT, **options: Any) -> api.Session:
    return api.testbed(experiment, virtual=True, kernel=kernels.installed()[0].name, out=out, **options)


def stored(out: Path) -> pd.DataFrame:
    """All reports in the order of the files, with the times at which their packets came to the queue."""
    found = pd.concat(pd.read_parquet(path) for path in sorted((out / "telemetry").glob("reports-*.parquet")))
    origin_ns = json.loads((out / "run.json").read_text())["clock_origin_ns"]
    left = found["timestamp"].astype("int64") - origin_ns
    return found.assign(left=left, came=left - found["queue_delay"].astype("int64")).reset_index(drop=True)


def refused(driven: api.Session) -> None:
    """What cannot be is refused, says why, and changes nothing."""
    for verb, name, at_ns, said in (
        ("start", "none", None, "flow 'none': there is no such flow; allowed: never$"),
        ("start", "base", None, "flow base-1: starts at 0s already"),
        ("start", "guest", None, "flow guest-1: starts at 700300.123us already"),
        ("start", "never", 600 * MS, r"600ms: is past, or too soon for the hosts; allowed: [0-9.]+[mun]s or later"),
        ("stop", "never", None, "flow never-1: has not been started"),
        ("stop", "page", None, "flow page-1: ends by itself; allowed: of the kinds bulk, udp, probe, onoff, media"),
        ("stop", "base", 2_000 * MS, "allowed: after 0s, when it starts, and before 2s, when it ends"),
        ("stop", "late-1", 710 * MS, "allowed: after 800000.007us, when it starts"),
    ):
        with pytest.raises(InputError, match=said):
            getattr(driven, verb)(name, at_ns)


def test_a_flow_is_known_with_its_first_packet(tmp_path: Path) -> None:
    """To a driver, whose steps are shorter than what the switch may wait before it tells of new flows."""
    experiment = EXPERIMENT | {"flows": [{"name": "all", "cca": "cubic", "duration": "1s"}]}
    with bed(tmp_path / "out", experiment, reports=True) as driven:
        sent = 0
        for _ in range(6):
            flow = driven.step("15ms").flows["all-1"]
            reports = driven.reports()
            assert set(reports["flow_name"].to_pylist()) <= {"all-1"}
            sent += sum(reports["packet_length"].to_pylist())
            assert flow.departed_bytes == sent > 0


@pytest.mark.long
def test_flows_and_reports_of_a_driven_run(tmp_path: Path) -> None:
    """Every packet is where the times that were asked for put it, and was shown when it had left."""
    out = tmp_path / "out"
    shown: list[pa.Table] = []
    with bed(out, held=HELD, reports=True) as driven:
        driven.step("500ms")
        assert driven.start("guest", GUEST[0]) == GUEST[0]
        assert driven.start("late", STOPPED[1]) == STOPPED[1]
        assert driven.start("page", 900 * MS) == 900 * MS
        assert driven.start("asks", 600 * MS) == 600 * MS
        driven.step("203ms")
        refused(driven)
        driven.step("300ms")
        assert driven.stop("guest", GUEST[1]) == GUEST[1]
        assert driven.stop("late-1", STOPPED[0]) == STOPPED[0]
        with pytest.raises(InputError, match=r"flow guest-1: cannot stop at 1.3s; .* before 1200300.456us"):
            driven.stop("guest", 1_300 * MS)
        for _ in range(10):
            driven.step("70ms")
            shown.append(driven.reports())
            assert shown[-1]["time_ns"].to_pylist()[-1] <= driven.time_ns
        assert driven.reports().num_rows == 0
        last_ns = driven.time_ns
        at_once = driven.stop("late-2")
        # As soon as the hosts can, who know it a millisecond before; requests of one instant are 10 us apart.
        assert at_once - last_ns == MS + 10_000
        driven.step("20ms")
    with pytest.raises(InputError, match="the run is over"):
        driven.reports()
    assert not list(tmp_path.rglob("*.arrows"))
    table = stored(out)
    first = table[table["left"] <= last_ns]
    live = pa.concat_tables(shown)
    # Every report until then, and no other, in the order of the files.
    assert live.num_rows == len(first) > 1000 and list(first.index) == list(range(len(first)))
    for name in live.schema.names[3:]:
        assert live[name].to_pylist() == first[name].to_list(), name
    assert live["time_ns"].to_pylist() == first["left"].to_list()
    assert set(live["link"].to_pylist()) == {"bottleneck"}

    record = json.loads((out / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    flows = {flow["name"]: flow for flow in record["flows"]}
    assert "never-1" not in flows
    came = {
        name: table[(table["flow"] == flow) & (table["signature"] == signature)]
        for name, flow, signature in owners(out, flows)
    }
    # A datagram has 42 bytes of headers: it is every millisecond, from its time on and before the other.
    guest = came["guest-1"]["came"].to_numpy()
    asked = [GUEST[0] + number * MS for number in range(-(-(GUEST[1] - GUEST[0]) // MS))]
    sent = json.loads((out / "hosts/guest-1.json").read_text())["packets_sent"]
    assert sent == len(asked) == 501
    # The queue drops some.
    due = [at for at in asked if any(-CLOCK_NS <= found - at - 8 * 167 < LATE_NS for found in guest)]
    assert len(due) == len(guest) > 400 and due[0] == asked[0]
    for name, began, stopped in (("late-1", STOPPED[1], STOPPED[0]), ("late-2", STOPPED[1] + MS, at_once)):
        packets = came[name]
        syn, reset = (packets[packets["tcp_flags"] & flag != 0].iloc[0] for flag in (SYN, RST))
        assert -CLOCK_NS <= syn["came"] - began - 8 * syn["packet_length"] < LATE_NS
        # It waits for what the host has given to its link before: a window at most.
        assert -CLOCK_NS <= reset["came"] - stopped - 8 * reset["packet_length"] < MS
        assert flows[name]["start_s"] == began / 1e9
        # The record that is read before takes part of that.
        assert 0 <= flows[name]["ended_s"] - stopped / 1e9 < 2e-6
        assert flows[name]["duration_s"] == pytest.approx((stopped - began) / 1e9)
    assert flows["page-1.1"]["started_s"] == pytest.approx(0.9, abs=2e-6) and flows["page-1.2"]["started_s"] > 0.91
    assert flows["asks-1"]["started_s"] == pytest.approx(0.6, abs=2e-6)
    times = [row["due_s"] for row in json.loads((out / "hosts/asks-1.json").read_text())["responses"]]
    assert len(times) > 5 and min(times) >= 0.6 and max(times) < 1.6


def owners(out: Path, flows: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Flow index and signature of each flow, by its 5-tuple."""
    keys = pd.read_parquet(out / "telemetry/flow_keys.parquet")
    found = []
    for name, flow in flows.items():
        own = keys[(keys["src"] == flow["src"]) & (keys["src_port"] == flow["src_port"])]
        own = own[own["dst_port"] == flow["dst_port"]]
        found += [(name, int(key["flow"]), int(key["signature"])) for _, key in own.iterrows()]
    return found


def test_what_cannot_be_held_is_refused(tmp_path: Path) -> None:
    later = EXPERIMENT | {
        "flows": [{"cca": "reno", "duration": "2s", "start": "1s"}, {"cca": "cubic", "duration": "2s"}]
    }
    stopped = later | {"events": [{"at": "1s", "stop": "cubic"}]}
    for experiment, held, said in (
        (later, ["bbr"], "held: unknown group 'bbr'; allowed: reno, cubic"),
        (later, ["reno"], "held: 'reno' has a start of its own"),
        (stopped, ["cubic"], "held: 'cubic' has events of its own"),
    ):
        with pytest.raises(InputError, match=said):
            bed(tmp_path / "out", experiment, held=held)


@pytest.mark.long
def test_nothing_is_left_of_a_driver_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), bed(tmp_path / "out", held=("guest",), reports=True) as driven:
        driven.step("100ms")
        driven.start("guest")
        driven.step("100ms")
        assert driven.reports().num_rows > 100
        assert 1 / 0
    assert not [one for one in kernels.runs().glob("*.json") if str(tmp_path) in one.read_text()]
    assert not list(tmp_path.rglob("*.arrows")) and (tmp_path / "out" / "run.json").exists()


@pytest.mark.long
def test_a_program_is_started(tmp_path: Path) -> None:
    """At its time, which it sees itself: its system calls are charged 200 ns each."""
    experiment = EXPERIMENT | {
        "flows": [
            {"cca": "cubic", "duration": "1s"},
            {"name": "clock", "client": ["/bin/true"], "until": "exit"},
        ]
    }
    with bed(tmp_path / "out", experiment, held=("clock",)) as driven:
        driven.step("200ms")
        assert driven.start("clock", 500 * MS) == 500 * MS
        with pytest.raises(InputError, match="ends by itself"):
            driven.stop("clock")
        driven.step("500ms")
    flow = next(one for one in json.loads((tmp_path / "out/run.json").read_text())["flows"] if one["name"] == "clock-1")
    assert 0 <= flow["started_s"] - 0.5 < 0.01 and flow["application"]["client"]["exit_code"] == 0


def test_a_buffer_is_checked_as_the_file_is(tmp_path: Path) -> None:
    """What reports cannot say, what fits no frame, and what makes an ECN threshold idle."""
    experiment = EXPERIMENT | {"bottleneck": EXPERIMENT["bottleneck"] | {"ecn_threshold": "30packets"}}
    driven = bed(tmp_path / "out", experiment)
    for given, said in (
        ({"buffer": 2**32}, "link bottleneck.buffer: is 4294967.296kB; allowed: up to 4294967295 B, as reports hold"),
        ({"buffer": 1513}, "link bottleneck.buffer: 1.513kB is 1513 B, which no full-size frame of 1514 B fits into"),
        ({"buffer": "30packets"}, "link bottleneck.ecn_threshold: 30packets is 30packets, so that nothing is marked"),
        ({"loss": 1e-11}, "link bottleneck.loss: 1e-11 cannot be distinguished from 0"),
    ):
        with pytest.raises(InputError, match=said):
            driven.change(**given)
