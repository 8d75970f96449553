# SPDX-License-Identifier: Apache-2.0
"""A rate that varies, from an experiment file to the plan: each format against a model of its own, in fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows.errors import InputError
from narrows.experiment.loader import load, validate
from narrows.experiment.plan import Link
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import load_series, make_series
from narrows.paths import data
from narrows.run import sampler
from narrows.run.buffer_notes import buffer_notes
from narrows.run.runner import trace_notes
from narrows.run.sampler import Reading
from narrows.targets.bmv2 import packets
from narrows_formats.schedules import Opportunities, RateSteps
from narrows_tofino.binding import bind
from narrows_tofino.testbed.inventory import Inventory

MS, SECOND = 10**6, 10**9


def experiment(rate: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": "test",
        "bottleneck": {"rate": rate, "rtt": "40ms", "buffer": "100kB", **more},
        "flows": [{"cca": "cubic", "duration": "30s"}],
    }


def planned(tmp_path: Path, rate: Any, text: str = "", **more: Any) -> Link:
    (tmp_path / "trace").write_text(text)
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(experiment(rate, **more)))
    resolved = load(file)
    # What is written into the results needs no other file.
    assert validate(resolved.as_yaml_data(), "resolved") == resolved
    return make_plan(resolved).bottleneck


def trace(tmp_path: Path, text: str, **settings: Any) -> Any:
    return planned(tmp_path, {"trace": {"file": "trace", **settings}}, text).schedule


def refused(tmp_path: Path, text: str, **settings: Any) -> str:
    with pytest.raises(InputError) as error:
        trace(tmp_path, text, **settings)
    return str(error.value)


def test_steps_with_an_outage(tmp_path: Path) -> None:
    steps = [{"at": "0s", "rate": "10Mbit"}, {"at": "5s", "rate": "0bit"}, {"at": "7s", "rate": "5Mbit"}]
    link = planned(tmp_path, {"steps": steps}, buffer="1bdp")
    assert link.schedule == RateSteps(((0, 10_000_000), (5 * SECOND, 0), (7 * SECOND, 5_000_000)))
    # Nothing repeats: a BDP is of the first rate.
    assert (link.rate_bps, link.limit_bytes) == (10_000_000, 50_000)
    # 100 kB take no longer than until the last change and then at the last rate.
    assert link.longest_s(100_000) == pytest.approx(7 + 0.16)
    looped = planned(tmp_path, {"steps": steps, "period": "10s"}, buffer="1bdp")
    assert looped.rate_bps == (5 * 10_000_000 + 3 * 5_000_000) // 10
    assert looped.limit_bytes == 6_500_000 * 40 // 8000


@pytest.mark.parametrize("kind", ["sine", "square", "sawtooth"])
@pytest.mark.parametrize(("low", "high", "period"), [(0, 1, 1), (3_333_333, 10_000_001, 1), (10**6, 10**9, 4321)])
def test_waves_are_exact_over_a_period(tmp_path: Path, kind: str, low: int, high: int, period: int) -> None:
    wave = {"kind": kind, "low": f"{low}bit", "high": f"{high}bit", "period": f"{period}ms"}
    schedule = planned(tmp_path, {"wave": wave}, buffer="5packets").schedule
    assert isinstance(schedule, RateSteps)
    assert schedule.bits(0, period * MS) == Fraction((low + high) * period, 2000)
    swing = Fraction(high - low, 2)
    ends = [*(start for start, _ in schedule.steps[1:]), period * MS]
    for (start, rate), end in zip(schedule.steps, ends, strict=True):
        middle = (start + end) / 2 / (period * MS)
        at_middle: Fraction = {
            "sine": low + swing * (1 + Fraction(math.sin(2 * math.pi * middle))),
            "square": Fraction(high if middle < 0.5 else low),
            "sawtooth": low + (high - low) * Fraction(middle),
        }[kind]
        # A step has the mean: off the value in its middle by 1 - sinc(pi / 64) of the swing at most.
        assert abs(rate - at_middle) <= 1 + swing / 2000


def test_mahimahi(tmp_path: Path) -> None:
    text = "0\n2\n2\n10\n"
    assert trace(tmp_path, text, format="mahimahi") == Opportunities((0, 2 * MS, 2 * MS, 10 * MS))
    # From 2 ms on: 8 ms later the last of the round together with that at 0, and those at 2 ms end the next one.
    moved = trace(tmp_path, text, format="mahimahi", offset="2ms")
    assert moved == Opportunities((8 * MS, 8 * MS, 10 * MS, 10 * MS))
    # Bins of 4 ms: those at 2 ms in (0, 4]; that at 10 ms, and that at 0, which comes with it, in (8, 10].
    rates = trace(tmp_path, text, **{"format": "mahimahi", "as": "rate", "bin": "4ms"})
    assert rates == RateSteps(((0, 2 * 12032 * 250), (4 * MS, 0), (8 * MS, 2 * 12032 * 500)), 10 * MS)
    link = planned(tmp_path, {"trace": {"file": "trace", "format": "mahimahi"}}, text)
    assert link.rate_bps == 4 * 12032 * 100


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(0, 100), st.integers(0, 100))
def test_opportunities_are_counted_as_a_list_of_them_says(stamps: list[int], start: int, length: int) -> None:
    stamps = [*sorted(stamps), max(stamps) + 1]
    schedule = Opportunities(tuple(stamp * MS for stamp in stamps))
    moments = [lap * stamps[-1] + stamp for lap in range(300) for stamp in stamps]
    passed = sum(start < moment <= start + length for moment in moments)
    assert schedule.bits(start * MS, (start + length) * MS) == passed * 1504 * 8


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**9)), min_size=1, max_size=8),
    st.booleans(), st.integers(0, 500), st.integers(1, 500),
)  # fmt: skip
def test_integrals_and_outages_are_those_of_every_nanosecond(
    parts: list[tuple[int, int]], loop: bool, start: int, length: int
) -> None:
    """Against a walk through the nanoseconds."""
    rates = [rate for lasts, rate in parts for _ in range(lasts)]
    starts = [sum(lasts for lasts, _ in parts[:number]) for number in range(len(parts))]
    schedule = RateSteps(tuple(zip(starts, (rate for _, rate in parts), strict=True)), len(rates) if loop else None)
    held = [rates[now % len(rates)] if loop else (rates[now] if now < len(rates) else rates[-1])
            for now in range(start, start + length)]  # fmt: skip
    assert schedule.bits(start, start + length) == Fraction(sum(held), SECOND)
    assert schedule.down_ns(start, start + length) == held.count(0)
    extremes = schedule.extremes_bps(start, start + length)
    assert (extremes.least, extremes.most) == (min(held), max(held))


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from((0, 1, 2, 5, 40))), min_size=1, max_size=6),
    st.booleans(), st.integers(1, 60),
)  # fmt: skip
def test_the_longest_wait_is_that_of_the_worst_start(parts: list[tuple[int, int]], loop: bool, size: int) -> None:
    """Against every nanosecond of two periods, or of the schedule, at which the bytes may begin; rates in B/ns."""
    if not loop or not any(rate for _, rate in parts):
        parts = [*parts, (1, 3)]
    starts = [sum(lasts for lasts, _ in parts[:number]) for number in range(len(parts))]
    span = sum(lasts for lasts, _ in parts)
    steps = zip(starts, (rate * 8 * SECOND for _, rate in parts), strict=True)
    schedule = RateSteps(tuple(steps), span if loop else None)
    waits = [schedule.finish_ns(start, size) - start for start in range(2 * span)]
    # Between two nanoseconds it may be longer by less than one.
    assert max(waits) <= schedule.longest_wait_ns(size) <= max(waits) + 1


PENSIEVE = "0 4\n0.5 2\n1.25 0\n2 8\n"


def test_pensieve_from_and_until(tmp_path: Path) -> None:
    held = trace(tmp_path, PENSIEVE, format="pensieve", holds="from")
    assert held == RateSteps(((0, 4_000_000), (SECOND // 2, 2_000_000), (1_250 * MS, 0)), 2 * SECOND)
    # As in Pensieve's simulator: a rate holds for the interval that ends at its time, the first is never used.
    until = trace(tmp_path, PENSIEVE, format="pensieve", holds="until")
    assert until == RateSteps(((0, 2_000_000), (SECOND // 2, 0), (1_250 * MS, 8_000_000)), 2 * SECOND)
    once = trace(tmp_path, PENSIEVE, format="pensieve", holds="from", loop=False, scale=0.5)
    assert once == RateSteps(((0, 2_000_000), (SECOND // 2, 1_000_000), (1_250 * MS, 0), (2 * SECOND, 4_000_000)))
    moved = trace(tmp_path, PENSIEVE, format="pensieve", holds="from", offset="1s")
    expected = ((0, 2_000_000), (250 * MS, 0), (SECOND, 4_000_000), (1_500 * MS, 2_000_000))
    assert moved == RateSteps(expected, 2 * SECOND)


def test_csv(tmp_path: Path) -> None:
    text = "Time,State,DL\n2020.02.14_12.58.17,D,100\n2020.02.14_12.58.18,D,200\n2020.02.14_12.58.18,D,400\n"
    text += "2020.02.14_12.58.21,I,0\n2020.02.14_12.58.22,I,7\n"
    given = {
        "format": "csv", "columns": {"time": "Time", "rate": "DL"}, "unit": "kbit", "holds": "from",
        "time_format": "%Y.%m.%d_%H.%M.%S",
    }  # fmt: skip
    assert "line 4 has the time of line 3" in refused(tmp_path, text, **given, start_at_zero=True)
    assert "line 2 is at" in refused(tmp_path, text, **given, duplicates="mean")
    rates = {"first": 200_000, "last": 400_000, "mean": 300_000}
    for which, rate in rates.items():
        found = trace(tmp_path, text, **given, start_at_zero=True, duplicates=which)
        assert found == RateSteps(((0, 100_000), (SECOND, rate), (4 * SECOND, 0)), 5 * SECOND)
    notes = list(trace_notes(load(tmp_path / "experiment.yaml")))
    assert all(note.startswith("bottleneck.rate.trace: trace ") for note in notes)
    words = " ".join(notes)
    assert "1 of its 5 rates" in words and "1 rate of 0 (the first in line 5)" in words
    assert "1 gap of more than twice the usual 1s" in words and "3s, ends in line 5" in words and "taken as 0" in words
    numbers = {"format": "csv", "columns": {"time": 1, "rate": 3}, "unit": "Mbit", "time_unit": "ms", "holds": "until"}
    found = trace(tmp_path, "0;x;1\n10;x;2.5\n", **numbers, delimiter=";")
    assert found == RateSteps(((0, 2_500_000),), 10 * MS)


def test_sabre_and_opennetlab(tmp_path: Path) -> None:
    text = (
        '[{"duration_ms": 1000, "bandwidth_kbps": 700.5, "latency_ms": 80},\n {"duration_ms": 20, "bandwidth_kbps": 1}]'
    )
    assert trace(tmp_path, text, format="sabre") == RateSteps(((0, 700_500), (SECOND, 1000)), 1_020 * MS)
    (note,) = trace_notes(load(tmp_path / "experiment.yaml"))
    assert "latency_ms" in note
    both = '{"uplink": {"trace_pattern": [{"duration": 60, "capacity": 300}]}, "downlink": {%s}}'
    assert trace(tmp_path, both % "", format="opennetlab") == RateSteps(((0, 300_000),), 60 * MS)
    down = both % '"trace_pattern": [{"duration": 5, "capacity": 2}]'
    assert "uplink, downlink" in refused(tmp_path, down, format="opennetlab")
    assert trace(tmp_path, down, format="opennetlab", direction="downlink") == RateSteps(((0, 2000),), 5 * MS)


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("1\n\n2\n", {"format": "mahimahi"}, "trace: line 2 is not a whole number of milliseconds"),
        ("1 20 3 5\n", {"format": "mahimahi"}, "line 1 is of CellReplay's trace for light load"),
        ("1\n1.5\n", {"format": "mahimahi"}, "line 2"),
        ("5\n4\n", {"format": "mahimahi"}, "line 2 is earlier"),
        ("0\n0\n", {"format": "mahimahi"}, "more than 0 ms"),
        ("", {"format": "mahimahi"}, "more than 0 ms"),
        ("1\n2\n", {"format": "mahimahi", "loop": False}, "would never leave"),
        ("1\n3\n", {"format": "mahimahi", "offset": "2ms"}, "no opportunity"),
        ("1\n3\n", {"format": "mahimahi", "bin": "2ms"}, "only one of as: rate and bin"),
        ("1\n3\n", {"format": "mahimahi", "holds": "from"}, "has holds with format mahimahi"),
        (PENSIEVE, {"format": "pensieve"}, "does not say whether a rate holds from or until"),
        ("180 4\n185 3\n", {"format": "pensieve", "holds": "from"}, "line 1 is at 180s, not at 0"),
        ("0 4\n1 x\n", {"format": "pensieve", "holds": "from"}, "line 2 has no number"),
        ("0 4\n1 -1\n", {"format": "pensieve", "holds": "from"}, "line 2 has a negative number"),
        ("0 4\n0 5\n", {"format": "pensieve", "holds": "from"}, "line 2 has the time of line 1"),
        ("0 4\n2 1\n1 5\n", {"format": "pensieve", "holds": "from"}, "line 3 is earlier than line 2"),
        ("0 4\n1 0\n", {"format": "pensieve", "holds": "from", "loop": False}, "would never leave"),
        ("0 0\n1 0\n", {"format": "pensieve", "holds": "from"}, "would never leave"),
        ("{", {"format": "sabre"}, "line 1 is not JSON"),
        ('[{"duration_ms": 0, "bandwidth_kbps": 1}]', {"format": "sabre"}, "entry 1 has no duration"),
    ],
)
def test_what_is_no_trace_is_refused_by_its_line(
    tmp_path: Path, text: str, given: dict[str, Any], message: str
) -> None:
    words = refused(tmp_path, text, **given)
    assert message in words and "experiment.yaml: bottleneck.rate" in words and "(varying)" not in words


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ({"steps": [{"at": "1s", "rate": "1Mbit"}]}, "at: 0s first"),
        ({"steps": [{"at": "0s", "rate": "1Mbit"}, {"at": "0s", "rate": "2Mbit"}]}, "do not ascend"),
        ({"steps": [{"at": "0s", "rate": "1Mbit"}], "period": "0s"}, "bottleneck.rate.period"),
        ({"steps": [{"at": "0s", "rate": "fast"}]}, "bottleneck.rate.steps.0.rate: 'fast' is not a rate"),
        ({"steps": [{"at": "0s", "rate": "0bit"}]}, "would never leave"),
        ({"wave": {"kind": "sine", "low": "2Mbit", "high": "1Mbit", "period": "1s"}}, "low below high"),
        ({"wave": {"kind": "sine", "low": "1Mbit", "high": "2Mbit", "period": "1us"}}, "whole number of milliseconds"),
        ({}, "steps, wave or trace"),
        ({"step": []}, "bottleneck.rate.step: unknown field, did you mean 'steps'?"),
        ({"trace": {"file": "none", "format": "mahimahi"}}, "/none cannot be read: No such file"),
    ],
)
def test_what_is_no_rate_is_refused(tmp_path: Path, rate: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        planned(tmp_path, rate)
    assert message in str(error.value)


def test_a_missing_trace_is_named_by_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment's file is named as it was given."""
    missing = experiment({"trace": {"file": "none", "format": "mahimahi"}})
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(missing))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        load(Path("x.yaml"))
    assert str(error.value) == f"x.yaml: trace: {tmp_path}/none cannot be read: No such file or directory"


