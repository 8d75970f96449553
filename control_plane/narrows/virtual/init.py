# SPDX-License-Identifier: Apache-2.0
"""Common to all first processes of guests: turn a bare kernel into a machine, talk to the outside, power off.

Little is imported: opening a file costs ten times as much in a guest as outside.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import hashlib
import json
import os
import struct
import termios
import time
import tty
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from narrows.search_path import SEARCH_PATH

MOUNTS = (("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run"), ("tmpfs", "/tmp"))
MEMORY, MEMORIES = Path("/run"), (Path("/run"), Path("/tmp"))
SYSCALL_COST = Path("/sys/module/syscall/parameters/user_ns")
MS_RDONLY = 1  # linux/mount.h
FIRST_TICKS_NS, STEP_NS = 50_000_000, 100_000_000
CHANNEL = "/dev/tty1"
RANDOM = "/dev/urandom"
ADD_ENTROPY = 0x40085203  # RNDADDENTROPY of linux/random.h
RESEED = 0x5207  # RNDRESEEDCRNG
ENTROPY = struct.Struct("=ii32s")  # struct rand_pool_info with 32 bytes
TCP_MEMORY = Path("/proc/sys/net/ipv4/tcp_mem")
TCP_SHARE = 0.6
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF of linux/reboot.h
MCL_FUTURE = 2  # of asm-generic/mman.h
SET_TIMER_SLACK = 29  # PR_SET_TIMERSLACK of linux/prctl.h


class Channel:
    """What the guest tells the outside: events, a JSON object a line."""

    def __init__(self, path: str = CHANNEL) -> None:
        """Open the console; nothing changes what is written to it."""
        self._file = os.open(path, os.O_RDWR | os.O_NOCTTY)
        # What the outside has said already is not to be lost.
        tty.setraw(self._file, termios.TCSANOW)

    def tell(self, **event: Any) -> None:
        """One event."""
        self.write(json.dumps(event))

    def write(self, line: str) -> None:
        """A line."""
        data = line.encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]

    def read(self) -> str:
        """Wait for words from the outside; empty when there will be none any more."""
        return os.read(self._file, 4096).decode()


def seed_random_numbers(seed: int) -> None:
    """Begin the kernel's random numbers with a seed; a kernel of ours has no other source of them.

    Raises:
        OSError: the kernel refuses.
    """
    words = hashlib.sha256(f"narrows {seed}".encode()).digest()
    with open(RANDOM, "wb", buffering=0) as file:  # noqa: PTH123
        fcntl.ioctl(file, ADD_ENTROPY, ENTROPY.pack(len(words) * 8, len(words), words))
        # It would take it into account after a second or more.
        fcntl.ioctl(file, RESEED)


def prepare(needed: Collection[Path] = (), written: Collection[Path] = ()) -> None:
    """Mount what a machine needs, and set what processes expect of an environment.

    Args:
        needed: files of the host that the guest uses; those below /run and /tmp, the guest's own, are brought back.
        written: directories of the host that the guest writes to; all else of the host's it can only read.

    Raises:
        OSError: something cannot be mounted.
    """
    for kind, place in MOUNTS:
        mount(kind, place)
    for path in needed:
        if any(path.is_relative_to(memory) for memory in MEMORIES):
            path.mkdir(parents=True, exist_ok=True)
            mount("hostfs", str(path), str(path), MS_RDONLY)
    for path in written:
        if any(path.is_relative_to(memory) for memory in MEMORIES):
            path.mkdir(parents=True, exist_ok=True)
        mount("hostfs", str(path), str(path))
    # Sleeping processes, and all that they start, wake up at their time, and not up to 50 us later to save power.
    ctypes.CDLL(None).prctl(SET_TIMER_SLACK, ctypes.c_ulong(1), 0, 0, 0)
    # All hosts' sockets together may hold most of the memory; what a kernel gives them by itself is an eighth.
    pages = int(os.sysconf("SC_PHYS_PAGES") * TCP_SHARE)
    TCP_MEMORY.write_text(f"{pages} {pages} {pages}")
    # Until its first ticks a kernel's timers are no finer than ticks, and a guest is that quick. What was mounted,
    # which depends on where the checkout is, took a few microseconds: what follows begins at the same nanosecond.
    sleep_to_a_step(FIRST_TICKS_NS, STEP_NS)
    temporary = MEMORY / "tmp"
    temporary.mkdir(exist_ok=True)
    os.environ |= {"PATH": SEARCH_PATH, "TMPDIR": str(temporary), "LC_ALL": "C.UTF-8", "HOME": str(temporary)}


def sleep_to_a_step(least_ns: int, step_ns: int) -> None:
    """Sleep for at least that time, until the monotonic clock is at a multiple of a step, to the nanosecond."""
    now_ns = time.monotonic_ns()
    left_ns = -(-(now_ns + least_ns) // step_ns) * step_ns - now_ns
    # It is rounded up to a nanosecond, which a fraction of one must not make the next.
    time.sleep((left_ns - 0.5) / 1e9)


def set_date(date_s: int) -> None:
    """Set the calendar; what measures time does not see it."""
    time.clock_settime(time.CLOCK_REALTIME, date_s)


def charge_system_calls(cost_ns: int) -> bool:
    """Have each system call of users' programs take that time; False if the kernel cannot do that."""
    if not SYSCALL_COST.exists():
        return False
    SYSCALL_COST.write_text(str(cost_ns))
    return True


def mount(kind: str, place: str, options: str = "", flags: int = 0) -> None:
    """Mount a file system.

    Raises:
        OSError: the kernel refuses.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"none", place.encode(), kind.encode(), flags, options.encode()) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{kind} on {place}: {os.strerror(error)}")


@contextmanager
def imports_at_once() -> Iterator[None]:
    """What this process asks of memory while the block runs is there at once, not page by page as it is touched.

    In a guest a fault costs many times what the page does, and a third of the time that imports take. Nothing of what
    they make is garbage: it is not looked for meanwhile, nor there later.

    Raises:
        OSError: the kernel refuses.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.mlockall(MCL_FUTURE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        library.munlockall()


def write_out(directory: Path) -> list[str]:
    """Write everything in a directory to the host's files; returns what the host does not take, and why.

    Nothing else tells: a file is written to the guest's memory first.
    """
    problems = []
    for path in directory.rglob("*"):
        if path.is_file():
            try:
                with path.open("rb+") as file:
                    os.fsync(file)
            except OSError as error:
                problems.append(f"{path.relative_to(directory)} cannot be written: {error.strerror}")
    return problems


def power_off() -> None:
    """End the machine; does not return."""
    library = ctypes.CDLL(None)
    library.sync()
    library.reboot(POWER_OFF)
