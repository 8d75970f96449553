# SPDX-License-Identifier: Apache-2.0
"""Flows that programs of users make: their clients and servers, run on the flows' hosts and supervised."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from narrows_formats import beneath
from narrows_formats.units import NANOSECONDS

from narrows import python
from narrows.errors import RunError
from narrows.experiment.plan import Flow, Plan
from narrows.flows.program import fill
from narrows.hosts.base import Testbed
from narrows.hosts.process import Process
from narrows.hosts.users import APPLICATION_ID, User, in_user_namespace, invoking_user
from narrows.onhost import program as on_host
from narrows.onhost import wire
from narrows.onhost.program import Outcome, Program, ProgramEnded, ProgramSpecification
from narrows.search_path import SEARCH_PATH
from narrows.traffic.connection import Connection
from narrows.traffic.generator import GRACE_S, Generator

READY_S = 20.0
END_GRACE_S = 3.0
# What is kept of each output of a program, and of the files that it makes.
MOST_OUTPUT_BYTES, MOST_FILES_BYTES, MOST_FILES = 10 << 20, 100 << 20, 1000
TAIL_BYTES = 400
ROLES = ("server", "client")


@dataclass
class ApplicationConnection(Connection):
    """All that a program sends, as run.json tells of it; ``programs`` is what became of client and server."""

    programs: dict[str, dict[str, object]] = field(default_factory=dict)
    user: User = field(default_factory=invoking_user)

    def as_json(self) -> dict[str, object]:
        """See `Connection.as_json`."""
        became = {"user": self.user.uid, "group": self.user.gid, **self.programs, "notes": self.notes}
        return super().as_json() | {
            "application": {**became, "files": f"hosts/{self.flow.name}"},
        }


def user_programs(plan: Plan) -> dict[str, Path]:
    """Programs of a plan by their paths, with the script where one is run: the first argument that is a file."""
    found = [Path(program) for program, _, _ in _commands(plan) if program]
    found += [path for _, arguments, cwd in _commands(plan) for path in _files(arguments, cwd)[:1]]
    return {str(path): path for path in sorted(set(found))}


def user_files(plan: Plan) -> dict[str, Path]:
    """Other files that command lines of a plan name, by their paths: some are read, and some may be written."""
    found = {path for _, arguments, cwd in _commands(plan) for path in _files(arguments, cwd)[1:]}
    return {str(path): path for path in sorted(found)}


def _commands(plan: Plan) -> Iterator[tuple[str | None, tuple[str, ...], str | None]]:
    """The program's file, arguments and working directory of each command of a plan."""
    for payload in (flow.payload for flow in plan.flows):
        if isinstance(payload, Program):
            for _, (program, *arguments) in words_of(payload):
                yield _find(program, payload), tuple(arguments), payload.cwd
    for own in (one for one in plan.programs if one.controller):
        program, *arguments = own.controller
        yield find(program, SEARCH_PATH), tuple(arguments), str(own.cwd)


def _files(arguments: Sequence[str], cwd: str | None) -> list[Path]:
    """Files that arguments name."""
    return [path for path in named_paths(arguments, cwd) if os.path.isfile(path)]  # noqa: PTH113


def named_paths(arguments: Sequence[str], cwd: str | None) -> list[Path]:
    """Paths that arguments may be, `--option=FILE` too; without a ``cwd`` a program begins in an empty directory."""
    names = [name for word in arguments for name in (word, word.partition("=")[2]) if name]
    return [Path(cwd or "/", name) for name in names if cwd or name.startswith("/")]


