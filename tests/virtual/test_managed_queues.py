# SPDX-License-Identifier: Apache-2.0
"""Queue management in whole runs: the delay that each law aims at, drops by cause, and marks in place of drops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_in_a_guest import PATIENCE_S, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

RUN = "name: x\nbottleneck: {rate: 20Mbit, buffer: 500packets, rtt: 20ms, queue: %s}\nflows: [%s]\n"
CUBIC = "{cca: cubic, count: 2, duration: 10s}"
MS = 1e-3


def run(tmp_path: Path, queue: str, flows: str = CUBIC, form: str = RUN) -> dict[str, Any]:
    """The link's summary of a complete run, in which all drops are accounted for."""
    assert start(tmp_path, form % (queue, flows)).wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["status"] == "complete", record["reason"]
    assert record["drop_cross_check"]["bottleneck"]["holds"]
    summary: dict[str, Any] = json.loads((tmp_path / "out" / "summary.json").read_text())
    link: dict[str, Any] = summary["bottleneck"]
    assert sum(flow["drops"] for flow in summary["flows"]) == link["drops"]
    assert link["drops"] == record["drop_cross_check"]["bottleneck"]["port_drops"]
    return link


# Full, the buffer is 300 ms; each law keeps the median near its target, and its drops are its own. RED has no target:
# two flows that share 50 ms of the link ask for a p of some 10^-3, a twentieth of what it has at `max`: the average
# stays close to `min`, 25 ms.
@pytest.mark.long
@pytest.mark.parametrize(
    ("queue", "target_ms"),
    [("codel", 5), ("{kind: pie, target: 10ms}", 10), ("{kind: pi2, ecn: false}", 15), ("red", 25)],
)
def test_a_law_keeps_its_delay(tmp_path: Path, queue: str, target_ms: float) -> None:
    link = run(tmp_path, queue)
    assert link["drops"] == link["aqm_drops"] > 0 == link["ce_marks"]
    assert target_ms / 3 < link["queue_delay_s"]["p50"] / MS < 2 * target_ms
    # What is dropped at departure has cost the link no time.
    assert link["utilization"] > 0.97


@pytest.mark.long
@pytest.mark.parametrize("queue", ["{kind: codel, ecn: true}", "{kind: pie, ecn: true}", "fq_codel", "dualpi2"])
def test_marks_take_the_place_of_drops(tmp_path: Path, queue: str) -> None:
    link = run(tmp_path, queue)
    assert link["ce_marks"] > 0
    # Slow start may take PIE above 10 %, from which it drops; the others have no such bound.
    assert link["aqm_drops"] == 0 or "pie" in queue


@pytest.mark.long
def test_fair_queues_share_alike_whatever_the_flows_do(tmp_path: Path) -> None:
    """A flow of datagrams at twice the rate of the link has its half of it, and its drops are for want of room."""
    flood = "{udp: {rate: 40Mbit, payload: 1200B}, duration: 8s}"
    link = run(tmp_path, "fq", f"{{cca: cubic, duration: 8s}}, {flood}")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {round(flow["share"], 1) for flow in summary["flows"]} == {0.5}
    assert link["drops"] > 1000 and link["aqm_drops"] == 0


@pytest.mark.long
def test_a_head_drop_queue_is_no_longer_than_its_buffer(tmp_path: Path) -> None:
    link = run(tmp_path, "head-drop")
    assert link["drops"] > 0 == link["aqm_drops"]
    assert link["queue_bytes"]["max"] <= 500 * 1514


@pytest.mark.needs("stress")
def test_drops_at_departure_cost_the_link_nothing(tmp_path: Path) -> None:
    """100 Mbit/s, 40 ms, four CUBIC flows: CoDel's standing delay is its target, and it uses the link like tail drop.

    Tail drop has ten times the BDP, so that its link is never idle once the flows have begun.
    """
    form = "name: x\nbottleneck: {rate: 100Mbit, buffer: 10bdp, rtt: 40ms, queue: %s}\nflows: [%s]\n"
    flows = "{cca: cubic, count: 4, duration: 20s}"
    found = {}
    for queue in ("codel", "tail-drop"):
        (tmp_path / queue).mkdir()
        found[queue] = run(tmp_path / queue, queue, flows, form)
    codel, tail = found.values()
    assert codel["queue_delay_s"]["p50"] / MS == pytest.approx(5, abs=1)
    assert codel["aqm_drops"] > 0 == tail["aqm_drops"]
    assert codel["utilization"] == pytest.approx(tail["utilization"], abs=0.005)
