# SPDX-License-Identifier: Apache-2.0
"""Calibration against a fake chip with each of the answers that a real one may give, and what runs make of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from fakeswitch.fixtures import (
    PIPE,
    RECEIVER_PORT,
    SENDER_PORT,
    fresh_counters,
    inventory,
    inventory_data,
    kind,
    make_experiment,
    switch,
)
from fakeswitch.server import FakeSwitch
from narrows.errors import InputError, RunError
from narrows.experiment.planning import make_plan
from narrows.run import calibration
from narrows.run.calibration import Bench, Departures, departure_rate, measure, refuse_another_clock, shaper_bytes
from narrows.run.calibration_bench import experiment_of, unwrap
from narrows.switch.calibration import Findings, MeasuredRate, QueueFacts
from narrows_tofino.target import TofinoTarget
from narrows_tofino.testbed.calibration import Calibration, calibration_path
from narrows_tofino.testbed.inventory import Inventory

__all__ = ["fresh_counters", "inventory", "kind", "switch"]

RATES = (20_000_000, 100_000_000)
PACKETS = 6000


class FakeBench:
    """Packets through the fake's own memory and shaper, on its own clock; the target in front of it is the real one."""

    def __init__(self, switch: FakeSwitch, target: TofinoTarget) -> None:
        self._tm = switch.tm
        self._target = target
        self._plan = target.bind_to_target(make_plan(experiment_of(RATES[0])))

    async def load(self, frame_bytes: int, rate_bps: float, seconds: float) -> Departures:
        """As many packets as tell, however long that would take."""
        tm, spacing = self._tm, frame_bytes * 8e9 / rate_bps
        service = tm.packet_ns(RECEIVER_PORT, 0, frame_bytes)
        free = 0.0
        waiting: deque[float] = deque()
        rows: list[tuple[int, float, float, int]] = []
        for number in range(PACKETS):
            now = number * spacing
            while waiting and waiting[0] <= now:
                tm.drain(RECEIVER_PORT, 0, 1)
                waiting.popleft()
            found = tm.used["queue", RECEIVER_PORT, 0]
            if not tm.offer(SENDER_PORT, RECEIVER_PORT, 0, frame_bytes):
                continue
            free = max(free, now) + service
            waiting.append(free)
            rows.append((len(rows) + 1, free + tm.latency_ns, free - service - now + tm.latency_ns, found))
        tm.drain(RECEIVER_PORT, 0, PACKETS)
        columns = np.array(rows).T
        return Departures(*(np.round(one).astype(np.int64) for one in columns))

    async def facts(self) -> QueueFacts:
        return await self._target.queue_facts(self._plan)

    async def rate_step_ns(self) -> int | None:
        return await self._target.rate_step_ns(self._plan)


def found_on(switch: FakeSwitch, inventory: Inventory, log: Path) -> Findings:
    """What a calibration of the fake finds."""

    @asynccontextmanager
    async def bench(rate_bps: int) -> AsyncIterator[Bench]:
        target = TofinoTarget(inventory, log)
        await target.start()
        await target.configure(target.bind_to_target(make_plan(experiment_of(rate_bps))))
        yield FakeBench(switch, target)
        await target.stop()

    return asyncio.run(measure(bench, RATES, lambda _: None))


@pytest.mark.long
@pytest.mark.parametrize(
    ("counted", "overshoot", "latency", "moving"),
    [
        (0, 0, 0, ()),
        (4, 37, 640, ()),
        (14, 0, 900, ("ig_buf_full_drop_packets",)),
        (18, 120, 1200, ("ig_buf_full_drop_packets", "total_buffer_full_drop_packets")),
    ],
)
def test_each_answer_of_a_chip_is_found(
    counted: int,
    overshoot: int,
    latency: int,
    moving: tuple[str, ...],
    switch: FakeSwitch,
    inventory: Inventory,
    tmp_path: Path,
) -> None:
    tm, before = switch.tm, switch.state()
    tm.shaper_bytes, tm.overshoot_cells, tm.latency_ns, tm.moving = counted, overshoot, latency, moving
    found = found_on(switch, inventory, tmp_path / "audit.jsonl")
    assert (found.shaper_bytes, found.latency_ns) == (counted, latency)
    # A frame that does not fit any more leaves some of the last cells free.
    assert overshoot - tm.cells(1514) < found.overshoot <= overshoot
    assert found.moved == tuple(sorted(f"tm.counter.pipe.{name}" for name in moving))
    assert [one.measured_bps / one.set_bps for one in found.rates] == pytest.approx([1, 1], abs=2e-4)
    assert switch.state() == before


