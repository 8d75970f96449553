# SPDX-License-Identifier: Apache-2.0
"""What surrounds a guest, without one: its supervisor, its memory, its core."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from narrows import python
from narrows.errors import InputError
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.hosts.process import start_time
from narrows.targets.soft.virtual_time import adapted, settings
from narrows.virtual import cores, guard, guest, guest_memory, guest_supervisor, init, memory, watch
from narrows.virtual.ending import how_it_ended
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import Kernel

# A child that a grandchild outlives; both say who they are.
ORPHAN = "(sleep 600 & echo $!); exec sleep {}"
BULK = {"cca": "cubic", "duration": "1s"}


def plan(rate: str, rtt: str, buffer: str = "1bdp", **flow: Any) -> Plan:
    data: dict[str, Any] = {
        "name": "test",
        "bottleneck": {"rate": rate, "rtt": rtt, "buffer": buffer},
        "flows": [flow or BULK],
    }
    return make_plan(validate(data, "test"))


def keep(*command: str, large: int = 0, directory: Path | None = None) -> subprocess.Popen[str]:
    words = [
        sys.executable,
        "-I",
        "-S",
        guest_supervisor.__file__,
        str(min(os.sched_getaffinity(0))),
        "1",
        "2",
        str(large),
        *command,
    ]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=directory)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while start_time(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return start_time(pid) is None


def test_what_outlives_the_kernel_is_ended_with_it() -> None:
    with keep("/bin/sh", "-c", ORPHAN.format(0.2)) as process:
        assert process.stdout is not None
        orphan = int(process.stdout.readline())
        assert process.wait(20) == 0
    assert gone(orphan)


def test_a_guest_ends_with_its_owner() -> None:
    with keep("/bin/sh", "-c", ORPHAN.format(600)) as process:
        assert process.stdout is not None and process.stdin is not None
        orphan = int(process.stdout.readline())
        process.stdin.close()
        assert process.wait(20) == guest_supervisor.SIGNALLED + 9
    assert gone(orphan)


def test_the_exit_code_is_the_kernels() -> None:
    with keep("/bin/sh", "-c", "exit 7") as process:
        assert process.wait(20) == 7
    with keep("/no/such/kernel") as process:
        assert process.wait(20) == guest_supervisor.NOT_STARTED


@pytest.mark.needs("root")
def test_a_large_guest_has_private_memory_in_large_pages(tmp_path: Path) -> None:
    shown = 'echo $TMPDIR; grep " $TMPDIR " /proc/mounts; sleep 600'
    with keep("/bin/sh", "-c", shown, large=64 << 20, directory=tmp_path) as process:
        assert process.stdout is not None and process.stdin is not None
        directory = process.stdout.readline().strip()
        mounted = process.stdout.readline().split()
        assert directory == str(tmp_path / guest_supervisor.MEMORY) == mounted[1]
        assert {"huge=within_size", "size=65536k", "nosuid", "nodev"} <= set(mounted[3].split(","))
        assert f" {directory} " not in Path("/proc/mounts").read_text()
        process.stdin.close()
        process.wait(20)


def test_only_a_large_guest_has_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (guest_memory.memory_bytes(plan(rate, "10ms")) for rate in ("100Mbit", "100Gbit"))
    assert guest_memory.in_large_pages(small) == 0 and guest_memory.in_large_pages(large) > large


def test_without_the_right_to_mount_nothing_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ctypes.CDLL", lambda _: SimpleNamespace(unshare=lambda _: -1))
    assert guest_supervisor.make_large_pages(1 << 20) is None
    assert not list(tmp_path.iterdir())


def test_memory_grows_with_what_is_in_flight() -> None:
    small, large = (
        guest_memory.memory_bytes(plan("100Mbit", "40ms")),
        guest_memory.memory_bytes(plan("100Gbit", "10ms")),
    )
    assert guest_memory.BASE_BYTES < small < 1 << 30
    # A BDP of 125 MB and as much of a queue, several times.
    assert large > 8 * 250_000_000
    # Rings are the kernel's: sender, receiver and collector have one each.
    assert large - 3 * 250_000_000 // 4 > 8 * 250_000_000
    assert small % (1 << 20) == large % (1 << 20) == 0


def test_memory_is_for_no_more_than_flows_can_send() -> None:
    """200 MB of buffer, of which they fill little: memory for 24 times the rest of it is not set aside."""
    most: dict[int, dict[str, Any]] = {
        # In a second 12.5 MB cross the link, and so much more is sent at once as was acknowledged.
        12_500_000 + 20 * 1_514: {},
        1_000_000: {"cca": "cubic", "size": "1MB", "repeat": 3},
        # 125 of them, each with 28 B of headers and a frame's 14.
        125 * 1_042: {"udp": {"rate": "1Mbit", "payload": "1000B"}, "duration": "1s"},
    }
    for sent_bytes, flow in most.items():
        found = plan("100Mbit", "20ms", "200MB", **flow)
        around = guest_memory.memory_bytes(found) - guest_memory.BASE_BYTES - 3 * guest_memory.HOST_BYTES
        rings = 3 * settings(adapted(found)).ring_bytes
        assert around - rings == pytest.approx(24 * sent_bytes + guest_memory.FLOW_BYTES, abs=1 << 20)
    programs = plan("100Mbit", "20ms", "200MB", client=["sleep", "1"], server=["sleep", "{port}"])
    assert guest_memory.memory_bytes(programs) > 24 * 200_000_000, "what a program sends is its own affair"


def test_a_demand_that_no_machine_has_is_one_message() -> None:
    (problem,) = guest_memory.problems(100 << 40)
    assert "takes 104857600 MB of memory in virtual time" in problem
    assert "fix: a lower rate, a shorter RTT or a smaller buffer" in problem


def test_a_place_that_is_too_small_or_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_memory, "places", lambda: [tmp_path / "missing", tmp_path])
    with pytest.raises(InputError, match=r"missing cannot be used .*, .* has \d+ MB; fix: TMPDIR=DIR"):
        guest_memory.place(1 << 60)
    assert guest_memory.place(1 << 20) == tmp_path


def test_only_x86_has_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "x86-64 processors only, and this is aarch64" in guest_memory.problems(1 << 20)[0]


def test_guests_have_a_core_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 5})
    with cores.core() as one, cores.core() as other:
        assert {one, other} == {3, 5}
        with cores.core() as shared:
            assert shared in (3, 5)
    with cores.core() as again:
        assert again == one


def test_no_guest_is_the_first_to_compile_our_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    module, broken = tmp_path / "package" / "module.py", tmp_path / "package" / "broken.py"
    module.write_text("WHICH = 1\n")
    broken.write_text("def\n")
    monkeypatch.setattr(python, "OWN", [tmp_path])
    guest.compile_modules()
    bytecode = Path(importlib.util.cache_from_source(str(module)))
    first = bytecode.read_bytes()
    module.write_text("WHICH = 'another'\n")
    os.utime(module, (0, 0))
    guest.compile_modules()
    assert bytecode.read_bytes() != first
    assert "PYTHONDONTWRITEBYTECODE=1" in guest.command_line(Kernel("any", tmp_path), 1 << 30, ["python"])


def test_symbols_of_a_program(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.fail("cc is not installed; fix: scripts/setup.sh test")
    source, path = tmp_path / "a.c", tmp_path / "a.out"
    # One name is the end of the other: a linker may keep them in one place.
    source.write_text("long clock = 7, my_clock = 9; int main(void) { return (int)(clock + my_clock); }\n")
    subprocess.run(["cc", "-no-pie", "-o", path, source], check=True)
    listed = {name: int(value, 16) for value, _, name in map(str.split, _nm(path)) if name in ("clock", "my_clock")}
    assert memory.symbols(path, ["clock", "my_clock", "none"]) == listed
    assert memory.symbols(source, ["clock"]) == {}


def _nm(path: Path) -> list[str]:
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if len(line.split()) == 3]


def test_a_panic_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text("booting\nKernel panic - not syncing: Out of memory\nCPU: 0\nCall Trace:\n [<600>] ? vpanic\n")
    nothing: Any = None
    guest = Guest(nothing, nothing, 0, log)
    assert guest.stderr_tail() == ":\nKernel panic - not syncing: Out of memory"
    assert how_it_ended(guest_supervisor.SIGNALLED + signal.SIGABRT, True) == "the guest's kernel failed"
    assert how_it_ended(guest_supervisor.SIGNALLED + signal.SIGKILL, True) == "the guest was ended by SIGKILL"
    assert how_it_ended(1, False) == "the guest does not boot"
    log.write_text("not enough\n\nmemory\n")
    assert guest.stderr_tail() == ":\nnot enough\nmemory"


def test_a_guest_that_does_nothing_is_distinguished_from_one_that_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process stands for one that waits for a processor: both would go on if they were let."""

    class Still:
        def __init__(self, *_: object) -> None:
            pass

        def close(self) -> None:
            pass

        def time_ns(self) -> int:
            return 7

        def running(self) -> None:
            return None

    for name, value in (("GuestMemory", Still), ("IDLE_S", 0.2), ("LOOK_EVERY_S", 0.05)):
        monkeypatch.setattr(watch, name, value)
    unused: Any = SimpleNamespace(name="test", path=None)

    async def look(pid: int, patience_s: float = 1.0) -> str:
        still = await asyncio.wait_for(watch.Watch(unused, pid).until_still(), patience_s)
        assert still is not None and still.program is None
        return still.why

    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            with pytest.raises(TimeoutError):
                asyncio.run(look(process.pid))
            process.send_signal(signal.SIGCONT)
            assert asyncio.run(look(process.pid, 30.0)).endswith("while it did nothing")
        finally:
            process.kill()


