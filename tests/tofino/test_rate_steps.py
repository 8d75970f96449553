# SPDX-License-Identifier: Apache-2.0
"""Rates that vary on a testbed: what is refused, and what a fake driver, quick or slow, makes of a schedule."""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from fakeswitch.faults import Fault, refuse, stall
from fakeswitch.fixtures import (
    PIPE,
    audit,
    client,
    fresh_counters,
    inventory,
    kind,
    make_experiment,
    make_inventory,
    programmer,
    switch,
)
from fakeswitch.parking_lot import parking_lot, parking_lot_inventory
from fakeswitch.server import FakeSwitch
from narrows.errors import InputError, RunError
from narrows.experiment.planning import make_plan
from narrows.run.calibration_bench import experiment_of
from narrows_formats.schedules import RateSteps
from narrows_formats.software_timing import AppliedSteps
from narrows_tofino.bfrt.client import Client
from narrows_tofino.binding import bind
from narrows_tofino.planner import cabled_ports, plan_switch
from narrows_tofino.programming.audit import outstanding, read_audit
from narrows_tofino.programming.programmer import Programmer
from narrows_tofino.rate_steps import changes, initial_bps
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM, Inventory
from narrows_tofino.writes.ports import port_writes
from narrows_tofino.writes.reader import LiveReader
from test_calibration import measured

__all__ = ["audit", "client", "fresh_counters", "inventory", "kind", "programmer", "switch"]

MS = 1_000_000
SHAPER = "tm.queue.sched_shaping"


def steps(*at: tuple[str, str], **more: str) -> dict[str, Any]:
    return {"steps": [{"at": when, "rate": rate} for when, rate in at], **more}


# The step at 500 ms changes nothing, and needs no write.
# Far enough apart that a busy machine, too, makes each step before the next one is due.
STEP = 500 * MS
VARYING = steps(("0s", "100Mbit"), ("500ms", "50Mbit"), ("1s", "70Mbit"), ("1250ms", "70Mbit"), ("1500ms", "40Mbit"))


def calibrated(inventory: Inventory, step_ns: int | None = 20 * MS) -> Inventory:
    return inventory.calibrated(measured(inventory.switch.chip, rate_step_ns=step_ns, shaper_bytes=0))


def refusal(inventory: Inventory, rate: Any, **more: str) -> str:
    with pytest.raises(InputError) as refused:
        bind(make_plan(make_experiment(rate=rate, buffer="200kB", **more)), inventory)
    return str(refused.value)


def test_changes_go_round_and_leave_out_what_changes_nothing() -> None:
    repeated = RateSteps(((0, 5), (10, 5), (20, 7), (30, 5)), 40)
    assert list(islice(changes(repeated), 4)) == [(20, 7), (30, 5), (60, 7), (70, 5)]
    assert list(islice(changes(RateSteps(((0, 5), (20, 7)), 30)), 3)) == [(20, 7), (30, 5), (50, 7)]
    assert list(changes(RateSteps(((0, 5), (20, 7))))) == [(20, 7)]
    assert list(changes(RateSteps(((0, 5),), 30))) == []


def test_what_no_driver_can_follow_is_refused_with_its_reason() -> None:
    lab = calibrated(make_inventory())
    assert "was never measured; fix: narrows calibrate" in refusal(make_inventory(), VARYING)
    assert "was never measured; fix: narrows calibrate" in refusal(calibrated(lab, None), VARYING)
    trace = {"trace": {"file": "x", "format": "mahimahi", "text": "1\n2\n9\n"}}
    assert refusal(lab, trace).startswith("bottleneck.rate: opportunities are not made on Tofino")
    # 201,514 B at 300 kbit/s are 5.37371 s, and a report's 32 bits of nanoseconds end at 4.29 s.
    said = refusal(lab, steps(("0s", "100Mbit"), ("1s", "300kbit")))
    assert "a wait of 5.37371 s as its rate varies" in said and said.endswith("allowed: a smaller buffer")


def test_an_outage_that_reports_cannot_tell_is_refused() -> None:
    lab = calibrated(make_inventory())

    def outage(end: str) -> dict[str, Any]:
        return steps(("0s", "10Mbit"), ("1s", "0bit"), (end, "10Mbit"))

    # 201,514 B at 10 Mbit/s are 0.1612112 s; 2^32 ns less those are an outage of 4.1337561 s.
    bind(make_plan(make_experiment(rate=outage("5133ms"), buffer="200kB")), lab)
    said = refusal(lab, outage("5134ms"))
    assert "a wait of 4.29521 s as its rate varies" in said
    assert said.endswith("allowed: a smaller buffer, or shorter outages")


