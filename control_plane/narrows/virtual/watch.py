# SPDX-License-Identifier: Apache-2.0
"""Watching a guest's clock: how fast its time passes, and whether it passes at all."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from narrows.errors import RunError
from narrows.virtual.guest_supervisor import children
from narrows.virtual.kernels import Kernel
from narrows.virtual.memory import GuestMemory

LOOK_EVERY_S = 0.25
# A burst that takes no time is worked off within that much processor time; a loop without a sleep never is.
STILL_CPU_S = 60.0
STILL_NS = 100_000
# Without doing anything, time can only stand still for what this machine does for the guest: reading a file, say.
IDLE_S = 120.0
IDLE_CPU_S = 1.0
# States of a process (proc(5)) that would go on if it were let: waiting for a processor that others keep, or stopped.
HELD_UP = ("R", "T")
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = 3


def cpu_s(pid: int) -> float:
    """Processor time in seconds of a guest's kernel and of the processes that are its address spaces."""
    return _used_s(_stat(pid))


def _stat(pid: int) -> list[list[str]]:
    """Of each of a guest's processes what stands behind its name in /proc/PID/stat."""
    found = []
    for one in (pid, *children(pid)):
        with suppress(OSError):
            found.append(Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split())
    return found


def _used_s(processes: list[list[str]]) -> float:
    return sum(int(field) for fields in processes for field in fields[11:13]) / TICKS


class Watch:
    """The clock of one guest, looked at while it runs."""

    def __init__(self, kernel: Kernel, pid: int) -> None:
        """Take the guest's kernel: the program and the process.

        Raises:
            RunError: its memory cannot be read.
        """
        try:
            self._memory = GuestMemory(pid, kernel.path)
        except (OSError, ValueError) as error:
            raise RunError(f"the clock of kernel {kernel.name} cannot be read: {error}") from error
        self._pid = pid
        self.now_ns = 0
        self.cpu_s = 0.0
        self.held = False
        """Whether its time stands still on purpose."""

    async def until_still(self) -> str:
        """Look until the guest's time stands still; returns why that is, in words. Ends quietly with the guest."""
        with closing(self._memory):
            moved_ns, idle_s, spent_s = 0, 0.0, cpu_s(self._pid)
            seen: Counter[str] = Counter()
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                try:
                    self.now_ns = self._memory.time_ns()
                except OSError:
                    return ""
                if name := self._memory.running():
                    seen[name] += 1
                processes = _stat(self._pid)
                used_s = _used_s(processes)
                # Those that have ended meanwhile are the guest's no more.
                self.cpu_s = max(self.cpu_s, used_s)
                if self.held or self.now_ns - moved_ns > STILL_NS:
                    moved_ns, idle_s, spent_s = self.now_ns, 0.0, used_s
                    seen.clear()
                    continue
                spent = used_s - spent_s
                if not any(fields[0] in HELD_UP for fields in processes):
                    idle_s += LOOK_EVERY_S
                if spent > STILL_CPU_S:
                    return f"{_at(moved_ns)} while it computed for {spent:.0f} s without a sleep, in {_who(seen)}"
                if idle_s > IDLE_S and spent < IDLE_CPU_S:
                    return f"{_at(moved_ns)} for {idle_s:.0f} s while it did nothing"


def _at(time_ns: int) -> str:
    return f"the guest's time stood still at {time_ns / 1e9:.6f} s"


def _who(seen: Counter[str]) -> str:
    """Names of processes inside, as the kernel cuts them, those seen most often first."""
    total = sum(seen.values())
    told = [f"{name} ({count * 100 // total} %)" for name, count in seen.most_common(SHOWN)]
    return ", ".join(told) or "its kernel"
