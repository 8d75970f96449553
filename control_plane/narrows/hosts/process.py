# SPDX-License-Identifier: Apache-2.0
"""Processes that a run starts: in a session of their own, recorded before use, stopped by pid."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from narrows.errors import RunError

TAIL_BYTES = 2000
LONGEST_LINE = 64 << 20
CLONE_NEWPID = 0x20000000  # linux/sched.h
PR_SET_PDEATHSIG = 1  # linux/prctl.h
PF_EXITING = 0x4  # linux/sched.h

# Makes a process as `subprocess.Popen` does.
Launch = Callable[..., "subprocess.Popen[bytes]"]

Stream = TypeVar("Stream")


def piped(stream: Stream | None) -> Stream:
    """The end of a pipe that a process was started with.

    Raises:
        ValueError: it was started without.
    """
    if stream is None:
        raise ValueError("the process was started without a pipe; allowed: one of its own")
    return stream


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to a process's start, None if there is none: tells a reused pid from the original."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def only_waits_for_children(pid: int) -> bool:
    """Whether a process has ended but for being the first of a PID namespace, in which zombies wait for their parents.

    It ends when others have cleared these away, if ever; it runs nothing and holds nothing any more.
    """
    try:
        state, flags = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:7:6]
    except (OSError, ValueError):
        return False
    return state == "S" and bool(int(flags) & PF_EXITING)


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has used so far, all of its threads together; 0 if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waits_for_disk(pid: int) -> bool:
    """Whether a thread of a process is in an uninterruptible wait, as for a disk."""
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[0] == "D":
                return True
    return False


def end_with(parent: int) -> None:
    """This process is killed when ``parent``, which started it, ends, and at once if it has ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


class ProcessNamespace:
    """A PID namespace: when its first process ends, the kernel kills everything that was ever started in it.

    It ends with the process that made it, however that ends. A daemon can leave its session and its parent, and may
    make a network namespace of its own, but it cannot leave this namespace.
    """

    def __init__(self) -> None:
        """Make it, and its first process, which does nothing.

        Raises:
            RunError: the kernel refuses.
        """
        # What a thread has unshared holds for the processes that it starts, and this one starts no threads.
        self._thread = ThreadPoolExecutor(1)
        self._launched: list[subprocess.Popen[bytes]] = []
        self._first = self._thread.submit(self._begin).result()

    @property
    def pid(self) -> int:
        """Its first process."""
        return self._first.pid

    def launch(self, arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """`subprocess.Popen` inside."""
        process = self._thread.submit(lambda: subprocess.Popen(arguments, **options)).result()
        self._launched.append(process)
        return process

    def close(self) -> None:
        """End all that runs inside."""
        self._first.kill()
        # The first process has ended only when nothing is left inside, not even a zombie, and these are our children.
        for process in (*self._launched, self._first):
            process.wait()
        self._thread.shutdown()

    @staticmethod
    def _begin() -> subprocess.Popen[bytes]:
        library = ctypes.CDLL(None, use_errno=True)
        if library.unshare(CLONE_NEWPID) != 0:
            raise RunError(f"no PID namespace can be made: {os.strerror(ctypes.get_errno())}")

        def before() -> None:
            # Orphans become its children: with this signal ignored the kernel clears them away.
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            # Its maker may be killed, and nothing inside may outlive it.
            library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            ["sleep", "infinity"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, preexec_fn=before
        )


class Process:
    """A child process; its stdout is read line by line unless it goes to a file."""

    def __init__(
        self, process: subprocess.Popen[bytes], stdout: asyncio.StreamReader | None, name: str, stderr: Path | None
    ) -> None:
        """Wrap a running process; ``name`` and ``stderr`` serve error messages."""
        self._process = process
        self._stdout = stdout
        self.name = name
        self._stderr = stderr
        self._ended = asyncio.get_running_loop().create_future()
        self._handle = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._handle, self._note_end)

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
        # Who waits may be cancelled, and others still wait.
        return await asyncio.shield(self._ended)

    async def wait_for_line(self, line: str, timeout: float) -> None:
        """Wait until it prints a line on stdout.

        Raises:
            RunError: it ends first, or ``timeout`` seconds pass.
        """
        try:
            async with asyncio.timeout(timeout):
                while read := await piped(self._stdout).readline():
                    if read.decode(errors="replace").strip() == line:
                        return
        except TimeoutError:
            raise RunError(f"{self.name} is not '{line}' after {timeout:g} s{self.stderr_tail()}") from None
        code = await self.wait()
        raise RunError(f"{self.name} ended with exit code {code} before it was '{line}'{self.stderr_tail()}")

    async def next_line(self, timeout: float) -> str:
        """The next line that it prints on stdout.

        Raises:
            RunError: it ends first, or ``timeout`` seconds pass.
        """
        try:
            async with asyncio.timeout(timeout):
                read = await piped(self._stdout).readline()
        except TimeoutError:
            raise RunError(f"{self.name} has written nothing for {timeout:g} s{self.stderr_tail()}") from None
        if not read:
            raise RunError(f"{self.name} ended with exit code {await self.wait()}{self.stderr_tail()}")
        return read.decode(errors="replace").strip()

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it has not ended."""
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def lines(self) -> AsyncIterator[str]:
        """What it prints on stdout, line by line, until it ends."""
        while read := await piped(self._stdout).readline():
            yield read.decode(errors="replace").strip()

    def stderr_tail(self) -> str:
        """The end of what it wrote on stderr, ready to be put behind a message."""
        if self._stderr is None or not self._stderr.exists():
            return ""
        text = self._stderr.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip()
        return f":\n{text}" if text else ""

    async def stop(self, grace: float, first: signal.Signals = signal.SIGTERM) -> int:
        """Send ``first``, and SIGKILL after ``grace`` seconds; return the exit code."""
        if self._process.returncode is None:
            self._process.send_signal(first)
            try:
                async with asyncio.timeout(grace):
                    return await self.wait()
            except TimeoutError:
                self._process.kill()
        return await self.wait()

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self._ended.set_result(self._process.wait())


async def spawn(
    arguments: Sequence[str],
    name: str,
    *,
    stdout: Path | None = None,
    stderr: Path | None = None,
    launch: Launch = subprocess.Popen,
    inherited: Sequence[int] | None = None,
) -> Process:
    """Start a process in its own session, so that Ctrl-C on the terminal reaches only Narrows.

    With ``inherited``, descriptors that it is to have too, it stays in our session, whose terminal it can use; a
    process group of its own keeps Ctrl-C from it then.

    Raises:
        RunError: the program cannot be started.
    """
    place: dict[str, Any] = {"start_new_session": True}
    if inherited is not None:
        place = {"process_group": 0, "pass_fds": tuple(inherited)}
    with contextlib.ExitStack() as files:
        try:
            out = files.enter_context(stdout.open("wb")) if stdout else subprocess.PIPE
            err = files.enter_context(stderr.open("wb")) if stderr else subprocess.DEVNULL
            process = launch(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                **place,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
        except OSError as error:
            raise RunError(f"{name} cannot be started: {error.filename or arguments[0]}: {error.strerror}") from error
    reader = None
    if process.stdout is not None:
        reader = asyncio.StreamReader(LONGEST_LINE)
        pipe = process.stdout
        try:
            await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        except BaseException:
            # Interrupted before the caller could record the process.
            process.kill()
            process.wait()
            raise
    return Process(process, reader, name, stderr)
