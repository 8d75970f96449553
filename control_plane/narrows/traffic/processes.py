# SPDX-License-Identifier: Apache-2.0
"""A process on each host that has flows, ready before the experiment begins."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.hosts.process import Process
from narrows.onhost import loop, payload, serve, tcp, wire
from narrows.onhost import sockets as on_host
from narrows.onhost.sockets import Sockets
from narrows.traffic.engine import Engine, Specifications

START_S = 20.0
STOP_GRACE_S = 3.0
# What modules on hosts import of each other.
SHARED = (payload, wire, on_host, loop, tcp)


class Processes(Engine):
    """See `Engine`."""

    def __init__(
        self, plan: Plan, testbed: Testbed, sockets: type[Sockets], take: Callable[[wire.Event], None]
    ) -> None:
        """See `Engine`."""
        super().__init__(plan, testbed, sockets, take)
        self._module = sockets.__module__
        # Of each host one that sends and one that receives, if it does both.
        self._senders: dict[str, Process] = {}
        self._receivers: dict[str, Process] = {}
        # Of each host with flows that begin there, in runs whose flows get commands: where its process reads them.
        self._commands: dict[str, int] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._offsets_s: dict[str, float] = {}
        self._stopping = False

    @property
    def lead_s(self) -> float:
        """See `Engine.lead_s`."""
        return self._testbed.lead_s

    async def prepare(self, listening: Specifications, beginning: Specifications, modules: Sequence[str]) -> None:
        """See `Engine.prepare`."""
        own = dict.fromkeys((self._module, *modules))
        libraries = dict.fromkeys((*(module.__name__ for module in SHARED), *own))
        for host in {**listening, **beginning}:
            for name in libraries:
                await self._testbed.python(host, Path(str(sys.modules[name].__file__)))
        names = ",".join(name.rpartition(".")[2] for name in own)
        # Ports are open before anything is sent to them.
        for host, flows in listening.items():
            self._receivers[host] = await self._spawn(host, "receiving", names, flows, [])
        for host, flows in beginning.items():
            self._offsets_s[host] = await self._testbed.clock_offset_s(host)
            self._senders[host] = await self._spawn(host, "sending", names, [], flows)

    async def _spawn(
        self,
        host: str,
        role: str,
        modules: str,
        receive: Sequence[wire.FlowSpecification],
        send: Sequence[wire.FlowSpecification],
    ) -> Process:
        file = f"{host}-{self._module.rpartition('.')[2]}-{role}"
        specification = wire.Specification(
            host=host,
            batch_bytes=self._plan.receive_batch_bytes,
            receive=[*receive],
            send=[*send],
            origin=_origin_file(host),
            commands=self._open_commands(host, file) if send and self._plan.takes_commands else None,
        )
        path = await self._testbed.put(host, f"{file}.json", wire.dumps(specification))
        script = await self._testbed.python(host, Path(serve.__file__))
        errors = self._testbed.state_dir / f"{file}.err"
        process = await self._testbed.spawn(host, [*script, modules, path], stderr=errors)
        await process.wait_for_line("ready", START_S)
        names = [flow.name for flow in send or receive]
        self._readers.append(asyncio.create_task(self._read(process, names)))
        return process

    def _open_commands(self, host: str, file: str) -> str:
        """A pipe by which a process of a host learns what becomes of its flows."""
        path = self._testbed.state_dir / f"{file}.commands"
        os.mkfifo(path)
        # Its reader does not run as we do.
        path.chmod(0o644)
        self._commands[host] = os.open(path, os.O_RDWR)
        return str(path)

    async def _read(self, process: Process, names: Sequence[str]) -> None:
        """Take in what a process says, until its end."""
        async for line in process.lines():
            with contextlib.suppress(ValueError):  # the last line of one that was killed
                self._take(wire.loads(line))
        code = await process.wait()
        if not self._stopping:
            for name in names:
                self._take(wire.Failure(name, f"{process.name} ended with exit code {code}{process.stderr_tail()}"))

    async def start(self, t0_s: float) -> None:
        """See `Engine.start`."""
        await asyncio.gather(*(self._tell_origin(host, t0_s) for host in self._senders))

    async def _tell_origin(self, host: str, t0_s: float) -> None:
        await self._testbed.put(host, _origin_file(host), f"{t0_s + self._offsets_s[host]!r}\n")

    def do(self, host: str, command: wire.Command) -> None:
        """See `Engine.do`."""
        os.write(self._commands[host], wire.dumps(command).encode() + b"\n")

    async def group_ended(self, group: str, hosts: Collection[str]) -> None:
        """See `Engine.group_ended`."""
        await asyncio.gather(*(self._testbed.put(host, f"{group}.ended", "") for host in hosts))

    async def stop_senders(self) -> None:
        """See `Engine.stop_senders`."""
        self._stopping = True
        await self._end(self._senders)

    async def stop(self) -> None:
        """See `Engine.stop`."""
        await self.stop_senders()
        await self._end(self._receivers)
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


def _origin_file(host: str) -> str:
    return f"{host}.origin"
