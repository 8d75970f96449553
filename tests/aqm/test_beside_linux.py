# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of queue management beside Linux's makes of readings, and how it words Linux's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
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
    assert script("managed").words("codel", 1, 1, False) == "codel noecn"


def test_goodput_is_that_of_the_published_minute(script: Callable[[str], Any]) -> None:
    """Of 180 s the minute from 118 to 178 s counts: 10 Mbit/s there, ten times as much before and after."""
    times = list(range(0, 181))
    rates = [100e6 if time <= 118 or time > 178 else 10e6 for time in times]
    acked = pd.Series(rates).cumsum() / 8
    found = script("l4s")._goodput_mbps(pd.DataFrame({"time_s": times, "acked_bytes": acked}))
    assert found == pytest.approx(10)


def test_published_pairs_are_experiments(script: Callable[[str], Any]) -> None:
    """A flow each, with its own RTT, and a buffer and a step that 50 Mbit/s never fill."""
    for pair in script("l4s").PAIRS:
        first, second = pair.experiment(1)["flows"]
        assert (first["cca"], second["cca"]) == pair.ccas
        plan = make_plan(Experiment.model_validate(pair.experiment(1)))
        assert [flow.rtt_ns for flow in plan.flows] == [rtt * 1_000_000 for rtt in pair.rtts_ms]
        assert plan.bottleneck.ecn_threshold_bytes is not None
        assert plan.bottleneck.ecn_threshold_bytes * 8 / plan.bottleneck.rate_bps > 1
