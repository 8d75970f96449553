# SPDX-License-Identifier: Apache-2.0
"""What runs a user's program on a host, and everything that comes of it: as another user, supervised, to its end.

Used as ``program.py SPECIFICATION``, started by root or by the user who is to run the program. It prints
a `ProgramEvent` a line. Output of the program goes to files, up to a limit. SIGTERM ends the program; whatever it has
left behind is killed when it ends.
Only the standard library is used.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import wire
    from narrows.onhost.payload import Payload
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import wire
    from payload import Payload

if TYPE_CHECKING:
    from typing import IO, Any, Literal

LIBRARY = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
CLONE_NEWUSER = 0x10000000  # linux/sched.h
POLL_S = 0.005
# A process is made that long before its program's time, at which nothing is left to do but to execute it.
AHEAD_S = 0.2
LOOK_S = 0.05
CHUNK = 1 << 16
KILL_S = 5.0
# Of what a program may have of processes: enough for a browser, too few to bring a machine down.
MOST_PROCESSES = 4096
LISTENS = "0A"  # TCP_LISTEN of /proc/net/tcp
FIRST_LINE = 256  # BINPRM_BUF_SIZE of linux/binfmts.h: what Linux reads of a script


@dataclass(frozen=True)
class Program(Payload):
    """Programs that make a flow: the words of each, placeholders not replaced yet (`narrows.flows.program`).

    The server is ready when something listens at port ``tcp`` or is bound to ``udp``, or when it has printed ``line``;
    with none of them, at the flow's own port. ``sends`` is at the flow's sender.
    """

    kind = "application"
    made_by = "program"
    protocol = None
    match_by_host_pair = "a program"
    is_program = True
    client: tuple[str, ...]
    server: tuple[str, ...] | None
    tcp: int | None
    udp: int | None
    line: str | None
    sends: Literal["server", "client"]
    timeout_ns: int
    env: tuple[tuple[str, str], ...]
    cwd: str | None

    @property
    def sender_opens(self) -> bool:
        """See `Payload.sender_opens`: as programs do that serve, or send as a client."""
        return self.sends == "client"

    @property
    def directories(self) -> tuple[str, ...]:
        """See `Payload.directories`."""
        programs = [words[0] for words in (self.client, self.server or ("",))]
        places = [os.path.dirname(program) for program in programs if program.startswith("/")]  # noqa: PTH120
        return (*places, *([] if self.cwd is None else [self.cwd]))

    @property
    def server_ports(self) -> tuple[int, ...]:
        """See `Payload.server_ports`."""
        return tuple(port for port in (self.tcp, self.udp) if port is not None)


@wire.message
@dataclass
class ProgramSpecification:
    """A program to be run as a ``user`` (its number and its group's) with further ``groups``.

    With ``mapped`` the machine's root has started us in a user namespace. It is ready when its output has a line, or
    when something is bound to one of the ``ready_ports`` (protocol and port); None: it need not be. ``origin`` is the
    file of the experiment's start, None: it begins at once. With ``stays`` it may go into the background.
    """

    words: list[str]
    env: dict[str, str]
    cwd: str
    user: tuple[int, int]
    mapped: bool
    groups: list[int]
    origin: str | None
    start_s: float
    duration_s: float | None
    ready_line: str | None
    ready_ports: list[tuple[str, int]] | None
    stays: bool
    grace_s: float
    limit_bytes: int
    stdout: str
    stderr: str

    @property
    def is_awaited(self) -> bool:
        """Whether others wait until it is ready."""
        return self.ready_line is not None or self.ready_ports is not None


@dataclass(frozen=True)
class ProgramEvent:
    """What became of a program."""


@wire.message
@dataclass(frozen=True)
class ProgramReady(ProgramEvent):
    """It is ready."""


@wire.message
@dataclass(frozen=True)
class ProgramStarted(ProgramEvent):
    """It began, at a time on this host's monotonic clock."""

    at_s: float


@wire.message
@dataclass(frozen=True)
class ProgramFailure(ProgramEvent):
    """It could not be started."""

    why: str


@wire.message
@dataclass(frozen=True)
class Outcome:
    """How a program ended, as run.json has it.

    Signal or exit code; whether it was stopped, and killed as it did not end; processes that it left.
    """

    exit_code: int | None
    signal: str | None
    stopped: bool
    killed: bool
    left_processes: int
    cpu_s: float
    stdout_bytes: int
    stderr_bytes: int


@wire.message
@dataclass(frozen=True)
class ProgramEnded(ProgramEvent):
    """It ended, at a time on this host's monotonic clock."""

    at_s: float
    outcome: Outcome


@wire.message
@dataclass(frozen=True)
class ProgramSuspended(ProgramEvent):
    """A signal has stopped it, until it is continued by whoever has its terminal."""

    by: str


def say(event: ProgramEvent) -> None:
    """One event."""
    print(wire.dumps(event), flush=True)


def own_processes() -> None:
    """See the processes of this process namespace in /proc, and inherit those whose parents end."""
    LIBRARY.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if (
        str(Path("/proc/self").readlink()) != str(os.getpid())
        and LIBRARY.mount(b"proc", b"/proc", b"proc", 0, None) != 0
    ):
        raise OSError(ctypes.get_errno(), "/proc cannot be mounted")


def descendants() -> list[int]:
    """All that has come of this process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat") as file:  # noqa: PTH123
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    following = [os.getpid()]
    while following:
        own = children.get(following.pop(), [])
        found += own
        following += own
    return found


def interpreter(path: str) -> list[str]:
    """The interpreter that the first line of a script names, and its argument; empty if the file is none."""
    if not os.path.isfile(path):  # noqa: PTH113
        return []
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            line = file.read(FIRST_LINE).partition(b"\n")[0]
    except OSError:
        return []
    # Another blank, as the '\r' of a text from elsewhere, belongs to the name.
    words = re.split(rb"[ \t]+", line[2:].strip(b" \t"), maxsplit=1)
    return [os.fsdecode(word) for word in words if word] if line.startswith(b"#!") else []


def why_not(program: str, error: OSError) -> str:
    """What is wrong where a program cannot be executed: Linux says of a file that is there that there is none."""
    if error.filename not in (None, program):
        return f"{error.filename}: {error.strerror}"
    if error.errno == errno.ENOENT and os.path.isfile(program):  # noqa: PTH113
        words = interpreter(program)
        missing = f"its interpreter (#!) {words[0]!r}" if words else "the loader that it was linked for"
        return f"{error.strerror}: {missing}"
    return f"{error.strerror}"


def listens(protocol: str, port: int) -> bool:
    """Whether a socket of this host is bound to a port; of TCP, whether it listens."""
    for version in ("", "6"):
        try:
            with open(f"/proc/net/{protocol}{version}") as file:  # noqa: PTH123
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            if int(row[1].rpartition(":")[2], 16) == port and (protocol == "udp" or row[3] == LISTENS):
                return True
    return False


class Supervisor:
    """One program from its start to the end of all that came of it."""

    first_signal = signal.SIGTERM
    """What asks a program to end."""
    asks_again = False
    """Whether it is asked until it has ended; to some programs a second signal says not to tidy up."""

    def __init__(self, spec: ProgramSpecification) -> None:
        """Take what is to be run."""
        self._spec = spec
        self._poll = selectors.DefaultSelector()
        self._files: dict[str, tuple[IO[bytes], IO[bytes]]] = {}
        self._bytes = {"stdout": 0, "stderr": 0}
        self._tail = b""
        self._asked_to_stop_s: float | None = None
        self._killed = False
        self._left = 0
        self._pid = 0
        self._status: int | None = None
        self._cpu_s = 0.0
        self._at_s = 0.0
        self._asked_to_end = False
        woken, self._wake = os.pipe()
        for end in (woken, self._wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake)
        self._poll.register(woken, selectors.EVENT_READ, "wake")
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def stop(self) -> None:
        """End the program."""
        if self._asked_to_stop_s is None:
            self._asked_to_stop_s = time.monotonic()

    def run(self) -> None:
        """Wait for the time, run the program, and tell what became of it."""
        if not self._wait_for_start():
            return
        try:
            self._start()
        except OSError as error:
            say(ProgramFailure(f"{self._spec.words[0]} cannot be started: {why_not(self._spec.words[0], error)}"))
            return
        started = time.monotonic()
        say(ProgramStarted(started))
        until = None if self._spec.duration_s is None else started + self._spec.duration_s
        status = self._serve(until)
        ended = time.monotonic()
        self._kill_all()
        self._drain()
        signalled = os.WIFSIGNALED(status)
        outcome = Outcome(
            exit_code=None if signalled else os.WEXITSTATUS(status),
            signal=signal.Signals(os.WTERMSIG(status)).name if signalled else None,
            stopped=self._asked_to_stop_s is not None,
            killed=self._killed,
            left_processes=self._left,
            cpu_s=self._cpu_s,
            stdout_bytes=self._bytes["stdout"],
            stderr_bytes=self._bytes["stderr"],
        )
        say(ProgramEnded(ended, outcome))

    def _wait_for_start(self) -> bool:
        """Until the experiment's start and the program's own time after it; False if it was stopped before."""
        if self._spec.origin is None:
            return True
        t0_s = wire.wait_for_origin(Path(self._spec.origin), lambda: self._asked_to_stop_s is not None)
        if t0_s is None:
            return False
        self._at_s = t0_s + self._spec.start_s
        while (left := self._at_s - AHEAD_S - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_S))
            if self._asked_to_stop_s is not None:
                return False
        return True

    def _start(self) -> None:
        process = self._popen(self._at_s)
        self._pid = process.pid
        # It is waited for here, with all that it leaves.
        process.returncode = 0
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._files[name] = (pipe, open(getattr(self._spec, name), "wb", buffering=0))  # noqa: PTH123, SIM115
                self._poll.register(pipe, selectors.EVENT_READ, name)

    def _popen(self, at_s: float) -> subprocess.Popen[bytes]:
        """Have the program executed at its time."""
        spec = self._spec

        def limit() -> None:
            self._become_user()
            most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
            bound = MOST_PROCESSES if most == resource.RLIM_INFINITY else min(MOST_PROCESSES, most)
            resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            time.sleep(max(0.0, at_s - time.monotonic()))

        return subprocess.Popen(
            spec.words, cwd=spec.cwd, env=spec.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, preexec_fn=limit, **self._user(),
        )  # fmt: skip

    def _user(self) -> dict[str, Any]:
        """The arguments of `subprocess.Popen` that make the program's user."""
        if os.geteuid() != 0 or self._spec.mapped:
            return {}
        return {"user": self._spec.user[0], "group": self._spec.user[1], "extra_groups": self._spec.groups}

    def _become_user(self) -> None:
        """In a user namespace, have the number that is that user's outside, and nothing of its root's."""
        if self._spec.mapped:
            if LIBRARY.unshare(CLONE_NEWUSER) != 0:
                raise OSError(ctypes.get_errno(), "no user namespace can be made")
            Path("/proc/self/setgroups").write_text("deny")
            for kind, number in zip(("uid", "gid"), self._spec.user, strict=True):
                Path(f"/proc/self/{kind}_map").write_text(f"{number} 0 1")

    def _serve(self, until: float | None) -> int:
        """Until the program has ended, and of a server its children, or until it was killed; returns its status."""
        is_ready = not self._spec.is_awaited
        while True:
            now = time.monotonic()
            if until is not None and now >= until:
                self.stop()
            if self._asked_to_stop_s is not None:
                self._end(now - self._asked_to_stop_s)
            # The end of what is to end wakes this process, which must sleep meanwhile: else no time passes in a guest.
            wait = LOOK_S
            if self._asked_to_stop_s is None and until is not None:
                wait = min(LOOK_S, until - now)
            elif self._asked_to_stop_s is None and is_ready:
                wait = 3600.0
            for key, _ in self._poll.select(POLL_S if not is_ready else wait):
                self._take(key.data, key.fd)
            self._reap()
            if not is_ready and self._is_ready():
                is_ready = True
                say(ProgramReady())
            # A server may have gone into the background.
            stays = self._spec.stays and self._status == 0 and self._asked_to_stop_s is None and descendants()
            if self._status is not None and not stays:
                return self._status

    def _is_ready(self) -> bool:
        if self._spec.ready_line is not None:
            return self._spec.ready_line.encode() in self._tail
        return any(listens(protocol, port) for protocol, port in self._spec.ready_ports or ())

    def _end(self, asked_s: float) -> None:
        """Ask the program to end, and kill it if it does not, ``asked_s`` after it was asked first."""
        number = self.first_signal
        if asked_s > self._spec.grace_s:
            number, self._killed = signal.SIGKILL, True
        elif self._asked_to_end and not self.asks_again:
            return
        self._asked_to_end = True
        for pid in descendants():
            _kill(pid, number)
            # A suspended one must get it too.
            _kill(pid, signal.SIGCONT)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                if pid == self._pid:
                    self._note_stop(os.WSTOPSIG(status))
                continue
            self._cpu_s += used.ru_utime + used.ru_stime
            if pid == self._pid:
                self._status = status

    def _note_stop(self, number: int) -> None:
        """The program has been suspended; no user is at a terminal to continue it."""

    def _kill_all(self) -> None:
        """End what the program has left. Stopped first: what is stopped makes no more of them."""
        deadline = time.monotonic() + KILL_S
        while (left := descendants()) and time.monotonic() < deadline:
            self._left = max(self._left, len(left))
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in left:
                    _kill(pid, number)
            self._reap()
            time.sleep(POLL_S)
        self._reap()

    def _take(self, name: str, number: int) -> bool:
        """Take what a pipe has; returns whether there was something."""
        try:
            data = os.read(number, CHUNK)
        except BlockingIOError:
            return False
        if name == "wake":
            return bool(data)
        pipe, file = self._files[name]
        if not data:
            self._poll.unregister(pipe)
            return False
        room = self._spec.limit_bytes - self._bytes[name]
        if room > 0:
            file.write(data[:room])
        self._bytes[name] += len(data)
        if self._spec.is_awaited:
            self._tail = (self._tail + data)[-CHUNK:]
        return True

    def _drain(self) -> None:
        for name, (pipe, file) in self._files.items():
            if pipe in self._poll.get_map():
                while self._take(name, pipe.fileno()):
                    pass
            file.close()


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    own_processes()
    Supervisor(wire.loads(Path(sys.argv[1]).read_text())).run()
