# SPDX-License-Identifier: Apache-2.0
"""One guest: a User-Mode Linux kernel under its supervisor, and the two pipes that lead into it."""

from __future__ import annotations

import asyncio
import compileall
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType

from narrows import python
from narrows.virtual import guest_memory, guest_supervisor
from narrows.virtual.kernels import Kernel

TAIL_BYTES = 8000
PANIC = "Kernel panic"
KILLED_FOR_MEMORY = re.compile(rb"Out of memory: Killed process \d+ \((.*?)\) ")  # mm/oom_kill.c
START_S = 1_767_225_600  # 2026-01-01T00:00:00Z
START_NS = START_S * 1_000_000_000
EVENT_BYTES = 1 << 20


def compile_modules() -> None:
    """Make the bytecode of our own modules where it is missing; installers have done so for others.

    A guest that had to would allocate other memory than the next one, and what pages a kernel finds has a say in what
    TCP does: two runs with one seed would differ.
    """
    for package in python.OWN:
        compileall.compile_dir(package, quiet=2)


def command_line(kernel: Kernel, memory_bytes: int, init: Sequence[str]) -> list[str]:
    """The words that boot a guest; the same in every run, because older kernels make random numbers of them.

    Args:
        kernel: what is booted.
        memory_bytes: the guest's memory.
        init: its first process.
    """
    program, *arguments = init
    return [
        str(kernel.path),
        f"mem={memory_bytes >> 20}M",
        "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        "time-travel=inf-cpu", f"time-travel-start={START_NS}",
        # Two runs with one seed differ in as little as can be.
        "norandmaps", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1", "random.trust_cpu=off",
        f"PYTHONPATH={python.places()}",
        "seccomp=auto",
        "con=null", "con0=fd:0,fd:1", "con1=fd:{},fd:{}".format(*guest_supervisor.CONTROL),
        "uml_dir=uml",
        "quiet",
        f"init={program}", "--", *arguments,
    ]  # fmt: skip


class Guest:
    """A guest that has been started."""

    def __init__(self, process: asyncio.subprocess.Process, events: asyncio.StreamReader, control: int, log: Path):
        """See `start`."""
        self._process = process
        self._events = events
        self._control = control
        self._log = log
        # Its kernel, from the first time on that it was halted.
        self._kernel: int | None = None
        self._halted = False

    @classmethod
    async def start(cls, kernel: Kernel, memory_bytes: int, init: Sequence[str], cpu: int, directory: Path) -> Guest:
        """Boot a guest on one processor; ``directory`` takes its management files and what it writes on its console.

        Raises:
            InputError: nothing here can hold its memory.
        """
        environment = {**os.environ, "TMPDIR": str(guest_memory.place(memory_bytes))}
        compile_modules()
        control_in, control_out = os.pipe()
        events_in, events_out = os.pipe()
        log = directory / "console.log"
        command = command_line(kernel, memory_bytes, init)
        with log.open("wb") as console:
            process = await asyncio.create_subprocess_exec(
                *python.script(guest_supervisor.__file__),
                str(cpu), str(control_in), str(events_out), str(guest_memory.in_large_pages(memory_bytes)), *command,
                stdin=asyncio.subprocess.PIPE, stdout=console, stderr=console,
                pass_fds=(control_in, events_out), start_new_session=True, env=environment, cwd=directory,
            )  # fmt: skip
        os.close(control_in)
        os.close(events_out)
        reader = asyncio.StreamReader(EVENT_BYTES)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(events_in, "rb"))
        return cls(process, reader, control_out, log)

    async def __aenter__(self) -> Guest:
        """The guest, which ends with the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, and wait until nothing is left of it."""
        self.kill()
        await self.wait()

    async def lines(self) -> AsyncIterator[bytes]:
        """What the guest tells, line by line, until it has ended."""
        while line := await self._events.readline():
            yield line

    @property
    def pid(self) -> int | None:
        """The kernel's process; None if it has ended."""
        return next(iter(guest_supervisor.children(self._process.pid)), None)

    def say(self, word: str) -> None:
        """Send a line into the guest, which goes on if it was halted."""
        with contextlib.suppress(OSError):
            os.write(self._control, word.encode() + b"\n")
        if self._halted:
            self._halted = False
            self._signal(signal.SIGCONT)

    def halt(self) -> None:
        """Keep it from doing anything, and from taking processor time, until something is said to it."""
        if self._kernel is None and (pid := self.pid) is not None:
            self._kernel = os.pidfd_open(pid)
        self._signal(signal.SIGSTOP)
        self._halted = True

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._kernel is not None:
                signal.pidfd_send_signal(self._kernel, number)

    def kill(self) -> None:
        """End it at once, and everything that belongs to it."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def wait(self) -> int:
        """Wait until nothing is left of it; returns its exit code, or 128 and a signal's number."""
        code = await self._process.wait()
        os.close(self._control)
        if self._kernel is not None:
            os.close(self._kernel)
            self._kernel = None
        return code

    def killed_for_memory(self) -> list[str]:
        """Names of processes that the guest's kernel killed because its memory was full, as `ps` has them."""
        try:
            return [name.decode(errors="replace") for name in KILLED_FOR_MEMORY.findall(self._log.read_bytes())]
        except OSError:
            return []

    def stderr_tail(self) -> str:
        """The end of what the kernel, or a process without another place to write to, has said, for a message."""
        try:
            text = self._log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
        except OSError:
            return ""
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        if panic := [line for line in lines if PANIC in line]:
            # What follows is for the kernel's developers: where it was.
            lines = panic[:1]
        return ":\n" + "\n".join(lines) if lines else ""
