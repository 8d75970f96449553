# SPDX-License-Identifier: Apache-2.0
"""An application on a host that pauses, goes on, and limits its rate as events say: a bulk flow otherwise.

`narrows.onhost.tcp` serves its socket. A pause gives the socket nothing; what it holds then still leaves.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import tcp, wire
    from narrows.onhost.payload import UNSENT_BYTES
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import tcp
    import wire
    from payload import UNSENT_BYTES

NANOSECONDS = 1_000_000_000
# A limited application writes what its rate has in this time, and a segment of an MTU of 1500 bytes at least.
WRITE_S, WRITE_BYTES = 0.001, 1448


@dataclass(frozen=True)
class Change:
    """What an application does from a time on, ns since the experiment's start.

    ``event`` is the number of the event that says so. ``sends`` and ``bps``, its rate of payload, are None where they
    stay as they are; a rate of infinity is as much as the socket takes.
    """

    event: int
    at_ns: int
    sends: bool | None
    bps: float | None


@dataclass(frozen=True)
class Application(tcp.Bulk):
    """One connection for the flow's duration, whose application changes as it is written."""

    notsent_lowat = UNSENT_BYTES
    changes: tuple[Change, ...] = ()

    @property
    def own(self) -> list[tuple[int, float, bool | None, float | None]]:
        """See `Payload.own`; times since the experiment's start."""
        return [(one.event, one.at_ns / NANOSECONDS, one.sends, one.bps) for one in self.changes]


class Supply:
    """How many bytes an application has had for its socket, of one that is limited: its rate times the time in which
    it was not paused, write by write."""

    def __init__(self) -> None:
        """All that the socket takes, until `change`."""
        self._sends = True
        self._bps = math.inf
        self._since_s = 0.0
        self._writes = 0
        self._before = 0

    def change(self, now_s: float, given: int, sends: bool | None, bps: float | None) -> None:
        """Go on differently from now on; ``given`` is what the socket has taken until now."""
        self._before = given if math.isinf(self._bps) else self._produced
        self._writes = 0
        self._since_s = now_s
        self._sends = self._sends if sends is None else sends
        self._bps = self._bps if bps is None else bps

    @property
    def _write_s(self) -> float:
        return max(WRITE_S, WRITE_BYTES * 8 / self._bps)

    @property
    def _produced(self) -> int:
        return self._before + round(self._bps * self._writes * self._write_s / 8) if self._writes else self._before

    @property
    def next_s(self) -> float | None:
        """When the next write is due; None: none is."""
        if not self._sends or math.isinf(self._bps):
            return None
        return self._since_s + (self._writes + 1) * self._write_s

    def write(self) -> None:
        """Note that the next write is due."""
        self._writes += 1

    def left(self, given: int) -> float:
        """Bytes for a socket that has taken so many; infinity: all that it takes."""
        if not self._sends:
            return 0
        return math.inf if math.isinf(self._bps) else self._produced - given


class Sender(tcp.TcpConnection):
    """The sending side."""

    def __init__(self, flow: tcp.ConnectionsSpecification, part: tcp.Part, payload: int) -> None:
        """See `narrows.onhost.tcp.TcpConnection`."""
        super().__init__(flow, part, payload)
        self._supply = Supply()
        self._changes: list[wire.Record] = []

    @property
    def available(self) -> int:
        """See `narrows.onhost.tcp.TcpConnection.available`."""
        return int(min(super().available, self._supply.left(self.sent)))

    def schedule(self) -> tcp.Due:
        """See `narrows.onhost.tcp.TcpConnection.schedule`: an event before the flow's start holds from its start on."""
        return [
            (max(at_s, self.start_s), self._changer(event, sends, bps)) for event, at_s, sends, bps in self.flow.own
        ]

    def _changer(self, event: int, sends: bool | None, bps: float | None) -> tcp.Action:
        return lambda now_s: self.change(event, now_s, sends, bps)

    def change(self, event: int, now_s: float, sends: bool | None, bps: float | None) -> tcp.Due:
        """Do what an event says; returns what is to be done next."""
        self._supply.change(now_s, self.sent, sends, bps)
        self._changes.append({"event": event, "time_s": now_s, "bytes": self.sent})
        return self._next_write(len(self._changes))

    def apply(self, command: wire.Apply, now_s: float) -> tcp.Due:
        """See `narrows.onhost.tcp.TcpConnection.apply`."""
        return self.change(command.event, now_s, command.sends, command.bps)

    def _next_write(self, change: int) -> tcp.Due:
        due_s = self._supply.next_s
        return [] if due_s is None else [(due_s, lambda _: self._write(change))]

    def _write(self, change: int) -> tcp.Due:
        # Writes of before the last change are not due any more.
        if change != len(self._changes):
            return []
        self._supply.write()
        return self._next_write(change)

    def record(self, now_s: float, ending: str) -> wire.Record:
        """See `narrows.onhost.tcp.TcpConnection.record`: of each change as well what the socket had taken."""
        return super().record(now_s, ending) | {"changes": self._changes}


SENDER = Sender