@pytest.mark.parametrize(("kept", "is_short"), [(600_000, True), (30_000_000, False), (None, False)])
def test_a_guest_that_only_makes_room_in_its_memory_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kept: int | None, is_short: bool
) -> None:
    """A process that computes stands for the guest, whose kernel keeps so many bytes of files."""

    class Reading:
        def __init__(self, *_: object) -> None:
            pass

        def close(self) -> None:
            pass

        def time_ns(self) -> int:
            return 7

        def running(self) -> memory.Running:
            return memory.Running("tokio-rt-worker", is_users=False)

        def file_bytes(self) -> int | None:
            return kept

    for name, value in (("GuestMemory", Reading), ("STILL_CPU_S", 0.5), ("LOOK_EVERY_S", 0.02)):
        monkeypatch.setattr(watch, name, value)
    unused: Any = SimpleNamespace(name="test", path=None)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        try:
            still = asyncio.run(watch.Watch(unused, spinning.pid).until_still())
        finally:
            spinning.kill()
    assert still is not None and "tokio-rt-worker" in still.why
    assert still.short_of_memory == is_short


def test_a_kernel_that_lets_no_process_run_is_noticed() -> None:
    def processes(kernel: int, space: int) -> dict[int, list[str]]:
        return {pid: ["R", *["0"] * 10, str(ticks), "0"] for pid, ticks in ((7, kernel), (8, space), (9, 20))}

    alone = watch._Alone(7, processes(0, 10))
    # Sums of such numbers are not exact.
    looks = [alone.look(processes(kernel, 10), False) * watch.TICKS for kernel in range(1, 2001)]
    assert looks == pytest.approx(list(range(1, 2001)))
    assert alone.look(processes(2010, 11), False) == 0
    assert alone.look(processes(2020, 11), False) * watch.TICKS == pytest.approx(10)
    assert alone.look(processes(2030, 11), True) == 0


