# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind when it is interrupted before it takes the signals over."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import RunError
from narrows.experiment.loader import load
from narrows.hosts.state import RunState
from narrows.run import runner
from narrows.run.results import RunDirectory
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


class Measured:
    """A measurement that has something to keep."""

    status, reason, notes = "complete", "", ()

    def __init__(self, _experiment: Any, _plan: Any, _target: Any, state: RunState, results: RunDirectory) -> None:
        self._state, self._results = state, results

    async def run(self, _progress: Any) -> None:
        self._state.add_directory(self._results.path)
        self._results.path.mkdir()
        (self._results.path / "kept").touch()


def test_results_that_cannot_be_given_their_name_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = RunState.create(tmp_path / "state")
    monkeypatch.setattr(RunState, "create", lambda: state)
    monkeypatch.setattr(runner, "Measurement", Measured)
    monkeypatch.setattr(runner, "_analyse", lambda path: (None, ""))
    # Something took the name meanwhile.
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other").touch()
    experiment = load(DEMO)[0]
    nothing: Any = None
    with pytest.raises(RunError, match="Directory not empty; the results are in ") as raised:
        runner.execute(experiment, nothing, nothing, tmp_path / "out", Console(file=io.StringIO()), "demo")
    kept = Path(str(raised.value).rpartition(" ")[2])
    assert (kept / "kept").exists()
    assert list((tmp_path / "state").iterdir()) == []
