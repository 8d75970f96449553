# SPDX-License-Identifier: Apache-2.0
"""Managed queues on a testbed: what is refused, what is written, and what the control plane makes of delays."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakeswitch import meters
from fakeswitch.faults import Fault, refuse, stall
from fakeswitch.fixtures import (
    PIPE,
    RECEIVER_PORT,
    SENDER_PORT,
    fresh_counters,
    make_experiment,
    make_inventory,
    managed_switch,
)
from fakeswitch.server import FakeSwitch
from narrows.errors import InputError, RunError
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.experiment.queues import Pi2, Pie, Red
from narrows_tofino.bfrt.values import decode_data
from narrows_tofino.binding import bind
from narrows_tofino.chip.red import MadeWred, Wred, wred
from narrows_tofino.programming.audit import outstanding, read_audit
from narrows_tofino.queue_management import LEAST_STEPS, ROUNDING
from narrows_tofino.queue_updates import Pick, law_of
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM, Inventory
from narrows_tofino.writes.queue_laws import meter_write
from test_calibration import measured

sys.path.append(str(Path(__file__).parents[1] / "aqm"))
from models.dualpi2 import DualPi2 as Pi2Model
from models.link import Arrival, Waiting
from models.pie import Pie as PieModel

__all__ = ["fresh_counters", "managed_switch"]

MS = 1_000_000
LATENCY_NS = 700
PI2 = {"kind": "pi2", "tupdate": "20ms"}
SLOW = {"kind": "pi2", "tupdate": "500ms"}
SLOW_PERIOD = 500 * MS


def lab(
    chip: str = "tofino", address: str = "127.0.0.1:50052", step_ns: int | None = 5 * MS, **switch: Any
) -> Inventory:
    found = make_inventory(chip, address, **{"program": MANAGED_PROGRAM, **switch})
    return found.calibrated(measured(chip, rate_step_ns=step_ns, latency_ns=LATENCY_NS))


def plan_of(queue: Any, inventory: Inventory | None = None, **bottleneck: Any) -> Plan:
    return bind(make_plan(make_experiment(queue=queue, **bottleneck)), inventory or lab())


def refusal(queue: Any, inventory: Inventory | None = None, **bottleneck: Any) -> str:
    with pytest.raises(InputError) as refused:
        plan_of(queue, inventory, **bottleneck)
    return str(refused.value)


@pytest.mark.parametrize("kind", ["head-drop", "codel", "dualpi2", "fq", "fq_codel"])
def test_what_the_chip_has_not_is_refused_by_name(kind: str) -> None:
    said = refusal(kind)
    assert said.startswith(f"bottleneck.queue: {kind} needs ") and "allowed: tail-drop, step, pi2, pie, red, " in said


@pytest.mark.parametrize("queue", [{"kind": "step", "threshold": "1ms"}, PI2, "pie", "red"])
def test_the_program_without_laws_is_named_with_the_one_that_has_them(queue: Any) -> None:
    said = refusal(queue, lab(program="narrows"))
    assert "needs the program narrows_managed, and the switch's is narrows (switch.program of the inventory)" in said
    assert "fix: deploy/install-switch.sh tofino --managed, and program: narrows_managed" in said


@pytest.mark.parametrize("program", ["narrows", MANAGED_PROGRAM])
def test_the_chip_without_such_a_program_refuses_by_name(program: str) -> None:
    said = refusal("pie", lab("tofino2", program=program))
    assert "pie needs the program narrows_managed, which is compiled for tofino only; allowed on tofino2: tail" in said


def test_a_threshold_beyond_what_a_delay_can_be_is_refused() -> None:
    """The program compares 32 bits of ns with the threshold and the empty switch's latency; 2^32 - 1 is none."""
    longest = (1 << 32) - 2 - LATENCY_NS
    plan_of({"kind": "step", "threshold": f"{longest}ns"})
    said = refusal({"kind": "step", "threshold": f"{longest + 1}ns"})
    assert said.startswith("bottleneck.queue.threshold: ") and f"allowed: up to {longest}ns" in said


def test_updates_that_the_driver_cannot_follow_are_refused() -> None:
    assert "fix: narrows calibrate" in refusal(PI2, lab(step_ns=None))
    assert "fix: narrows calibrate" in refusal(PI2, make_inventory(program=MANAGED_PROGRAM))
    said = refusal(PI2, lab(step_ns=21 * MS))
    assert said.startswith("bottleneck.queue.tupdate: 20ms is too short, the driver takes an update every 21ms")
    assert "allowed: 21000000ns or more" in said
    plan_of(PI2, lab(step_ns=20 * MS))
    # A frame of 1514 B at 500 kbit/s takes 24.224 ms.
    said = refusal(PI2, rate="500kbit", buffer="20kB")
    assert "a frame takes 24.224ms at the least rate; allowed: 24224000ns or more" in said


