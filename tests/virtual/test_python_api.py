# SPDX-License-Identifier: Apache-2.0
"""Runs that are driven from Python, in virtual time: every change at its nanosecond, however long the driver takes."""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import sys
import time
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows import api
from narrows.api.messages import RunEnding
from narrows.errors import InputError, RunError
from narrows.onhost import wire
from narrows.run.driver import State
from narrows.virtual import kernels
from narrows.virtual.guest_supervisor import children
from narrows.virtual.watch import TICKS, cpu_s
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", COLLECTOR, "ip")
MS, SECOND = 10**6, 10**9
STRESS = bool(os.environ.get("NARROWS_STRESS"))
CHANGES = 1000 if STRESS else 100
EXPERIMENT: dict[str, Any] = {
    "name": "driven",
    "bottleneck": {"rate": "20Mbit", "buffer": "100packets", "rtt": "20ms"},
    "flows": [{"cca": "cubic", "duration": "1s"}],
}


def bed(out: Path, experiment: dict[str, Any] = EXPERIMENT) -> api.Session:
    return api.testbed(experiment, virtual=True, kernel=kernels.installed()[0].name, out=out)


def reports(out: Path, origin_ns: int) -> pd.DataFrame:
    """In the order of departures; times in nanoseconds from the experiment's start."""
    found = pd.concat(pd.read_parquet(path) for path in sorted((out / "telemetry").glob("reports-*.parquet")))
    left = found["timestamp"].astype("int64") - origin_ns
    return found.assign(left=left, came=left - found["queue_delay"].astype("int64"))


@pytest.mark.long
def test_many_changes_are_at_their_nanoseconds(tmp_path: Path) -> None:
    """The link's rate changes 100 times (1,000 in ``make stress``).

    What it carries between two packets that follow each other is the first one. Carried is the integral of the rate as
    the driver has set it, worked out here. A start is in whole nanoseconds.
    """
    every, rates = 3_000_017, (10_000_000, 30_000_000)
    steps = [(0, 20_000_000)]
    # A second more than the changes take.
    experiment = EXPERIMENT | {"flows": [{"cca": "cubic", "duration": f"{1 + CHANGES * every // SECOND}s"}]}
    with bed(tmp_path / "out", experiment) as driven:
        assert driven.time_ns == 0
        for number in range(1, CHANGES + 1):
            state = driven.run_until(number * every)
            assert state.time_ns == driven.time_ns == number * every
            if number == CHANGES // 2:
                time.sleep(0.5)
            # Half of a rate is a number with a fraction: the nearest whole one is meant.
            assert driven.change(rate=rates[number % 2] + 0.25) == number * every
            steps.append((number * every, rates[number % 2]))
    # The hosts' clock has not gone on in between either: no packet was late.
    assert driven.result.run.status == "complete"
    assert len(steps) == CHANGES + 1
    origin_ns = json.loads((tmp_path / "out" / "run.json").read_text())["clock_origin_ns"]
    ends = [*(start for start, _ in steps[1:]), 10**12]

    def carried(begin: int, end: int) -> Fraction:
        parts = ((max(begin, start), min(end, stop), rate) for (start, rate), stop in zip(steps, ends, strict=True))
        return sum((Fraction((to - since) * rate, SECOND) for since, to, rate in parts if to > since), Fraction(0))

    table = reports(tmp_path / "out", origin_ns)
    table = table[(table["left"] > 0) & (table["left"] < CHANGES * every)]
    rows = list(zip(table["left"], table["came"], table["packet_length"], strict=True))
    checked = crossing = 0
    for (left, _, length), (following, came, _) in pairwise(rows):
        # One that came while the one before was on the link starts when that has passed.
        if came < following:
            most = max(rates)
            assert abs(carried(left, following) - 8 * length) <= Fraction(2 * most, SECOND)
            checked += 1
            crossing += any(left < start < following for start, _ in steps)
    # All but those of slow start, which fills the path in three round trips.
    print(f"cases: {CHANGES}")
    assert checked > 4 * (CHANGES - 20) and crossing > 0.9 * (CHANGES - 20)


