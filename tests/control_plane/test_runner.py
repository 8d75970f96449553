# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind when it is interrupted before it takes the signals over."""

from __future__ import annotations

import errno
import io
import os
import signal
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narrows_analysis
import pytest
from narrows.errors import RunError
from narrows.experiment.loader import load
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.hosts.state import RunState
from narrows.run import environment, record, runner
from narrows.run.results import RunDirectory, default_directory
from rich.console import Console

DEMO = Path(__file__).parents[2] / "experiments" / "demo.yaml"


def checked(target: Any) -> runner.CheckedRun:
    experiment = load(DEMO)
    return runner.CheckedRun(experiment, make_plan(experiment), target, environment.THIS_MACHINE, {})


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Those that are there now; runs are checked when there are none."""
    there: dict[str, str] = {}
    monkeypatch.setattr(runner, "programs", lambda *_: dict(there))
    return there


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("module", "where"), [(runner, "RunDirectory"), (environment, "Measurement")])
@pytest.mark.fault("interrupted", "set-up", "real", "virtual")
def test_an_early_interrupt_leaves_no_record(
    module: Any, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = RunState.create(tmp_path / "state")
    monkeypatch.setattr(RunState, "create", lambda: state)
    monkeypatch.setattr(module, where, interrupt)
    nothing: Any = types.SimpleNamespace()
    run = checked(nothing)
    with pytest.raises(KeyboardInterrupt):
        runner.execute(run, tmp_path / "out", Console(file=io.StringIO()), "demo")
    assert list((tmp_path / "state").iterdir()) == []


def test_an_interrupt_while_the_directory_is_made_is_heeded_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    create = RunDirectory.create

    def interrupted(results: RunDirectory, experiment: Experiment) -> None:
        signal.raise_signal(signal.SIGTERM)
        create(results, experiment)
        made.append((results.path / "experiment.yaml").exists())

    state = RunState.create(tmp_path / "state")
    monkeypatch.setattr(RunState, "create", lambda: state)
    monkeypatch.setattr(RunDirectory, "create", interrupted)
    monkeypatch.setattr(environment, "Measurement", Measured)
    nothing: Any = None
    run = checked(nothing)
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.execute(run, tmp_path / "out", Console(file=io.StringIO()), "demo")
        assert signal.getsignal(signal.SIGTERM) is interrupt
    finally:
        signal.signal(signal.SIGTERM, before)
    assert made == [True]
    assert [path.name for path in tmp_path.iterdir()] == ["state"] and not list((tmp_path / "state").iterdir())


def test_an_interrupt_inside_the_models_keeps_its_name() -> None:
    class Interrupting(int):
        def __ge__(self, other: object) -> bool:
            raise KeyboardInterrupt

    experiment = load(DEMO)
    link = experiment.all_links["bottleneck"].model_copy(update={"rtt": Interrupting(10)})
    with pytest.raises(KeyboardInterrupt):
        experiment.model_copy(update={"bottleneck": link}).as_yaml_data()


class Measured:
    """A measurement that has something to keep."""

    def __init__(self, _plan: Any, _target: Any, _state: RunState, results: RunDirectory, *_: Any, **__: Any) -> None:
        self._results = results

    async def run(self, _progress: Any) -> None:
        (self._results.path / "kept").touch()

    def host_metadata(self, _measured: Any) -> dict[str, Any]:
        return {}


def measured_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> runner.CheckedRun:
    """A run whose measurement and analysis succeed."""
    create = RunState.create
    monkeypatch.setattr(RunState, "create", lambda: create(tmp_path / "state"))
    monkeypatch.setattr(environment, "Measurement", Measured)
    monkeypatch.setattr(record, "write", lambda *_: record.Ending("complete", "", ()))
    monkeypatch.setattr(runner, "_analyse", lambda _path: runner._Analysed(None))
    nothing: Any = None
    return checked(nothing)


@pytest.mark.fault("results cannot be renamed", "end", "real", "virtual")
def test_results_that_cannot_be_given_their_name_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = measured_run(tmp_path, monkeypatch)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(RunError, match="Permission denied; the results are in ") as raised:
        runner.execute(run, tmp_path / "out", Console(file=io.StringIO()), "demo")
    kept = Path(str(raised.value).rpartition(" ")[2])
    assert (kept / "kept").exists()
    assert list((tmp_path / "state").iterdir()) == []


def test_runs_of_one_name_in_one_second_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name was free when each of them began."""
    run = measured_run(tmp_path, monkeypatch)
    out = tmp_path / "out"
    made = [runner.execute(run, out, Console(file=io.StringIO()), "demo") for _ in range(3)]
    assert [one.directory for one in made] == [out, tmp_path / "out-2", tmp_path / "out-3"]
    assert all((one.directory / "kept").exists() for one in made)
    assert [one.notes for one in made[:2]] == [(), (f"{out} was taken meanwhile: the results are in {out}-2",)]