def test_a_guest_that_never_comes_up_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose time goes on all the while, so that nothing else ends it."""

    class Moving:
        now_ns, cpu_s = 0, 0.0
        programs_s: ClassVar[dict[str, float]] = {}

        def __init__(self, *_: object) -> None:
            pass

        async def until_still(self) -> None:
            await asyncio.sleep(60)

        def close(self) -> None:
            pass

    for name, value in (("Watch", Moving), ("BOOT_CPU_S", 0.2), ("SOON_S", 0.0), ("PACE_EVERY_S", 0.05)):
        monkeypatch.setattr(guard, name, value)
    unused: Any = None
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        guest: Any = SimpleNamespace(pid=spinning.pid, kill=spinning.kill)
        made = guard.Guard(unused, guest, unused)
        asyncio.run(made.follow(asyncio.Event()))
        assert spinning.wait(10) == -signal.SIGKILL
    finally:
        spinning.kill()
    assert made.guarded.still == "the guest is not up after 0.2 s of processor time"


def test_how_long_is_left_is_estimated_once_that_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections begin: a few nanoseconds have passed after seconds. Then a tenth of 10 s has."""
    told: list[tuple[float, float | None]] = []
    times = iter((0, 4, 1_000_000_000, 1_000_000_000))
    over = asyncio.Event()

    class Moving:
        def __init__(self, *_: Any) -> None:
            self.cpu_s, self.paused = 0.0, False
            self.programs_s: dict[str, float] = {}

        @property
        def now_ns(self) -> int:
            now_ns = next(times)
            if now_ns == 1_000_000_000:
                over.set()
            return now_ns

        async def until_still(self) -> None:
            made.phase(10.0, True)
            await over.wait()

        def close(self) -> None:
            pass

    for name, value in (("Watch", Moving), ("SOON_S", 0.0), ("PACE_EVERY_S", 0.05)):
        monkeypatch.setattr(guard, name, value)
    watched: Any = SimpleNamespace(pid=os.getpid())
    progress: Any = SimpleNamespace(pace=lambda time_s, _, remaining_s: told.append((time_s, remaining_s)))
    unused: Any = None
    made = guard.Guard(unused, watched, progress)
    up = asyncio.Event()
    up.set()
    asyncio.run(made.follow(up))
    (begun_s, unknown), (passed_s, left_s), *_ = told
    assert (begun_s, unknown, passed_s) == (4e-9, None, 1.0)
    # Nine times as long as until now, which is not much: two looks.
    assert left_s is not None and 9 * 0.1 <= left_s < 90


def test_a_guest_begins_at_a_step_of_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever came before took; Python takes the next nanosecond for a sleep that is not a whole number of them."""
    for now_ns, wake_ns in ((2_000_000, 100_000_000), (2_004_001, 100_000_000), (60_000_000, 200_000_000)):
        slept: list[float] = []
        monkeypatch.setattr(time, "monotonic_ns", lambda now_ns=now_ns: now_ns)
        monkeypatch.setattr(time, "sleep", slept.append)
        init.sleep_to_a_step(50_000_000, 100_000_000)
        assert now_ns + math.ceil(slept[0] * 1e9) == wake_ns
