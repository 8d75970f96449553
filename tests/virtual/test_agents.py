# SPDX-License-Identifier: Apache-2.0
"""Agents that die, hang or fork: nothing is left of their episodes, and what is kept says what became of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from narrows.errors import RunError
from narrows.gym import CongestionControl, Links
from narrows.virtual import kernels
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs("guest-kernel", "external-kernel", "narrows-softswitch", COLLECTOR, "ip")
LINKS = Links(rate_bps=(20e6, 20e6), rtt_s=(0.02, 0.02), buffer_bdp=(1.0, 1.0))
AGENT = """\
import sys, time, os
import numpy as np
from narrows.gym import CongestionControl
environment = CongestionControl(render_mode=sys.argv[1] or None, results=sys.argv[2])
environment.reset(seed=1)
environment.step(np.zeros(1, np.float32))
if sys.argv[3] == "forks" and os.fork() == 0:
    time.sleep(60)
print("steps", flush=True)
time.sleep(600)
"""


def processes(word: str) -> list[str]:
    """Command lines of those that have the variable NARROWS_TEST with this value."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                if f"NARROWS_TEST={word}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    found.append((path / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


@pytest.mark.long
@pytest.mark.parametrize(("mode", "does"), [("report", "hangs"), ("", "forks")])
def test_nothing_is_left_of_an_agent_that_dies(mode: str, does: str, tmp_path: Path) -> None:
    word = f"{os.getpid()}-{does}"
    scratch, results = tmp_path / "scratch", tmp_path / "results"
    scratch.mkdir()
    # In TMPDIR guests would have their memory.
    environment = {**os.environ, "NARROWS_TEST": word, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, mode, results, does], env=environment, stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdout is not None and agent.stdout.readline() == b"steps\n"
        assert any("narrows.api.process" in line for line in processes(word))
        agent.send_signal(signal.SIGKILL)
    until = time.monotonic() + 120
    # The agent's own child is its own matter.
    while (left := [line for line in processes(word) if AGENT not in line]) and time.monotonic() < until:
        time.sleep(0.2)
    assert left == []
    assert not [record for record in kernels.runs().glob("*.json") if str(tmp_path) in record.read_text()]
    assert list(scratch.iterdir()) == []
    if mode:
        record = json.loads((results / "episode-0" / "run.json").read_text())
        assert record["status"] == "failed" and "the program that drove the run has ended" in record["reason"]
    else:
        assert not results.exists()


def test_a_process_that_is_forked_off_leaves_the_episode_to_its_agent(tmp_path: Path) -> None:
    environment = CongestionControl(links=LINKS, episode_s=1.0)
    environment.reset(seed=1)
    action = np.zeros(1, np.float32)
    if (child := os.fork()) == 0:
        try:
            environment.step(action)
        except RunError as error:
            environment.close()
            os._exit(0 if "allowed: one that was begun in this process" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    environment.step(action)
    environment.close()