def test_a_sweep_over_traces(tmp_path: Path) -> None:
    for name, text in (("a", "1\n2\n"), ("b", "1\n4\n")):
        (tmp_path / name).write_text(text)
    swept = experiment("1Mbit")
    swept["sweep"] = {"bottleneck.rate": [{"trace": {"file": name, "format": "mahimahi"}} for name in ("a", "b")]}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(swept))
    points = load_series(tmp_path / "sweep.yaml").points
    assert [make_plan(point.experiment).bottleneck.rate_bps for point in points] == [12_032_000, 6_016_000]
    assert [point.parameters for point in points] == [{"bottleneck.rate": "a"}, {"bottleneck.rate": "b"}]
    assert [point.directory for point in points] == ["0001-rate=a", "0002-rate=b"]


def test_targets_that_cannot_refuse_it_by_name() -> None:
    steps = [{"at": "0s", "rate": "9Mbit"}, {"at": "1s", "rate": "8Mbit"}]
    plan = make_plan(validate(experiment({"steps": steps}), ""))
    assert packets.unsupported(plan) == [
        "bottleneck.rate: varies, and BMv2 sets a packet's time when it is queued; allowed: a constant rate, or "
        "--target soft"
    ]
    with pytest.raises(InputError, match=r"bottleneck\.rate: varies, .* fix: narrows calibrate"):
        bind(plan, Inventory.load(data("deploy") / "inventory.example.yaml"))


