# SPDX-License-Identifier: Apache-2.0
"""Recordings of several properties of a link: what is read of them, and what of a plan they become."""

from __future__ import annotations

from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Change, Link, Plan
from narrows.experiment.planning import make_plan
from narrows.switch.link_models import delay_message, variation
from narrows_formats.schedules import DelaySteps, RateSteps

US = 1_000
TABLE = """\
t,down,up,owd,plr,queue
0,12.5,2,20,0,100
1000001,0,,35.0005,1.5,
2000002.5,7.25,1,,,60
"""
COLUMNS = {"time": "t", "rate": "down", "delay": "owd", "loss": "plr", "buffer": "queue"}
UNITS = {"time": "us", "rate": "Mbit", "delay": "ms", "loss": "%", "buffer": "kB"}


def plan_of(text: str = TABLE, *, units: dict[str, str] = UNITS, **more: Any) -> Plan:
    trace = {"file": "drive.csv", "text": text, "columns": COLUMNS, "units": units}
    back = {
        "file": "drive.csv",
        "text": text,
        "columns": {"time": "t", "rate": "up"},
        "units": {"time": "us", "rate": "Mbit"},
    }
    link = {"rate": "10Mbit", "buffer": "50kB", "delay": "10ms", "rtt": "40ms", "trace": trace, **more}
    link |= {"reverse": {"rate": "1Mbit", "buffer": "50kB", "trace": back}}
    return make_plan(validate({"name": "x", "bottleneck": link, "flows": [{"cca": "cubic", "duration": "9s"}]}, "x"))


def test_each_column_has_its_times() -> None:
    """Microseconds and their parts, in nanoseconds; an empty cell changes nothing."""
    plan = plan_of()
    link, back = plan.links
    late, latest = 1_000_001 * US, 2_000_002 * US + 500
    assert link.schedule == RateSteps(((0, 12_500_000), (late, 0), (latest, 7_250_000)))
    assert link.delay_steps == DelaySteps(((0, 20_000_000), (late, 35_000_500)))
    assert back.schedule == RateSteps(((0, 2_000_000), (latest, 1_000_000))) and back.delay_steps is None
    assert plan.changes == (
        Change(0, "bottleneck", (100_000, None), 0.0),
        Change(late, "bottleneck", None, 0.015),
        Change(latest, "bottleneck", (60_000, None), None),
    )
    assert (link.rate_bps, link.delay_ns, link.most_limit_bytes) == (10_000_000, 10_000_000, 100_000)


