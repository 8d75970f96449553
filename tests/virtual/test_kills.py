# SPDX-License-Identifier: Apache-2.0
"""Runs in virtual time that end at random moments. Of one that is killed, what is on the disk reads, and `narrows
clean` removes it; one that is interrupted ends in order.

NARROWS_KILLS sets how many of each; ``make stress`` makes 200.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from narrows.errors import EXIT_INTERRUPTED, EXIT_OK
from narrows.hosts.state import RunState, all_runs
from narrows.virtual.kernels import runs
from test_in_a_guest import PATIENCE_S, SHORT, start

pytestmark = pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip")

KILLS = int(os.environ.get("NARROWS_KILLS", "3"))
CLEAN = [sys.executable, "-c", "import narrows.cli; narrows.cli.main()", "clean"]
TEXT = SHORT.replace("1s}", "60s}")
LATEST_S = 8.0


def below(directory: Path) -> set[str]:
    """Commands of processes that have something below a directory open, or work there."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            places = [one.readlink() for one in (process / "cwd", *(process / "fd").iterdir())]
            if any(place.is_relative_to(directory) for place in places):
                found.add((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.fault("killed", "any moment", "virtual")
def test_nothing_of_a_killed_run_stays_and_all_of_others(tmp_path: Path, seed: int) -> None:
    foreign = RunState.create(runs())
    try:
        process = start(tmp_path, TEXT)
        time.sleep(random.Random(seed).uniform(0, LATEST_S))
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while (left := below(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == set(), "the guest ends with the process that booted it"
        for path in tmp_path.rglob("reports-*.parquet"):
            assert pq.read_table(path).num_rows > 0
        cleaned = subprocess.run(CLEAN, capture_output=True, text=True, check=False)
        assert cleaned.returncode == 0, cleaned.stderr
        assert foreign.run_id in [state.run_id for state in all_runs(runs())] and foreign.directory.is_dir()
        # Another test's `narrows clean` may be at it.
        while (rest := {path.name for path in tmp_path.iterdir()} - {"experiment.yaml", "said", "out"}) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.05)
        assert not rest
        if (tmp_path / "out").exists():
            assert (tmp_path / "out" / "run.json").exists(), "it had ended before"
    finally:
        foreign.destroy()
    print("cases: 1 kill")


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.fault("interrupted", "any moment", "virtual")
def test_an_interrupted_run_ends_and_nothing_of_it_stays(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    process = start(tmp_path, TEXT)
    deadline = time.monotonic() + PATIENCE_S
    # Python itself ends at a signal until Narrows is imported.
    while not (tmp_path / "said").stat().st_size and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(chance.uniform(0, LATEST_S))
    process.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[seed % 3])
    code = process.wait(PATIENCE_S)
    said = (tmp_path / "said").read_text()
    assert code in (EXIT_OK, EXIT_INTERRUPTED) and "Traceback" not in said, said
    assert below(tmp_path) == set()
    assert {path.name for path in tmp_path.iterdir()} <= {"experiment.yaml", "said", "out"}
    if (tmp_path / "out").exists():
        record = json.loads((tmp_path / "out" / "run.json").read_text())
        # A signal may come when all is measured, and cut the analysis short.
        assert record["status"] == "complete" or (code == EXIT_INTERRUPTED and record["status"] == "partial")
        assert record["drop_cross_check"]["bottleneck"]["holds"]
    print("cases: 1 interrupt")