def test_the_live_view_has_the_rate_between_two_readings() -> None:
    steps = [{"at": "0s", "rate": "9Mbit"}, {"at": "1s", "rate": 0}]
    plan = make_plan(validate(experiment({"steps": steps, "period": "2s"}), ""))
    readings = [Reading(time_s, {}, None, None) for time_s in (0.5, 1.5, 1.75)]
    assert sampler._offered_bps(plan.bottleneck, *readings[:2]) == 4_500_000
    assert sampler._offered_bps(plan.bottleneck, *readings[1:]) == 0


def test_two_rates_in_steps_have_labels_of_their_own(tmp_path: Path) -> None:
    rates = [{"steps": [{"at": "0s", "rate": rate}, {"at": "1s", "rate": "5Mbit"}]} for rate in ("1Mbit", "2Mbit")]
    series = make_series(
        {
            "name": "x",
            "bottleneck": {"rate": "1Mbit", "rtt": "10ms", "buffer": "10packets"},
            "flows": [{"cca": "reno", "duration": "1s"}],
            "sweep": {"bottleneck.rate": rates},
        },
        "x",
    )
    assert [point.parameters["bottleneck.rate"] for point in series.points] == [
        "steps-0s-1Mbit-1s-5Mbit",
        "steps-0s-2Mbit-1s-5Mbit",
    ]


