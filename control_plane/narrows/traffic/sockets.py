# SPDX-License-Identifier: Apache-2.0
"""The state of the flows' sockets over time, read on the senders while traffic flows."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Host, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.process import Process
from narrows.traffic import socket_sampler

STOP_GRACE_S = 3.0
BEGIN_TIMEOUT_S = 15.0
POLL_S = 0.01


@dataclass(frozen=True)
class Readings:
    """A file of what `narrows.traffic.socket_sampler` wrote on a host, whose clock is ahead of ours by ``offset_s``."""

    path: Path
    address: str
    offset_s: float


class SocketSampler(ABC):
    """Reads the sockets of all senders."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, interval_ns: int) -> None:
        """``interval_ns`` is the time between two readings; 0 for none at all."""
        self._plan = plan
        self._testbed = testbed
        self._results = results
        self._interval_ns = interval_ns
        self._offsets_s: dict[str, float] = {}
        # Sockets that are known by their addresses, as those of programs.
        self._with_programs = {flow.sender for flow in plan.flows if flow.match_by_host_pair}

    @abstractmethod
    async def start(self) -> None:
        """Begin to sample on all senders; what flows afterwards is seen from its start.

        Raises:
            RunError: one cannot be reached, or does not begin.
        """

    @abstractmethod
    async def stop(self) -> None:
        """End sampling; safe to call twice.

        Raises:
            RunError: it had ended early.
        """

    @property
    def readings(self) -> tuple[Readings, ...]:
        """What was read, one a sender."""
        return tuple(
            Readings(self._output(sender.name), sender.address, self._offsets_s[sender.name])
            for sender in self._plan.senders
            if sender.name in self._offsets_s
        )

    def _output(self, host: str) -> Path:
        return self._results / f"{host}-sockets.txt"


class SamplingProcesses(SocketSampler):
    """One process a sender: neither disturbs the others."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, interval_ns: int) -> None:
        """See `SocketSampler`."""
        super().__init__(plan, testbed, results, interval_ns)
        self._processes: list[Process] = []

    async def start(self) -> None:
        """See `SocketSampler.start`."""
        if not self._interval_ns:
            return
        interval, version = str(self._interval_ns / NANOSECONDS), str(self._plan.ip_version)
        for sender in self._plan.senders:
            self._offsets_s[sender.name] = await self._testbed.clock_offset_s(sender.name)
            script = await self._testbed.python(sender.name, Path(socket_sampler.__file__))
            command = [*script, interval, version, *(["programs"] if sender.name in self._with_programs else [])]
            errors = self._testbed.state_dir / f"{sender.name}-sockets.err"
            self._processes.append(
                await self._testbed.spawn(sender.name, command, stdout=self._output(sender.name), stderr=errors)
            )
        await asyncio.gather(*map(self._begun, self._processes, self._plan.senders))

    async def _begun(self, process: Process, sender: Host) -> None:
        """Wait until a sampler has written its first line; one that ended is for `stop` to tell."""
        output = self._output(sender.name)
        try:
            async with asyncio.timeout(BEGIN_TIMEOUT_S):
                while not output.stat().st_size and process.returncode is None:
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise RunError(f"{process.name} reads nothing after {BEGIN_TIMEOUT_S:g} s{process.stderr_tail()}") from None

    async def stop(self) -> None:
        """See `SocketSampler.stop`."""
        processes, self._processes = self._processes, []
        died = [process for process in processes if process.returncode is not None]
        await asyncio.gather(*(process.stop(STOP_GRACE_S) for process in processes))
        if died:
            raise RunError("\n".join(f"{process.name} ended early{process.stderr_tail()}" for process in died))


class SamplingThread(SocketSampler):
    """One thread of this process for all senders: in virtual time it takes none, and a process takes long to start."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, interval_ns: int) -> None:
        """See `SocketSampler`."""
        super().__init__(plan, testbed, results, interval_ns)
        self._open = contextlib.ExitStack()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._died: list[str] = []

    async def start(self) -> None:
        """See `SocketSampler.start`."""
        if not self._interval_ns:
            return
        hosts = []
        for sender in self._plan.senders:
            self._offsets_s[sender.name] = await self._testbed.clock_offset_s(sender.name)
            diag = self._open.enter_context(self._testbed.open_socket(sender.name, *socket_sampler.DIAG))
            output = self._open.enter_context(self._output(sender.name).open("w"))
            socket_sampler.begin(diag, output)
            dumps = socket_sampler.dumps(self._plan.ip_version, sender.name in self._with_programs)
            hosts.append((diag, output, dumps))
        self._thread = threading.Thread(target=self._sample, args=(hosts,))
        self._thread.start()

    def _sample(self, hosts: Sequence[tuple[socket.socket, TextIO, tuple[tuple[int, int], ...]]]) -> None:
        interval_s = self._interval_ns / NANOSECONDS
        try:
            socket_sampler.sample(interval_s, hosts, self._stopped.wait)
        except OSError as error:
            self._died.append(f"the sampling of sockets ended early: {error}")

    async def stop(self) -> None:
        """See `SocketSampler.stop`."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._open.close()
        if died := "\n".join(self._died):
            self._died.clear()
            raise RunError(died)