def test_a_rate_that_varies_and_its_queue_share_the_driver() -> None:
    """A step and an update each take 16 ms: no step may come before 32 ms, and no update."""
    steps = [("0s", "10Mbit"), ("50ms", "20Mbit"), ("81ms", "10Mbit")]
    varying = {"steps": [{"at": at, "rate": rate} for at, rate in steps]}
    slow = {**PI2, "tupdate": "50ms"}
    said = refusal(slow, lab(step_ns=16 * MS), rate=varying)
    assert said.startswith("bottleneck.rate: changes again after 31ms, and the driver takes a change every 32ms")
    assert "as 2 varying rates and managed queues share it" in said
    said = refusal(PI2, lab(step_ns=11 * MS), rate=varying)
    assert said.startswith("bottleneck.queue.tupdate: 20ms is too short, the driver takes an update every 22ms")
    plan_of(slow, lab(step_ns=15 * MS), rate=varying)


def test_a_report_has_no_room_for_losses_beside_drops() -> None:
    assert refusal(PI2, loss="1%").startswith("bottleneck.loss: a report of Tofino has room for one count")
    plan_of({"kind": "step", "threshold": "1ms"}, loss="1%")


@pytest.mark.parametrize(
    ("red", "said"),
    [
        ({"probability": 0.015}, "queue.probability: 0.015 is not a whole percent"),
        ({"probability": 0.001}, "queue.probability: 0.001 is not a whole percent"),
        ({"ecn": True, "harddrop": True}, "queue.harddrop: Tofino tells what RED picks, and not by which bound"),
        # Frames of 20 cells: certainty, divided by 32, is 11,900 x 100 / 64 = 18,593 cells above, 145 units of 128.
        ({"min": "5packets", "max": "600packets"}, "queue.min: the driver makes 0 cells of 100, "),
        # 200 x 100 / 64 = 312 cells are 4 units of 64, which 12,000 need.
        ({"min": "590packets", "max": "600packets"}, "queue.min: the driver makes 4 steps "),
        ({"bandwidth": "1Mbit", "burst": 600}, "queue.burst: an average over "),
    ],
)
def test_what_the_driver_would_make_something_else_of_is_refused(red: dict[str, Any], said: str) -> None:
    assert refusal({"kind": "red", **red}, buffer="2000packets").startswith(f"bottleneck.{said}")


def test_red_has_no_room_for_losses_either() -> None:
    assert refusal("red", loss="1%").startswith("bottleneck.loss: a report of Tofino has room for one count")


@pytest.mark.parametrize("percent", range(1, 101))
def test_a_meter_is_what_the_driver_makes_of_it(percent: int) -> None:
    """The driver's loops, in floats, make of thresholds what our arithmetic says; most settings come within 5 %."""
    draw, kept, close = Random(percent), 0, 0
    for _ in range(200):
        high = round(10 ** draw.uniform(2, 5))
        settings = Wred(draw.uniform(1e3, 2e9), round(high * draw.uniform(0.1, 0.9)), high, percent)
        made = settings.made
        if made.steps < LEAST_STEPS:
            continue
        write = meter_write(0, settings)
        found = meters.kept(dict(write.data))
        for name, (least, most) in write.within.items():
            assert least <= found[name] <= most, (name, settings, found)
        kept += 1
        close += (
            abs(made.probability * 100 - percent) <= ROUNDING * percent and made.min_cells > 0.95 * settings.min_cells
        )
    assert kept > 100 and close > 0.9 * kept


def test_a_meter_worked_by_hand() -> None:
    """From 1,000 to 3,000 cells, 2 %: in 64 steps of 2^-5 a slope that is 100 % at 3,125 cells above min; unit 16."""
    assert Wred(1e6, 1000, 3000, 2).made == MadeWred(992, 2992, 2000 / 3120 / 32, 195)


def test_the_average_follows_as_many_packets() -> None:
    """tc's weight of 2^-9, of 1,000 B at 10 Gbit/s: 800 ns / -ln(1 - 1/512) are 409.2 us."""
    law = Red(100_000, 300_000, 0.02, 9, 1000, 10_000_000_000, False, False, False)
    assert wred(law, 1514, 80).time_constant_ns == pytest.approx(409_200, rel=1e-4)


