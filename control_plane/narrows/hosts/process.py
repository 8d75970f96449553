# SPDX-License-Identifier: Apache-2.0
"""Processes that a run starts: in a session of their own, recorded before use, stopped by pid."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from narrows.errors import RunError

TAIL_BYTES = 2000


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to a process's start, None if there is none: tells a reused pid from the original."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


class Process:
    """A child process; its stdout is read line by line unless it goes to a file."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, stderr: Path | None) -> None:
        """Wrap a running process; ``name`` and ``stderr`` serve error messages."""
        self._process = process
        self.name = name
        self._stderr = stderr

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for its end and return the exit code."""
        return await self._process.wait()

    async def wait_for_line(self, line: str, timeout: float) -> None:
        """Wait until it prints a line on stdout.

        Raises:
            RunError: it ends first, or ``timeout`` seconds pass.
        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                while read := await self._process.stdout.readline():
                    if read.decode(errors="replace").strip() == line:
                        return
        except TimeoutError:
            raise RunError(f"{self.name} is not '{line}' after {timeout:g} s{self.last_words()}") from None
        code = await self._process.wait()
        raise RunError(f"{self.name} ended with exit code {code} before it was '{line}'{self.last_words()}")

    async def lines(self) -> AsyncIterator[str]:
        """What it prints on stdout, line by line, until it ends."""
        assert self._process.stdout is not None
        while read := await self._process.stdout.readline():
            yield read.decode(errors="replace").strip()

    def last_words(self) -> str:
        """The end of what it wrote on stderr, ready to be put behind a message."""
        if self._stderr is None or not self._stderr.exists():
            return ""
        text = self._stderr.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
        return f":\n{text}" if text else ""

    async def stop(self, grace: float, first: signal.Signals = signal.SIGTERM) -> int:
        """Send ``first``, and SIGKILL after ``grace`` seconds; return the exit code."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(first)
            try:
                async with asyncio.timeout(grace):
                    return await self._process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
        return await self._process.wait()


async def spawn(
    arguments: Sequence[str], name: str, *, stdout: Path | None = None, stderr: Path | None = None
) -> Process:
    """Start a process in its own session, so that Ctrl-C on the terminal reaches only Narrows.

    Raises:
        RunError: the program cannot be started.
    """
    with contextlib.ExitStack() as files:
        out = files.enter_context(stdout.open("wb")) if stdout else asyncio.subprocess.PIPE
        err = files.enter_context(stderr.open("wb")) if stderr else asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
        except OSError as error:
            raise RunError(f"{name}: {arguments[0]} cannot be started: {error.strerror}") from error
    return Process(process, name, stderr)