def test_coming_back_from_an_outage_takes_a_write_more() -> None:
    """And two more where two queues are taken out of the scheduler."""
    rate = steps(("0s", "10Mbit"), ("50ms", "0bit"), ("100ms", "10Mbit"), period="150ms")
    bind(make_plan(make_experiment(rate=rate, buffer="200kB")), calibrated(make_inventory(), 25 * MS))
    said = refusal(calibrated(make_inventory(), 26 * MS), rate)
    assert "changes again after 50ms, and the driver takes a change every 52ms" in said


@pytest.mark.parametrize("period", ["119ms", "139ms"])
def test_a_step_that_is_too_fast_is_refused_with_the_finest_that_holds(period: str) -> None:
    """The shortest gap is that from the last step to the next period's change: 19 or 39 ms."""
    rate = steps(("0s", "10Mbit"), ("50ms", "20Mbit"), ("100ms", "30Mbit"), period=period)
    lab = calibrated(make_inventory())
    if period == "119ms":
        said = refusal(lab, rate)
        assert said.startswith("bottleneck.rate: changes again after 19ms, and the driver takes a change every 20ms")
        assert "allowed: 20000000ns or more between changes" in said
    else:
        bind(make_plan(make_experiment(rate=rate, buffer="200kB")), lab)


def test_links_that_vary_share_the_driver() -> None:
    rate = {"rate": steps(("0s", "10Mbit"), ("50ms", "20Mbit"), ("80ms", "10Mbit"))}
    lab = calibrated(parking_lot_inventory())
    bind(make_plan(parking_lot(left=rate)), lab)
    with pytest.raises(InputError, match=r"after 30ms, .* every 40ms .*as 2 varying rates and managed queues share it"):
        bind(make_plan(parking_lot(left=rate, mid=rate)), lab)


def test_a_later_rate_that_the_shaper_has_not_is_refused(switch: FakeSwitch, tmp_path: Path) -> None:
    lab = calibrated(make_inventory(switch.chip, switch.address))
    target = TofinoTarget(lab, tmp_path / "audit.jsonl")
    rate = steps(("0s", "10Gbit"), ("1s", "100Gbit"))
    (said,) = target.unsupported(target.bind_to_target(make_plan(make_experiment(rate=rate))))
    assert said.startswith("bottleneck.rate: 100Gbit is too much")


def run(switch: FakeSwitch, lab: Inventory, log: Path, *faults: Fault) -> tuple[AppliedSteps, list[tuple[float, int]]]:
    """What run.json has of a schedule's steps, and the rates that the chip had when it was looked at."""

    async def go() -> tuple[AppliedSteps, list[tuple[float, int]]]:
        target, seen = TofinoTarget(lab, log), list[tuple[float, int]]()
        plan = target.bind_to_target(make_plan(make_experiment(rate=VARYING, buffer="200kB")))
        await target.start()
        try:
            made = await target.configure(plan)
            assert made.links["bottleneck"].rate_bps == 100_000_000
            assert any("bottleneck.rate: its steps are timed by software" in note for note in made.notes)
            epoch_ns = time.monotonic_ns()
            await target.start_schedules(epoch_ns)
            switch.faults += faults
            # Until every step is made, or one is found to have failed (at a reading).
            while len(target.rate_steps()["bottleneck"].planned_ns) < 3 or time.monotonic_ns() < epoch_ns + 4 * STEP:
                assert time.monotonic_ns() < epoch_ns + 60 * STEP
                (queue,) = await target.queues()
                seen.append(((time.monotonic_ns() - epoch_ns) / MS, queue.rate_bps))
                await asyncio.sleep(0.01)
            assert await target.unexpected_losses(plan) == []
            changed = [change for change in outstanding(read_audit(log)) if change.table.endswith(SHAPER)]
            assert len(changed) == 1
            return target.rate_steps()["bottleneck"], seen
        finally:
            await target.stop()

    before = switch.state()
    try:
        return asyncio.run(go())
    finally:
        assert switch.state() == before