@pytest.mark.parametrize(("start_us", "end_us"), [(2_000, 3_000), (9_500, 10_500), (10_000, 10_500), (11_000, 11_000)])
def test_frames_end_where_the_rate_becomes_0_for_good(start_us: int, end_us: int) -> None:
    """A full-size frame takes a millisecond until 10.5 ms; one that starts later never ends."""
    schedule = RateSteps(((0, 1514 * 8 * 1000), (10_500_000, 0)))
    assert schedule.finish_ns(start_us * 1000, 1514) == end_us * 1000


STEPS = [{"at": "0s", "rate": "10Mbit"}, {"at": "1s", "rate": "0bit"}, {"at": "2s", "rate": "2Mbit"}]


@pytest.mark.parametrize(
    ("rate", "buffer", "said"),
    [
        # 10 Mbit/s for 0.3 s.
        ({"steps": STEPS}, "300ms", "375 kB at 10 Mbit/s, its first rate, and as many bytes at any rate: "
         "300 ms at 10 Mbit/s, 1.5 s at 2 Mbit/s"),
        ({"steps": [{"at": "0s", "rate": "0bit"}, {"at": "1s", "rate": "8Mbit"}]}, "1bdp",
         "20 kB at 8 Mbit/s, its first rate above 0, and as many bytes at any rate: "
         "20 ms at 8 Mbit/s"),
        # Half of the time 2, half of it 6 Mbit/s.
        ({"wave": {"kind": "square", "low": "2Mbit", "high": "6Mbit", "period": "2s"}}, "100ms",
         "50 kB at 4 Mbit/s, its mean rate, and as many bytes at any rate: 66.67 ms at 6 Mbit/s, 200 ms at 2 Mbit/s"),
    ],
)  # fmt: skip
def test_a_buffer_in_time_says_of_which_rate_it_is(rate: Any, buffer: str, said: str) -> None:
    found = validate(experiment(rate, buffer=buffer, rtt="20ms"), "test")
    (note,) = buffer_notes(found, make_plan(found))
    assert note == f"bottleneck.buffer: {buffer} is {said}"


def test_events_that_change_the_rate_leave_the_buffer() -> None:
    events = [{"at": "1s", "link": "bottleneck", "rate": "4Mbit"}]
    found = validate({**experiment("8Mbit", buffer="100ms"), "events": events}, "test")
    (note,) = buffer_notes(found, make_plan(found))
    assert "100 kB at 8 Mbit/s, its first rate" in note and "200 ms at 4 Mbit/s" in note


@pytest.mark.parametrize(("rate", "buffer"), [({"steps": STEPS}, "50kB"), ("8Mbit", "50ms")])
def test_a_buffer_in_bytes_or_at_one_rate_needs_no_note(rate: Any, buffer: str) -> None:
    found = validate(experiment(rate, buffer=buffer), "test")
    assert list(buffer_notes(found, make_plan(found))) == []
