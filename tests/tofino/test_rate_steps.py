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
from fakeswitch.fixtures import fresh_counters, inventory, kind, make_experiment, make_inventory, switch
from fakeswitch.parking_lot import parking_lot, parking_lot_inventory
from fakeswitch.server import FakeSwitch
from narrows.errors import InputError, RunError
from narrows.experiment.planning import make_plan
from narrows.run.calibration_bench import experiment_of
from narrows_formats.schedules import RateSteps
from narrows_tofino.binding import bind
from narrows_tofino.programming.audit import outstanding, read_audit
from narrows_tofino.rate_steps import changes
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.inventory import Inventory
from test_calibration import measured

__all__ = ["fresh_counters", "inventory", "kind", "switch"]

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
    outage = steps(("0s", "10Mbit"), ("1s", "0bit"), ("2s", "10Mbit"))
    assert refusal(lab, outage).startswith("bottleneck.rate: is 0 for a time")
    trace = {"trace": {"file": "x", "format": "mahimahi", "text": "1\n2\n9\n"}}
    assert refusal(lab, trace).startswith("bottleneck.rate: opportunities are not made on Tofino")
    # 200 kB at 300 kbit/s are 5.3 s, and a report's 32 bits of nanoseconds end at 4.29 s.
    assert "a wait of 5.3" in refusal(lab, steps(("0s", "100Mbit"), ("1s", "300kbit")))


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


def run(
    switch: FakeSwitch, lab: Inventory, log: Path, *faults: Fault
) -> tuple[dict[str, Any], list[tuple[float, int]]]:
    """What run.json has of a schedule's steps, and the rates that the chip had when it was looked at."""

    async def go() -> tuple[dict[str, Any], list[tuple[float, int]]]:
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
            while len(target.rate_steps()["bottleneck"]["planned_ns"]) < 3 or time.monotonic_ns() < epoch_ns + 4 * STEP:
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
    assert applied["planned_ns"] == [STEP, 2 * STEP, 3 * STEP]
    assert applied["rate_bps"] == pytest.approx([50e6, 70e6, 40e6], rel=5e-3)
    late = [done - due for due, done in zip(applied["planned_ns"], applied["achieved_ns"], strict=True)]
    assert all(due <= begun for due, begun in zip(applied["planned_ns"], applied["begun_ns"], strict=True))
    assert applied["largest_error_ns"] == max(late) > 0 and applied["finest_step_ns"] == 20 * MS
    # What the chip was seen to have, and when, is independent of what the stepper says of itself.
    bounds = [0, *applied["achieved_ns"], 10**12]
    for rate, start, end in zip((100e6, 50e6, 70e6, 40e6), bounds, [*applied["begun_ns"], 10**12], strict=False):
        between = [found for at, found in seen if start / MS + 50 < at < end / MS - 1]
        assert between and between == pytest.approx([rate] * len(between), rel=5e-3)
    written = [update for update, _ in switch.written if update.entity.table_entry.table_id == shaper_id(switch)]
    # The rate of the start, three steps, and what was found.
    assert len(written) == 5


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
