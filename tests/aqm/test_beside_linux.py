# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of queue management beside Linux's makes of readings, and how it words Linux's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan


@pytest.fixture(name="script")
def _script() -> Callable[[str], Any]:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module


def test_delay_is_what_waits_over_the_rate(script: Callable[[str], Any]) -> None:
    """12,500 B wait 1 ms at 100 Mbit/s; half of the link is used; readings before the window count for nothing."""
    times = [number / 100 for number in range(200)]
    queue = pd.DataFrame({
        "time_s": times,
        "depth_bytes": [10**9 if time < 1 else 12_500 if time < 1.9 else 125_000 for time in times],
        "bytes": [int(time * 6_250_000) for time in times],
        "drops": [7 if time < 1 else 10 for time in times],
        "marks": [0 if time < 1.5 else 4 for time in times],
    })  # fmt: skip
    found = script("aqm").figures(queue, 100_000_000, (0.99, 2.0))
    assert found["delay_median_ms"] == pytest.approx(1)
    # Of 101 readings ten are of 10 ms, and the first is of another time's flood.
    assert script("aqm").figures(queue, 100_000_000, (1.0, 2.0))["delay_p99_ms"] == pytest.approx(10)
    assert found["utilization"] == pytest.approx(0.5)
    assert (found["drops"], found["marks"]) == (3, 4)


def test_red_has_its_bounds_from_the_rate(script: Callable[[str], Any]) -> None:
    """5 and 15 ms of 100 Mbit/s are 62,500 and 187,500 B; (2 min + max) / (3 avpkt) = 104 packets (tc-red(8))."""
    words = script("managed").words("red", 100_000_000, 10**6, True)
    assert "min 62500 max 187500 burst 104 avpkt 1000" in words and words.endswith(" ecn")
    assert "probability 0.1 bandwidth 100000000bit" in words
    assert script("managed").words("codel", 1, 1, False) == "codel noecn"


def test_a_line_keeps_a_frame_until_its_last_bit_has_left(script: Callable[[str], Any]) -> None:
    """1514 bytes take 1,211,200 ns at 10 Mbit/s, once for a round trip."""
    load = next(one for one in script("aqm").LOADS if one.rate == "10Mbit")
    plan = make_plan(Experiment.model_validate(load.experiment("codel", 1)))
    line = script("managed").as_on_a_line(plan)
    more = {after.host: after.delay_ns - before.delay_ns for before, after in zip(plan.ports, line.ports, strict=True)}
    assert more == {host: 1_211_200 if host in {one.name for one in plan.senders} else 0 for host in more}
    assert plan.links == line.links


def test_goodput_is_that_of_the_published_minute(script: Callable[[str], Any]) -> None:
    """The minute that ends 2 s before the end counts: 10 Mbit/s there, ten times as much before and after."""
    end = script("l4s").SECONDS
    times = list(range(0, end + 1))
    rates = [100e6 if time <= end - 62 or time > end - 2 else 10e6 for time in times]
    acked = pd.Series(rates).cumsum() / 8
    found = script("l4s")._goodput_mbps(pd.DataFrame({"time_s": times, "acked_bytes": acked}))
    assert found == pytest.approx(10)


def test_published_pairs_are_experiments(script: Callable[[str], Any]) -> None:
    """A flow each, with its own RTT and ECN; DualPI2 never fills more than a second, pfifo drops at 1,000 packets."""
    l4s = script("l4s")
    for pair in l4s.PAIRS:
        for queue in l4s.QUEUES:
            first, second = pair.experiment(queue, 1)["flows"]
            assert (first["cca"], second["cca"]) == pair.ccas
            plan = make_plan(Experiment.model_validate(pair.experiment(queue, 1)))
            assert [flow.rtt_ns for flow in plan.flows] == [rtt * 1_000_000 for rtt in pair.rtts_ms]
            assert all(plan.uses_ecn(flow) for flow in plan.flows)
            assert plan.bottleneck.rate_bps == l4s.RATE_BPS
            limit = plan.bottleneck.limit_bytes
            assert limit == 1000 * 1514 if queue == l4s.TAIL_DROP else limit * 8 / l4s.RATE_BPS > 1
            if queue == l4s.TAIL_DROP:
                assert script("managed").words("pfifo", l4s.RATE_BPS, limit, True) == "bfifo limit 1514000"


