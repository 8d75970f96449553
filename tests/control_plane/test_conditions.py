# SPDX-License-Identifier: Apache-2.0
"""Conditions of events: how they are read, when they count, and what a socket's reading is in SI units."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pytest
from narrows.errors import InputError
from narrows.experiment.comparison import Condition, Watcher
from narrows.experiment.loader import validate
from narrows.experiment.plan import Change, Plan
from narrows.experiment.planning import make_plan
from narrows.traffic import socket_sampler
from narrows.traffic.connection import Connection
from narrows.traffic.socket_table import tabulate
from narrows.traffic.socket_values import VALUES
from test_sockets import FLOW

LINK = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
MS = 1_000_000


def plan_of(*events: dict[str, Any]) -> Plan:
    flows = [
        {"name": "a", "cca": "bbr", "duration": "10s"},
        {"name": "many", "cca": "cubic", "count": 2, "duration": "10s"},
        {"name": "talk", "udp": {"rate": "1Mbit"}, "duration": "10s"},
        {"name": "page", "cca": "cubic", "size": "1MB", "repeat": 2},
    ]
    return make_plan(validate({"name": "x", "bottleneck": LINK, "flows": flows, "events": list(events)}, "x"))


def condition(text: str, **fields: Any) -> Condition:
    return plan_of({"when": text, "link": "bottleneck", "rate": "1Mbit", **fields}).reactions[0].condition


@pytest.mark.parametrize(
    ("text", "of", "reading", "comparison", "value"),
    [
        ('flows.a.bbr.phase == "DRAIN"', "a-1", "bbr_phase", "==", "DRAIN"),
        ("flows.many-2.rtt_s >= 30ms", "many-2", "rtt_s", ">=", 0.03),
        ("flows.a.delivery_rate_bps<2Mbit", "a-1", "delivery_rate_bps", "<", 2e6),
        ("flows.talk.dropped_packets > 3", "talk-1", "dropped_packets", ">", 3),
        ("links.bottleneck.queue_bytes > 10kB", "bottleneck", "queue_bytes", ">", 10_000),
    ],
)
def test_a_reading_a_comparison_and_a_value(text: str, of: str, reading: str, comparison: str, value: object) -> None:
    found = condition(text)
    assert (found.name, found.reading, found.comparison, found.value) == (of, reading, comparison, value)
    assert (found.for_ns, found.once, found.hysteresis) == (0, True, 0)
    assert found.of_socket == (reading in ("bbr_phase", "rtt_s", "delivery_rate_bps"))


def test_a_link_changes_as_its_event_says() -> None:
    when = "flows.a.retransmits > 0"
    plan = plan_of({"when": when, "link": "bottleneck", "rate": "1Mbit", "buffer": "20packets", "loss": "1%"})
    assert plan.reactions[0].change == Change(0, "bottleneck", (20 * 1514, 20), 0.01, 1_000_000)
    # What a queue may hold then counts for the memory that it needs.
    assert plan.links[0].most_limit_bytes == 20 * 1514 < 25_000 * 2
    assert not plan.changes and plan.links[0].schedule is None


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"when": "flows.a.cwnd > 3", "flow": "a", "send": "off"}, "unknown reading 'cwnd'; allowed: cwnd_bytes"),
        ({"when": "flows.a.ssthresh_bytes > 3", "flow": "a", "send": "off"}, "unknown reading 'ssthresh_bytes'"),
        ({"when": "flows.a.source > 3", "flow": "a", "send": "off"}, "unknown reading 'source'"),
        ({"when": "flows.talk.rtt_s > 3s", "stop": "talk"}, "has the unknown reading 'rtt_s'; allowed: departed_bytes"),
        ({"when": 'flows.many-1.bbr_phase == "DRAIN"', "stop": "a"}, "BBR's state of 'many-1', which runs cubic"),
        ({"when": "flows.page.rtt_s > 3s", "stop": "a"}, "is about no flow with one connection"),
        ({"when": "flows.many.rtt_s > 3s", "stop": "a"}, "is about no flow with one connection"),
        ({"when": "links.cell.queue_bytes > 1", "stop": "a"}, "is about no link; allowed: bottleneck"),
        ({"when": 'flows.a.bbr_phase > "DRAIN"', "stop": "a"}, "compares a phase by >; allowed: == or !="),
        ({"when": 'flows.a.bbr_phase == "DRAINED"', "stop": "a"}, 'unknown phase "DRAINED"; allowed: "STARTUP"'),
        ({"when": "flows.a.rtt_s > 3Mbit", "stop": "a"}, "has the unit 'Mbit'; allowed: none, or ns"),
        ({"when": "flows.a.retransmits > 3%", "stop": "a"}, "has the unit '%', but counts"),
        ({"when": "flows.a.rtt_s", "stop": "a"}, "is not a comparison of a reading with a value"),
        ({"when": "flows.a.rtt_s > 3s", "at": "1s", "stop": "a"}, "has at and when; allowed: one of the two"),
        ({"stop": "a"}, "has neither at nor when"),
        ({"at": "1s", "for": "1s", "stop": "a"}, "has for without when"),
        ({"when": "flows.a.rtt_s > 3s", "once": False, "start": "a"}, "has once: false, and starts or stops flows"),
        ({"when": "flows.a.rtt_s > 3s", "once": False, "stop": "a"}, "has once: false, and starts or stops flows"),
        ({"when": "flows.a.rtt_s > 3s", "link": "bottleneck", "rate": "0bit"}, "has when, and a delay or rate 0bit"),
        ({"when": "flows.a.rtt_s > 3s", "link": "bottleneck", "delay": "1ms"}, "has when, and a delay or rate 0bit"),
        ({"when": "flows.a.rtt_s > 3s", "hysteresis": "1s", "stop": "a"}, "has hysteresis, and happens once"),
        (
            {"when": "flows.a.rtt_s == 3s", "hysteresis": "1s", "once": False, "flow": "a", "send": "off"},
            "events.0.hysteresis: '1s' needs an order, and an amount",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(event: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(event)


def test_what_a_condition_starts_is_held_back_until_then() -> None:
    plan = plan_of({"when": "flows.a.rtt_s > 3s", "start": "talk"})
    assert [flow.group for flow in plan.flows if flow.held] == ["talk"]
    assert (plan.reactions[0].verb, plan.reactions[0].group, plan.takes_commands) == ("start", "talk", True)
    with pytest.raises(InputError, match=r"events\.0\.start: 'talk' stops at a set time, and a condition starts it"):
        plan_of({"when": "flows.a.rtt_s > 3s", "start": "talk"}, {"at": "5s", "stop": "talk"})


def test_a_setting_has_a_time_or_a_condition() -> None:
    with pytest.raises(InputError, match=r"events\.0\.rate: is changed when a condition holds as well"):
        plan_of(
            {"at": "1s", "link": "bottleneck", "rate": "1Mbit"},
            {"when": "flows.a.rtt_s > 3s", "link": "bottleneck", "rate": "2Mbit"},
        )


def counts(one: Condition, *values: float | str | None) -> list[int]:
    """Numbers of the readings, one each millisecond, at which a condition counts."""
    watcher = Watcher(one)
    return [number for number, value in enumerate(values) if watcher.take(number * MS, value)]


def test_it_counts_once_or_whenever_it_begins_to_hold() -> None:
    text = "links.bottleneck.queue_bytes > 10"
    values = (5, 11, 12, 10, 11, None, 20)
    assert counts(condition(text), *values) == [1]
    assert counts(condition(text, once=False), *values) == [1, 4, 6]


def test_it_has_to_hold_for_a_time_at_every_reading() -> None:
    text = "links.bottleneck.queue_bytes > 10"
    assert counts(condition(text, **{"for": "2ms"}), 11, 11, 9, 11, 11, 11, 11, 11) == [5]


def test_hysteresis_is_on_the_far_side_of_the_value() -> None:
    """Above 10: not again before it was at 10 - 4 = 6 or less. Below 10: not again before 14 or more."""
    over = condition("links.bottleneck.queue_bytes > 10", once=False, hysteresis="4B")
    assert counts(over, 11, 7, 11, 6, 11, None, 11) == [0, 4]
    under = condition("links.bottleneck.queue_bytes < 10", once=False, hysteresis="4B")
    assert counts(under, 9, 13, 9, 14, 9) == [0, 4]


def test_phases_are_compared_as_text() -> None:
    phases = (None, "STARTUP", "DRAIN", "DRAIN", "PROBE_UP")
    assert counts(condition('flows.a.bbr_phase == "DRAIN"'), *phases) == [2]
    assert counts(condition('flows.a.bbr_phase != "STARTUP"'), *phases) == [2]


def test_one_reading_is_what_the_table_has_of_it() -> None:
    """Random readings, with the kernel's words for nothing among them."""
    draw = random.Random(1)
    nothing = {"pacing_rate": 2**64 - 1, "min_rtt_us": 2**32 - 1, "rtt_us": 0, "bbr_bandwidth": 0}
    nothing |= dict.fromkeys(("bbr_shortterm_inflight", "bbr_longterm_inflight", "bbr_extra_acked"), 2**32 - 1) | {
        "bbr_shortterm_bandwidth": 2**64 - 1
    }
    for _ in range(200):
        raw: dict[str, Any] = {name: draw.randrange(1, 2**31) for name in socket_sampler.FIELDS[1:]}
        raw |= {name: value for name, value in nothing.items() if draw.random() < 0.3}
        gains = draw.choice([(739, 739), (88, 739), (256, 256), (320, 512), (1, 1)])
        raw |= {"bbr_phase": draw.randrange(9), "bbr_pacing_gain": gains[0], "bbr_cwnd_gain": gains[1]}
        raw |= {"dst": FLOW.dst, "src_port": FLOW.src_port, "dst_port": FLOW.dst_port}
        frame = pd.DataFrame([{**raw, "monotonic_s": 1.0, "src": FLOW.src}])
        (row,) = tabulate(frame, [Connection(FLOW, 0, 0.0)], 0.0).to_dict("records")
        for name, value in VALUES.items():
            found = value(raw)
            if found is None:
                assert pd.isna(row[name]), name
            elif isinstance(found, str):
                assert found == row[name]
            else:
                assert found == pytest.approx(row[name], rel=1e-12), name
