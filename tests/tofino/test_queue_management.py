# SPDX-License-Identifier: Apache-2.0
"""Managed queues on a testbed: what is refused, what is written, and what the control plane makes of delays."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakeswitch import meters, traffic_manager
from fakeswitch.faults import Fault, refuse, stall
from fakeswitch.fixtures import (
    PIPE,
    RECEIVER_PORT,
    SENDER_PORT,
    fresh_counters,
    make_experiment,
    make_inventory,
    managed_switch,
    tofino2_switch,
)
from fakeswitch.server import FakeSwitch
from fakeswitch.traffic_manager import ALL_PIPES
from narrows.errors import InputError, RunError
from narrows.experiment.plan import ForwardingRule, Plan
from narrows.experiment.planning import make_plan
from narrows.queues.pi2 import DualPi2, Pi2
from narrows.queues.pie import Pie
from narrows.queues.red import Red
from narrows_formats.software_timing import AppliedUpdates
from narrows_tofino.bfrt.values import decode_data
from narrows_tofino.binding import bind
from narrows_tofino.chip.red import MadeWred, Wred, wred
from narrows_tofino.planner import plan as plan_writes
from narrows_tofino.programming.audit import outstanding, read_audit
from narrows_tofino.queue_management import LEAST_STEPS, ROUNDING, refuse_shared_ports
from narrows_tofino.queue_updates import Pick, aqm_of
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM, Inventory
from narrows_tofino.writes.queue_aqms import meter_write, picks
from test_calibration import measured
from test_dry_run import arrived, planned
from test_verdicts import CE, ECT_0, ECT_1, NOT_ECT, arrival_of

sys.path.append(str(Path(__file__).parents[1] / "aqm"))
from models.dualpi2 import DualPi2 as Pi2Model
from models.link import Arrival, Waiting
from models.pie import Pie as PieModel

__all__ = ["fresh_counters", "managed_switch", "tofino2_switch"]

MS = 1_000_000
LATENCY_NS = 700
PI2 = {"kind": "pi2", "tupdate": "20ms"}
SLOW = {"kind": "pi2", "tupdate": "500ms"}
SLOW_PERIOD = 500 * MS
DUAL = {"kind": "dualpi2", "tupdate": "500ms"}
CLASSIC, LOW = 0, 1
FRAME = 1514


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


@asynccontextmanager
async def connected(switch: FakeSwitch, log: Path) -> AsyncIterator[tuple[TofinoTarget, Inventory]]:
    """A target of the switch, which gives it back at the end."""
    inventory = lab(switch.chip, switch.address, model=not switch.tm.asic)
    target = TofinoTarget(inventory, log)
    await target.start()
    try:
        yield target, inventory
    finally:
        await target.stop()


@pytest.mark.parametrize("kind", ["head-drop", "codel", "fq", "fq_codel"])
def test_what_the_chip_has_not_is_refused_by_name(kind: str) -> None:
    said = refusal(kind)
    assert said.startswith(f"bottleneck.queue: {kind} needs ") and "allowed: tail-drop, step, pi2, pie, red, " in said


@pytest.mark.parametrize("queue", [{"kind": "step", "threshold": "1ms"}, PI2, "pie", "red", "dualpi2"])
def test_the_program_without_laws_is_named_with_the_one_that_has_them(queue: Any) -> None:
    said = refusal(queue, lab(program="narrows"))
    assert "needs the program narrows_managed, and the switch's is narrows (switch.program of the inventory)" in said
    assert "fix: deploy/install-switch.sh tofino --managed, and program: narrows_managed" in said


def test_a_threshold_beyond_what_a_delay_can_be_is_refused() -> None:
    """The program compares 32 bits of ns with the threshold and the empty switch's latency; 2^32 - 1 is none."""
    longest = (1 << 32) - 2 - LATENCY_NS
    plan_of({"kind": "step", "threshold": f"{longest}ns"})
    said = refusal({"kind": "step", "threshold": f"{longest + 1}ns"})
    assert said.startswith("bottleneck.queue.threshold: ") and f"allowed: up to {longest}ns" in said
    plan_of({**DUAL, "step_thresh": f"{longest}ns"})
    said = refusal({**DUAL, "step_thresh": f"{longest + 1}ns"})
    assert said.startswith("bottleneck.queue.step_thresh: ") and f"allowed: up to {longest}ns" in said


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
    # A tenth of 5 Mbit/s is as much.
    said = refusal({**DUAL, "tupdate": "20ms"}, rate="5Mbit", buffer="20kB")
    assert "24.224ms at the least rate, of which the classic queue has 10%; allowed: 24224000ns or more" in said
    plan_of({**DUAL, "tupdate": "25ms"}, rate="5Mbit", buffer="20kB")


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
        ({"min": f"{5 * FRAME}B", "max": f"{600 * FRAME}B"}, "queue.min: the driver makes 0 cells of 100, "),
        # 200 x 100 / 64 = 312 cells are 4 units of 64, which 12,000 need.
        ({"min": f"{590 * FRAME}B", "max": f"{600 * FRAME}B"}, "queue.min: the driver makes 4 steps "),
        ({"bandwidth": "1Mbit", "burst": 600}, "queue.burst: an average over "),
    ],
)
def test_what_the_driver_would_make_something_else_of_is_refused(red: dict[str, Any], said: str) -> None:
    assert refusal({"kind": "red", **red}, buffer=f"{2000 * FRAME}B").startswith(f"bottleneck.{said}")


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("ecn_threshold", {"queue": "tail-drop", "ecn_threshold": "40packets"}),
        ("queue.max", {"queue": {"kind": "red", "min": "50packets", "max": "600packets"}}),
        ("queue.max", {"queue": "red", "buffer": "2000packets"}),
    ],
)
def test_thresholds_in_packets_are_refused(field: str, settings: dict[str, Any]) -> None:
    """Depths are in cells, and how many packets are in them is not known."""
    said = refusal(**settings)
    assert said.startswith(f"bottleneck.{field}: is in packets, and Tofino knows how much memory a queue takes")
    assert said.endswith("allowed: a size, a time or BDPs, or --target soft")


