# SPDX-License-Identifier: Apache-2.0
"""Queue management in experiment files: what is taken, what is refused, and where."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.cli import main
from narrows.errors import EXIT_BAD_INPUT, InputError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.queues.aqm import Aqm
from narrows.queues.blue import Blue
from narrows.queues.codel import CoDel
from narrows.queues.fifo import HeadDrop
from narrows.queues.fq import FairCodel
from narrows.queues.pi2 import DualPi2
from narrows.queues.pie import Pie
from narrows.queues.red import Red
from narrows.queues.registry import SETTINGS
from narrows.switch.entries import aqm_entries
from narrows_tofino.queue_management import KINDS

MS = 1_000_000
INVENTORY = Path(__file__).parents[2] / "deploy" / "inventory.example.yaml"


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
        # 100 packets: a quarter, and a third of it; a burst of (2 * 8 + 25) / 3 = 13 packets. 13 + 1 - 8 = 6, and
        # (1 - (1 - w)^13) / w is 3.9 with w = 1/4 and 6.6 with 1/8 (iproute2's tc_red_eval_ewma).
        ("red", Red(8, 25, 0.02, 3, 1000, 10_000_000, False, False, False, in_packets=True)),
        # 151,400 B of full-size frames: a quarter. (2 * 10000 + 37850) / 3000 = 19; 19 + 1 - 10 = 10, and
        # (1 - (1 - w)^19) / w is 7.4 with w = 1/8 and 11.3 with 1/16.
        ({"kind": "red", "min": "10kB"}, Red(10_000, 37_850, 0.02, 4, 1000, 10_000_000, False, False, False)),
        # 50 + 1 - 5 = 46; (1 - (1 - w)^50) / w is 45.5 with w = 1/256 and 47.7 with 1/512.
        (
            {
                "kind": "red",
                "min": "5kB",
                "max": "15kB",
                "burst": 50,
                "bandwidth": "1Mbit",
                "ecn": True,
                "nodrop": True,
            },
            Red(5000, 15_000, 0.02, 9, 1000, 1_000_000, True, False, True),
        ),
        ("blue", Blue(100 * MS, 0.0025, 0.00025, False)),
        # tc's 0.16 and 3.2 Hz are 41 and 819 of 256.
        ("dualpi2", DualPi2(15 * MS, 16 * MS, 41, 819, MS, 2, 10)),
        ("fq_codel", FairCodel(1024, 1514, CoDel(5 * MS, 100 * MS, True))),
    ],
)
def test_a_kind_has_the_defaults_of_tc(queue: Any, expected: Aqm | None) -> None:
    (link,) = planned(queue).links
    assert link.aqm == expected


@pytest.mark.parametrize(
    ("queue", "says"),
    [
        ("cake", "queue: 'cake' is not a kind of queue; allowed: tail-drop, head-drop"),
        ({"target": "5ms"}, "queue: has no kind; allowed: tail-drop"),
        ({"kind": "codel", "alpha": 1}, "queue.alpha: unknown field; allowed: ce_threshold, ecn, interval"),
        ({"kind": "codel", "interval": "10us"}, "interval"),
        ({"kind": "fq_codel", "interval": "10us"}, "interval"),
        ({"kind": "fq", "flows": 100}, "is not a power of two; allowed: 2, 4"),
        ({"kind": "dualpi2", "classic_protection": 0.125}, "is not a whole number of percents"),
        ({"kind": "pie", "target": "5s"}, "target"),
        (
            {"kind": "red", "max": "200packets"},
            "queue.max: 200 packets is more than the buffer; allowed: up to 100 packets",
        ),
        (
            {"kind": "red", "min": "30kB", "max": "20kB"},
            "queue.min: 30000 B is not below `max`; allowed: 1 B to 19999 B",
        ),
        (
            {"kind": "red", "min": "10packets", "max": "20kB"},
            r"queue.min: 10packets cannot be compared with `max` \(20kB\), .*; allowed: both in packets, or neither",
        ),
        (
            {"kind": "red", "min": "20packets", "max": "15packets"},
            "queue.min: 20 packets is not below `max`; allowed: 1 packets to 14 packets",
        ),
        (
            {"kind": "red", "min": "10packets", "burst": 5},
            "queue.burst: 5 packets do not go with a `min` of 10 packets; allowed: 10 packets or more",
        ),
        (
            {"kind": "red", "min": "30kB", "burst": 20},
            "queue.burst: 20 packets of 1000 B .*; allowed: 30 packets or more",
        ),
        ({"kind": "red", "nodrop": True}, "queue.nodrop: 'True' has an effect with ecn only"),
        ({"kind": "red", "adaptive": True}, "queue.adaptive: unknown field"),
    ],
)
def test_what_cannot_be_is_refused_by_name(queue: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        planned(queue)


@pytest.mark.parametrize("queue", ["fq", "fq_codel", "dualpi2"])
def test_a_threshold_in_packets_of_several_queues_is_refused(queue: str) -> None:
    bottleneck = {
        "rate": "10Mbit", "buffer": "100packets", "rtt": "20ms", "queue": queue, "ecn_threshold": "40packets",
    }  # fmt: skip
    flows = [{"cca": "reno", "duration": "1s"}]
    with pytest.raises(InputError, match=f"ecn_threshold: 40packets of a link with several queues \\({queue}\\), .*"):
        make_plan(validate({"name": "x", "bottleneck": bottleneck, "flows": flows}, "x.yaml"))


def test_tail_drop_has_the_program_that_it_had() -> None:
    """No entry more, and not the program that manages queues."""
    for queue in ("tail-drop", "head-drop"):
        plan = planned(queue)
        assert not plan.manages_queues and not list(aqm_entries(plan.links[0], plan.frame_bytes))
    assert planned("codel").manages_queues


@pytest.mark.parametrize("kind", sorted(set(SETTINGS) - {"tail-drop"}))
@pytest.mark.parametrize("target", ["bmv2", "tofino"])
def test_other_switches_refuse_a_kind_by_name(
    target: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And say what they lack; nothing is created."""
    queue = {"kind": kind, "threshold": "1ms"} if kind == "step" else kind
    bottleneck = {"rate": "10Mbit", "buffer": "150kB", "rtt": "20ms", "queue": queue}
    flows = [{"cca": "cubic", "duration": "1s"}]
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"name": "x", "bottleneck": bottleneck, "flows": flows}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("narrows.cli.signal.signal", lambda *_: None)
    where = ["--inventory", str(INVENTORY)] if target == "tofino" else []
    monkeypatch.setattr(sys, "argv", ["narrows", "run", "x.yaml", "--target", target, *where])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == EXIT_BAD_INPUT
    # Tofino's other program has some, which the inventory does not name.
    aqm = planned(queue).bottleneck.aqm
    lacks = "the program narrows_managed, " if target == "tofino" and kind in KINDS else f"{aqm and aqm.needs}, which "
    assert f": bottleneck.queue: {kind} needs {lacks}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["x.yaml"]