def test_until_the_first_row_a_link_has_its_own() -> None:
    (link, _) = plan_of("t,down,up,owd,plr,queue\n5,1,1,1,0,9\n").links
    assert link.schedule == RateSteps(((0, 10_000_000), (5 * US, 1_000_000)))
    assert link.delay_steps == DelaySteps(((0, 10_000_000), (5 * US, 1_000_000)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,down,up,owd,plr\n0,1,1,1,0\n", "has 0 columns named 'queue' in its first line; allowed: one of t, down"),
        ("t,down,up,owd,plr,queue\n", "drive.csv has 0 rows; allowed: 1 to 1000000"),
        ("t,down,up,owd,plr,queue\n0,1,1,1,0,9\n0,2,1,1,0,9\n", "line 3 is not later than the row before it"),
        ("t,down,up,owd,plr,queue\n0,fast,1,1,0,9\n", "line 2 has no number"),
        ("t,down,up,owd,plr,queue\n0,1\n", "line 2 has 2 columns"),
        ("t,down,up,owd,plr,queue\n,1,1,1,0,9\n", "line 2 has no time"),
        ("t,down,up,owd,plr,queue\n0,1,1,1,100,9\n", "line 2 has a loss of 1; allowed: from 0 up to"),
        ("t,down,up,owd,plr,queue\n0,1,1,1,0,9\n9,0,1,1,0,9\n", "ends with a rate of 0"),
        ("t,down,up,owd,plr,queue\n0,1,1,1,0,0\n", "line 2: "),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(text)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"delay": {"steps": [{"at": "0s", "delay": "1ms"}]}}, "has a trace with a column of its delay, which varies"),
        ({"aggregation": {"period": "5ms"}}, "has aggregation, and jitter or a delay that varies"),
        ({"jitter": {"uniform": "25ms"}}, "has a jitter that takes more than its delay of 10ms"),
    ],
)
def test_a_property_has_one_source(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(**more)


RATES = {"file": "drive.csv", "text": "t,down\n1,2\n", "columns": {"time": "t", "rate": "down"}}


def test_a_recorded_rate_is_handed_over_in_intervals() -> None:
    link = plan_of(trace=RATES, aggregation={"period": "5ms"}).links[0]
    assert link.schedule == RateSteps(((0, 10_000_000), (1_000_000_000, 2)))
    assert link.delay_steps == DelaySteps(((0, 10_000_000),), 5_000_000, gathers=True)
    for more in ({"period": "5ms", "overhead": "1ms"}, {"frames": 4}):
        with pytest.raises(InputError, match="a rate that varies; allowed: a rate that is constant, or a period with"):
            plan_of(trace=RATES, aggregation=more)


JITTERS = {"file": "drive.csv", "columns": {"time": "t", "delay": "owd", "jitter": "ipdv"}, "units": {"jitter": "ms"}}


def jittering(text: str, **more: Any) -> Link:
    """A link with a delay of 10 ms and that recording of delays in seconds and jitters in milliseconds."""
    trace = JITTERS | {"text": text}
    link = {"rate": "10Mbit", "buffer": "50kB", "rtt": "40ms", "delay": "10ms", "trace": trace} | more
    flows = [{"cca": "cubic", "duration": "9s"}]
    return make_plan(validate({"name": "x", "bottleneck": link, "flows": flows}, "x")).links[0]


def test_jitter_is_that_of_its_row() -> None:
    link = jittering("t,owd,ipdv\n1,,2\n2,0.005,\n3,0.02,0\n")
    steps = ((0, 10_000_000), (1_000_000_000, 10_000_000), (2_000_000_000, 5_000_000), (3_000_000_000, 20_000_000))
    assert link.delay_steps == DelaySteps(steps, jitters=(0, 2_000_000, 2_000_000, 0))
    assert (link.shortest_delay_ns, link.longest_delay_ns) == (3_000_000, 20_000_000)
    message = delay_message(link.delay_steps)
    assert [step.jitter_ns for step in message.steps] == [0, 2_000_000, 2_000_000, 0]
    # What is drawn follows from the run's seed.
    drawn = variation(link, 1)
    assert drawn is not None and drawn.seed and drawn != variation(link, 2)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("t,owd,ipdv\n1,0.001,2\n", {}, "jitter at 1s, 2ms, takes more than the delay of 1ms"),
        ("t,owd,ipdv\n0,,11\n", {}, "jitter at 0s, 11ms, takes more than the delay of 10ms"),
        ("t,owd,ipdv\n1,,1\n", {"jitter": {"uniform": "1ms"}}, "has a trace with a column of jitter"),
    ],
)
def test_jitter_that_cannot_be_is_refused(text: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        jittering(text, **more)


def test_events_do_not_change_what_a_recording_does() -> None:
    trace = {"file": "drive.csv", "text": TABLE, "columns": {"time": "t", "buffer": "queue"}, "units": {"time": "us"}}
    link = {"rate": "10Mbit", "buffer": "50kB", "rtt": "40ms", "trace": trace}
    event = {"at": "1s", "link": "bottleneck", "buffer": "20kB"}
    flows = [{"cca": "cubic", "duration": "9s"}]
    with pytest.raises(InputError, match=r"events\.0\.buffer: 'bottleneck' has one that varies by itself"):
        make_plan(validate({"name": "x", "bottleneck": link, "flows": flows, "events": [event]}, "x"))