@pytest.mark.parametrize("share", [0, 1])
def test_a_queue_without_a_weight_is_refused(share: int) -> None:
    said = refusal({**DUAL, "classic_protection": share})
    assert said.startswith(f"bottleneck.queue.classic_protection: {share * 100}% would give a queue the weight 0")
    assert "allowed: 1% to 99%" in said
    plan_of({**DUAL, "classic_protection": 0.01})


def shared(plan: Plan) -> str:
    with pytest.raises(InputError) as refused:
        refuse_shared_ports(plan, lab())
    return str(refused.value)


def test_two_queues_share_the_shaper_of_a_port_with_nothing_else() -> None:
    plan = plan_of(DUAL)
    refuse_shared_ports(plan, lab())
    (link,) = plan.links
    begins = "bottleneck.queue: dualpi2's two queues share the rate of their port, 1/0, by which "
    allowed = " would leave as well; allowed: a port for this link alone"
    cable = ForwardingRule(SENDER_PORT, "02:00:00:00:00:09", link.port, None)
    assert begins + "what is for 02:00:00:00:00:09" + allowed in shared(replace(plan, paths=(*plan.paths, cable)))
    other = replace(link, name="other", index=1)
    crossing = ForwardingRule(SENDER_PORT, "02:00:00:00:00:09", link.port, 1)
    both = replace(plan, links=(link, other), paths=(*plan.paths, crossing))
    assert begins + "other" + allowed in shared(both)
    collected = replace(plan, collector=replace(plan.collector, port=link.port))
    assert begins + "the reports" + allowed in shared(collected)
    one_queue = replace(both, links=(replace(link, aqm=None), replace(other, aqm=None)))
    refuse_shared_ports(one_queue, lab())


@pytest.mark.parametrize("kind", ["red", "dualpi2"])
def test_other_laws_have_no_room_for_losses_either(kind: str) -> None:
    assert refusal(kind, loss="1%").startswith("bottleneck.loss: a report of Tofino has room for one count")


@pytest.mark.parametrize("clock_hz", [1e9, 1.22e9])
@pytest.mark.parametrize("percent", range(1, 101))
def test_a_meter_is_what_the_driver_makes_of_it(percent: int, clock_hz: float) -> None:
    """The driver's loops, in floats, make of thresholds what our arithmetic says; most settings come within 5 %."""
    draw, kept, close = Random(percent), 0, 0
    for _ in range(200):
        high = round(10 ** draw.uniform(2, 5))
        settings = Wred(draw.uniform(1e3, 2e9), round(high * draw.uniform(0.1, 0.9)), high, percent)
        made = settings.made
        if made.steps < LEAST_STEPS:
            continue
        write = meter_write(0, settings)
        found = meters.kept(dict(write.data), clock_hz)
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
    aqm = Red(100_000, 300_000, 0.02, 9, 1000, 10_000_000_000, False, False, False)
    assert wred(aqm, 1514, 80).time_constant_ns == pytest.approx(409_200, rel=1e-4)


