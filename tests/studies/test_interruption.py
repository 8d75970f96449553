# SPDX-License-Identifier: Apache-2.0
"""A study that is interrupted, then killed, in the middle of a point, and goes on: real runs of a made-up study."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import EXIT_INTERRUPTED, EXIT_OK
from narrows.hosts.process import start_time
from narrows.hosts.state import RunState, all_runs, existing_namespaces
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

pytestmark = [pytest.mark.needs("root", SOFTSWITCH, COLLECTOR), pytest.mark.unhurried]

# ``narrows study`` with one study more, whose experiments are elsewhere.
NARROWS = """
import functools, pathlib, sys
from narrows.cli import main
from narrows.studies import catalogue
from narrows_analysis.studies.model import Study, StudyFigure
catalogue.STUDIES["tiny"] = Study("tiny", "A", "B", "C", (StudyFigure(id="1", experiment="one", title="title"),))
catalogue.study_points = functools.partial(catalogue.study_points, root=pathlib.Path(sys.argv.pop(1)))
main()
"""
ONE: dict[str, Any] = {
    "name": "one",
    "bottleneck": {"rate": "5Mbit", "rtt": "10ms", "buffer": "2bdp"},
    "flows": [{"cca": "cubic", "duration": "3s"}],
    "sweep": {"bottleneck.buffer": ["2bdp", "4bdp"]},
}
FIRST, SECOND = "0001-buffer=2bdp", "0002-buffer=4bdp"


class Command:
    """A ``narrows study tiny`` in the background."""

    def __init__(self, path: Path, name: str) -> None:
        self._said = path / name
        with self._said.open("w") as said:
            command = [
                sys.executable,
                "-c",
                NARROWS,
                str(path),
                "study",
                "tiny",
                "--real-time",
                "--out",
                str(path / "out"),
            ]
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)

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
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.yaml").write_text(yaml.safe_dump(ONE))
    yield tmp_path
    for state in all_runs():
        if any(str(tmp_path) in directory for directory in state.directories):
            state.destroy()


def test_an_interrupted_and_a_killed_study_go_on(place: Path) -> None:
    first, second = place / "out" / "one" / FIRST, place / "out" / "one" / SECOND

    command = Command(place, "interrupted")
    state = command.until_traffic_of(SECOND)
    made = (first / "run.json").stat()
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(60) == EXIT_INTERRUPTED, command.said
    assert "the same command goes on from here" in command.said
    assert left_of(state) == []

    command = Command(place, "killed")
    state = command.until_traffic_of(SECOND)
    assert "1 of 2 points to run" in command.said
    command.process.kill()
    command.process.wait(10)
    # Nobody was left to clean up.
    assert left_of(state) != []
    assert not second.exists()

    command = Command(place, "to the end")
    assert command.process.wait(90) == EXIT_OK, command.said
    assert f"removed what a killed run of this study left: run {state.run_id}" in command.said
    assert "1 of 2 points to run" in command.said
    assert "1 complete already" in command.said
    assert left_of(state) == []
    # The complete point is the same file, the half-written one was made anew, and nothing unfinished lies about.
    assert ((first / "run.json").stat().st_ino, (first / "run.json").stat().st_mtime_ns) == (
        made.st_ino,
        made.st_mtime_ns,
    )
    assert json.loads((second / "run.json").read_text())["status"] == "complete"
    assert sorted(path.name for path in first.parent.iterdir()) == [FIRST, SECOND]
    assert len(json.loads((place / "out" / "results.json").read_text())["points"]) == 2
