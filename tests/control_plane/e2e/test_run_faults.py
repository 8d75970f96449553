# SPDX-License-Identifier: Apache-2.0
"""Parts of a run that die, hang or vanish, and ends at random moments. `make stress` runs it (NARROWS_STRESS=1)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from narrows.hosts.state import namespace_pids
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from test_run import NARROWS, Running, wait_for, write

pytestmark = pytest.mark.needs("root", "stress", SOFTSWITCH, COLLECTOR)

LONG = [{"cca": "cubic", "duration": "40s"}]


def signalled(host: str, number: signal.Signals) -> Callable[[Running], None]:
    """Sends a signal to all processes of a host, once its part is there."""

    def found(running: Running) -> dict[int, bytes]:
        pids = namespace_pids(running.state.namespace(host))
        return {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}

    def act(running: Running) -> None:
        wait_for(lambda: any(b"iperf3" in line or b"collector" in line for line in found(running).values()), 20)
        for pid in found(running):
            os.kill(pid, number)

    return act


def without_namespace(running: Running) -> None:
    """The sender's interface and all behind it are gone."""
    name = running.state.namespace("sender0")
    subprocess.run(["ip", "-n", name, "link", "del", "eth0"], check=False)
    signalled("sender0", signal.SIGKILL)(running)
    subprocess.run(["ip", "netns", "del", name], check=True)


FAULTS = {
    "collector killed": signalled("collector", signal.SIGKILL),
    "client killed": signalled("sender0", signal.SIGKILL),
    "server killed": signalled("receiver", signal.SIGKILL),
    "client hangs": signalled("sender0", signal.SIGSTOP),
    "host lost": without_namespace,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_part_that_is_lost_is_told_and_nothing_stays(tmp_path: Path, fault: str) -> None:
    """The run fails or is partial, never complete; the record says why; nothing is left behind."""
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=[{"cca": "cubic", "duration": "12s"}]), out)
    running.wait_for_traffic()
    FAULTS[fault](running)
    printed = running.finish(120)
    assert running.process.returncode == EXIT_FAILED, printed
    assert running.left_over() == []
    assert "Traceback" not in printed
    assert out.exists(), printed
    record: dict[str, Any] = json.loads((out / "run.json").read_text())
    assert record["status"] != "complete" and record["reason"], record
    print(f"cases: 1 {fault}: {record['status']}: {record['reason']}")


@pytest.mark.parametrize("seed", range(10))
def test_the_end_at_a_random_moment_leaves_nothing(tmp_path: Path, seed: int) -> None:
    """SIGINT, SIGTERM and SIGKILL, from the first moment on; after SIGKILL `narrows clean` and another run."""
    chance = random.Random(seed)
    number = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[seed % 3]
    out = tmp_path / "result"
    running = Running(write(tmp_path, flows=LONG), out)
    moment = time.monotonic() + chance.uniform(0, 8)
    while time.monotonic() < moment:
        running.observe()
        time.sleep(0.05)
    running.process.send_signal(number)
    printed = running.finish(60)
    if number == signal.SIGKILL:
        assert running.process.returncode == -signal.SIGKILL
        cleaned = subprocess.run([*NARROWS, "clean"], capture_output=True, text=True, check=False)
        assert cleaned.returncode == EXIT_OK, cleaned.stderr
    else:
        assert running.process.returncode == EXIT_INTERRUPTED, printed
    assert running.left_over() == []
    assert "Traceback" not in printed
    if out.exists():
        record = json.loads((out / "run.json").read_text())
        assert (record["status"], record["identity"]["holds"]) == ("partial", True)
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".unfinished")]