def test_red_is_written_and_stays_where_nothing_refers_to_it(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        inventory = lab(managed_switch.chip, managed_switch.address)
        target = TofinoTarget(inventory, tmp_path / "audit.jsonl")
        plan = plan_of({"kind": "red", "ecn": True, "nodrop": True}, inventory)
        assert target.unsupported(plan) == []
        await target.start()
        made = await target.configure(plan)
        assert entries(managed_switch, "dequeue_law") == [("red", {"index": 0, "ecn_marks": 1, "nodrop": 1})]
        (meter,) = managed_switch.programs.meters.values()
        said = made.program["tofino"]["bottleneck"]["red"]
        assert (said["min_cells"], said["max_cells"]) == (meter[meters.LOW], meter[meters.HIGH])
        counter = managed_switch.schema.part("dequeue_drops", "Counter")
        managed_switch.programs.add(counter.name, 0, PIPE, "$COUNTER_SPEC_PKTS", 7, 64)
        (queue,) = await target.queues()
        assert (queue.dropped_packets, queue.aqm_dropped_packets) == (7, 7)
        assert await target.unexpected_losses(plan) == []
        await target.stop()

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


def test_a_meter_that_reads_otherwise_ends_the_run(
    managed_switch: FakeSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = meters.kept
    monkeypatch.setattr(meters, "kept", lambda asked: {**real(asked), meters.HIGH: 77})

    async def run() -> None:
        inventory = lab(managed_switch.chip, managed_switch.address)
        target = TofinoTarget(inventory, tmp_path / "audit.jsonl")
        await target.start()
        try:
            with pytest.raises(RunError, match=r"MAX_THRESH_CELLS reads 77 instead of .*: the switch is not set as"):
                await target.configure(plan_of("red", inventory))
        finally:
            await target.stop()

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before


# Delays that rise beyond the target, stay, and fall to nothing.
DELAYS = [
    0,
    MS,
    4 * MS,
    12 * MS,
    30 * MS,
    80 * MS,
    300 * MS,
    260 * MS,
    *[40 * MS] * 30,
    *[16 * MS] * 20,
    2 * MS,
    *[0] * 40,
]


@pytest.mark.parametrize("ecn", [False, True])
def test_pi2_follows_its_model(ecn: bool) -> None:
    """The square of the model's probability, update by update."""
    law = law_of(Pi2(15 * MS, 16 * MS, 41, 819, ecn))
    model = Pi2Model(lambda: 0, low_latency=False)
    seen = set()
    for delay in DELAYS:
        # The model looks at the packet that waits longest.
        model._classic.packets.clear()
        if delay:
            model._classic.push(Waiting(0, Arrival(-delay, 0, 1514)))
        model.update(0)
        pick = law.update(delay)
        assert pick == Pick(model.probability**2 >> 32, ecn)
        seen.add(pick.probability)
    assert min(seen) == 0 and max(seen) > 0.9 * 2**32 and len(seen) > 40


def test_pie_follows_its_model() -> None:
    """The model's probability where it may drop at all, update by update; marks up to a tenth of certainty."""
    target = 15 * MS
    law = law_of(Pie(target, 15 * MS, 2, 20, True))
    model = PieModel(lambda: 0)
    marks, dropped = set(), 0
    # Above 250 ms the probability grows by 2 % at each update.
    for delay in (*DELAYS, *[400 * MS] * 20):
        model._delay = delay
        model.update(0)
        calm = delay < target // 2 and model.probability < ((1 << 56) - 1) // 5
        wanted = 0 if model.burst > 0 or calm else model.probability >> 24
        pick = law.update(delay)
        assert pick == Pick(wanted, model.probability <= ((1 << 56) - 1) // 10)
        marks.add(pick.marks)
        dropped += wanted > 0
    assert dropped > 20 and marks == {False, True}


def entries(switch: FakeSwitch, table: str) -> list[tuple[str, dict[str, int]]]:
    spec = switch.schema.table(table)
    return [
        (next(one.name for one in spec.actions if one.id == action).rpartition(".")[2], dict(data))
        for action, data in switch.programs.entries[spec.name].values()
    ]


def depart(switch: FakeSwitch, packets: int, delay_ns: int) -> None:
    """Packets leave bottleneck 0, the last one after a delay."""
    total, latest = (switch.schema.part(name, "Register") for name in ("bottleneck_departures", "latest_delay"))
    switch.programs.add(total.name, 0, PIPE, total.fields[0].name, packets)
    switch.programs.hardware[latest.name, 0, PIPE][latest.fields[0].name] = delay_ns + LATENCY_NS


def test_a_step_is_written_with_the_latency_of_the_chip(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        inventory = lab(managed_switch.chip, managed_switch.address)
        target = TofinoTarget(inventory, tmp_path / "audit.jsonl")
        plan = plan_of({"kind": "step", "threshold": "1ms", "ect1_only": True}, inventory)
        assert target.unsupported(plan) == []
        await target.start()
        await target.configure(plan)
        assert entries(managed_switch, "dequeue_law") == [
            ("step", {"threshold": MS + LATENCY_NS, "low_latency_only": 1})
        ]
        assert entries(managed_switch, "enqueue_law") == []
        (queue,) = await target.queues()
        assert queue.aqm_dropped_packets == 0
        assert await target.unexpected_losses(plan) == [] and target.queue_updates() == {}
        await target.stop()

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before


def written(switch: FakeSwitch) -> list[int]:
    """Probabilities that were written, in their order."""
    law = switch.schema.table("enqueue_law")
    writes = [update.entity.table_entry for update, _ in switch.written]
    data = [decode_data(law.data("pick"), one.data, law.name) for one in writes if one.table_id == law.id]
    return [value for one in data if isinstance(value := one["probability"], int)]


def updating(
    switch: FakeSwitch, log: Path, *faults: Fault, updates: int = 2
) -> tuple[list[int], dict[str, Any], list[str]]:
    """Probabilities that the chip had, one after the other, and what became of the updates.

    Before the first of them a packet has waited 60 ms; after that nothing leaves the queue.
    """

    async def run() -> tuple[list[int], dict[str, Any], list[str]]:
        inventory = lab(switch.chip, switch.address)
        target = TofinoTarget(inventory, log)
        plan = plan_of(SLOW, inventory)
        await target.start()
        try:
            made = await target.configure(plan)
            depart(switch, 1, 60 * MS)
            switch.faults += faults
            assert any("bottleneck.queue: pi2's probability is updated by software" in note for note in made.notes)
            latest_ns = time.monotonic_ns() + (updates + 20) * SLOW_PERIOD
            while target.queue_updates()["bottleneck"]["made"] < updates:
                assert time.monotonic_ns() < latest_ns
                await target.queues()
                await asyncio.sleep(0.005)
            return written(switch), target.queue_updates()["bottleneck"], await target.unexpected_losses(plan)
        finally:
            await target.stop()

    before = switch.state()
    try:
        return asyncio.run(run())
    finally:
        assert switch.state() == before


def test_the_probability_follows_the_delay_of_departures(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    """Gains are 0.16 and 3.2 Hz: p' = 0.16 x 0.045 + 3.2 x 0.06 = 0.1992, then less 0.16 x 0.015 + 3.2 x 0.06."""
    seen, applied, _ = updating(managed_switch, tmp_path / "audit.jsonl")
    assert [number / 2**32 for number in seen[:3]] == pytest.approx([0, 0.1992**2, 0.0048**2], rel=0.01)
    assert applied["timed_by"] == "software" and applied["period_ns"] == 500 * MS
    assert applied["largest_error_ns"] > 0 and applied["largest_probability"] == pytest.approx(0.1992**2, rel=0.01)


def test_updates_that_come_too_late_fail_the_run(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    slow = Fault("write", stall(1.2), table="enqueue_law")
    _, applied, problems = updating(managed_switch, tmp_path / "audit.jsonl", slow)
    assert applied["missed"] >= 2 and applied["largest_error_ns"] > 1200 * MS
    (said,) = problems
    assert said.startswith(f"bottleneck: {applied['missed']} of ") and "fix: a longer tupdate" in said


def test_an_update_that_is_refused_ends_the_run(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    refused = Fault("write", refuse("INVALID_ARGUMENT"), table="enqueue_law")
    with pytest.raises(RunError, match="injected"):
        updating(managed_switch, tmp_path / "audit.jsonl", refused)


def test_drops_of_a_law_are_apart_from_those_of_a_full_queue(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        inventory = lab(managed_switch.chip, managed_switch.address)
        target = TofinoTarget(inventory, tmp_path / "audit.jsonl")
        await target.start()
        made = await target.configure(plan_of(SLOW, inventory))
        limit = made.program["tofino"]["bottleneck"]["depth"]["made_packets"]
        for _ in range(limit + 5):
            managed_switch.tm.offer(SENDER_PORT, RECEIVER_PORT, 0, 1514)
        counter = managed_switch.schema.part("enqueue_drops", "Counter")
        managed_switch.programs.add(counter.name, 0, SENDER_PORT // 128, "$COUNTER_SPEC_PKTS", 7, 64)
        (queue,) = await target.queues()
        assert (queue.dropped_packets, queue.aqm_dropped_packets) == (12, 7)
        await target.stop()

    asyncio.run(run())
