# SPDX-License-Identifier: Apache-2.0
"""Queues that reports could only give cut: refused by name, and the largest one below is not."""

from __future__ import annotations

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.switch.widths import unreported_waits
from narrows.targets.soft.target import SoftTarget

FRAME = 1514


def plan(rate: str, buffer: str) -> Plan:
    bottleneck = {"rate": rate, "rtt": "40ms", "buffer": buffer}
    flows = [{"cca": "bbr", "duration": "1s"}]
    return make_plan(validate({"name": "test", "bottleneck": bottleneck, "flows": flows}, "test"))


@pytest.mark.parametrize(
    ("bits", "unit_ns", "longest_bytes"),
    [
        # A wait of w ns at 1 Mbit/s is w / 8000 bytes: 536,870.912, and 536,870,912 of which the last one is too many.
        (32, 1, 536_870 - FRAME),
        (32, 1000, 536_870_911 - FRAME),
    ],
)
def test_the_longest_wait_that_fits(bits: int, unit_ns: int, longest_bytes: int) -> None:
    assert unreported_waits(plan("1Mbit", f"{longest_bytes}B"), bits, unit_ns) == []
    (refused,) = unreported_waits(plan("1Mbit", f"{longest_bytes + 1}B"), bits, unit_ns)
    assert refused.startswith("bottleneck.buffer: ") and "at 1Mbit, and reports hold less than" in refused


def test_the_software_switch_refuses_what_its_reports_do_not_hold() -> None:
    target = SoftTarget()
    assert target.unsupported(plan("1Mbit", "1000packets")) == []
    assert target.unsupported(plan("100Gbit", f"{2**32 - 1}B")) == []
    (deep,) = target.unsupported(plan("100Gbit", f"{2**32}B"))
    assert deep.endswith("allowed: up to 4294967295 B, as reports hold")
    # 2^48 ns at 8 kbit/s, a byte in a millisecond, are 281 MB.
    assert target.unsupported(plan("8kbit", "281MB")) == []
    (slow,) = target.unsupported(plan("8kbit", "282MB"))
    assert "and reports hold less than 281475 s" in slow
