# SPDX-License-Identifier: Apache-2.0
"""Two runs at once on the same things: the second is refused, and a dead one holds nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from narrows.errors import RunError
from narrows.hosts.run_lock import RunLock

HOLDER = """
import pathlib, sys, time
from narrows.hosts.run_lock import RunLock
RunLock(pathlib.Path(sys.argv[1])).take(["alice (ens1f0)"])
print("held", flush=True)
time.sleep(60)
"""


def test_the_second_run_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path), RunLock(tmp_path)
    first.take(["bob", "alice", "alice"])
    with pytest.raises(RunError, match=f"bob is in use by another run .process {os.getpid()}.; wait for its end"):
        second.take(["aaron", "bob"])
    # Nothing of the refused one stays.
    third = RunLock(tmp_path)
    third.take(["aaron"])
    second.take(["carol"])
    first.give_back()
    first.give_back()
    second.take(["alice", "bob"])
    for one in (second, third):
        one.give_back()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_given_back_meanwhile_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (RunLock(tmp_path) for _ in range(3))
    first.take(["alice"])
    lock = fcntl.flock

    def late(*arguments: int) -> None:
        # Its file is open, but not yet locked.
        monkeypatch.undo()
        first.give_back()
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", late)
    second.take(["alice"])
    with pytest.raises(RunError, match="alice is in use"):
        third.take(["alice"])


def test_a_planted_link_is_not_written_to(tmp_path: Path) -> None:
    (locks := tmp_path / "locks").mkdir()
    (victim := tmp_path / "victim").write_text("as it was")
    exclusive = RunLock(locks)
    exclusive.take(["alice"])
    (path,) = locks.iterdir()
    exclusive.give_back()
    for plant in (path.hardlink_to, path.symlink_to):
        plant(victim)
        with pytest.raises(RunError, match="alice cannot be reserved"):
            exclusive.take(["alice"])
        path.unlink()
    assert victim.read_text() == "as it was"


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"alice .ens1f0. is in use by another run .process {holder.pid}."):
            RunLock(tmp_path).take(["alice (ens1f0)"])
        holder.kill()
        holder.wait(10)
    RunLock(tmp_path).take(["alice (ens1f0)"])


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(RunError, match=f"alice cannot be reserved: {tmp_path}.*: No locks available"):
        RunLock(tmp_path).take(["alice"])
