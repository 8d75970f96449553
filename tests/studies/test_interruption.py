# SPDX-License-Identifier: Apache-2.0
"""A study, and a sweep, that is interrupted, then killed, in the middle of a point, and goes on: real runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributions import install
from narrows.errors import EXIT_INTERRUPTED, EXIT_OK
from narrows.hosts.process import start_time
from narrows.hosts.state import RunState, all_runs, existing_namespaces
from narrows_analysis.study_results import read_variants
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

pytestmark = [pytest.mark.needs("root", SOFTSWITCH, COLLECTOR), pytest.mark.parallel_safe]

# What a study is that another distribution adds; its experiments are beside it.
TINY = """
from narrows_studies.model import Study, StudyFigure

STUDY = Study("tiny", "A", "B", "C", (StudyFigure(id="1", experiment="one", title="title"),))
"""
ONE: dict[str, Any] = {
    "name": "one",
    "bottleneck": {"rate": "5Mbit", "rtt": "10ms", "buffer": "2bdp"},
    "flows": [{"cca": "cubic", "duration": "3s"}],
    "sweep": {"bottleneck.buffer": ["2bdp", "4bdp"]},
}
EXPERIMENT = "experiments/tiny/one.yaml"
FIRST, SECOND = "0001-buffer=2bdp", "0002-buffer=4bdp"


# What is the other's: its command, where its points are, and what its directory holds beside them in the end.
KINDS = {
    "study": (["study", "tiny", "--real-time"], "one", ["results", "results.parquet", "tiny.md"]),
    "sweep": (["run", EXPERIMENT], "", ["intervals.csv", "report.html", "sweep.json", "sweep.parquet"]),
}


class Command:
    """One of `KINDS` in the background."""

    def __init__(self, path: Path, kind: str, name: str) -> None:
        self._said = path / name
        with self._said.open("w") as said:
            command = [str(Path(sys.executable).with_name("narrows")), *KINDS[kind][0], "--out", str(path / "out")]
            environment = {**os.environ, "PYTHONPATH": str(path)}
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=path, env=environment)

    @property
    def said(self) -> str:
        return self._said.read_text()

    def until_traffic_of(self, point: str) -> RunState:
        """Wait until a point has traffic; returns the record of its run."""
        deadline = time.monotonic() + 60
        while f"{point}: traffic" not in self.said:
            assert self.process.poll() is None and time.monotonic() < deadline, self.said
            time.sleep(0.05)
        time.sleep(0.5)
        return next(state for state in all_runs() if state.owner_pid == self.process.pid)


def left_of(state: RunState) -> list[str]:
    """Namespaces, processes and records of a run that still exist."""
    found = [name for name in existing_namespaces() if state.run_id in name]
    found += [f"process {pid}" for pid, started in state.processes.items() if start_time(int(pid)) == started]
    return found + [one.run_id for one in all_runs() if one.run_id == state.run_id]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    install(tmp_path, "others", TINY, "[narrows.studies]\ntiny = others:STUDY\n")
    (tmp_path / EXPERIMENT).parent.mkdir(parents=True)
    (tmp_path / EXPERIMENT).write_text(yaml.safe_dump(ONE))
    yield tmp_path
    for state in all_runs():
        if any(str(tmp_path) in directory for directory in state.directories):
            state.destroy()


def file(path: Path) -> tuple[int, int]:
    """What tells a file from one that was written anew."""
    return path.stat().st_ino, path.stat().st_mtime_ns


# A study goes on as a sweep does, and takes twice as long to try.
@pytest.mark.long
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.needs("stress")) if kind == "study" else kind for kind in KINDS]
)
@pytest.mark.fault("a sweep or study killed, and started again", "any moment", "real")
def test_what_was_interrupted_and_killed_goes_on(place: Path, kind: str) -> None:
    points = place / "out" / KINDS[kind][1]
    first, second = points / FIRST, points / SECOND

    command = Command(place, kind, "interrupted")
    state = command.until_traffic_of(SECOND)
    made = file(first / "run.json")
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(60) == EXIT_INTERRUPTED, command.said
    assert "the same command" in command.said
    assert left_of(state) == []

    command = Command(place, kind, "killed")
    state = command.until_traffic_of(SECOND)
    assert f"{FIRST}: " not in command.said and "1 complete already" in command.said
    command.process.kill()
    command.process.wait(10)
    # No process was left to clean up.
    assert left_of(state) != []
    assert not second.exists()

    command = Command(place, kind, "to the end")
    assert command.process.wait(90) == EXIT_OK, command.said
    assert f"removed what a killed run in {place / 'out'} left: run {state.run_id}" in command.said
    assert f"{FIRST}: traffic" not in command.said and "1 complete already" in command.said
    assert left_of(state) == []
    # The complete point is the same file, the half-written one was made anew, and nothing unfinished lies about.
    assert file(first / "run.json") == made
    assert json.loads((second / "run.json").read_text())["status"] == "complete"
    beside = {path.name for path in (place / "out").iterdir()} | {path.name for path in points.iterdir()}
    assert beside == {FIRST, SECOND, *KINDS[kind][2], *([KINDS[kind][1]] if KINDS[kind][1] else [])}
    if kind == "study":
        (results,) = read_variants(place / "out" / "results.parquet")
        assert len(results.points) == 2
    else:
        assert len(json.loads((place / "out" / "sweep.json").read_text())["runs"]) == 2

    # Once more: there is nothing left to do.
    command = Command(place, kind, "again")
    assert command.process.wait(60) == EXIT_OK, command.said
    assert "2 complete already" in command.said and "traffic" not in command.said
    assert file(first / "run.json") == made
