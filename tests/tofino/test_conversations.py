# SPDX-License-Identifier: Apache-2.0
"""The fake switch answers to each kind of plan as the driver did on its model, write by write, and so does its undo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conversations import PROGRAM, converse, plans, recorded
from fakeswitch.server import FakeSwitch
from narrows_tofino.testbed.inventory import MANAGED_PROGRAM

PROGRAMS = (PROGRAM, MANAGED_PROGRAM)


@pytest.mark.parametrize(("program", "name"), [(program, name) for program in PROGRAMS for name in recorded(program)])
def test_the_fake_answers_as_the_driver_did(program: str, name: str, tmp_path: Path) -> None:
    fake = FakeSwitch("tofino", asic=False, managed=program == MANAGED_PROGRAM)
    try:
        ((experiment, lab),) = [(planned, lab) for known, planned, lab in plans(program, fake.address) if known == name]
        said = converse(experiment, lab, tmp_path / "audit.jsonl")
    finally:
        fake.stop()
    wanted = recorded(program)[name]
    assert [entry for entry, _, _ in said] == [entry for entry, _, _ in wanted]
    for (entry, *now), (_, *then) in zip(json.loads(json.dumps(said)), wanted, strict=True):
        assert now == then, entry


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_kind_of_plan_was_recorded(program: str) -> None:
    assert list(recorded(program)) == sorted(name for name, _, _ in plans(program, "127.0.0.1:50052"))