def test_gains_are_as_linux_rounds_them() -> None:
    """PIE: 2/16 of 2^56 / 10^9 s; DualPI2: 41/256 Hz of 2^32 for each 64 ns: sch_pie.c and sch_dualpi2.c."""
    plan = planned("pie")
    assert dict(aqm_entries(plan.links[0], 1514))["update_aqm"][1]["alpha"] == 2 * ((2**56 - 1) // 10**9) // 16
    plan = planned("dualpi2")
    assert dict(aqm_entries(plan.links[0], 1514))["update_aqm"][1]["alpha"] == 41 * (2**32 - 1) * 64 // (256 * 10**9)


def test_changes_of_blue_are_in_parts_of_its_probability() -> None:
    """Of 2^32, as 0.00025 is; and a certainty, which 32 bits hold less one."""
    plan = planned({"kind": "blue", "increment": "100%"})
    ((table, (action, data)),) = aqm_entries(plan.links[0], 1514)
    assert (table, action) == ("enqueue_aqm", "blue")
    assert data == {
        "limit_bytes": 0,
        "limit_packets": 100,
        "increment": 2**32 - 1,
        "decrement": round(0.00025 * 2**32),
        "freeze": 100 * MS,
        "ecn_marks": 0,
    }


def test_a_bound_of_a_time_has_a_unit() -> None:
    link = {"rate": "10Mbit", "rtt": "40ms", "buffer": "1bdp", "queue": {"kind": "pi2", "tupdate": "1us"}}
    data = {"name": "x", "bottleneck": link, "flows": [{"cca": "cubic", "duration": "1s"}]}
    with pytest.raises(InputError, match=r"queue\.tupdate: '1us' is too small; allowed: 1ms or more"):
        validate(data, "x")
