# SPDX-License-Identifier: Apache-2.0
"""Runs in virtual time that are killed at random moments: what is on the disk reads, and `narrows clean` removes it.

NARROWS_KILLS sets how many; ``make stress`` makes 200.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from narrows.hosts.state import RunState, all_runs
from narrows.virtual.kernels import runs
from test_in_a_guest import SHORT, start

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
        except OSError:
            continue
        if any(place.is_relative_to(directory) for place in places):
            found.add((process / "cmdline").read_text())
    return found


@pytest.mark.parametrize("seed", range(KILLS))
def test_nothing_of_a_killed_run_stays_and_all_of_others(tmp_path: Path, seed: int) -> None:
    foreign = RunState.create(runs())
    try:
        process = start(tmp_path, TEXT)
        time.sleep(random.Random(seed).uniform(0, LATEST_S))
        process.kill()
        process.wait()
        for path in tmp_path.rglob("reports-*.parquet"):
            assert pq.read_table(path).num_rows > 0
        deadline = time.monotonic() + 20
        while (left := below(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == set(), "the guest ends with the process that booted it"
        cleaned = subprocess.run(CLEAN, capture_output=True, text=True, check=False)
        assert cleaned.returncode == 0, cleaned.stderr
        assert foreign.run_id in [state.run_id for state in all_runs(runs())] and foreign.directory.is_dir()
        assert {path.name for path in tmp_path.iterdir()} <= {"experiment.yaml", "said", "out"}
        if (tmp_path / "out").exists():
            assert (tmp_path / "out" / "run.json").exists(), "it had ended before"
    finally:
        foreign.destroy()
    print("cases: 1 kill")
