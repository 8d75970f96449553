# SPDX-License-Identifier: Apache-2.0
"""What the runner and the targets need of the hosts, whether they are namespaces or machines."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from narrows.hosts.process import Process

# Where a software switch runs, as `Testbed.spawn` names it.
SWITCH = "switch"


@dataclass(frozen=True)
class SwitchAttachment:
    """A switch port and the interface it is, in the network namespace where the switch process sees it."""

    port: int
    interface: str
    namespace: str


@dataclass(frozen=True)
class Listening:
    """A Unix socket of a server on a host: its path there, and the address that gRPC reaches it by from here."""

    path: str
    address: str


class Testbed(Protocol):
    """Hosts wired to the ports of one switch."""

    @property
    def state_dir(self) -> Path:
        """Directory for sockets and logs that goes away with the run."""
        ...

    @property
    def lead_s(self) -> float:
        """How long a message to a host takes at most; nothing may begin earlier than that."""
        ...

    @property
    def attachments(self) -> tuple[SwitchAttachment, ...]:
        """The switch's ports; empty when the switch is a machine of its own."""
        ...

    def create(self) -> None:
        """Set all hosts up.

        Raises:
            RunError: one cannot be set up as asked.
        """
        ...

    def remove(self) -> None:
        """Take down what was made, or restore the hosts. Safe to call at any time, and twice.

        Raises:
            RunError: something is left; the message says what.
        """
        ...

    async def spawn(
        self,
        host: str,
        arguments: Sequence[str],
        *,
        stdout: Path | None = None,
        stderr: Path | None = None,
        nobody: bool = False,
    ) -> Process:
        """Start a process on a host (or at `SWITCH`); with ``nobody`` it never runs as root."""
        ...

    async def python(self, host: str, script: Path) -> list[str]:
        """The command line that starts one of our scripts on a host; it needs nothing but Python's standard library.

        The script never runs as root.

        Raises:
            RunError: the host cannot be reached.
        """
        ...

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Open a socket of a host for this process to use; parameters as for `socket.socket`.

        Raises:
            RunError: the host is another machine.
        """
        ...

    async def put(self, host: str, name: str, text: str, private: bool = False) -> str:
        """Make a file for processes of a host, gone with the run; returns its path there.

        Only this user's processes can read it if it is ``private``.

        Raises:
            RunError: it cannot be made.
        """
        ...

    async def program(self, host: str, program: Path) -> str:
        """The path of one of our programs on a host, where it is the same file as here.

        Raises:
            RunError: the host cannot be reached, or it cannot be run there.
        """
        ...

    def listening(self, host: str, name: str) -> Listening:
        """Where a server on a host is to listen, and how it is reached; gone with the run. Call it once a name."""
        ...

    async def pipe(self, host: str, name: str) -> str:
        """Make a named pipe for processes of a host and of others on its machine, gone with the run; returns its path.

        Raises:
            RunError: it cannot be made.
        """
        ...

    def directory(self, host: str, local: Path) -> str:
        """The directory on a host that takes the place of one of ours until `fetch`."""
        ...

    async def fetch(self, host: str, local: Path) -> None:
        """Copy what a host wrote to its `directory` into ours.

        Raises:
            RunError: the host cannot be reached, or something does not arrive.
        """
        ...

    async def clock_offset_s(self, host: str) -> float:
        """A host's monotonic clock minus ours.

        Raises:
            RunError: the host cannot be reached.
        """
        ...

    def ended(self, process: Process) -> None:
        """Note that a process started by `spawn` has ended."""
        ...

    def interface(self, host: str) -> str:
        """Name of the interface of a host that faces the switch."""
        ...

    def take_senders_down(self) -> None:
        """Make sure that nothing arrives at the bottleneck any more."""
        ...

    def losses(self) -> list[str]:
        """Packets lost between hosts and switch that neither counts, one line for each place.

        Reports are left out: their sequence numbers show what is missing.
        """
        ...

    def kernel_counters(self) -> dict[str, dict[str, int]]:
        """What each host's kernel has counted in this run, without zeros: of TCP and UDP, and of packets not taken
        (`narrows.hosts.kernel_counters`).

        Hosts whose kernels count what others do as well are left out.
        """
        ...

    def describe(self) -> dict[str, object]:
        """What was set on the hosts and read back, for run.json."""
        ...


class SharedFiles:
    """The parts of a `Testbed` that all have in common whose hosts share this machine's files."""

    state_dir: Any  # a Path; of some a property

    async def program(self, host: str, program: Path) -> str:
        """See `Testbed.program`: the file itself."""
        return str(program)

    def listening(self, host: str, name: str) -> Listening:
        """See `Testbed.listening`."""
        path = self.state_dir / name
        return Listening(str(path), f"unix:{path}")

    async def pipe(self, host: str, name: str) -> str:
        """See `Testbed.pipe`."""
        path = self.state_dir / name
        os.mkfifo(path, 0o600)
        return str(path)

    def directory(self, host: str, local: Path) -> str:
        """See `Testbed.directory`: itself."""
        return str(local)

    async def fetch(self, host: str, local: Path) -> None:
        """Nothing: it is there."""
