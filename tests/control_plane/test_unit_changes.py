# SPDX-License-Identifier: Apache-2.0
"""An experiment is the same in whatever units it is written: drawn at random, each quantity is written twice."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan

pytestmark = pytest.mark.parallel_safe
CASES = int(os.environ.get("NARROWS_CASES", "25"))

RATES = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9}
TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
SIZES = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20}


@st.composite
def twice(draw: st.DrawFn, least: int, most: int, units: dict[str, int]) -> tuple[str, str]:
    """One quantity in two units."""
    count = draw(st.integers(least, most))
    names = draw(st.lists(st.sampled_from(sorted(units)), min_size=2, max_size=2))
    written = [f"{Decimal(count) / units[name]:f}{name}" for name in names]
    return written[0], written[1]


def whole_seconds(seconds: int, unit: str) -> str:
    """A duration in another unit."""
    return f"{Decimal(seconds) * 10**9 / TIMES[unit]:f}{unit}"


@settings(max_examples=4 * CASES, deadline=None)
@given(st.data())
def test_units_change_nothing(data: st.DataObject) -> None:
    rate, later_rate = (data.draw(twice(10**6, 10**9, RATES)) for _ in range(2))
    buffer, size = data.draw(twice(10**5, 10**7, SIZES)), data.draw(twice(1, 10**8, SIZES))
    rtt, at, start = (data.draw(twice(10**6, 10**9, TIMES)) for _ in range(3))
    seconds, part = data.draw(st.integers(1, 100)), data.draw(st.integers(1, 9_999))
    made = []
    for form, (unit, loss) in enumerate((("s", f"{Decimal(part) / 100:f}%"), ("ms", f"{Decimal(part) / 10_000:f}"))):
        experiment: dict[str, Any] = {
            "name": "units",
            "bottleneck": {"rate": rate[form], "buffer": buffer[form], "rtt": rtt[form], "loss": loss},
            "flows": [
                {"cca": "cubic", "duration": whole_seconds(seconds, unit), "start": start[form]},
                {"name": "short", "cca": "reno", "size": size[form]},
                {"udp": {"rate": later_rate[form]}, "duration": whole_seconds(seconds, unit)},
            ],
            "events": [{"at": at[form], "link": "bottleneck", "rate": later_rate[form]}],
        }
        made.append(make_plan(validate(experiment, "units")))
    assert made[0] == made[1]
