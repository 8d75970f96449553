# SPDX-License-Identifier: Apache-2.0
"""A run on the SDE's model instead of a chip, ``switch.model``: what that answers, of a fake that answers the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakeswitch.fixtures import make_experiment, make_inventory
from fakeswitch.server import FakeSwitch
from narrows.errors import RunError
from narrows.experiment.planning import make_plan
from narrows_tofino.chip.model import CHIPS
from narrows_tofino.target import TofinoTarget
from narrows_tofino.writes.mirror import session_length


@pytest.fixture
def model() -> Iterator[FakeSwitch]:
    """A fake model of Tofino 1."""
    fake = FakeSwitch("tofino", asic=False)
    yield fake
    fake.stop()


@pytest.fixture
def target(model: FakeSwitch, tmp_path: Path) -> TofinoTarget:
    return TofinoTarget(make_inventory("tofino", model.address, model=True), tmp_path / "audit.jsonl")


def test_what_a_model_does_not_count_is_absent(model: FakeSwitch, target: TofinoTarget) -> None:
    async def run() -> None:
        plan = target.bind_to_target(make_plan(make_experiment()))
        before = model.state()
        await target.start()
        made = await target.configure(plan)
        assert any("the switch is the SDE's model" in note for note in made.notes)
        departures = model.schema.part("bottleneck_departures", "Register")
        model.programs.add(departures.name, 0, 1, departures.fields[0].name, 40)
        (moving,), (still,) = await target.queues(), await target.queues()
        assert (moving.dequeued_packets, moving.depth_packets, moving.enqueued_packets) == (40, None, None)
        assert (still.dequeued_packets, still.depth_packets, still.enqueued_packets) == (40, 0, 40)
        assert still.dropped_packets is still.dropped_bytes is still.peak_depth_bytes is None
        assert await target.ports() == [] and await target.packet_conservation(plan) == []
        assert await target.lost_reports(plan) == {} and await target.unexpected_losses(plan) == []
        with pytest.raises(RunError, match="a model shapes nothing"):
            await target.queue_facts(plan)
        await target.stop()
        assert model.state() == before

    asyncio.run(run())


@pytest.mark.parametrize(("asic", "told", "is_there"), [(True, True, "a chip"), (False, False, "the SDE's model")])
def test_a_chip_is_not_taken_for_a_model_nor_a_model_for_a_chip(
    tmp_path: Path, asic: bool, told: bool, is_there: str
) -> None:
    async def run() -> None:
        target = TofinoTarget(make_inventory("tofino", fake.address, model=told), tmp_path / "audit.jsonl")
        await target.start()
        with pytest.raises(RunError, match=rf"the switch is {is_there}.*; fix: switch.model: {str(not told).lower()}"):
            await target.configure(target.bind_to_target(make_plan(make_experiment())))
        await target.stop()

    fake = FakeSwitch("tofino", asic=asic)
    try:
        before = fake.state()
        asyncio.run(run())
        assert fake.state() == before and not [name for kind, name in fake.requests if kind != "read"]
    finally:
        fake.stop()


def test_a_model_of_tofino_1_takes_an_fcs_from_what_a_session_leaves() -> None:
    """86 bytes of the frame and 32 of the mirror header; a chip adds an FCS of 4, which Tofino 2 counts."""
    lengths = {(name, model): session_length(CHIPS[name], 184, model) for name in CHIPS for model in (False, True)}
    assert lengths == {("tofino", False): 118, ("tofino", True): 122, ("tofino2", False): 124, ("tofino2", True): 124}
