# SPDX-License-Identifier: Apache-2.0
"""Events of an experiment file: what becomes schedules and times of flows, and what is left as changes."""

from __future__ import annotations

from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Change, Plan, Threshold
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import make_series
from narrows_formats.schedules import DelaySteps, RateSteps

MS, SECOND = 10**6, 10**9


def experiment(*events: dict[str, Any], **link: Any) -> dict[str, Any]:
    return {
        "name": "test",
        "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "100packets", **link},
        "flows": [
            {"name": "a", "cca": "cubic", "duration": "30s"},
            {"name": "b", "cca": "bbr", "duration": "30s", "count": 2, "stagger": "500ms"},
        ],
        "events": list(events),
    }


def planned(*events: dict[str, Any], **link: Any) -> Plan:
    return make_plan(validate(experiment(*events, **link), "test"))


def test_rate_and_delay_become_schedules() -> None:
    """In order of time, whatever the file's; the first step is what the link begins with."""
    plan = planned(
        {"at": "7s", "link": "bottleneck", "rate": "20Mbit", "delay": "3ms"},
        {"at": "2s", "link": "bottleneck", "rate": "0bit"},
        delay="5ms",
    )
    link = plan.bottleneck
    assert link.schedule == RateSteps(((0, 100_000_000), (2 * SECOND, 0), (7 * SECOND, 20_000_000)))
    assert link.delay_steps == DelaySteps(((0, 5 * MS), (7 * SECOND, 3 * MS)))
    assert (link.rate_bps, link.delay_ns, plan.changes) == (100_000_000, 5 * MS, ())


def test_buffer_and_loss_are_changes() -> None:
    """A BDP of 100 Mbit/s and 40 ms is 500 kB. All that is sized by the queue is sized by the largest it will be."""
    plan = planned(
        {"at": "9s", "link": "bottleneck", "buffer": "2bdp"},
        {"at": "4s", "link": "bottleneck", "buffer": "20packets", "loss": "1%"},
    )
    frame = 1514
    assert plan.changes == (
        Change(4 * SECOND, "bottleneck", (20 * frame, 20), 0.01),
        Change(9 * SECOND, "bottleneck", (1_000_000, None), None),
    )
    link = plan.bottleneck
    assert (link.limit_bytes, link.limit_packets, link.most_limit_bytes) == (100 * frame, 100, 1_000_000)
    first = plan.changes[0].of(link)
    second = plan.changes[1].of(first)
    assert (first.limit_bytes, first.limit_packets, first.loss) == (20 * frame, 20, 0.01)
    assert (second.limit_bytes, second.limit_packets, second.loss) == (1_000_000, None, 0.01)


def test_the_opposite_direction_changes_by_its_name() -> None:
    reverse = {"rate": "10Mbit", "buffer": "50packets"}
    plan = planned({"at": "1s", "link": "bottleneck.reverse", "rate": "5Mbit"}, reverse=reverse)
    schedules = {link.name: link.schedule for link in plan.links}
    assert schedules == {"bottleneck": None, "bottleneck.reverse": RateSteps(((0, 10_000_000), (SECOND, 5_000_000)))}


def test_flows_start_and_stop() -> None:
    plan = planned({"at": "10s", "stop": "b"}, {"at": "4s", "start": "b"})
    times = {flow.name: (flow.start_ns, flow.duration_ns) for flow in plan.flows}
    assert times == {
        "a-1": (0, 30 * SECOND), "b-1": (4 * SECOND, 6 * SECOND), "b-2": (4500 * MS, 5500 * MS),
    }  # fmt: skip
    assert plan.end_ns == 30 * SECOND


def test_a_threshold_fits_into_the_smallest_buffer() -> None:
    event = {"at": "1s", "link": "bottleneck", "buffer": "20packets"}
    assert planned(event, ecn_threshold="19packets").bottleneck.ecn_threshold == Threshold(19, in_packets=True)
    with pytest.raises(InputError, match="ecn_threshold"):
        planned(event, ecn_threshold="20packets")


def test_events_follow_groups_that_a_sweep_names() -> None:
    data = experiment({"at": "10s", "stop": "cubic"}) | {"flows": [{"cca": "cubic", "duration": "30s"}]}
    series = make_series(data | {"sweep": {"flows.cubic.cca": ["cubic", "bbr"]}}, "test")
    assert [point.experiment.events[0].stop for point in series.points] == ["swept", "swept"]
    assert [make_plan(point.experiment).end_ns for point in series.points] == [10 * SECOND] * 2


def test_an_experiment_is_the_same_when_it_is_read_again() -> None:
    given = validate(experiment({"at": "1.000000001s", "link": "bottleneck", "buffer": "2bdp", "loss": 0.01}), "test")
    assert validate(given.as_yaml_data(), "again") == given