@pytest.mark.needs("stress")
def test_a_driver_may_take_its_time(tmp_path: Path) -> None:
    """No time goes by while it thinks: the packets are those of a run whose driver does not."""
    found = []
    for number, pause_s in enumerate((0.0, 0.3)):
        out = tmp_path / str(number)
        with bed(out) as driven:
            for _ in range(3):
                driven.step("300ms")
                time.sleep(pause_s)
                driven.change(buffer="20packets")
                driven.change(buffer="60packets")
        origin_ns = driven.result.run.clock_origin_ns
        assert origin_ns is not None
        found.append(reports(out, origin_ns)[["left", "came", "packet_length", "tcp_seq"]])
    before = [part[part["left"] < 900 * MS].reset_index(drop=True) for part in found]
    assert len(before[0]) > 1000
    # A clock that is read takes a nanosecond, and it is read more often by who waits: nothing more than that.
    assert len(before[0]) == len(before[1])
    assert (before[0]["left"] - before[1]["left"]).abs().max() < 10_000
    assert (before[0]["tcp_seq"] == before[1]["tcp_seq"]).all()


@pytest.mark.long
def test_a_driver_that_thinks_has_the_processor_for_itself(tmp_path: Path) -> None:
    """The guest that waits for it is halted: it takes no processor time, and goes on when it is to."""
    with bed(tmp_path / "out") as driven:
        driven.step("10ms")
        assert driven._child is not None
        (supervisor,) = children(driven._child._process.pid)
        (guest,) = children(supervisor)
        before_s = cpu_s(guest)
        time.sleep(1.0)
        assert cpu_s(guest) - before_s <= 1 / TICKS
        assert driven.step("10ms").time_ns == 20 * MS
    assert driven.result.run.status == "complete"


def test_settings_are_read_back_and_what_cannot_be_is_refused(tmp_path: Path) -> None:
    """Counters go on, and so does the run, whatever was refused."""
    links = {"access": EXPERIMENT["bottleneck"] | {"delay": "4ms"}, "core": EXPERIMENT["bottleneck"]}
    flows = [{"cca": "cubic", "duration": "2s", "path": ["access", "core"]}]
    with bed(tmp_path / "out", {"name": "driven", "links": links, "flows": flows}) as driven:
        first = driven.step(0.5)
        was = first.links["access"]
        assert first.time_s == 0.5 and was.rate_bps == 20_000_000
        assert 0 < was.departed_bytes * 8 <= 20_000_000 * 0.5
        assert driven.change("access", rate=5_000_000.25, buffer=30_000, loss="1%", delay="1ms") == 500 * MS
        for given, said in (
            ({"link": "cell", "rate": 1}, "link 'cell': there is no such link; allowed: access, core"),
            ({"rate": 1}, "link 'None': there is no such link; allowed: access, core"),
            ({"link": "core", "rate": "fast"}, "link core: .*allowed"),
            ({"link": "core", "rate": math.nan}, "link core: nan is not finite"),
            ({"link": "core", "buffer": 100}, "no full-size frame of 1514 B"),
            ({"link": "core"}, "nothing is changed"),
        ):
            with pytest.raises(InputError, match=said):
                driven.change(**given)
        with pytest.raises(RunError, match="no delay of its own"):
            driven.change("core", delay="1ms")
        with pytest.raises(InputError, match="is past"):
            driven.run_until(1)
        second = driven.step("500ms")
        link, core = second.links["access"], second.links["core"]
        assert (link.rate_bps, link.limit_bytes, link.loss, link.delay_ns) == (5_000_000, 30_000, 0.01, MS)
        assert core.rate_bps == 20_000_000
        carried = (link.departed_bytes - was.departed_bytes) * 8
        # What starts within half a second: at most that, and a frame.
        assert 0 < carried <= 5_000_000 * 0.5 + 1514 * 8
        assert link.queue_bytes <= 300_000
        assert second.flows["cubic-1"].departed_bytes > first.flows["cubic-1"].departed_bytes
        states = list(driven.steps("400ms"))
        assert [state.time_ns for state in states] == [1400 * MS, 1800 * MS]
        assert driven.over and driven.state == replace(states[-1], over=True)
        # When it ended is not known.
        with pytest.raises(InputError, match=r"time 2000000000 ns: the run is over; allowed: while not bed\.over"):
            driven.run_until(2 * SECOND)
        with pytest.raises(InputError, match="the run is over"):
            driven.change("core", rate="1Mbit")
    assert driven.result.run.status == "complete"
    with pytest.raises(InputError, match="exists already"), bed(tmp_path / "out"):
        pass