def test_red_is_written_and_stays_where_nothing_refers_to_it(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of({"kind": "red", "ecn": True, "nodrop": True}, inventory)
            assert target.unsupported(plan) == []
            made = await target.configure(plan)
            assert entries(managed_switch, "dequeue_aqm") == [("red", {"index": 0, "ecn_marks": 1, "nodrop": 1})]
            (meter,) = managed_switch.programs.meters.values()
            said = made.program["tofino"]["bottleneck"]["red"]
            assert (said["min_cells"], said["max_cells"]) == (meter[meters.LOW], meter[meters.HIGH])
            counter = managed_switch.schema.part("dequeue_drops", "Counter")
            managed_switch.programs.add(counter.name, 0, PIPE, "$COUNTER_SPEC_PKTS", 7, 64)
            (queue,) = await target.queues()
            assert (queue.dropped_packets, queue.aqm_dropped_packets) == (7, 7)
            assert await target.unexpected_losses(plan) == []

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


def test_a_meter_that_reads_otherwise_ends_the_run(
    managed_switch: FakeSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = meters.kept
    monkeypatch.setattr(meters, "kept", lambda asked, clock_hz: {**real(asked, clock_hz), meters.HIGH: 77})

    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            with pytest.raises(RunError, match=r"MAX_THRESH_CELLS reads 77 instead of .*: the switch is not set as"):
                await target.configure(plan_of("red", inventory))

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
    aqm = aqm_of(Pi2(15 * MS, 16 * MS, 41, 819, ecn))
    model = Pi2Model(lambda: 0, low_latency=False)
    seen = set()
    for delay in DELAYS:
        # The model looks at the packet that waits longest.
        model._classic.packets.clear()
        if delay:
            model._classic.push(Waiting(0, Arrival(-delay, 0, 1514)))
        model.update(0)
        pick = aqm.update(delay)
        assert pick == Pick(model.probability**2 >> 32, ecn)
        seen.add(pick.probability)
    assert min(seen) == 0 and max(seen) > 0.9 * 2**32 and len(seen) > 40


def test_pie_follows_its_model() -> None:
    """The model's probability where it may drop at all, update by update; marks up to a tenth of certainty."""
    target = 15 * MS
    aqm = aqm_of(Pie(target, 15 * MS, 2, 20, True))
    model = PieModel(lambda: 0)
    marks, dropped = set(), 0
    # Above 250 ms the probability grows by 2 % at each update.
    for delay in (*DELAYS, *[400 * MS] * 20):
        model._delay = delay
        model.update(0)
        calm = delay < target // 2 and model.probability < ((1 << 56) - 1) // 5
        wanted = 0 if model.burst > 0 or calm else model.probability >> 24
        pick = aqm.update(delay)
        assert pick == Pick(wanted, model.probability <= ((1 << 56) - 1) // 10)
        marks.add(pick.marks)
        dropped += wanted > 0
    assert dropped > 20 and marks == {False, True}


@pytest.mark.parametrize("coupling", [1, 2, 7])
def test_dualpi2_follows_its_model(coupling: int) -> None:
    """The model's probabilities of both queues, update by update, and what the program makes of them.

    A pick is of draws below a probability: at the edge of one the draw decides.
    """
    aqm = aqm_of(DualPi2(15 * MS, 16 * MS, 41, 819, MS, coupling, 10))
    model = Pi2Model(lambda: 0, coupling=coupling)
    overloads, seen = set(), set()
    for number, delay in enumerate(DELAYS):
        for queue in (model._classic, model._low):
            queue.packets.clear()
        if delay:
            # The queue that waits longer counts, whichever it is.
            longer, other = (model._classic, model._low)[:: 1 if number % 2 else -1]
            longer.push(Waiting(0, Arrival(-delay, 0, 1514)))
            other.push(Waiting(1, Arrival(-delay // 2, 0, 1514)))
        model.update(0)
        call = aqm.update(delay).call
        overload = model.probability * coupling > (1 << 32) - 1
        squared = model.probability**2 >> 32
        low = squared if overload else model.probability * coupling
        for probability, picked in ((squared, (NOT_ECT, ECT_0)), (low, (ECT_1, CE))):
            for draw in {max(0, probability - 1), probability} - {1 << 32}:
                for ecn in picked:
                    fate = {NOT_ECT: "drop", CE: "pass"}.get(ecn, "mark")
                    rest = "mark" if overload and ecn == ECT_1 else "pass"
                    wanted = ("drop" if overload else fate) if draw < probability else rest
                    assert arrival_of(ecn, call, draw) == wanted, (delay, ecn, draw)
        overloads.add(overload)
        seen.add(model.probability)
    assert overloads == ({False} if coupling == 1 else {False, True})
    assert min(seen) == 0 and len(seen) > 40


def entries(switch: FakeSwitch, table: str) -> list[tuple[str, dict[str, int]]]:
    spec = switch.schema.table(table)
    return [
        (next(one.name for one in spec.actions if one.id == action).rpartition(".")[2], dict(data))
        for action, data in switch.programs.entries[spec.name].values()
    ]


def depart(switch: FakeSwitch, packets: int, delay_ns: int, queue: int = CLASSIC) -> None:
    """Packets leave a queue of bottleneck 0, the last one after a delay."""
    total, latest = (switch.schema.part(name, "Register") for name in ("bottleneck_departures", "latest_delay"))
    switch.programs.add(total.name, 0, PIPE, total.fields[0].name, packets)
    fields = {field.name.rpartition(".")[2]: field.name for field in latest.fields}
    switch.programs.add(latest.name, queue, PIPE, fields["packets"], packets)
    switch.programs.hardware[latest.name, queue, PIPE][fields["delay"]] = delay_ns + LATENCY_NS


def test_a_step_is_written_with_the_latency_of_the_chip(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of({"kind": "step", "threshold": "1ms", "ect1_only": True}, inventory)
            assert target.unsupported(plan) == []
            await target.configure(plan)
            assert entries(managed_switch, "dequeue_aqm") == [
                ("step", {"threshold": MS + LATENCY_NS, "low_latency_only": 1})
            ]
            assert entries(managed_switch, "enqueue_aqm") == []
            (queue,) = await target.queues()
            assert queue.aqm_dropped_packets == 0
            assert await target.unexpected_losses(plan) == [] and target.queue_updates() == {}

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before


def written(switch: FakeSwitch) -> list[dict[str, int]]:
    """What AQMs on arrival were written, in their order."""
    aqm = switch.schema.table("enqueue_aqm")
    writes = [update.entity.table_entry for update, _ in switch.written]
    found = []
    for one in writes:
        if one.table_id == aqm.id and one.data.action_id:
            (action,) = [action for action in aqm.actions if action.id == one.data.action_id]
            data = decode_data(action.fields, one.data, aqm.name)
            found.append({name: int(str(value)) for name, value in data.items()})
    return found


async def learn(flows: int, switch: FakeSwitch, target: TofinoTarget) -> None:
    """So many flows' digests have come."""
    for index in range(flows):
        switch.send_digest(PIPE, bottleneck=0, index=index, signature=index + 1)
    known = 0
    while known < flows:
        known += len(await target.new_flows())


def updating(
    switch: FakeSwitch,
    log: Path,
    *faults: Fault,
    updates: int = 2,
    queue: dict[str, Any] = SLOW,
    leaving: Sequence[tuple[int, int]] = ((CLASSIC, 60 * MS),),
) -> tuple[list[dict[str, int]], AppliedUpdates, list[str]]:
    """Laws that the chip had on arrival, one after the other, and what became of the updates.

    Before the first of them packets leave: of which queue and after how long. After that nothing does.
    """

    async def run() -> tuple[list[dict[str, int]], AppliedUpdates, list[str]]:
        async with connected(switch, log) as (target, inventory):
            plan = plan_of(queue, inventory)
            made = await target.configure(plan)
            for number, waited_ns in leaving:
                depart(switch, 1, waited_ns, number)
            switch.faults += faults
            kind = queue["kind"]
            assert any(f"bottleneck.queue: {kind}'s probability is updated by software" in note for note in made.notes)
            latest_ns = time.monotonic_ns() + (updates + 20) * SLOW_PERIOD
            while target.queue_updates()["bottleneck"].made < updates:
                assert time.monotonic_ns() < latest_ns
                await target.queues()
                await asyncio.sleep(0.005)
            return written(switch), target.queue_updates()["bottleneck"], await target.unexpected_losses(plan)

    before = switch.state()
    try:
        return asyncio.run(run())
    finally:
        assert switch.state() == before


def test_the_probability_follows_the_delay_of_departures(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    """Gains are 0.16 and 3.2 Hz: p' = 0.16 x 0.045 + 3.2 x 0.06 = 0.1992, then less 0.16 x 0.015 + 3.2 x 0.06."""
    seen, applied, _ = updating(managed_switch, tmp_path / "audit.jsonl")
    assert [one["probability"] / 2**32 for one in seen[:3]] == pytest.approx([0, 0.1992**2, 0.0048**2], rel=0.01)
    assert applied.timed_by == "software" and applied.period_ns == 500 * MS
    assert applied.largest_error_ns > 0 and applied.largest_probability == pytest.approx(0.1992**2, rel=0.01)


def test_updates_that_come_too_late_fail_the_run(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    slow = Fault("write", stall(1.2), table="enqueue_aqm")
    _, applied, problems = updating(managed_switch, tmp_path / "audit.jsonl", slow)
    assert applied.missed >= 2 and applied.largest_error_ns > 1200 * MS
    (said,) = problems
    assert said.startswith(f"bottleneck: {applied.missed} of ") and "fix: a longer tupdate" in said


def test_an_update_that_is_refused_ends_the_run(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    refused = Fault("write", refuse("INVALID_ARGUMENT"), table="enqueue_aqm")
    with pytest.raises(RunError, match="injected"):
        updating(managed_switch, tmp_path / "audit.jsonl", refused)


def test_drops_of_a_law_are_apart_from_those_of_a_full_queue(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            made = await target.configure(plan_of(SLOW, inventory))
            limit = made.program["tofino"]["bottleneck"]["depth"]["made_packets"]
            for _ in range(limit + 5):
                managed_switch.tm.offer(SENDER_PORT, RECEIVER_PORT, 0, 1514)
            counter = managed_switch.schema.part("enqueue_drops", "Counter")
            managed_switch.programs.add(counter.name, 0, SENDER_PORT // 128, "$COUNTER_SPEC_PKTS", 7, 64)
            (queue,) = await target.queues()
            assert (queue.dropped_packets, queue.aqm_dropped_packets) == (12, 7)

    asyncio.run(run())


# DualPI2 on the fake switch: the receiver's port has queues 0 to 7 of its port group.
CLASSIC_QUEUE, LOW_QUEUE = (0, 0), (0, 1)
# That a frame of 1514 B takes, with 18 B that the traffic manager adds.
CELLS = {"tofino": 20, "tofino2": 9}
# Two frames with their gap in a mantissa of 4 bits; of 8 bits, and no less than a mantissa of the rate, which has 12.
BURSTS = {"tofino": 3328, "tofino2": 4096}
# 10 Gbit/s of frames of 1514 B, of which the shaper counts 18 B more.
# As it is asked for: what a port's shaper counts beside frames is not what was measured of a queue's.
RATE_KBPS = 10**7
TURNS = {"min_rate_enable": False, "min_priority": "LOW", "max_rate_enable": False, "max_priority": "LOW"}
TOFINO2_TURNS = {"advanced_flow_control": "CREDIT", "scheduling_speed": "BF_SPEED_100G", "pg_l1_node": 0}


def setting(switch: FakeSwitch, table: str, key: tuple[int, ...], pipe: int = ALL_PIPES) -> dict[str, Any]:
    return switch.tm.settings[table, key, pipe]


def test_dualpi2_is_two_queues_under_the_shaper_and_the_limit_of_a_port(
    managed_switch: FakeSwitch, tmp_path: Path
) -> None:
    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of({**DUAL, "classic_protection": 0.25, "step_thresh": "2ms"}, inventory)
            assert target.unsupported(plan) == []
            made = await target.configure(plan)
            said = made.program["tofino"]["bottleneck"]

            # 1 MB in frames of 20 cells of 80 B or 9 of 176 B, for both together.
            cells = 10**6 * CELLS[managed_switch.chip] // 1514
            for queue in (CLASSIC_QUEUE, LOW_QUEUE):
                buffer = setting(managed_switch, "queue.buffer", queue, PIPE)
                assert (buffer["guaranteed_cells"] + buffer["pool_max_cells"], buffer["dynamic_baf"]) == (
                    cells,
                    "DISABLE",
                )
            port = setting(managed_switch, "port.buffer", (RECEIVER_PORT,))
            assert (port["eg_limit_cells"], port["eg_hysteresis_cells"]) == (cells, 32)
            shaping = setting(managed_switch, "port.sched_shaping", (RECEIVER_PORT,))
            assert (shaping["unit"], shaping["provisioning"]) == ("BPS", "MIN_ERROR")
            assert (shaping["max_rate"], shaping["max_burst_size"]) == (
                RATE_KBPS,
                BURSTS[managed_switch.chip],
            )
            assert setting(managed_switch, "port.sched_cfg", (RECEIVER_PORT,))["max_rate_enable"] is True
            for queue, weight in ((CLASSIC_QUEUE, 1), (LOW_QUEUE, 3)):
                turns = setting(managed_switch, "queue.sched_cfg", queue, PIPE)
                more = TOFINO2_TURNS if managed_switch.chip == "tofino2" else {}
                assert turns == {**TURNS, "dwrr_weight": weight, "scheduling_enable": True, **more}
                # Nothing but the port's speed, and not enabled.
                assert setting(managed_switch, "queue.sched_shaping", queue, PIPE)["max_rate"] == 100_000_000

            assert said["shared_by"] == {
                "scheduler": "DWRR", "classic_weight": 1, "low_latency_weight": 3, "classic_share": 0.25,
                "rate_and_depth": "of the port, for both queues together",
            }  # fmt: skip
            assert (said["queue"]["pg_queue"], said["low_latency_queue"]["pg_queue"]) == (0, 1)
            assert said["rate"]["made_bps"] == pytest.approx(10**10, rel=1e-3)
            assert any("dualpi2's two queues take turns by weights" in note for note in made.notes)
            # What a queue's shaper counts was measured, and is not what a port's does.
            assert said["rate"]["uncertainty"] == pytest.approx(18 / 1532)
            assert any("the shaper of a port" in note and "up to 1.17% less" in note for note in made.notes)

            assert entries(managed_switch, "enqueue_aqm") == [
                ("couple", {"classic_probability": 0, "low_probability": 0})
            ]
            assert entries(managed_switch, "dequeue_aqm") == [("coupled", {"threshold": 2 * MS + LATENCY_NS})]
            assert entries(managed_switch, "arrival_queue") == [("wait_in", {"number": 1})]
            assert entries(managed_switch, "departure_queue") == [("second", {})]
            for table in ("arrival_queue", "departure_queue"):
                name = managed_switch.schema.table(table).name
                assert list(managed_switch.programs.entries[name]) == [(0, 1)], "bottleneck 0, ECT(1) and CE"
            assert await target.unexpected_losses(plan) == []

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


def test_the_plan_of_dualpi2_is_what_a_run_writes(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    experiment = make_experiment(queue=DUAL)

    async def run() -> list[Any]:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, _):
            await target.configure(target.bind_to_target(make_plan(experiment)))
            done = list(managed_switch.written)
        return [arrived(update, pipe) for update, pipe in done]

    wanted = [planned(write, managed_switch.schema) for write in plan_writes(experiment, lab(managed_switch.chip))]
    assert asyncio.run(run()) == wanted


def test_what_was_there_before_dualpi2_is_put_back(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    """Limit, shaper and weights of somebody else, on a port that is there and stays."""
    there = {"$SPEED": "BF_SPEED_100G", "$FEC": "BF_FEC_TYP_RS", "$PORT_ENABLE": True}
    managed_switch.tm.add_port(RECEIVER_PORT, there)
    managed_switch.tm.asic = False
    for table, key, pipe, data in (
        ("port.buffer", (RECEIVER_PORT,), ALL_PIPES, {"eg_limit_cells": 5000, "eg_hysteresis_cells": 64}),
        ("port.sched_shaping", (RECEIVER_PORT,), ALL_PIPES, {"max_rate": 40_000_000, "max_burst_size": 8192}),
        ("port.sched_cfg", (RECEIVER_PORT,), ALL_PIPES, {"max_rate_enable": True}),
        ("queue.sched_cfg", CLASSIC_QUEUE, PIPE, {"dwrr_weight": 100, "max_priority": "3", "max_rate_enable": True}),
        ("queue.sched_cfg", LOW_QUEUE, PIPE, {"dwrr_weight": 0, "min_rate_enable": True, "min_priority": "7"}),
    ):
        managed_switch.tm.modify(table, key, pipe, data)

    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            await target.configure(plan_of(DUAL, inventory))
            assert setting(managed_switch, "queue.sched_cfg", CLASSIC_QUEUE, PIPE)["dwrr_weight"] == 1
            assert setting(managed_switch, "queue.sched_cfg", LOW_QUEUE, PIPE)["min_priority"] == "LOW"

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


@contextmanager
def other_l1_node(switch: FakeSwitch, **node: Any) -> Iterator[None]:
    """The low-latency queue is below another node of its port than the classic one, which has these settings."""
    low, classic = 8, 0
    switch.tm.modify("queue.sched_cfg", LOW_QUEUE, PIPE, {"pg_l1_node": low})
    switch.tm.modify("l1_node.sched_cfg", (0, classic), PIPE, node)
    before = switch.state()
    yield
    assert switch.state() == before


def test_both_queues_take_turns_below_one_l1_node(tofino2_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(tofino2_switch, tmp_path / "audit.jsonl") as (target, inventory):
            await target.configure(plan_of(DUAL, inventory))
            for queue in (CLASSIC_QUEUE, LOW_QUEUE):
                assert setting(tofino2_switch, "queue.sched_cfg", queue, PIPE)["pg_l1_node"] == 0

    with other_l1_node(tofino2_switch):
        asyncio.run(run())


@pytest.mark.parametrize("limited", ["min_rate_enable", "max_rate_enable"])
def test_an_l1_node_with_a_rate_of_its_own_is_refused(tofino2_switch: FakeSwitch, tmp_path: Path, limited: str) -> None:
    async def run() -> None:
        async with connected(tofino2_switch, tmp_path / "audit.jsonl") as (target, inventory):
            with pytest.raises(InputError, match=f"is L1 node 0 of port group 0, .*{limited}"):
                await target.configure(plan_of(DUAL, inventory))

    with other_l1_node(tofino2_switch, **{limited: True}):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("table", "nth"),
    [("tm.queue.buffer", 2), ("tm.port.buffer", 1), ("tm.port.sched_shaping", 1), ("tm.queue.sched_cfg", 1),
     ("tm.queue.sched_cfg", 2), ("tm.port.sched_cfg", 1), ("arrival_queue", 1), ("departure_queue", 1)],
)  # fmt: skip
def test_whatever_of_dualpi2_is_refused_everything_is_given_back(
    managed_switch: FakeSwitch, tmp_path: Path, table: str, nth: int
) -> None:
    managed_switch.faults.append(Fault("write", refuse("INVALID_ARGUMENT"), table=table, nth=nth))

    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            with pytest.raises(RunError, match="injected"):
                await target.configure(plan_of(DUAL, inventory))

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


def test_a_weight_that_reads_otherwise_ends_the_run(
    managed_switch: FakeSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a chip whose register has fewer bits."""
    monkeypatch.setattr(traffic_manager, "WEIGHTS", 7)

    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            with pytest.raises(RunError, match="dwrr_weight reads 1 instead of 9: the switch is not set as asked"):
                await target.configure(plan_of(DUAL, inventory))

    asyncio.run(run())


def test_two_queues_hold_together_what_was_asked_for(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of(DUAL, inventory)
            made = await target.configure(plan)
            limit = made.program["tofino"]["bottleneck"]["depth"]["made_packets"]
            for _ in range(limit // 2):
                assert managed_switch.tm.offer(SENDER_PORT, RECEIVER_PORT, LOW, 1514)
            accepted = sum(managed_switch.tm.offer(SENDER_PORT, RECEIVER_PORT, CLASSIC, 1514) for _ in range(limit))
            assert accepted == limit - limit // 2
            (queue,) = await target.queues()
            assert (queue.depth_packets, queue.dropped_packets, queue.aqm_dropped_packets) == (limit, limit // 2, 0)
            assert queue.peak_depth_bytes == pytest.approx(queue.limit_bytes, abs=1514)
            # The port was full, though neither queue was: no other limit has dropped.
            assert await target.unexpected_losses(plan) == []
            for number in (CLASSIC, LOW):
                managed_switch.tm.drain(RECEIVER_PORT, number, limit)

    asyncio.run(run())


def test_drops_before_two_queues_were_full_fail_the_run(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of(DUAL, inventory)
            await target.configure(plan)
            managed_switch.tm.counters["eg_port", (RECEIVER_PORT,), ALL_PIPES, "drop_count_packets"] += 1
            (found,) = await target.unexpected_losses(plan)
            assert found.startswith(f"1 packets dropped at port {RECEIVER_PORT}, but its queue was never full: ")

    asyncio.run(run())


def test_a_port_that_is_reset_has_its_shaper_again(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of(DUAL, inventory)
            await target.configure(plan)
            managed_switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_40G"})
            managed_switch.tm.modify_port(RECEIVER_PORT, {"$SPEED": "BF_SPEED_100G"})
            assert setting(managed_switch, "port.sched_shaping", (RECEIVER_PORT,))["max_rate"] == 100_000_000
            await target.queues()
            assert setting(managed_switch, "port.sched_shaping", (RECEIVER_PORT,))["max_rate"] == RATE_KBPS
            (found,) = await target.unexpected_losses(plan)
            assert "port 1/0 was reset during the run" in found and "tm.port.sched_shaping" in found

    asyncio.run(run())


def test_a_rate_that_varies_is_the_ports(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    rate = {"steps": [{"at": "0s", "rate": "100Mbit"}, {"at": "300ms", "rate": "50Mbit"}]}

    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of(DUAL, inventory, rate=rate, buffer="200kB")
            await target.configure(plan)
            await target.start_schedules(time.monotonic_ns())
            while not target.rate_steps()["bottleneck"].rate_bps:
                await target.queues()
                await asyncio.sleep(0.005)
            assert setting(managed_switch, "port.sched_shaping", (RECEIVER_PORT,))["max_rate"] == round(RATE_KBPS / 200)
            assert setting(managed_switch, "queue.sched_shaping", CLASSIC_QUEUE, PIPE)["max_rate"] == 100_000_000

    before = managed_switch.state()
    asyncio.run(run())
    assert managed_switch.state() == before


@pytest.mark.parametrize(
    "leaving",
    [[(CLASSIC, 60 * MS)], [(LOW, 60 * MS)], [(CLASSIC, 60 * MS), (LOW, 20 * MS)], [(LOW, 60 * MS), (CLASSIC, 0)]],
)
def test_coupled_probabilities_follow_the_queue_that_waits_longer(
    managed_switch: FakeSwitch, tmp_path: Path, leaving: list[tuple[int, int]]
) -> None:
    """p' = 0.16 x 0.045 + 3.2 x 0.06 = 0.1992, then 0.0048 (see above); twice that in L."""
    seen, applied, problems = updating(managed_switch, tmp_path / "audit.jsonl", queue=DUAL, leaving=leaving)
    made = [(one["classic_probability"] / 2**32, one["low_probability"] / 2**32) for one in seen[:3]]
    for found, linear in zip(made, (0, 0.1992, 0.0048), strict=True):
        assert found == pytest.approx((linear**2, 2 * linear), rel=0.01)
    assert applied.largest_probability == pytest.approx(0.1992**2, rel=0.01) and problems == []


def test_beyond_certainty_both_queues_drop(managed_switch: FakeSwitch, tmp_path: Path) -> None:
    """p' = 0.16 x 0.185 + 3.2 x 0.2 = 0.6696; twice that is more than certain."""
    seen, applied, _ = updating(managed_switch, tmp_path / "audit.jsonl", queue=DUAL, leaving=[(LOW, 200 * MS)])
    assert seen[1].keys() == {"probability"} and seen[2].keys() == {"classic_probability", "low_probability"}
    assert seen[1]["probability"] / 2**32 == pytest.approx(0.6696**2, rel=0.01)
    assert applied.largest_probability == pytest.approx(0.6696**2, rel=0.01)


@pytest.mark.parametrize("managed_switch", ["tofino"], indirect=True)
def test_an_update_that_is_due_does_not_wait_for_all_flows_to_be_read(
    managed_switch: FakeSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading of 200 flows is 400 reads: an update, which is one read and one write on disk, goes in between."""
    flows, synced = 200, list[int]()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            plan = plan_of({**PI2, "tupdate": "10s"}, inventory)
            await target.configure(plan)
            await learn(flows, managed_switch, target)
            await target.queues()
            managed_switch.requests.clear()
            reading = asyncio.create_task(target.queues())
            while not any("arrival_counter" in table for _, table in managed_switch.requests):
                await asyncio.sleep(0)
            await target._delay_ns(plan.links[0])
            assert not reading.done()
            monkeypatch.setattr(os, "fsync", noted)
            await target._set_aqm(plan.links[0], picks(1 << 20, marks=True))
            monkeypatch.undo()
            await reading

    asyncio.run(run())
    asked = [table for kind, table in managed_switch.requests if kind == "read"]
    update = next(number for number, table in enumerate(asked) if "latest_delay" in table)
    # How many are left is up to the machine; without a gap for the update none would be.
    assert any("arrival_counter" in table for table in asked[update:])
    assert len(synced) == 1
    assert outstanding(read_audit(tmp_path / "audit.jsonl")) == []


@pytest.mark.parametrize("managed_switch", ["tofino"], indirect=True)
@pytest.mark.parametrize(("queue", "bulk"), [({**PI2, "tupdate": "10s"}, False), ("tail-drop", True)])
def test_only_a_run_without_updates_waits_for_whole_tables(
    queue: Any, bulk: bool, managed_switch: FakeSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying the counters of all flows takes the driver seconds, in which a probability would go stale."""
    monkeypatch.setattr("narrows_tofino.target.BULK_FROM", 3)
    monkeypatch.setattr("narrows_tofino.readings.counters.BULK_FROM", 3)

    async def run() -> None:
        async with connected(managed_switch, tmp_path / "audit.jsonl") as (target, inventory):
            await target.configure(plan_of(queue, inventory))
            await learn(5, managed_switch, target)
            # Bytes of many flows are read when nothing moves: from the second reading on.
            await target.queues()
            managed_switch.requests.clear()
            await target.queues()

    asyncio.run(run())
    copied = [table for kind, table in managed_switch.requests if kind == "Sync" and "arrival_counter" in table]
    assert bool(copied) == bulk
