# SPDX-License-Identifier: Apache-2.0
"""Reads a guest's time, running process and pages of files from its kernel's memory, without the kernel's help.

A guest whose time stands still cannot be asked. Its kernel is a process of this machine, though, and the program's
symbols say where it keeps its clock and its current task.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

# Of arch/um/kernel/time.c, arch/um/kernel/process.c, init/init_task.c, kernel/cred.c and mm/vmstat.c.
CLOCK, CURRENT, FIRST_TASK, ROOT, PAGES = "time_travel_time", "cpu_tasks", "init_task", "init_cred", "vm_node_stat"
NEEDED = (CLOCK, CURRENT, FIRST_TASK)
POINTER = struct.Struct("<Q")
# NR_INACTIVE_FILE and NR_ACTIVE_FILE of enum node_stat_item (mmzone.h), behind the two of anonymous memory.
FILE_PAGES, PAGE_BYTES = struct.Struct("<16x2q"), 4096
# Of struct cred, behind a count of 32 or 64 bits: user and group, real, saved, effective and for files.
USERS, USERS_AT = struct.Struct("<8I"), (4, 8)
# Elf64_Ehdr's place and size of the section table, Elf64_Shdr, Elf64_Sym (elf.h).
SECTIONS, SECTION, SYMBOL = struct.Struct("<40xQ10xHHH"), struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
SHT_SYMTAB = 2
ELF64_LITTLE = b"\x7fELF\x02\x01"
TASK_BYTES = 16384
NAME_BYTES = 16  # TASK_COMM_LEN
FIRST_NAME = re.compile(rb"swapper(/0)?\0")


def symbols(image: Path, wanted: Collection[str]) -> dict[str, int]:
    """Addresses of symbols of an ELF program; those that it does not have are left out."""
    with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != ELF64_LITTLE:
            return {}
        start, size, count, _ = SECTIONS.unpack_from(data)
        sections = [SECTION.unpack_from(data, start + number * size) for number in range(count)]
        found = {}
        for section in sections:
            if section[1] != SHT_SYMTAB:
                continue
            strings = sections[section[6]][4]
            text = data[strings : strings + sections[section[6]][5]]
            # By their place in the table of strings, where one name may be the end of another.
            places = {
                match.start(): name for name in wanted for match in re.finditer(re.escape(name).encode() + b"\0", text)
            }
            for name_at, _, _, _, value, _ in SYMBOL.iter_unpack(data[section[4] : section[4] + section[5]]):
                if name_at in places:
                    found[places[name_at]] = value
        return found


class Running(NamedTuple):
    """A process that runs in a guest: its name, as the kernel cuts it, and whether a user's rights are all it has."""

    name: str
    is_users: bool


class GuestMemory:
    """Reads the memory of a running guest until it is closed."""

    def __init__(self, pid: int, image: Path) -> None:
        """Take the kernel's process and the program that it runs.

        Raises:
            OSError: its memory may not be read.
            ValueError: it is not a kernel with a clock of its own.
        """
        places = symbols(image, (*NEEDED, ROOT, PAGES))
        if missing := [name for name in NEEDED if name not in places]:
            raise ValueError(f"{image} has no symbol {missing[0]}")
        self._clock, self._current, self._pages = places[CLOCK], places[CURRENT], places.get(PAGES)
        self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        # The first task has a known name: where that stands in its structure, other tasks have theirs.
        first = os.pread(self._file, TASK_BYTES, places[FIRST_TASK])
        name = FIRST_NAME.search(first)
        self._name_at = None if name is None else name.start()
        # So have its credentials, which stand before it.
        self._cred_at: int | None = None
        if name is not None and ROOT in places:
            at = first.rfind(POINTER.pack(places[ROOT]), 0, name.start())
            self._cred_at = None if at < 0 else at

    def close(self) -> None:
        """Close the memory."""
        os.close(self._file)

    def time_ns(self) -> int:
        """Nanoseconds since the guest was booted, in its own time.

        Raises:
            OSError: it has ended.
        """
        return int(POINTER.unpack(os.pread(self._file, POINTER.size, self._clock))[0])

    def file_bytes(self) -> int | None:
        """Memory that holds what files hold, programs among them, and that can be given away; None if unknown.

        Raises:
            OSError: it has ended.
        """
        if self._pages is None:
            return None
        return int(sum(FILE_PAGES.unpack(os.pread(self._file, FILE_PAGES.size, self._pages)))) * PAGE_BYTES

    def running(self) -> Running | None:
        """The process that runs inside right now; None if that is unknown."""
        if self._name_at is None:
            return None
        # A pointer to the task for each processor; in older kernels a pid stands before it.
        for at in (self._current, self._current + POINTER.size):
            try:
                task = self._pointer(at)
                name = os.pread(self._file, NAME_BYTES, task + self._name_at).split(b"\0")[0]
                if name.isascii() and name.decode().isprintable() and name:
                    return Running(name.decode(), self._is_users(task))
            except (OSError, struct.error, OverflowError):
                continue
        return None

    def _is_users(self, task: int) -> bool:
        if self._cred_at is None:
            return False
        credentials = os.pread(self._file, USERS_AT[-1] + USERS.size, self._pointer(task + self._cred_at))
        # One user and one group, four times: where they stand as well.
        found = [USERS.unpack_from(credentials, at) for at in USERS_AT]
        return any(numbers[0] and numbers == numbers[:2] * 4 for numbers in found)

    def _pointer(self, at: int) -> int:
        return int(POINTER.unpack(os.pread(self._file, POINTER.size, at))[0])
