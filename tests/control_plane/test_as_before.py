# SPDX-License-Identifier: Apache-2.0
"""An experiment with one link makes the writes of version 0.2, which knew only one, but for the version of reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from finsy import P4Schema
from narrows.cli import app
from narrows.experiment.loader import load
from narrows.experiment.planning import make_plan
from narrows.paths import compiled_program
from narrows.switch.p4runtime_entries import entities
from narrows.targets.soft.target import PROFILE
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
PLANS = Path(__file__).parent / "golden" / "plans"
DEMO = ROOT / "experiments" / "demo.yaml"


def test_the_writes_to_a_tofino(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = CliRunner().invoke(app, ["plan", str(DEMO)])
    assert shown.exit_code == 0
    # Indented is what a write is for.
    writes = [line for line in shown.stdout.splitlines() if not line.startswith(("    ", "no --inventory"))]
    assert writes == (PLANS / "demo-tofino.txt").read_text().splitlines()


def test_the_entries_of_the_softswitch() -> None:
    device_config, p4info = compiled_program("v1model")
    schema = P4Schema(p4info, device_config)
    made = [str(entity.encode(schema)).split() for entity in entities(make_plan(load(DEMO)), PROFILE, schema)]
    assert made == [line.split() for line in (PLANS / "demo-softswitch.txt").read_text().splitlines()]
