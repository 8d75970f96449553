# SPDX-License-Identifier: Apache-2.0
"""Queue management in experiment files: what is taken, what is refused, and where."""

from __future__ import annotations

from typing import Any

import pytest
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.experiment.queues import CoDel, DualPi2, Fair, HeadDrop, Pie, Queue
from narrows.switch.queue_laws import is_managed, laws
from narrows.targets.bmv2 import packets

MS = 1_000_000


def planned(queue: Any) -> Plan:
    bottleneck = {"rate": "10Mbit", "buffer": "100packets", "rtt": "20ms", "queue": queue}
    data = {"name": "x", "bottleneck": bottleneck, "flows": [{"cca": "reno", "duration": "1s"}]}
    return make_plan(validate(data, "x.yaml"))


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("tail-drop", None),
        ("head-drop", HeadDrop()),
        ("codel", CoDel(5 * MS, 100 * MS, False)),
        ({"kind": "codel", "target": "2ms", "ecn": True}, CoDel(2 * MS, 100 * MS, True)),
        ("pie", Pie(15 * MS, 15 * MS, 2, 20, False)),
        # tc's 0.16 and 3.2 Hz are 41 and 819 of 256.
        ("dualpi2", DualPi2(15 * MS, 16 * MS, 41, 819, MS, 2, 10)),
        ("fq_codel", Fair(1024, 1514, CoDel(5 * MS, 100 * MS, True), kind="fq_codel")),
    ],
)
def test_a_kind_has_the_defaults_of_tc(queue: Any, expected: Queue | None) -> None:
    (link,) = planned(queue).links
    assert link.management == expected


@pytest.mark.parametrize(
    ("queue", "says"),
    [
        ("cake", "queue: 'cake' is not a kind of queue; allowed: tail-drop, head-drop"),
        ({"target": "5ms"}, "queue: is not a kind of queue; allowed: tail-drop"),
        ({"kind": "codel", "alpha": 1}, "queue.alpha: unknown field; allowed: ce_threshold, ecn, interval"),
        ({"kind": "codel", "interval": "10us"}, "interval"),
        ({"kind": "fq_codel", "interval": "10us"}, "interval"),
        ({"kind": "fq", "flows": 100}, "is not a power of two; allowed: 2, 4"),
        ({"kind": "dualpi2", "classic_protection": 0.125}, "is not a whole number of percents"),
        ({"kind": "pie", "target": "5s"}, "target"),
    ],
)
def test_what_cannot_be_is_refused_by_name(queue: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        planned(queue)


def test_tail_drop_has_the_program_that_it_had() -> None:
    """No entry more, and not the program that manages queues."""
    for queue in ("tail-drop", "head-drop"):
        plan = planned(queue)
        assert not is_managed(plan) and not list(laws(plan.links[0], plan.frame_bytes))
    assert is_managed(planned("codel"))


def test_bmv2_refuses_what_it_has_not() -> None:
    (refusal,) = packets.unsupported(planned("codel"))
    assert refusal.startswith("bottleneck.queue: ") and "--target soft" in refusal


def test_gains_are_as_linux_rounds_them() -> None:
    """PIE: 2/16 of 2^56 / 10^9 s; DualPI2: 41/256 Hz of 2^32 for each 64 ns: sch_pie.c and sch_dualpi2.c."""
    plan = planned("pie")
    assert dict(laws(plan.links[0], 1514))["update_law"][1]["alpha"] == 2 * ((2**56 - 1) // 10**9) // 16
    plan = planned("dualpi2")
    assert dict(laws(plan.links[0], 1514))["update_law"][1]["alpha"] == 41 * (2**32 - 1) * 64 // (256 * 10**9)