def test_a_default_directory_is_one_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(3):
        directory = default_directory("demo")
        assert not directory.exists()
        directory.mkdir(parents=True)


@pytest.mark.fault("disk full", "end", "real", "virtual")
def test_an_analysis_that_does_not_fit_on_the_disk_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    nothing: Any = None
    monkeypatch.setattr(narrows_analysis, "read_run", lambda _: nothing)
    monkeypatch.setattr(narrows_analysis, "analyze_run", full)
    assert runner._analyse(tmp_path).problem.startswith("analysis: it cannot be written: No space left on device")


@pytest.mark.fault("disk full", "end", "real", "virtual")
def test_a_run_whose_record_does_not_fit_on_the_disk_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    state = RunState.create(tmp_path / "state")
    monkeypatch.setattr(RunState, "create", lambda: state)
    monkeypatch.setattr(environment, "Measurement", Measured)
    monkeypatch.setattr(record, "write", full)
    nothing: Any = None
    run, out = checked(nothing), tmp_path / "out"
    with pytest.raises(RunError, match=f"No space left on device; what was written is in {out}$"):
        runner.execute(run, out, Console(file=io.StringIO()), "demo")
    assert sorted(path.name for path in out.iterdir()) == ["experiment.yaml", "kept"]
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.fault("a program or kernel replaced", "set-up", "real", "virtual")
def test_what_was_replaced_since_a_run_was_checked_is_not_used(
    tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a build of the kernel, or of the switch, while a sweep is under way."""
    state = RunState.create(tmp_path / "state")
    monkeypatch.setattr(RunState, "create", lambda: state)
    programs["kernel image"] = "a"
    with pytest.raises(RunError, match="kernel image was changed while runs were made; fix: the same command again"):
        runner.execute(checked(None), tmp_path / "out", Console(file=io.StringIO()), "demo")
    assert not (tmp_path / "out").exists()


@pytest.mark.fault("a program or kernel replaced", "traffic", "real", "virtual")
def test_a_run_during_which_something_was_replaced_has_failed(
    tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True)
    class Found:
        status: str = "complete"
        reasons: tuple[str, ...] = ()

    class Replacing(Measured):
        async def run(self, _progress: Any) -> Any:
            programs["narrows-softswitch"] = "b"
            given["/log"] = "written"
            return Found()

    given = {"/config": "c", "/log": "empty"}
    monkeypatch.setattr(runner, "inputs", lambda _plan: dict(given))
    written: list[tuple[Any, Any]] = []

    def write(_experiment: Any, _plan: Any, measured: Any, _results: Any, metadata: Any) -> record.Ending:
        written.append((measured, metadata))
        return record.Ending(measured.status, "\n".join(measured.reasons), ())

    state = RunState.create(tmp_path / "state")
    monkeypatch.setattr(RunState, "create", lambda: state)
    monkeypatch.setattr(environment, "Measurement", Replacing)
    monkeypatch.setattr(record, "write", write)
    monkeypatch.setattr(runner, "_analyse", lambda _path: runner._Analysed(None))
    programs["narrows-softswitch"] = "a"
    run = replace(checked(None), programs={"narrows-softswitch": "a"})
    outcome = runner.execute(run, tmp_path / "out", Console(file=io.StringIO()), "demo")
    assert (outcome.status, outcome.reason) == ("failed", "narrows-softswitch was changed while runs were made")
    # What is recorded is what it was begun with, but for what its own programs wrote.
    assert written[0][1]["programs"] == {"narrows-softswitch": "a", "/config": "c"}
