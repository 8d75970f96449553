# SPDX-License-Identifier: Apache-2.0
"""A TCP on/off source on a host: a connection that has data to send in bursts only, and pauses in between.

In a pause nothing is given to the socket; what it holds then still leaves. `narrows.onhost.tcp` serves the sockets.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import tcp, wire
    from narrows.onhost.payload import UNSENT_BYTES, Payload
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import tcp
    import wire
    from payload import UNSENT_BYTES, Payload

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class OnOff(Payload):
    """One connection that sends as much as it can in ``bursts``: start and end of each, ns since the flow's start."""

    kind = "onoff"
    lasts = True
    notsent_lowat = UNSENT_BYTES
    bursts: tuple[tuple[int, int], ...]

    @property
    def own(self) -> list[list[float]]:
        """See `Payload.own`."""
        return [[begin / NANOSECONDS, end / NANOSECONDS] for begin, end in self.bursts]


class Sender(tcp.TcpConnection):
    """The sending side."""

    def __init__(self, flow: tcp.ConnectionsSpecification, part: tcp.Part, payload: int) -> None:
        """See `narrows.onhost.tcp.TcpConnection`."""
        super().__init__(flow, part, payload)
        self._is_on = False
        self._bursts: list[wire.Record] = []

    @property
    def available(self) -> int:
        """See `narrows.onhost.tcp.TcpConnection.available`."""
        return super().available if self._is_on else 0

    def schedule(self) -> tcp.Due:
        """See `narrows.onhost.tcp.TcpConnection.schedule`."""
        found: tcp.Due = []
        for begin_s, end_s in self.flow.own:
            found += [(self.start_s + begin_s, self._resume), (self.start_s + end_s, self._pause)]
        return found

    def _resume(self, now_s: float) -> tcp.Due:
        self._is_on = True
        self._bursts.append({"begun_s": now_s, "ended_s": None, "bytes": -self.sent})
        return []

    def _pause(self, now_s: float) -> tcp.Due:
        if self._is_on:
            self._is_on = False
            self._bursts[-1]["ended_s"] = now_s
            self._bursts[-1]["bytes"] += self.sent
        return []

    def record(self, now_s: float, ending: str) -> wire.Record:
        """See `narrows.onhost.tcp.TcpConnection.record`: of each burst as well how much was given to the socket."""
        self._pause(now_s)
        return super().record(now_s, ending) | {"kind": "onoff", "bursts": self._bursts}


SENDER = Sender
