# SPDX-License-Identifier: Apache-2.0
"""Watching a guest's clock: how fast its time passes, and whether it passes at all."""

from __future__ import annotations

import asyncio
import os
import struct
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.virtual.guest_supervisor import children
from narrows.virtual.kernels import Kernel
from narrows.virtual.memory import GuestMemory, Running

LOOK_EVERY_S = 0.25
# A burst that takes no time is worked off within that much processor time; a loop without a sleep never is.
STILL_CPU_S = 60.0
# Time that hardly passes stands still: what is slowest in order, 100 Gbit/s through BMv2, passes it within STILL_CPU_S.
STILL_NS = 10_000_000
# In order a kernel lets a process run within milliseconds of its own. One that waits in a loop, as `cpu_relax` does,
# lets time pass, a nanosecond each turn, and nothing else.
ALONE_CPU_S = 20.0
# Without doing anything, time can only stand still for what this machine does for the guest: reading a file, say.
IDLE_S = 120.0
IDLE_CPU_S = 1.0
# States of a process (proc(5)) that would go on if it were let: waiting for a processor that others keep, or stopped.
HELD_UP = ("R", "T")
TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = 3
# Python alone, with its libraries, runs in several times that. A kernel that keeps less of the programs' files has full
# memory, drops pages that the next instruction needs, and reads them again.
FEW_FILE_BYTES = 4 << 20


@dataclass(frozen=True)
class Still:
    """Why a guest's time stands still, in words; ``program`` is the process of this machine that is a user's program
    inside, if that is why. ``short_of_memory`` says whether its kernel kept hardly a page of its programs' files."""

    why: str
    program: int | None = None
    short_of_memory: bool = False


def cpu_s(pid: int) -> float:
    """Processor time in seconds of a guest's kernel and of the processes that are its address spaces."""
    return _sum_s(_stat(pid))


def _stat(pid: int) -> dict[int, list[str]]:
    """Of each of a guest's processes what stands behind its name in /proc/PID/stat."""
    found = {}
    for one in (pid, *children(pid)):
        with suppress(OSError):
            found[one] = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
    return found


def _used_s(fields: list[str]) -> float:
    return sum(int(field) for field in fields[11:13]) / TICKS


def _sum_s(processes: dict[int, list[str]]) -> float:
    return sum(map(_used_s, processes.values()))


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
        self.paused = False
        """Whether its time stands still on purpose."""
        self.programs_s: dict[str, float] = defaultdict(float)
        """Processor time in seconds of users' programs inside, by name, as far as looking now and then can tell."""

    def close(self) -> None:
        """Look no more."""
        self._memory.close()

    async def until_still(self, programs_cpu_s: float | None = None) -> Still | None:
        """Look until the guest's time stands still; None: the guest has ended.

        Args:
            programs_cpu_s: processor time that a user's program may take without a sleep; `STILL_CPU_S` by default.
        """
        most_s = STILL_CPU_S if programs_cpu_s is None else programs_cpu_s
        before = _stat(self._pid)
        moved_ns, idle_s, last_s = self.now_ns, 0.0, _sum_s(before)
        seen: Counter[Running] = Counter()
        alone = _Alone(self._pid, before)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                self.now_ns = self._memory.time_ns()
            except OSError:
                return None
            processes = _stat(self._pid)
            used_s = _sum_s(processes)
            if running := self._memory.running():
                seen[running] += 1
                if running.is_users:
                    self.programs_s[running.name] += max(0.0, used_s - last_s)
            last_s = used_s
            # Those that have ended meanwhile are the guest's no more.
            self.cpu_s = max(self.cpu_s, used_s)
            if (alone_s := alone.look(processes, self.paused)) > ALONE_CPU_S:
                since = f"computed for {alone_s:.0f} s until {self.now_ns / NANOSECONDS:.6f} s of its clock"
                return Still(f"the guest's kernel loops: it {since} and let no process run, in {_who(seen)}")
            if self.paused or self.now_ns - moved_ns > STILL_NS:
                moved_ns, idle_s, before = self.now_ns, 0.0, processes
                seen.clear()
                continue
            spent_s = used_s - _sum_s(before)
            if not any(fields[0] in HELD_UP for fields in processes.values()):
                idle_s += LOOK_EVERY_S
            programs = Counter({running.name: count for running, count in seen.items() if running.is_users})
            if 2 * programs.total() > seen.total() and spent_s > most_s:
                ((name, _),) = programs.most_common(1)
                return Still(_spun(name, moved_ns, self.now_ns, spent_s), _busiest(before, processes))
            if spent_s > STILL_CPU_S:
                why = f"{_at(moved_ns)} while it computed for {spent_s:.0f} s without a sleep, in {_who(seen)}"
                return Still(why, short_of_memory=self._is_short_of_memory())
            if idle_s > IDLE_S and spent_s < IDLE_CPU_S:
                return Still(f"{_at(moved_ns)} for {idle_s:.0f} s while it did nothing")

    def _is_short_of_memory(self) -> bool:
        try:
            kept = self._memory.file_bytes()
        except (OSError, struct.error):
            return False
        return kept is not None and kept < FEW_FILE_BYTES


class _Alone:
    """For how long a guest's kernel has computed without letting one of its processes run."""

    def __init__(self, pid: int, processes: dict[int, list[str]]) -> None:
        self._pid = pid
        self._spaces_s, self._from_s = self._used(processes)

    def look(self, processes: dict[int, list[str]], paused: bool) -> float:
        """Seconds of the kernel's processor time, given all processes as they are now; 0 for a guest that is paused."""
        spaces_s, kernel_s = self._used(processes)
        if paused or spaces_s != self._spaces_s:
            self._spaces_s, self._from_s = spaces_s, kernel_s
        return kernel_s - self._from_s

    def _used(self, processes: dict[int, list[str]]) -> tuple[float, float]:
        """Processor time in seconds of the address spaces, and of the kernel."""
        spaces = {pid: fields for pid, fields in processes.items() if pid != self._pid}
        return _sum_s(spaces), _used_s(processes[self._pid]) if self._pid in processes else 0.0


def _at(time_ns: int) -> str:
    return f"the guest's time stood still at {time_ns / NANOSECONDS:.6f} s"


def _spun(name: str, from_ns: int, to_ns: int, spent_s: float) -> str:
    """The message about a program that kept time from passing."""
    passed_s = (to_ns - from_ns) / NANOSECONDS
    each = f", {spent_s / passed_s:.0f} s for each second" if to_ns > from_ns else ""
    return (
        f"the program '{name}' spins: from {from_ns / NANOSECONDS:.6f} s of the guest's clock on it took "
        f"{spent_s:.0f} s of processor time in {passed_s:.6f} s of virtual time{each}"
    )


def _busiest(before: dict[int, list[str]], after: dict[int, list[str]]) -> int:
    """The process that has taken the most processor time in between."""
    return max(after, key=lambda pid: _used_s(after[pid]) - (_used_s(before[pid]) if pid in before else 0.0))


def _who(seen: Counter[Running]) -> str:
    """Names of processes inside, as the kernel cuts them, those seen most often first."""
    total = sum(seen.values())
    names = [f"{running.name} ({count * 100 // total} %)" for running, count in seen.most_common(SHOWN)]
    return ", ".join(names) or "its kernel"
