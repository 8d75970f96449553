# SPDX-License-Identifier: Apache-2.0
"""`make stress` ends a group that takes too long, and what its tests have made goes with it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "stress.py"
# Ends as pytest does here: SIGTERM is the interrupt key, and fixtures are torn down.
FIXTURE = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
made = pathlib.Path(sys.argv[1])
made.mkdir()
try:
    time.sleep(600)
finally:
    made.rmdir()
"""
# Hears nothing, and leaves what it has made.
DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).mkdir()
time.sleep(600)
"""


@pytest.fixture
def stress(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("stress", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "stress", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "REMOVES_S", 2)
    return module


@pytest.mark.parametrize(("program", "stays"), [(FIXTURE, False), (DEAF, True)])
def test_a_group_that_takes_too_long_removes_what_it_made(
    stress: ModuleType, tmp_path: Path, program: str, stays: bool
) -> None:
    made = tmp_path / "namespace"
    found = stress.run(stress.Group("slow", (sys.executable, "-c", program, str(made)), 2))
    assert found.failed == 1 and found.output.endswith("stress: not done after 2 s")
    assert made.exists() == stays