@pytest.mark.long
@pytest.mark.parametrize("queue", [{}, {"queue": "fq"}])
def test_the_delay_of_a_queue_is_that_of_its_oldest_packet(tmp_path: Path, queue: dict[str, Any]) -> None:
    """Which packets wait at an instant, and since when, is in their reports; of fair queues the oldest is not the next.

    A datagram each 480 us of 900 bytes takes 720 us on the link: nothing is dropped while the queue grows, by 5 Mbit/s.
    """
    link = {"rate": "10Mbit", "buffer": "5000packets", "rtt": "20ms", **queue}
    flows = [{"udp": {"rate": "14.3Mbit", "payload": "858B"}, "duration": "1s"}, {"cca": "cubic", "duration": "1s"}]
    with bed(tmp_path / "out", {"name": "driven", "bottleneck": link, "flows": flows}) as driven:
        found = {0: driven.state.link.queue_delay_s}
        found |= {state.time_ns: state.link.queue_delay_s for state in driven.steps("7000019ns")}
    packets = reports(tmp_path / "out", json.loads((tmp_path / "out" / "run.json").read_text())["clock_origin_ns"])
    assert driven.result.summary["bottleneck"]["drops"] == 0
    for at_ns, delay_s in found.items():
        waiting = packets[(packets["came"] <= at_ns) & (packets["left"] > at_ns)]
        assert delay_s == pytest.approx((at_ns - waiting["came"].min()) / SECOND if len(waiting) else 0.0, abs=1e-12), (
            at_ns
        )
    assert found[0] == 0 and len(found) > 140 and max(found.values()) > 0.08


@pytest.mark.long
def test_an_error_of_the_driver_ends_the_run(tmp_path: Path) -> None:
    """Its guest is gone, and what was measured is kept as what it is."""
    with pytest.raises(ZeroDivisionError), bed(tmp_path / "out") as driven:
        driven.step("200ms")
        assert 1 / 0
    # Other tests' guests may be there.
    assert not [one for one in kernels.runs().glob("*.json") if str(tmp_path) in one.read_text()]
    assert (tmp_path / "out" / "run.json").exists()


@pytest.mark.long
def test_a_whole_run(tmp_path: Path) -> None:
    run = api.run(EXPERIMENT, virtual=True, kernel=kernels.installed()[0].name, out=tmp_path / "out")
    assert run.run.status == "complete" and len(run.reports()) > 1000
    with pytest.raises(InputError, match="flows"):
        api.run({"name": "x", "bottleneck": EXPERIMENT["bottleneck"], "flows": []}, out=tmp_path / "none")


@pytest.mark.long
def test_a_whole_sweep_is_made_and_continued(tmp_path: Path) -> None:
    sweep = {"sweep": {"bottleneck.buffer": ["2bdp", "16bdp", "0.5bdp"]}, "name": "sweep"}
    options: Any = {"virtual": True, "kernel": kernels.installed()[0].name, "out": tmp_path / "out"}
    made = api.run(EXPERIMENT | sweep, jobs=2, **options)
    assert made.frame.sort_values("bottleneck.buffer")["bottleneck.buffer"].tolist() == ["0.5bdp", "2bdp", "16bdp"]
    record = json.loads((tmp_path / "out" / "sweep.json").read_text())
    gone = tmp_path / "out" / record["runs"][0]["directory"]
    before = {
        one: (one / "run.json").stat().st_mtime_ns for one in gone.parent.iterdir() if (one / "run.json").exists()
    }
    shutil.rmtree(gone)
    pd.testing.assert_frame_equal(api.run(EXPERIMENT | sweep, **options).frame, made.frame)
    again = [one for one, then in before.items() if (one / "run.json").stat().st_mtime_ns != then]
    assert again == [gone]
    with pytest.raises(InputError, match=r"flows\.0\.cca: 'none' is not in kernel"):
        api.run(
            EXPERIMENT | sweep | {"flows": [{"cca": "none", "duration": "1s"}]}, **options | {"out": tmp_path / "none"}
        )
    assert not (tmp_path / "none").exists()


def test_a_run_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it has begun or later: the message is the run's."""
    failed = wire.dumps(RunEnding("failed", "the link is gone", "/r"))
    for answer in (f"{wire.dumps(State(0, {}, {}))}\n", ""):
        said = shlex.quote(f"{answer}{failed}")
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        (tmp_path / "python").write_text(f"#!/bin/sh\nread line; printf '%s\\n' {said}; exec cat > /dev/null\n")
        (tmp_path / "python").chmod(0o755)
        with pytest.raises(RunError, match="failed run: the link is gone"), bed(tmp_path / "out") as driven:
            driven.step("10ms")
