# SPDX-License-Identifier: Apache-2.0
"""Bulk flows, finite ones and workloads: what is to be made of them on the hosts, and what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import socket
import threading
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Flow, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.process import Process
from narrows.onhost import payload, tcp
from narrows.traffic.generator import Generator

START_S = 20.0
THREAD_LEAD_S = 0.001
Side = Literal["begins", "listens"]
STOP_GRACE_S = 3.0
TCP_NOTSENT_LOWAT = 25  # linux/tcp.h


def specify(flow: Flow, ecn: bool | None) -> dict[str, Any]:
    """A flow as `narrows.onhost.tcp` makes it; times are seconds since the experiment's start.

    A sequence has one connection after the other, ``gap_s`` between them, the last one starting before
    ``last_start_s`` and before all flows of the group ``until`` have ended. ``ecn`` is whether they are to use it;
    None: as the kernel does.
    """
    sent, arrivals_ns = flow.payload, flow.payload.arrivals_ns
    lasts = not sent.is_finite and flow.duration_ns is not None
    return {
        "name": flow.name,
        "module": type(sent).__module__.rpartition(".")[2],
        "own": sent.own,
        "host": flow.sender,
        "held": flow.held,
        **socket_settings(flow, ecn),
        "src": flow.src,
        "dst": flow.dst,
        "dst_port": flow.dst_port,
        "duration_s": (flow.duration_ns or 0) / NANOSECONDS if lasts else None,
        "sequence": not arrivals_ns,
        "gap_s": sent.pause_ns / NANOSECONDS,
        "last_start_s": None if flow.end_ns is None else flow.end_ns / NANOSECONDS,
        "until": sent.until,
        "connections": [
            {
                "number": number,
                "start_s": (flow.start_ns + (arrivals_ns[number] if arrivals_ns else 0)) / NANOSECONDS,
                "size": sent.size_of(number),
                "src_port": port,
            }
            for number, port in enumerate(flow.client_ports)
        ],
    }


def socket_settings(flow: Flow, ecn: bool | None) -> dict[str, Any]:
    """What the sockets of a flow are set to, and what of it is read back."""
    return {
        "cca": flow.cca,
        "ecn": ecn,
        "options": _options(flow, sends=True),
        "receiver_options": _options(flow, sends=False),
        "initial_window": flow.tcp.initial_window,
        "rto_min_s": None if flow.tcp.rto_min_ns is None else flow.tcp.rto_min_ns / NANOSECONDS,
    }


def _options(flow: Flow, sends: bool) -> list[tuple[str, int, int, str, int]]:
    """Options of a flow's sockets at one end: name, level, number, how the value is packed, value."""
    asked = flow.tcp
    found = [
        (name, socket.IPPROTO_TCP, number, "=i", value)
        for name, number, value in (asked.options if sends else asked.receiver_options)
    ]
    if sends and asked.notsent_lowat is not None:
        found.append(("TCP_NOTSENT_LOWAT", socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, "=i", asked.notsent_lowat))
    if sends and asked.rate_bps is not None:
        found.append(("SO_MAX_PACING_RATE", socket.SOL_SOCKET, tcp.SO_MAX_PACING_RATE, "=Q", asked.rate_bps // 8))
    return found


class HostGenerator(Generator):
    """Flows that a script of ours makes on their hosts, each from a specification of it."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        self._specifications = {flow.name: self._specify(flow) for flow in flows}

    def _specify(self, flow: Flow) -> dict[str, Any]:
        return specify(flow, self._plan.uses_ecn(flow) or flow.tcp.ecn)

    def _host(self, flow: Flow, side: Side) -> str:
        """The host at which a flow begins, or which listens for it."""
        return flow.sender if side == "begins" else flow.receiver

    def _by_host(self, side: Side) -> dict[str, list[dict[str, Any]]]:
        """The specifications of the flows that begin at each host, or that it listens for."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for flow in self._flows.values():
            found[self._host(flow, side)].append(self._specifications[flow.name])
        return found


class HostLoop(Protocol):
    """What a thread serves the flows of all hosts by; see `tcp.FlowSockets`."""

    def listen(self, host: str, flows: Sequence[dict[str, Any]]) -> None:
        """Open the ports of flows on a host that listens for them."""
        ...

    def prepare(self, flows: Sequence[dict[str, Any]]) -> None:
        """Know the flows that begin."""
        ...

    def run(self, origin_s: float) -> None:
        """Serve until `stop`, times being counted from this monotonic time."""
        ...

    def stop(self) -> None:
        """Have `run` end; safe to call from another thread."""
        ...

    def close(self) -> None:
        """Close what it holds, after `run`."""
        ...

    def release(self, name: str, at_s: float) -> None:
        """Let a flow that was held back begin at a time; safe to call from another thread."""
        ...


class ThreadGenerator(HostGenerator):
    """One thread of this process for all hosts: in virtual time it takes none, and a process takes long to start."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        self._loop: HostLoop | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _make(self, tell: tcp.Tell) -> HostLoop:
        """What serves the flows; ``tell`` takes their events."""

    @property
    def lead_s(self) -> float:
        """See `Generator.lead_s`."""
        return THREAD_LEAD_S

    async def _prepare(self) -> None:
        self._loop = self._make(partial(self._take_event, asyncio.get_running_loop()))
        for host, specifications in self._by_host("listens").items():
            try:
                self._loop.listen(host, specifications)
            except OSError as error:
                raise RunError(f"{host}: its ports cannot be opened: {error.strerror}") from error
        self._loop.prepare(list(self._specifications.values()))

    async def _start(self) -> None:
        assert self._loop is not None
        self._thread = threading.Thread(target=self._run, args=(self._loop,))
        self._thread.start()

    def _run(self, loop: HostLoop) -> None:
        try:
            loop.run(self._origin_s)
        except OSError as error:
            for name, end in self._ends.items():
                self._take_event(end.get_loop(), {"flow": name, "failed": str(error.strerror)})

    def _take_event(self, loop: asyncio.AbstractEventLoop, event: dict[str, Any]) -> None:
        """Called by the thread."""
        loop.call_soon_threadsafe(self._take, event)

    async def _release(self, name: str, at_s: float) -> None:
        assert self._loop is not None
        self._loop.release(name, at_s)

    async def _stop(self) -> None:
        if self._thread is not None and self._loop is not None:
            self._loop.stop()
            self._thread.join()
            self._loop.close()
            self._thread = None
        # What the thread has reported is taken in.
        await asyncio.sleep(0)


class ThreadFlows(ThreadGenerator):
    """Bulk flows, finite ones and workloads."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        self._groups_ended: set[str] = set()

    def _make(self, tell: tcp.Tell) -> HostLoop:
        # A receiver that waits for more has the kernel acknowledge each frame or joined frames at once, where one that
        # reads has it answer all that an interrupt has delivered. Then there is nothing to wait for either.
        batch_bytes = 0 if self._plan.moderation is not None else self._plan.receive_batch_bytes
        return tcp.FlowSockets(batch_bytes, self._testbed.open_socket, tell, self._groups_ended.__contains__)

    async def group_ended(self, group: str) -> None:
        """See `Generator.group_ended`."""
        self._groups_ended.add(group)

    async def _end_at(self, name: str, at_s: float) -> None:
        assert isinstance(self._loop, tcp.FlowSockets)
        self._loop.finish(name, at_s)

    async def _steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        assert isinstance(self._loop, tcp.FlowSockets)
        self._loop.steer(name, window, rate, at_s)


class ProcessFlows(HostGenerator):
    """A process on each host that has flows, ready before the experiment begins."""

    _script = Path(tcp.__file__)
    _libraries: tuple[Path, ...] = (Path(payload.__file__),)

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> None:
        """See `Generator`."""
        super().__init__(plan, testbed, results, flows)
        # Of each host one that sends and one that receives, if it does both.
        self._senders: dict[str, Process] = {}
        self._receivers: dict[str, Process] = {}
        # Of each host with flows that begin there, in a driven run: where its process reads commands.
        self._commands: dict[str, int] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._offsets_s: dict[str, float] = {}
        self._stopping = False

    @property
    def lead_s(self) -> float:
        """See `Generator.lead_s`."""
        return self._testbed.lead_s

    async def _prepare(self) -> None:
        for host in {**self._by_host("listens"), **self._by_host("begins")}:
            for library in (*self._libraries, *_modules(self._flows.values())):
                await self._testbed.python(host, library)
        # Ports are open before anything is sent to them.
        for host, flows in self._by_host("listens").items():
            self._receivers[host] = await self._spawn(host, "receiving", flows, [])
        for host, flows in self._by_host("begins").items():
            self._offsets_s[host] = await self._testbed.clock_offset_s(host)
            self._senders[host] = await self._spawn(host, "sending", [], flows)

    async def _spawn(
        self, host: str, role: str, receive: Sequence[dict[str, Any]], send: Sequence[dict[str, Any]]
    ) -> Process:
        file = f"{self._script.stem}-{role}"
        specification = {
            "host": host,
            "batch_bytes": self._plan.receive_batch_bytes,
            "receive": receive,
            "send": send,
            "origin": _origin_file(host),
            "commands": self._open_commands(host, file) if send and self._plan.driven else None,
        }
        path = await self._testbed.put(host, f"{host}-{file}.json", json.dumps(specification))
        script = await self._testbed.python(host, self._script)
        errors = self._testbed.state_dir / f"{host}-{file}.err"
        process = await self._testbed.spawn(host, [*script, path], stderr=errors)
        await process.wait_for_line("ready", START_S)
        names = [flow["name"] for flow in send or receive]
        self._readers.append(asyncio.create_task(self._read(process, names)))
        return process

    def _open_commands(self, host: str, file: str) -> str:
        """A pipe by which a process of a host learns what becomes of its flows."""
        path = self._testbed.state_dir / f"{host}-{file}.commands"
        os.mkfifo(path)
        # Its reader does not run as we do.
        path.chmod(0o644)
        self._commands[host] = os.open(path, os.O_RDWR)
        return str(path)

    async def _release(self, name: str, at_s: float) -> None:
        self._tell(name, {"release": name, "at_s": at_s})

    async def _end_at(self, name: str, at_s: float) -> None:
        self._tell(name, {"finish": name, "at_s": at_s})

    async def _steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        self._tell(name, {"steer": name, "window": window, "rate": rate, "at_s": at_s})

    def _tell(self, name: str, command: dict[str, Any]) -> None:
        host = self._host(self._flows[name], "begins")
        os.write(self._commands[host], json.dumps(command).encode() + b"\n")

    async def _read(self, process: Process, names: Sequence[str]) -> None:
        """Take in what a process says, until its end."""
        async for line in process.lines():
            with contextlib.suppress(ValueError):  # the last line of one that was killed
                self._take(json.loads(line))
        code = await process.wait()
        if not self._stopping:
            for name in names:
                self._fail(name, f"{process.name} ended with exit code {code}{process.stderr_tail()}")

    async def _start(self) -> None:
        await asyncio.gather(*map(self._tell_origin, self._by_host("begins")))

    async def _tell_origin(self, host: str) -> None:
        offset_s = self._offsets_s[host]
        await self._testbed.put(host, _origin_file(host), f"{self._origin_s + offset_s!r}\n")

    async def group_ended(self, group: str) -> None:
        """See `Generator.group_ended`."""
        hosts = {flow.sender for flow in self._flows.values() if flow.payload.until == group}
        await asyncio.gather(*(self._testbed.put(host, f"{group}.ended", "") for host in hosts))

    async def _stop(self) -> None:
        self._stopping = True
        for processes in (self._senders, self._receivers):
            await self._end(processes)
        await asyncio.gather(*self._readers)
        self._readers.clear()
        while self._commands:
            os.close(self._commands.popitem()[1])

    async def _end(self, processes: dict[str, Process]) -> None:
        """Stop processes, which say what they still have to say."""
        ended = list(processes.values())
        await asyncio.gather(*(process.stop(STOP_GRACE_S) for process in ended))
        for process in ended:
            self._testbed.ended(process)
        processes.clear()


def _modules(flows: Iterable[Flow]) -> set[Path]:
    """The files that flows' payloads are in, which have what is their kinds' own on hosts."""
    return {Path(inspect.getfile(type(flow.payload))) for flow in flows}


def _origin_file(host: str) -> str:
    return f"{host}.origin"


def make(plan: Plan, testbed: Testbed, results: Path, flows: Sequence[Flow]) -> Generator:
    """What makes these flows, where the plan's hosts are."""
    kind = ThreadFlows if plan.in_guest else ProcessFlows
    return kind(plan, testbed, results, flows)
