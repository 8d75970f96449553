# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind when it is interrupted before it takes the signals over."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from narrows import runner
from narrows.loader import load
from narrows.state import RunState
from rich.console import Console

DEMO = Path(__file__).parents[2] / "experiments" / "demo.yaml"


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["RunDirectory", "Measurement"])
def test_an_early_interrupt_leaves_no_record(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = RunState.create(tmp_path / "state")
    monkeypatch.setattr(RunState, "create", lambda: state)
    monkeypatch.setattr(runner, where, interrupt)
    experiment = load(DEMO)[0]
    nothing: Any = None
    with pytest.raises(KeyboardInterrupt):
        runner.execute(experiment, nothing, nothing, tmp_path / "out", Console(file=io.StringIO()), "demo")
    assert list((tmp_path / "state").iterdir()) == []
