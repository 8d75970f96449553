# SPDX-License-Identifier: Apache-2.0
"""Worker processes of runs side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from narrows.hosts.process import start_time

PARENT = """
import os, sys, time
from narrows.run.stop_signals import stop_signals_wait
from narrows.batch.pool import worker_pool
def say_begun():
    # In one piece: the pipe is both workers'.
    os.write(1, b"%d\\n" % os.getpid())
def traffic():
    # The signal ends it, and its process could go on.
    with stop_signals_wait() as came:
        say_begun()
        while not came:
            time.sleep(0.05)
def set_up():
    try:
        say_begun()
        time.sleep(60)
    finally:
        os.write(1, b"removed\\n")
def nothing():
    say_begun()
def failure():
    say_begun()
    time.sleep(1)  # The others are at work, or have nothing to do.
    raise ValueError
def death():
    say_begun()
    time.sleep(1)
    os.kill(os.getpid(), 9)
def work(phase):
    globals()[phase]()
if __name__ == "__main__":
    with worker_pool(2 if len(sys.argv) > 4 else len(sys.argv) - 1) as pool:
        for future in [pool.submit(work, phase) for phase in sys.argv[1:]]:
            future.result()
"""


@pytest.fixture
def parent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process with two workers and much to do, each of which has come as far as the parameter says.

    With several words, each is what a worker does.
    """
    # New processes look for what they are to do in a file.
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    phases = getattr(request, "param", "traffic").split()
    command = [sys.executable, str(script), *(phases if len(phases) > 1 else phases * 8)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        yield process
        process.kill()


def begun(process: subprocess.Popen[str]) -> list[int]:
    """Who has begun the first two pieces of work."""
    assert process.stdout is not None
    workers = [int(process.stdout.readline()) for _ in range(2)]
    assert len(set(workers)) == 2 and process.pid not in workers
    return workers


def wait_for_the_end_of(workers: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(start_time(worker) is not None for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_end_with_a_killed_parent(parent: subprocess.Popen[str]) -> None:
    workers = begun(parent)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for_the_end_of(workers)


@pytest.mark.parametrize(("parent", "then"), [("traffic", ""), ("set_up", "removed\n" * 2)], indirect=["parent"])
def test_an_interrupted_parent_has_nothing_more_begun(parent: subprocess.Popen[str], then: str) -> None:
    workers = begun(parent)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(20) != 0
    wait_for_the_end_of(workers)
    # What waited in the workers' queue was not begun either.
    assert parent.stdout is not None and parent.stdout.read() == then


def test_a_signal_of_the_terminal_goes_to_the_parent_only(parent: subprocess.Popen[str]) -> None:
    for worker in begun(parent):
        assert os.getpgid(worker) != os.getpgid(parent.pid)


@pytest.mark.parametrize("parent", ["failure traffic", "death nothing traffic"], indirect=True)
def test_a_worker_without_work_keeps_no_other_waiting(parent: subprocess.Popen[str]) -> None:
    """One has failed or was killed while another is at work, and waits for more itself."""
    assert parent.wait(20) == 1
