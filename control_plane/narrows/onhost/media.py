# SPDX-License-Identifier: Apache-2.0
"""The media of a call on its hosts: datagrams at a rate that follows what their receiver says (`narrows.onhost.nada`).

The source has as much to send as it may: an encoder that meets its rate exactly. `narrows.onhost.datagrams` serves the
sockets. Only the standard library of Python 3.8 is used, so that it runs on any host.
"""

from __future__ import annotations

import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import nada, wire
    from narrows.onhost.datagrams import (
        STAMP,
        Arrivals,
        Counter,
        DatagramSockets,
        DatagramsSpecification,
        Receiver,
        Sender,
        Sending,
    )
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import nada
    import wire
    from datagrams import STAMP, Arrivals, Counter, DatagramSockets, Receiver, Sender, Sending

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

# A report: the signal, the rate that arrives, whether to ramp up, and when the datagram that it answers was sent.
REPORT = struct.Struct("!dd?d")
NADA = "nada"


@wire.message
@dataclass
class MediaSpecification:
    """Bounds of the rate of a flow's payload."""

    least_bps: int
    most_bps: int


@dataclass(frozen=True)
class Media(Sending):
    """A call's media between a least and a most rate; ``gap_ns`` is that of the most."""

    kind = "media"
    made_by = "media"
    echo = False
    least_bps: int
    most_bps: int

    @property
    def own(self) -> MediaSpecification:
        """See `Payload.own`."""
        return MediaSpecification(self.least_bps, self.most_bps)


class MediaSender(Sender):
    """The sending side of a flow."""

    def __init__(self, flow: DatagramsSpecification, opened: socket.socket) -> None:
        """See `Sender`."""
        super().__init__(flow, opened)
        self._rate = nada.Sender(flow.own.least_bps, flow.own.most_bps)
        self._due_s: float | None = None
        self._reports: list[wire.Record] = []

    def answers(self, now_s: Callable[[], float]) -> Receiver:
        """See `Sender.answers`."""
        return Reports(self, now_s)

    def _next_datagram_s(self) -> float | None:
        while self._burst < len(self.flow.bursts):
            begin_s, end_s = self.flow.bursts[self._burst]
            at_s = begin_s if self._due_s is None else max(begin_s, self._due_s)
            if at_s < min(end_s, self._ends_s):
                return at_s
            self._burst += 1
        return None

    def send(self) -> None:
        """See `Sender.send`; the next is due after as long as the rate has this one take."""
        at_s = self.next_s()
        super().send()
        self._due_s = at_s + 8 * self.flow.payload / self._rate.rate_bps

    def follow(self, report: nada.Report, rtt_s: float, now_s: float) -> None:
        """Follow a report that has just come."""
        self._rate.take(report, rtt_s, now_s)
        self._reports.append(
            {"time_s": now_s, "rtt_s": rtt_s, "signal_s": report.signal_s, "rate_bps": self._rate.rate_bps}
        )

    def record(self, ended_s: float, ending: str) -> wire.Record:
        """See `Sender.record`: each report and the rate from then on as well."""
        return {**super().record(ended_s, ending), "congestion_control": NADA, "reports": self._reports}


class MediaReceiver(Counter):
    """A socket that takes in a flow's datagrams, and reports on them to their sender."""

    def __init__(self, name: str, opened: socket.socket, arrivals: Arrivals) -> None:
        """See `Counter`."""
        super().__init__(name, opened, arrivals)
        self._nada = nada.Receiver()

    def take(self, datagram: memoryview, marked: bool, source: Any) -> None:
        """See `Receiver.take`."""
        super().take(datagram, marked, source)
        if len(datagram) < STAMP.size:
            return
        number, sent_s = STAMP.unpack_from(datagram)
        report = self._nada.take(number, sent_s, time.monotonic(), len(datagram), marked)
        if report is not None:
            fields = report.signal_s, report.received_bps, report.ramp_up, sent_s
            self.socket.sendto(REPORT.pack(*fields), source)


class Reports(Receiver):
    """A sender's socket, to which reports come."""

    def __init__(self, sender: MediaSender, now_s: Callable[[], float]) -> None:
        """Take the sender that follows them, and the experiment's clock."""
        super().__init__(sender.flow.name, sender.socket)
        self._sender = sender
        self._now_s = now_s

    def take(self, datagram: memoryview, marked: bool, source: Any) -> None:
        """See `Receiver.take`."""
        if len(datagram) == REPORT.size:
            signal_s, received_bps, ramp_up, sent_s = REPORT.unpack(datagram)
            report = nada.Report(signal_s, received_bps, ramp_up)
            self._sender.follow(report, time.monotonic() - sent_s, self._now_s())


class MediaSockets(DatagramSockets):
    """Senders and receivers of media."""

    def _receiver(self, flow: DatagramsSpecification, opened: socket.socket) -> Receiver:
        return MediaReceiver(flow.name, opened, Arrivals(flow.one_clock))

    def _sender(self, flow: DatagramsSpecification, opened: socket.socket) -> Sender:
        return MediaSender(flow, opened)


SOCKETS = MediaSockets
