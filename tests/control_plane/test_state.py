# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from narrows.hosts import state as state_module
from narrows.hosts.process import start_time
from narrows.hosts.state import RunState, all_runs, clean_dead_runs, dead_runs


@pytest.fixture(autouse=True)
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "existing_namespaces", set)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def orphan(root: Path) -> RunState:
    """A run whose owner's pid is in use, by a process that started later."""
    state = RunState.create(root)
    state.owner_start -= 1
    state.save()
    return state


def test_own_run_is_alive(tmp_path: Path) -> None:
    state = RunState.create(tmp_path)
    assert all_runs(tmp_path) == [state]
    assert dead_runs(tmp_path) == []
    assert clean_dead_runs(tmp_path) == []
    assert state.file.exists()


def test_dead_run_is_removed(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    state = orphan(tmp_path)
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    state.add_directory(unfinished)
    state.add_process(sleeper.pid)
    assert clean_dead_runs(tmp_path) == [
        f"process {sleeper.pid}",
        f"unfinished results {unfinished}",
        f"record of run {state.run_id}",
    ]
    assert sleeper.wait(5) == -9
    assert list(tmp_path.iterdir()) == []


def test_a_reused_pid_is_not_killed(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    state = orphan(tmp_path)
    state.add_process(sleeper.pid)
    state.processes[str(sleeper.pid)] -= 1
    state.save()
    clean_dead_runs(tmp_path)
    assert sleeper.poll() is None


def test_results_that_were_published_stay(tmp_path: Path) -> None:
    state = orphan(tmp_path)
    published = tmp_path / "published"
    published.mkdir()
    state.add_directory(published)
    state.remove_directory(published)
    clean_dead_runs(tmp_path)
    assert published.exists()


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text('{"x": 1}')
    (tmp_path / "broken.json").write_text("{")
    assert clean_dead_runs(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 2


def test_a_process_that_ended_has_no_start_time() -> None:
    own = start_time(os.getpid())
    assert own is not None and own > 0
    child = subprocess.Popen(["true"])
    child.wait()
    assert start_time(child.pid) is None