def test_starts_differ_between_rounds(script: Callable[[str], Any]) -> None:
    """What the seed draws is both contestants' of a round, and over before what counts begins."""
    aqm, l4s = script("aqm"), script("l4s")
    for experiment, counted_s in (
        (partial(aqm.LOADS[1].experiment, "pie"), aqm.LOADS[1].window[0]),
        (partial(l4s.PAIRS[0].experiment, l4s.DUAL), l4s.WINDOW_S[0]),
    ):
        rounds = [[flow["start"] for flow in experiment(seed)["flows"]] for seed in (1, 1, 2)]
        assert rounds[0] == rounds[1] != rounds[2]
        assert all(0 <= float(start.removesuffix("s")) < counted_s for start in (*rounds[0], *rounds[2]))


def test_delay_is_of_the_queues_that_there_are(script: Callable[[str], Any]) -> None:
    """62,500 B wait 10 ms at 50 Mbit/s; of DualPI2 both ages are read, and only in the minute that counts."""
    l4s = script("l4s")
    times = list(range(l4s.SECONDS))
    inside = [l4s.WINDOW_S[0] <= time <= l4s.WINDOW_S[1] for time in times]
    readings = pd.DataFrame({
        "time_s": times, "depth_bytes": [62_500 if one else 10**6 for one in inside],
        "delay_c_s": [0.02 if one else 1 for one in inside], "delay_l_s": [0.001 if one else 1 for one in inside],
    })  # fmt: skip
    sockets = pd.DataFrame({"flow": [0, 0, 1, 1], "time_s": [0, 90, 0, 90], "acked_bytes": [0, 9 * 10**7, 0, 0]})
    found = l4s._figures(l4s.TAIL_DROP, sockets, readings)
    assert found == pytest.approx({"first_mbps": 8, "second_mbps": 0, "p99_ms": 10})
    found = l4s._figures(l4s.DUAL, sockets, readings)
    assert found == pytest.approx({"first_mbps": 8, "second_mbps": 0, "classic_p99_ms": 20, "low_p99_ms": 1})


def test_both_have_the_same_flows_and_limits(script: Callable[[str], Any]) -> None:
    """tc-codel(8), tc-pie(8): 1,000 packets; tc-fq_codel(8): 10,240; DualPI2 10,000; RED has none."""
    limits = {"codel": 1000, "pie": 1000, "fq_codel": 10_240, "dualpi2": 10_000}
    for load in script("aqm").LOADS:
        for kind in script("aqm").KINDS:
            plan = make_plan(Experiment.model_validate(load.experiment(kind, 1)))
            assert kind == "red" or plan.bottleneck.limit_bytes == limits[kind] * 1514
            assert len(plan.flows) == load.flows and not any(plan.uses_ecn(flow) for flow in plan.flows)


def test_reports_are_read_as_a_queue(script: Callable[[str], Any]) -> None:
    """A classic packet waits from 1 to 21 ms, one of L4S from 6 to 11 ms; 300 B from 7 ms on are dropped at 21 ms.

    Read every 5 ms, until 30 ms.
    """
    reports = pd.DataFrame({
        "arrival_s": [0.006, 0.001], "time_s": [0.011, 0.021], "packet_bytes": [1000, 500], "queue": [1, 0],
        "enqueue_depth_bytes": [500.0, 0.0], "dequeue_depth_bytes": [800.0, 0.0],
    })  # fmt: skip
    table = pd.DataFrame({"time_s": [0.0, 0.01], "interval_s": 0.01, "drops": [0, 3], "ce_marks": [1, 1]})
    found = script("managed_link").of_reports(reports, table, 0.0299)
    assert list(found["time_s"]) == pytest.approx([0.005, 0.01, 0.015, 0.02, 0.025])
    # Nothing tells of the 300 B before the next packet departs.
    assert list(found["depth_bytes"]) == [500, 1500, 800, 800, 0]
    assert list(found["bytes"]) == [0, 0, 1000, 1000, 1500]
    assert list(found["packets"]) == [0, 0, 1, 1, 2]
    # An interval counts when it is over.
    assert list(found["drops"].iloc[[0, -1]]) == [0, 3]
    assert list(found["marks"].iloc[[0, -1]]) == [0, 2]
    assert list(found["delay_c_s"]) == pytest.approx([0.004, 0.009, 0.014, 0.019, 0])
    assert list(found["delay_l_s"]) == pytest.approx([0, 0.004, 0, 0, 0])