def test_steps_are_made_at_their_times_and_given_back(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    applied, seen = run(switch, calibrated(inventory), tmp_path / "audit.jsonl")
    assert applied.planned_ns == [STEP, 2 * STEP, 3 * STEP]
    assert applied.rate_bps == pytest.approx([50e6, 70e6, 40e6], rel=5e-3)
    late = [done - due for due, done in zip(applied.planned_ns, applied.achieved_ns, strict=True)]
    assert all(due <= begun for due, begun in zip(applied.planned_ns, applied.begun_ns, strict=True))
    assert applied.largest_error_ns == max(late) > 0 and applied.finest_step_ns == 20 * MS
    # What the chip was seen to have, and when, is independent of what the stepper says of itself.
    bounds = [0, *applied.achieved_ns, 10**12]
    for rate, start, end in zip((100e6, 50e6, 70e6, 40e6), bounds, [*applied.begun_ns, 10**12], strict=False):
        between = [found for at, found in seen if start / MS + 50 < at < end / MS - 1]
        assert between and between == pytest.approx([rate] * len(between), rel=5e-3)
    written = [update for update, _ in switch.written if update.entity.table_entry.table_id == shaper_id(switch)]
    # The rate of the start, three steps, and what was found.
    assert len(written) == 5


OUTAGE = steps(("0s", "0bit"), ("1s", "100Mbit"), ("2s", "0bit"), ("3s", "50Mbit"))


def test_a_schedule_that_begins_with_an_outage_begins_by_stopping() -> None:
    """Until then hosts reach each other at its first rate above 0."""
    (link,) = bind(make_plan(make_experiment(rate=OUTAGE, buffer="200kB")), calibrated(make_inventory())).links
    assert isinstance(link.schedule, RateSteps)
    assert initial_bps(link.schedule) == 100_000_000
    assert list(changes(link.schedule)) == [(0, 0), (10**9, 100_000_000), (2 * 10**9, 0), (3 * 10**9, 50_000_000)]


@pytest.mark.parametrize("kind", ["pi2", "pie", "dualpi2"])
def test_laws_that_learn_from_departures_have_no_outages(kind: str) -> None:
    lab = calibrated(make_inventory(program=MANAGED_PROGRAM), MS)
    assert refusal(lab, OUTAGE, queue=kind).startswith(f"bottleneck.rate: is 0 for a time, in which {kind} would learn")
    step = {"kind": "step", "threshold": "1ms"}
    bind(make_plan(make_experiment(rate=OUTAGE, buffer="200kB", queue=step)), lab)


def test_nothing_is_served_in_an_outage(
    switch: FakeSwitch, client: Client, programmer: Programmer, inventory: Inventory
) -> None:
    """The scheduler leaves the queue out, whose shaper keeps its rate: none has a rate of 0."""
    lab = calibrated(inventory)
    plan = bind(make_plan(make_experiment(rate=OUTAGE, buffer="200kB")), lab)
    reader, before = LiveReader(client), switch.state()
    programmer.apply(port_writes(lab, cabled_ports(plan), reader))
    planned = plan_switch(lab, plan, reader)
    manager, (link,) = planned.manager, plan.links
    programmer.apply(planned.writes)
    for rate_bps, served, shaped_bps in ((10**8, True, 10**8), (0, False, 10**8), (5 * 10**7, True, 5 * 10**7)):
        writes, after = manager.step(link, rate_bps)
        for write in writes:
            programmer.rewrite(write)
        manager.stepped(after)
        assert manager.bottlenecks[0].rate_bps == pytest.approx(rate_bps, rel=5e-3)
        assert switch.tm.settings["queue.sched_cfg", (0, 0), PIPE]["scheduling_enable"] == served
        shaper = switch.tm.settings["queue.sched_shaping", (0, 0), PIPE]
        assert shaper["max_rate"] * 1000 == pytest.approx(shaped_bps, rel=5e-3)
    assert programmer.undo() == []
    assert switch.state() == before


def shaper_id(switch: FakeSwitch) -> int:
    (table,) = [one for one in switch.schema.tables.values() if one.name.endswith(SHAPER)]
    return table.id


def test_a_driver_that_falls_behind_ends_the_run(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    slow = Fault("write", stall(1.2), table=SHAPER)
    with pytest.raises(RunError, match=r"the step of 500ms was made at .*, when the next one was due already"):
        run(switch, calibrated(inventory), tmp_path / "audit.jsonl", slow)


def test_a_step_that_is_refused_ends_the_run(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    refused = Fault("write", refuse("INVALID_ARGUMENT"), table=SHAPER)
    with pytest.raises(RunError, match="injected"):
        run(switch, calibrated(inventory), tmp_path / "audit.jsonl", refused)


@pytest.mark.long
def test_a_calibration_has_the_slowest_of_its_steps(switch: FakeSwitch, inventory: Inventory, tmp_path: Path) -> None:
    async def go() -> int:
        target = TofinoTarget(inventory, tmp_path / "audit.jsonl")
        plan = target.bind_to_target(make_plan(experiment_of(20_000_000)))
        await target.start()
        await target.configure(plan)
        switch.faults.append(Fault("write", stall(0.3), table=SHAPER, nth=7))
        try:
            return await target.rate_step_ns(plan)
        finally:
            await target.stop()

    before = switch.state()
    assert 300 * MS < asyncio.run(go()) < 3000 * MS
    assert switch.state() == before
