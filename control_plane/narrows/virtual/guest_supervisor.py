# SPDX-License-Identifier: Apache-2.0
"""Runs one guest on one processor, and leaves none of its processes behind, whatever becomes of it or of its owner.

Used as ``guest_supervisor.py CPU IN OUT LARGE COMMAND...``: the command finds the file descriptors IN and OUT under
numbers that are the same each time. With LARGE above 0 its TMPDIR has so many bytes in large pages, if this process may
make such a file system in its working directory. A guest is many processes of the host, one for each address space
inside, and not all of them end when its kernel dies. They are all descendants of this process, which adopts those that
lose their parent; it ends them when the kernel has ended, or when standard input says that the owner wants that or is
gone. Only the standard library is used, and little of it: this starts with every run.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# sched.h, sys/mount.h.
CLONE_NEWNS, MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 0x20000, 2, 4, 0x4000, 1 << 18
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128
NOT_STARTED = 127
# File descriptors of the command: out of the way of others, below the usual limit of 1024.
CONTROL = (1000, 1001)
# Where large pages are, in the working directory.
MEMORY = "memory"


def children(parent: int) -> list[int]:
    """Processes whose parent is a process."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(path.name))
    return found


def end_all(found: dict[int, int]) -> None:
    """End all descendants: what a process leaves when it ends becomes a child of this one.

    Args:
        found: takes the wait status of each by its pid.
    """
    while True:
        for pid in children(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        found[pid] = status


def make_large_pages(size: int) -> Path | None:
    """Make a directory of ``size`` bytes in large pages, which this process and its children alone see.

    None where that is not allowed: a guest in small pages is slower, and the same otherwise.
    """
    system = ctypes.CDLL(None)
    directory = Path(MEMORY).absolute()
    if system.unshare(CLONE_NEWNS) or system.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        return None
    directory.mkdir()
    options = f"huge=within_size,size={size},mode=700".encode()
    failed = system.mount(b"narrows", bytes(directory), b"tmpfs", MS_NOSUID | MS_NODEV, options)
    return None if failed else directory


def start(cpu: int, control: tuple[int, int], large: int, command: list[str]) -> int:
    """Start a command on one processor, with these as its `CONTROL`; it ends when this process does."""
    os.sched_setaffinity(0, {cpu})
    ours = os.getpid()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != ours:
            os._exit(NOT_STARTED)
        for number in IGNORED:
            signal.signal(number, signal.SIG_DFL)
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for own, known in zip(control, CONTROL, strict=True):
                os.dup2(own, known)
            if large and (directory := make_large_pages(large)):
                os.environ["TMPDIR"] = str(directory)
            os.execv(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_STARTED)
    return pid


def main() -> int:
    """Keep the guest; returns its exit code, or 128 and the number of the signal that ended it."""
    # An interruption at the terminal is the owner's to handle.
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    cpu, control_in, control_out, large = (int(word) for word in sys.argv[1:5])
    guest = start(cpu, (control_in, control_out), large, sys.argv[5:])
    # Whatever comes from the owner, a word or its end, means the end of the guest.
    select.select([os.pidfd_open(guest), 0], [], [])
    statuses: dict[int, int] = {}
    end_all(statuses)
    code = os.waitstatus_to_exitcode(statuses[guest])
    return code if code >= 0 else SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main())