@pytest.mark.long
def test_a_shaper_with_another_clock_is_reported(
    switch: FakeSwitch, inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver computes with a clock that the chip does not have: what reads back is right, the rate is not."""
    honest = switch.tm.packet_ns
    monkeypatch.setattr(switch.tm, "packet_ns", lambda *queue: 1.02 * honest(*queue))
    with pytest.raises(RunError, match=r"does not keep its rate: .* \(0.98\d\d of it\); fix: switch.shaper_clock_hz"):
        found_on(switch, inventory, tmp_path / "audit.jsonl")


def paced(clock: float, late_ns: int = 0) -> Departures:
    """330 packets, 12 ms apart by the sender's clock, ``clock`` times that by the switch's; it is held up once."""
    steps = np.arange(330, dtype=np.int64)
    sent_ns = steps * 12_000_000 + np.where(steps > 200, late_ns, 0)
    return Departures(steps, (sent_ns * clock).astype(np.int64), steps, steps * 0)


def test_the_switchs_clock_is_compared_with_the_senders() -> None:
    """Rates are timed by the switch: with 1.1 GHz taken for 1.22 GHz, all of them would look right."""
    packets_per_s = 1e9 / 12e6
    refuse_another_clock(paced(1.0), packets_per_s)
    refuse_another_clock(paced(1.004, late_ns=300_000_000), packets_per_s)
    with pytest.raises(RunError, match=r"makes 0.9016 s of a second of the sender's: .* allowed: up to 0.5%"):
        refuse_another_clock(paced(1.1 / 1.22), packets_per_s)
    with pytest.raises(RunError, match=r"makes 1.0060 s"):
        refuse_another_clock(paced(1.006), packets_per_s)
    nothing = np.arange(0, dtype=np.int64)
    with pytest.raises(RunError, match="0 packets sent at a steady pace were reported; allowed: 100 or more"):
        refuse_another_clock(Departures(nothing, nothing, nothing, nothing), packets_per_s)


def test_what_no_shaper_can_do_is_refused() -> None:
    with pytest.raises(RunError, match=r"counts 40.00 B a packet beside the frame, which is impossible"):
        shaper_bytes([(256, 1e6 / 296), (1514, 1e6 / 1554)], 0)
    with pytest.raises(RunError, match=r"counts 4.50 B"):
        shaper_bytes([(256, 1e6 / 260.5), (1514, 1e6 / 1518.5)], 0)
    assert shaper_bytes([(256, 1e6 / 280), (1514, 1e6 / 1538)], 20) == 4


def test_a_load_that_does_not_fill_the_queue_is_no_measurement() -> None:
    steps = np.arange(5000, dtype=np.int64)
    full = Departures(steps, steps * 1000, steps, steps + 1)
    assert departure_rate(full) == pytest.approx(1e6)
    now_and_then = np.where(steps % 1500 == 0, 0, 1)
    with pytest.raises(RunError, match=r"kept the queue full for 1\d{3} packets; allowed: 2000 or more; fix: a fas"):
        departure_rate(Departures(steps, steps * 1000, steps, now_and_then))
    with pytest.raises(RunError, match="no packet found the queue empty"):
        calibration.latency(full)
    assert unwrap(np.array([(1 << 32) - 2, 1, 3]), 32).tolist() == [(1 << 32) - 2, (1 << 32) + 1, (1 << 32) + 3]


def measured(chip: str, **more: object) -> Calibration:
    data = {"date": "2026-11-22", "chip": chip, "sku": "fake", "pipes": 4, "shaper_bytes": 18, "overshoot_cells": 120}
    return Calibration.model_validate({**data, "latency_ns": 900, **more})


@pytest.mark.long
def test_runs_use_the_calibration_beside_the_inventory(switch: FakeSwitch, tmp_path: Path) -> None:
    """The rate is made up for, the overshoot expected, counters that move anyway are not held against a run."""
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(inventory_data(switch.chip, switch.address)))
    counters = ("tm.counter.pipe.ig_buf_full_drop_packets",)

    def empty_queue_delay() -> int:
        return TofinoTarget(Inventory.load(path), tmp_path / "audit.jsonl").profile.empty_queue_delay

    def run() -> tuple[list[str], tuple[str, ...], float]:
        async def go() -> tuple[list[str], tuple[str, ...], float]:
            target = TofinoTarget(Inventory.load(path), tmp_path / "audit.jsonl")
            plan = target.bind_to_target(make_plan(make_experiment(rate="1Gbit", buffer="200kB")))
            await target.start()
            made = await target.configure(plan)
            tm = switch.tm
            tm.shaper_bytes, tm.overshoot_cells, tm.moving = 18, 300, ("ig_buf_full_drop_packets",)
            for _ in range(400):
                tm.offer(SENDER_PORT, RECEIVER_PORT, 0, 1514)
            found = await target.unexpected_losses(plan)
            rate = 1514 * 8e9 / tm.packet_ns(RECEIVER_PORT, 0, 1514)
            tm.drain(RECEIVER_PORT, 0, 400)
            await target.stop()
            return found, made.notes, rate

        return asyncio.run(go())

    found, notes, rate = run()
    assert rate == pytest.approx(1e9 * 1514 / 1532, rel=1e-3)
    assert any("never measured" in note for note in notes) and empty_queue_delay() == 0
    assert any("by the limits of ingress" in words for words in found)
    measured(switch.chip, tail_drop_counters=counters, overshoot_cells=300).write(calibration_path(path))
    found, notes, rate = run()
    assert found == [] and not any("never measured" in note for note in notes)
    assert rate == pytest.approx(1e9, rel=1e-3) and empty_queue_delay() == 900
    # What moves by more than the queue dropped still counts, and so does a queue that is deeper than was measured.
    switch.tm.counters["pipe", (), SENDER_PORT // 128, "ig_buf_full_drop_packets"] = 0
    measured(switch.chip, overshoot_cells=5).write(calibration_path(path))
    found, _, _ = run()
    assert any("deeper than set" in words for words in found) and any("limits of ingress" in words for words in found)
    assert PIPE == 1


def test_what_was_found_is_kept_beside_the_inventory(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(inventory_data("tofino")))
    found = Findings(
        shaper_bytes=18,
        rates=(MeasuredRate(20_304_000.4, 20_303_999.6),),
        limit=4000,
        overshoot=120,
        depth_unit="cells",
        latency_ns=900,
        moved=("ig_buf_full_drop_packets",),
        rate_step_ns=250_000,
        device={"sku": "fake", "pipes": 4},
    )
    written = TofinoTarget.keep_calibration(path, found)
    kept = Inventory.load(path).calibration
    assert written == calibration_path(path) and kept is not None
    # The day is today's.
    assert kept.model_copy(update={"date": "2026-11-22"}) == measured(
        "tofino",
        tail_drop_counters=["ig_buf_full_drop_packets"],
        rate_step_ns=250_000,
        rates=[{"set_bps": 20_304_000, "measured_bps": 20_304_000}],
    )


def test_a_calibration_of_another_chip_or_with_nonsense_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(inventory_data("tofino")))
    assert Inventory.load(path).calibration is None
    measured("tofino2").write(calibration_path(path))
    with pytest.raises(InputError, match=r"measured on tofino2, the inventory's switch is tofino; fix: narrows calib"):
        Inventory.load(path)
    measured("tofino").write(calibration_path(path))
    assert Inventory.load(path).calibration == measured("tofino")
    text = calibration_path(path).read_text()
    calibration_path(path).write_text(text.replace("shaper_bytes: 18", "shaper_bytes: many"))
    with pytest.raises(InputError, match=r"lab.calibration.yaml: shaper_bytes: "):
        Inventory.load(path)
