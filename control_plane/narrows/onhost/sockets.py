# SPDX-License-Identifier: Apache-2.0
"""The interface of what serves the sockets of flows, in a thread of this program or in a process of a host."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import wire
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import wire

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import Any

    # Opens a socket on a host: its name, family, type.
    OpenSocket = Callable[[str, int, int], socket.socket]
    Tell = Callable[[wire.Event], None]
    # Whether all flows of a group have ended.
    HasEnded = Callable[[str], bool]


@dataclass(frozen=True)
class Surroundings:
    """What sockets need: how one is opened, who takes events from any thread, whether a group has ended, and what the
    receiving side reads at a time (0: whatever there is)."""

    open_socket: OpenSocket
    tell: Tell
    has_ended: HasEnded
    batch_bytes: int


class Sockets(ABC):
    """The sockets of some flows."""

    @abstractmethod
    def __init__(self, surroundings: Surroundings) -> None:
        """No port is opened before `listen`, and nothing begins before `run`."""

    @abstractmethod
    def listen(self, host: str, flows: Sequence[Any]) -> None:
        """Open the ports of flows on a host that listens for them.

        Raises:
            OSError: a port is in use, or the kernel does not have what a flow needs.
        """

    @abstractmethod
    def prepare(self, flows: Sequence[Any]) -> None:
        """Make ready the flows that begin; called once, after `listen`, whether there are any or not.

        Raises:
            OSError: as `listen`.
        """

    @abstractmethod
    def run(self, t0_s: float) -> None:
        """Serve all sockets until `stop`, times being counted from this monotonic time.

        Raises:
            OSError: the kernel refuses something that no flow is to blame for.
        """

    @abstractmethod
    def stop(self) -> None:
        """Have `run` end, with what still runs; safe to call from another thread, a signal's handler, and twice."""

    @abstractmethod
    def close(self) -> None:
        """End the receiving side too, after `run`; safe to call twice."""

    @abstractmethod
    def release(self, name: str, at_s: float) -> None:
        """Do what `wire.Release` says; safe to call from another thread."""

    def finish(self, name: str, at_s: float) -> None:
        """Do what `wire.Finish` says, if such flows last for a time; safe to call from another thread."""
        raise ValueError(f"flow {name} ends by itself")

    def steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        """Do what `wire.Steer` says, if such flows have a window; safe to call from another thread."""
        raise ValueError(f"flow {name} has no window")

    def apply(self, command: wire.Apply) -> None:
        """Do what `wire.Apply` says, if such flows have an application; safe to call from another thread."""
        raise ValueError(f"flow {command.flow} has no application")

    def do(self, command: wire.Command) -> None:
        """Do what a command says; safe to call from another thread."""
        if isinstance(command, wire.Release):
            self.release(command.flow, command.at_s)
        elif isinstance(command, wire.Finish):
            self.finish(command.flow, command.at_s)
        elif isinstance(command, wire.Steer):
            self.steer(command.flow, command.window, command.rate, command.at_s)
        elif isinstance(command, wire.Apply):
            self.apply(command)
