# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from narrows.errors import RunError
from narrows.experiment.loader import validate
from narrows.experiment.planning import make_plan
from narrows.hosts import state as state_module
from narrows.hosts.clean import clean_dead_runs
from narrows.hosts.netns import NetnsTestbed
from narrows.hosts.process import start_time
from narrows.hosts.state import RunState, all_runs, dead_runs, kill


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
    """A run whose owner's pid is in use, by a process that started later; its lock went with it."""
    state = RunState.create(root)
    state.owner_start -= 1
    state.save()
    assert state.lock is not None
    state.lock.give_back()
    return state


@pytest.mark.needs("root")
def test_other_users_read_nothing_of_a_run(tmp_path: Path) -> None:
    """A run's record, and what programs are to have in their environment, of which some is secret."""
    for place in (tmp_path, *tmp_path.parents):
        place.chmod(place.stat().st_mode | 0o011)
    root = tmp_path / "narrows"
    root.mkdir(mode=0o755)  # of an earlier version
    state = RunState.create(root)
    bottleneck = {"rate": "10Mbit", "buffer": "1bdp", "rtt": "20ms"}
    program = {"name": "x", "bottleneck": bottleneck, "flows": [{"client": ["true"]}]}
    testbed = NetnsTestbed(make_plan(validate(program, "x")), state, 1500)
    private = asyncio.run(testbed.put("any", "secret.json", "TOKEN", private=True))
    shared = asyncio.run(testbed.put("any", "shared.json", "{}"))
    code = f"import os; os.setuid(65534)\nfor path in {[str(root), str(state.file), private, shared]!r}:\n" + (
        "    try: print((os.listdir if os.path.isdir(path) else open)(path) and 'read')\n"
        "    except PermissionError: print('refused')\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    state.destroy()
    assert said.split() == ["refused", "refused", "refused", "read"]


def test_own_run_is_alive(tmp_path: Path) -> None:
    state = RunState.create(tmp_path)
    assert all_runs(tmp_path) == [state]
    assert dead_runs(tmp_path) == []
    assert clean_dead_runs(tmp_path) == ([], [])
    assert state.file.exists()


def test_dead_run_is_removed(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    state = orphan(tmp_path)
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    state.add_directory(unfinished)
    state.add_process(sleeper.pid)
    assert clean_dead_runs(tmp_path) == (
        [f"process {sleeper.pid}", f"unfinished results {unfinished}", f"record of run {state.run_id}"],
        [],
    )
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
    assert clean_dead_runs(tmp_path) == ([], [])
    assert len(list(tmp_path.iterdir())) == 2


BEGIN_RUN = """
import pathlib, sys, time
from narrows.hosts.state import RunState
print(RunState.create(pathlib.Path(sys.argv[1])).run_id, flush=True)
time.sleep(600)
"""


@pytest.mark.needs("root", "unshare")
@pytest.mark.fault("`narrows clean` in another PID namespace", "traffic", "real", "virtual")
def test_a_run_in_another_pid_namespace_is_alive_until_it_is_killed(tmp_path: Path) -> None:
    """Its pid means another process here, or none: so it is with two machines that share a home directory."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", BEGIN_RUN]
    with subprocess.Popen([*command, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        run_id = process.stdout.readline().strip()
        try:
            assert [state.run_id for state in all_runs(tmp_path)] == [run_id]
            assert dead_runs(tmp_path) == [] and clean_dead_runs(tmp_path) == ([], [])
            assert (tmp_path / run_id).is_dir()
        finally:
            process.kill()
    deadline = time.monotonic() + 10
    while not dead_runs(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert clean_dead_runs(tmp_path) == ([f"record of run {run_id}"], [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("something cannot be removed", "afterwards", "real", "virtual")
def test_what_cannot_be_removed_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pids: set[int]) -> None:
        if pids:
            raise RunError("process 831 does not end")

    stuck, other = orphan(tmp_path), orphan(tmp_path)
    for state in (stuck, other):
        (tmp_path / f"unfinished-{state.run_id}").mkdir()
        state.add_directory(tmp_path / f"unfinished-{state.run_id}")
    stuck.add_process(os.getppid())
    monkeypatch.setattr(state_module, "kill", refuse)
    removed, left = clean_dead_runs(tmp_path)
    assert left == ["process 831 does not end"]
    assert sorted(removed) == sorted([f"unfinished results {other.directories[0]}", f"record of run {other.run_id}"])
    # What is left is tried again.
    assert [path.name for path in tmp_path.iterdir()] == [stuck.file.name]


@pytest.mark.fault("`narrows clean` twice at once", "afterwards", "real", "virtual")
def test_two_that_clean_at_once_do_not_fail_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them removes, the other does not find half removed."""
    state = orphan(tmp_path)
    unfinished = tmp_path / "results"
    (unfinished / "telemetry").mkdir(parents=True)
    state.add_directory(unfinished)
    remove, begun = shutil.rmtree, threading.Event()

    def slowly(path: str | Path, ignore_errors: bool = False) -> None:
        begun.set()
        time.sleep(0.3)
        remove(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(clean_dead_runs, tmp_path)
        begun.wait(10)
        second = pool.submit(clean_dead_runs, tmp_path)
        assert f"record of run {state.run_id}" in first.result()[0]
        assert second.result() == ([], [])


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    alive = RunState.create(tmp_path)
    for run_id in (alive.run_id, "abcdef"):
        (tmp_path / f".{run_id}.json.0123456789abcdef.unfinished").write_text("{")
    (tmp_path / ".0123456789abcdef.lock").write_text("4242")
    kept = {alive.file, alive.directory, tmp_path / f".{alive.run_id}.json.0123456789abcdef.unfinished"}
    removed, left = clean_dead_runs(tmp_path)
    assert len(removed) == 1 and "abcdef" in removed[0] and left == []
    assert kept < set(tmp_path.iterdir()) and len(list(tmp_path.iterdir())) == len(kept) + 1, "and the lock"
    alive.destroy()


# Its children are given to a process that does not wait for them, and nothing in their namespace is cleared away.
NOT_CLEARED = """
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
maker = os.fork()
if maker == 0:
    from narrows.hosts.process import ProcessNamespace
    inside = ProcessNamespace()
    inside.launch(["sleep", "600"])
    print(inside.pid, flush=True)
    time.sleep(600)
sys.stdin.readline()
os.kill(maker, signal.SIGKILL)
print(flush=True)
sys.stdin.readline()
"""


@pytest.mark.needs("root")
def test_processes_that_nothing_clears_away_have_ended(tmp_path: Path) -> None:
    """The first process of a namespace stays as long as there are zombies in it; it is not waited for."""
    with subprocess.Popen(
        [sys.executable, "-c", NOT_CLEARED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        first = int(process.stdout.readline())
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.5)
        assert start_time(first) is not None
        kill({first})
        process.stdin.close()


@pytest.mark.needs("root")
def test_processes_that_are_cleared_away_late_are_gone_when_they_are_said_to_be(tmp_path: Path) -> None:
    late = NOT_CLEARED.replace(
        "print(flush=True)\nsys.stdin", "print(flush=True)\ntime.sleep(0.4)\nfor _ in range(3): os.wait()\nsys.stdin"
    )
    with subprocess.Popen(
        [sys.executable, "-c", late], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        first = int(process.stdout.readline())
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        kill({first})
        assert start_time(first) is None
        process.stdin.close()


def test_a_process_that_ended_has_no_start_time() -> None:
    own = start_time(os.getpid())
    assert own is not None and own > 0
    child = subprocess.Popen(["true"])
    child.wait()
    assert start_time(child.pid) is None


# Leaves its parent, its session and the network namespace, twice over.
DAEMON = "import os, time\nif not os.fork():\n os.setsid()\n if not os.fork():\n  {act}"
HIDDEN = DAEMON.format(act='os.execvp("unshare", ["unshare", "-n", "sleep", "600"])')


@pytest.mark.needs("root", "unshare")
@pytest.mark.parametrize("owner_is_killed", [False, True])
def test_a_process_that_hides_in_a_namespace_of_its_own_ends_with_the_run(
    tmp_path: Path, owner_is_killed: bool
) -> None:
    state = RunState.create(tmp_path)
    parent = state.launch()([sys.executable, "-c", HIDDEN])
    parent.wait()
    deadline = time.monotonic() + 10
    while not (hidden := hidden_processes(state)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert os.getsid(hidden[0]) != os.getsid(0)
    if owner_is_killed:
        # What `narrows clean` finds on record, and no more.
        RunState.load(state.file).release()
    else:
        state.release()
    assert [start_time(pid) for pid in hidden] == [None]
    # Its owner, which was not killed here, has a process to wait for.
    state.release()


def hidden_processes(state: RunState) -> list[int]:
    """Processes below a run's first one that have a network namespace of their own, by what this machine sees."""
    assert state.inside is not None
    first = Path(f"/proc/{state.inside.pid}/ns/pid").readlink()
    own = Path("/proc/self/ns/net").readlink()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "ns/pid").readlink() == first and (path / "ns/net").readlink() != own:
                found.append(int(path.name))
    return found


MAKE_NAMESPACE = """
import threading
import time
from narrows.hosts.process import ProcessNamespace
inside = ProcessNamespace()
daemon = inside.launch(["setsid", "sleep", "600"])
print(inside.pid, daemon.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.needs("root")
@pytest.mark.parallel_safe
def test_a_process_namespace_ends_with_its_maker() -> None:
    """Also when that is killed, as a test or a run that had no time to end it."""
    with subprocess.Popen([sys.executable, "-c", MAKE_NAMESPACE], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        inside = [int(pid) for pid in maker.stdout.readline().split()]
        started = {pid: start_time(pid) for pid in inside}
        assert len(started) == 2 and None not in started.values()
        maker.kill()
    deadline = time.monotonic() + 10
    while any(start_time(pid) == at for pid, at in started.items()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid, at in started.items() if start_time(pid) == at]


LEAVE_ZOMBIE = """
from narrows.hosts.process import ProcessNamespace
inside = ProcessNamespace()
inside.launch(["true"])
inside.launch(["sleep", "600"])
inside.close()
"""


@pytest.mark.needs("root")
@pytest.mark.parallel_safe
def test_a_process_namespace_ends_with_children_that_nobody_waited_for() -> None:
    """As of a run that is interrupted in the moment in which it starts one: the first process waits for them all."""
    subprocess.run([sys.executable, "-c", LEAVE_ZOMBIE], timeout=20, check=True)