def words_of(application: Program) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Client and server of a flow, by their roles."""
    yield "client", application.client
    if application.server is not None:
        yield "server", application.server


def program_of(flow: Flow) -> Program:
    """The payload of a flow that programs make."""
    return cast("Program", flow.payload)


def _find(program: str, application: Program) -> str | None:
    return find(program, search_path_of(application))


def search_path_of(application: Program) -> str:
    """The directories in which a program is searched for, and in which it searches for others."""
    return dict(application.env).get("PATH", SEARCH_PATH)


def find(program: str, path: str) -> str | None:
    """The file of a program that directories, separated by colons, are searched for; None if it is not there."""
    return shutil.which(program, path=path)


def tail_of(*outputs: Path) -> str:
    """The end of the first output that has any text, ready to be put behind a message."""
    for output in outputs:
        with contextlib.suppress(OSError):
            if text := output.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip():
                return f":\n{text}"
    return ""


class Applications(Generator):
    """Each program under a supervisor of its own (`narrows.onhost.program`) on its host."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        self._supervisors: dict[tuple[str, str], Process] = {}
        self._readers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._ready: dict[str, asyncio.Future[None]] = {}
        self._programs: dict[str, dict[str, dict[str, object]]] = {flow.name: {} for flow in flows}
        self._notes: dict[str, list[str]] = {flow.name: [] for flow in flows}
        self._user = invoking_user()

    @property
    def lead_s(self) -> float:
        """See `Generator.lead_s`."""
        return self._testbed.lead_s

    async def _prepare(self) -> None:
        for flow in self._flows.values():
            self._make_directory(flow)
            if (server := program_of(flow).server) is not None:
                self._ready[flow.name] = asyncio.get_running_loop().create_future()
                await self._spawn(flow, "server", server)
                try:
                    async with asyncio.timeout(READY_S):
                        await self._ready[flow.name]
                except TimeoutError:
                    said = self._stderr_tail(flow, "server")
                    raise RunError(f"flow {flow.name}: its server is not ready after {READY_S:g} s{said}") from None
            await self._spawn(flow, "client", program_of(flow).client)

    def _make_directory(self, flow: Flow) -> None:
        (self._results / flow.name).mkdir()
        directory = self._directory(flow)
        directory.mkdir(mode=0o700)
        if os.geteuid() == 0 and not in_user_namespace():
            os.chown(directory, *self._user)

    def _directory(self, flow: Flow) -> Path:
        """The flow's own directory: results are out of an ordinary user's reach until they are whole."""
        return self._testbed.state_dir / flow.name

    async def _spawn(self, flow: Flow, role: str, words: Sequence[str]) -> None:
        name = f"{flow.name}-{role}"
        host = self._host(flow, role)
        specification = wire.dumps(self._specification(flow, role, words))
        path = await self._testbed.put(host, f"{name}.json", specification, private=True)
        errors = self._testbed.state_dir / f"{name}.err"
        process = await self._launch(flow, role, path, errors)
        self._supervisors[flow.name, role] = process
        self._readers[flow.name, role] = asyncio.create_task(self._read(flow, role, process))

    async def _launch(self, flow: Flow, role: str, specification: str, errors: Path) -> Process:
        """Start a program's supervisor on its host."""
        script = python.script(on_host.__file__, specification)
        return await self._testbed.spawn(self._host(flow, role), script, stderr=errors)

    def _host(self, flow: Flow, role: str) -> str:
        return flow.sender if role == program_of(flow).sends else flow.receiver

    def _specification(self, flow: Flow, role: str, words: Sequence[str]) -> ProgramSpecification:
        """What a supervisor is to do (`narrows.onhost.program.Supervisor`)."""
        application = program_of(flow)
        values = self._placeholders(flow)
        directory = str(self._directory(flow))
        own = {"PATH": SEARCH_PATH, "HOME": directory, "TMPDIR": directory, "LC_ALL": "C.UTF-8"}
        serves = role == "server"
        return ProgramSpecification(
            words=[_find(words[0], application) or words[0], *(fill(word, values) for word in words[1:])],
            env=own | {name: fill(value, values) for name, value in application.env},
            cwd=application.cwd or directory,
            user=self._user,
            mapped=in_user_namespace(),
            groups=[APPLICATION_ID] if self._plan.in_guest else [],
            origin=None if serves else str(self._origin_file(flow)),
            start_s=flow.start_ns / NANOSECONDS,
            duration_s=None if serves or flow.duration_ns is None else flow.duration_ns / NANOSECONDS,
            ready_line=application.line if serves else None,
            ready_ports=_ready_ports(flow) if serves and application.line is None else None,
            stays=serves,
            grace_s=END_GRACE_S,
            limit_bytes=MOST_OUTPUT_BYTES,
            stdout=str(self._output(flow, role, "stdout")),
            stderr=str(self._output(flow, role, "stderr")),
        )

    def _placeholders(self, flow: Flow) -> dict[str, str]:
        ends = (flow.src, flow.dst) if program_of(flow).sends == "server" else (flow.dst, flow.src)
        return {
            "server": ends[0],
            "client": ends[1],
            "port": str(flow.dst_port),
            "duration": "" if flow.duration_ns is None else str(flow.duration_ns // NANOSECONDS),
            "seed": str(self._plan.seed),
            "dir": str(self._directory(flow)),
        }

    def _origin_file(self, flow: Flow) -> Path:
        return self._testbed.state_dir / f"{flow.name}.application-origin"

    def _output(self, flow: Flow, role: str, name: str) -> Path:
        return self._results / flow.name / f"{role}.{name}"

    async def _read(self, flow: Flow, role: str, process: Process) -> None:
        """Take in what a supervisor says, until its end."""
        ended = False
        async for line in process.lines():
            try:
                event = wire.loads(line)
            except ValueError:  # the last line of one that was killed
                continue
            if isinstance(event, on_host.ProgramReady):
                # One that is ready too late has been given up.
                if not self._ready[flow.name].done():
                    self._ready[flow.name].set_result(None)
            elif isinstance(event, on_host.ProgramFailure):
                ended = True
                self._give_up(flow, f"its {role} {event.why}")
            elif isinstance(event, on_host.ProgramStarted) and role == "client":
                self._began(flow, event.at_s - self._t0_s)
            elif isinstance(event, on_host.ProgramSuspended):
                self._suspended(process)
            elif isinstance(event, ProgramEnded):
                ended = True
                self._ended(flow, role, event)
        if not ended and not self._ends[flow.name].done():
            self._give_up(flow, f"the supervisor of its {role} ended{process.stderr_tail()}")

    def _began(self, flow: Flow, started_s: float) -> None:
        self._found[flow.name][0] = ApplicationConnection(
            flow, 0, started_s, programs=self._programs[flow.name], user=self._user, notes=self._notes[flow.name]
        )

    def _suspended(self, supervisor: Process) -> None:
        """A program has been stopped, to be continued by who has its terminal."""

    def _ended(self, flow: Flow, role: str, event: ProgramEnded) -> None:
        """Note what became of a program; one that failed is a failed flow."""
        words = dict(words_of(program_of(flow)))[role]
        ended_s, outcome = event.at_s - self._t0_s, event.outcome
        self._programs[flow.name][role] = {"command": list(words), **vars(outcome)}
        self._notes[flow.name] += _remarks(role, outcome)
        if role == "client" and 0 in self._found[flow.name]:
            self._found[flow.name][0].ended_s = ended_s
        if self._has_failed(role, outcome):
            how = outcome.signal or f"exit code {outcome.exit_code}"
            self._give_up(flow, f"its {role} ({words[0]}) ended with {how}{self._stderr_tail(flow, role)}")
        elif role == "client":
            if not self._ends[flow.name].done():
                self._ends[flow.name].set_result(None)
        elif not self._ready[flow.name].done():
            self._give_up(flow, f"its server ({words[0]}) ended before it was ready{self._stderr_tail(flow, role)}")

    def _has_failed(self, role: str, outcome: Outcome) -> bool:
        """Whether a program that has ended so is a failed flow."""
        return not outcome.stopped and bool(outcome.exit_code or outcome.signal)

    def _give_up(self, flow: Flow, why: str) -> None:
        self._fail(flow.name, why)
        ready = self._ready.get(flow.name)
        if ready is not None and not ready.done():
            ready.set_exception(RunError(f"flow {flow.name}: {why}"))

    def _stderr_tail(self, flow: Flow, role: str) -> str:
        """The end of what a program wrote, ready to be put behind a message."""
        return tail_of(*(self._output(flow, role, name) for name in ("stderr", "stdout")))

    async def _start(self) -> None:
        for flow in self.flows:
            if not flow.held:
                self._origin_file(flow).write_text(f"{self._t0_s!r}\n")

    async def _release(self, name: str, at_s: float) -> None:
        self._origin_file(self._flows[name]).write_text(f"{self._t0_s + at_s!r}\n")

    async def group_ended(self, group: str) -> None:
        """No program lasts until a group ends."""

    async def _stop(self) -> None:
        for role in reversed(ROLES):
            running = [one for (_, own), one in self._supervisors.items() if own == role]
            await asyncio.gather(*(process.stop(2 * END_GRACE_S + on_host.KILL_S) for process in running))
            await asyncio.gather(*(reader for (_, own), reader in self._readers.items() if own == role))
        for process in self._supervisors.values():
            self._testbed.ended(process)
        if self._supervisors:
            for flow in self.flows:
                self._notes[flow.name] += keep(self._directory(flow), self._results / flow.name / "files")
        self._supervisors.clear()
        self._readers.clear()

    def _time_limit_s(self, flow: Flow) -> float:
        lasts_ns = program_of(flow).timeout_ns if flow.duration_ns is None else flow.duration_ns
        grace_s = 0.0 if flow.duration_ns is None else GRACE_S
        return (flow.start_ns + lasts_ns) / NANOSECONDS + grace_s


def _ready_ports(flow: Flow) -> list[tuple[str, int]]:
    """Ports, by protocol, at one of which a server is ready when something is bound to it."""
    application = program_of(flow)
    ports = {"tcp": application.tcp, "udp": application.udp}
    return [(name, port) for name, port in ports.items() if port is not None] or [
        (name, flow.dst_port) for name in ports
    ]


def _remarks(role: str, outcome: Outcome) -> list[str]:
    """What a user should know of a program's end."""
    found = []
    if outcome.killed:
        found.append(f"{role} did not end when asked to (SIGTERM), and was killed after {END_GRACE_S:g} s")
    if outcome.left_processes and not outcome.killed:
        found.append(f"{role} left {outcome.left_processes} processes, which were killed")
    found += [
        f"{role} wrote {count} bytes to {name}; kept are {MOST_OUTPUT_BYTES}"
        for name, count in (("stdout", outcome.stdout_bytes), ("stderr", outcome.stderr_bytes))
        if count > MOST_OUTPUT_BYTES
    ]
    return found


def keep(source: Path, target: Path) -> list[str]:
    """Copy the files that programs have made, and nothing else: no links, devices or files of another user.

    The programs' user may change ``source`` meanwhile. Returns what was not kept, and why.
    """
    try:
        owner = source.stat().st_uid
    except FileNotFoundError:
        # A flow of all else that hosts send has no program.
        return []
    files, size, left = 0, 0, 0
    for path, file in beneath.walk(source):
        if file is not None:
            status = os.fstat(file.fileno())
            # A sparse file takes no space here, and all of it there.
            if status.st_uid == owner and files < MOST_FILES and size + status.st_size <= MOST_FILES_BYTES:
                copy = target / path
                copy.parent.mkdir(parents=True, exist_ok=True)
                # It may grow meanwhile.
                copy.write_bytes(file.read(status.st_size))
                files, size = files + 1, size + status.st_size
                continue
        left += 1
    if not left:
        return []
    return [
        f"{left} of its files were not kept: up to {MOST_FILES} ordinary files, {MOST_FILES_BYTES >> 20} MiB in all"
    ]
