# SPDX-License-Identifier: Apache-2.0
"""What a machine does to packets that the experiment has not is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.run.disturbances import late, reordered
from narrows.switch.readings import PortStats

COUNTERS = {"sender0": {"TcpExtTCPSACKReorder": 201, "TcpRetransSegs": 1573}, "sender1": {"TcpRetransSegs": 7}}


def plan(bottleneck: dict[str, Any]) -> Plan:
    link = {"rate": "1Gbit", "rtt": "10ms", "buffer": "1bdp", **bottleneck}
    flow = {"cca": "cubic", "duration": "1s"}
    return make_plan(validate({"name": "x", "bottleneck": link, "flows": [flow]}, "x"))


@pytest.mark.parametrize("jitter", [None, {"uniform": "1ms"}])
def test_a_machine_that_reorders_is_named(jitter: dict[str, Any] | None) -> None:
    (note,) = reordered(plan({} if jitter is None else {"delay": "5ms", "jitter": jitter}), COUNTERS)
    assert note.startswith("warning: TCP at sender0 has seen packets reordered (201 times)") and "--virtual" in note


def test_what_links_do_is_not_the_machines() -> None:
    """A segment that came twice is answered as one that was sent again in vain (RFC 2883)."""
    assert reordered(plan({"delay": "5ms", "jitter": {"uniform": "1ms", "reorder": True}}), COUNTERS) == []
    assert reordered(plan({"duplication": "1%"}), COUNTERS) == []
    assert reordered(replace(plan({}), in_guest=True), COUNTERS) == []


def test_packets_that_left_late_are_named_but_for_reports() -> None:
    real = plan({})
    counts = ((1, 37), (2, None), (3, 0), (real.collector_host.port, 5))
    ports = [PortStats(port, 0, 0, 1000, 0, 0, 0, 0, True, count) for port, count in counts]
    (note,) = late(real, ports)
    assert note.startswith("warning: port 1: 37 of 1000 packets left more than 10 ms after their time")
    # In a guest it means something else, which fails the run.
    assert late(replace(real, in_guest=True), ports) == []
