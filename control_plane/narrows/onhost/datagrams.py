# SPDX-License-Identifier: Apache-2.0
"""UDP flows and latency probes on a host: every datagram sent at its time, and counted where it arrives.

Each datagram carries its number and the time at which it was sent, so that the receiving side tells what was lost,
repeated, or overtaken (RFC 4737: it is reordered if one with a higher number came before it). A probe's datagrams are
sent back, which makes a round-trip time of each.

One thread sends and one receives: neither keeps the other from its time. Only the standard library of Python 3.8 is
used, so that it runs on any host.
"""

from __future__ import annotations

import errno
import heapq
import select
import socket
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import wire
    from narrows.onhost.payload import Datagrams, Payload
    from narrows.onhost.sockets import Sockets, Surroundings
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import wire
    from payload import Datagrams, Payload
    from sockets import Sockets, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

# Number of the datagram, and when it was sent (the sender's monotonic clock).
STAMP = struct.Struct("!Qd")
# The last part of a wait, in which nothing is done that others ask for: this sleep is exact, that of an event is not.
LAST_S = 0.001
# What a socket may hold until it is read: a second of 1 Gbit/s, as far as the kernel allows it.
BUFFER_BYTES = 1 << 27
MAX_DATAGRAM = 65_535
# asm-generic/socket.h: the limit may be passed by who has CAP_NET_ADMIN; counters of a socket, by place.
SO_RCVBUFFORCE, SO_SNDBUFFORCE, SO_MEMINFO, SK_MEMINFO_DROPS, MEMINFO_WORDS = 33, 32, 55, 8, 9
IP_RECVTOS = 13  # linux/in.h
ECN_MASK, CE = 0b11, 0b11
PERCENTILES = (50, 95, 99)
ECN_FIELDS = {"not-ect": 0, "ect1": 1, "ect0": 2}


@dataclass(frozen=True)
class Sending(Payload):
    """Datagrams of ``payload`` bytes, ``gap_ns`` apart in each burst (start and end, ns since the experiment's start).

    ``ecn`` is the ECN field of each.
    """

    made_by = "datagrams"
    protocol = socket.IPPROTO_UDP
    lasts = True
    echo: ClassVar[bool]
    """Whether the receiver sends each one back."""
    payload: int
    gap_ns: float
    bursts: tuple[tuple[int, int], ...]
    ecn: str

    @property
    def datagrams(self) -> Datagrams:
        """See `Payload.datagrams`."""
        return Datagrams(self.payload, self.gap_ns, sum(end - begin for begin, end in self.bursts))


@dataclass(frozen=True)
class Udp(Sending):
    """Datagrams that nothing answers."""

    kind = "udp"
    acknowledged = False
    echo = False


@dataclass(frozen=True)
class Probe(Sending):
    """Datagrams that come back."""

    kind = "probe"
    competes = False
    echo = True


@wire.message
@dataclass
class DatagramsSpecification(wire.FlowSpecification):
    """A flow of datagrams, ``gap_s`` apart in each burst (start and end).

    With ``one_clock`` its two hosts have the same one; ``echo`` has its receiver send each one back. ``own`` is its
    kind's.
    """

    kind: str
    host: str
    src: str
    src_port: int
    dst: str
    dst_port: int
    payload: int
    gap_s: float
    bursts: list[tuple[float, float]]
    end_s: float
    ecn: str
    echo: bool
    one_clock: bool
    own: Any


class Arrivals:
    """What has arrived of one flow: numbers in the order of arrival, and how long each took."""

    def __init__(self, timed: bool = True) -> None:
        """Nothing yet. Unless ``timed``, the sender's clock is another one, and how long they took is not known."""
        self._timed = timed
        self._seen: set[int] = set()
        self._highest = -1
        self._delays = array("d")
        self._bytes = 0
        self._packets = 0
        self._reordered = 0
        self._marked = 0

    def take(self, datagram: memoryview, now_s: float, marked: bool) -> None:
        """Count one; what is too short to be ours is left out."""
        if len(datagram) < STAMP.size:
            return
        number, sent_s = STAMP.unpack_from(datagram)
        self._packets += 1
        self._marked += marked
        if number in self._seen:
            return
        self._seen.add(number)
        self._bytes += len(datagram)
        self._delays.append(now_s - sent_s)
        if number < self._highest:
            self._reordered += 1
        self._highest = max(self._highest, number)

    def summary(self) -> wire.Record:
        """Counts in packets, payload bytes without repetitions, and the distribution of the times in seconds."""
        delays = sorted(self._delays)
        return {
            "packets": self._packets,
            "bytes": self._bytes,
            "duplicates": self._packets - len(self._seen),
            "reordered": self._reordered,
            "ce_marked": self._marked,
            "delay_s": distribution(delays) if delays and self._timed else None,
        }


def distribution(ordered: Sequence[float]) -> dict[str, float]:
    """Least, mean, percentiles (nearest rank) and most of values in ascending order."""
    ranks = {f"p{part}": ordered[max(0, -(-part * len(ordered) // 100) - 1)] for part in PERCENTILES}
    return {"min": ordered[0], "mean": sum(ordered) / len(ordered), **ranks, "max": ordered[-1]}


class Sender:
    """The sending side of one flow."""

    def __init__(self, flow: DatagramsSpecification, opened: socket.socket) -> None:
        """Take a flow and a bound socket."""
        self.flow = flow
        self.socket = opened
        self.sent = 0
        self.unsent = 0
        self.started_s: float | None = None
        self._data = bytearray(flow.payload)
        self._target = (flow.dst, flow.dst_port)
        self.is_over = False
        # It is running until then, whether it has anything to send or not.
        self._ends_s = flow.end_s
        self._last_sent_s: float | None = None
        # Position in the bursts, and which datagram of the burst comes next.
        self._burst, self._next = 0, 0

    def next_s(self) -> float:
        """When there is something to do: to send the next datagram, or to end, where `is_sent`; in seconds since the
        experiment's start."""
        return self._ends_s if (at_s := self._next_datagram_s()) is None else at_s

    @property
    def is_sent(self) -> bool:
        """Whether all was sent."""
        return self._next_datagram_s() is None

    def _next_datagram_s(self) -> float | None:
        bursts = self.flow.bursts
        while self._burst < len(bursts):
            begin_s, end_s = bursts[self._burst]
            at_s = begin_s + self._next * self.flow.gap_s
            if at_s < min(end_s, self._ends_s):
                return at_s
            self._burst, self._next = self._burst + 1, 0
        return None

    def answers(self, now_s: Callable[[], float]) -> Receiver | None:
        """What takes in what comes back; None: nothing does. ``now_s`` is the time since the experiment's start."""
        return Counter(self.flow.name, self.socket, Arrivals()) if self.flow.echo else None

    def release(self, at_s: float) -> None:
        """Have all times count from that one."""
        self.flow.bursts = [(begin_s + at_s, end_s + at_s) for begin_s, end_s in self.flow.bursts]
        self._ends_s += at_s

    def finish(self, at_s: float) -> None:
        """Send nothing at that time or later."""
        self._ends_s = min(self._ends_s, at_s)

    def record(self, ended_s: float, ending: str) -> wire.Record:
        """What there is to say at its end: `narrows_formats.connection_record`."""
        return {
            "kind": self.flow.kind,
            "src_port": self.flow.src_port,
            "dst_port": self.flow.dst_port,
            "started_s": self.started_s,
            "ended_s": ended_s,
            "ending": ending,
            "last_sent_s": self._last_sent_s,
            "bytes_sent": self.sent * self.flow.payload,
            "packets_sent": self.sent,
            "packets_unsent": self.unsent,
        }

    def send(self) -> None:
        """Send the next one. One for which there is no room in the socket is counted, and not sent again."""
        self._last_sent_s = self.next_s()
        self._next += 1
        STAMP.pack_into(self._data, 0, self.sent + self.unsent, time.monotonic())
        try:
            self.socket.sendto(self._data, self._target)
            self.sent += 1
        except (BlockingIOError, ConnectionRefusedError):
            self.unsent += 1


class Receiver(ABC):
    """A socket that takes datagrams in."""

    def __init__(self, name: str, opened: socket.socket) -> None:
        """Take the name of the flow and a bound socket."""
        self.name = name
        self.socket = opened

    def read(self, view: memoryview) -> None:
        """Take in all that the socket has; ``view`` is memory for a datagram."""
        while True:
            try:
                count, ancillary, _, source = self.socket.recvmsg_into([view], 64)
                marked = any(data[0] & ECN_MASK == CE for _, _, data in ancillary if data)
                self.take(view[:count], marked, source)
            except (BlockingIOError, ConnectionRefusedError):
                return

    @abstractmethod
    def take(self, datagram: memoryview, marked: bool, source: Any) -> None:
        """Take in one that came from an address."""

    def summary(self) -> wire.Record | None:
        """What was counted; None: what arrives here is not."""
        return None


class Counter(Receiver):
    """A socket that counts datagrams."""

    def __init__(self, name: str, opened: socket.socket, arrivals: Arrivals) -> None:
        """See `Receiver`."""
        super().__init__(name, opened)
        self._arrivals = arrivals

    def take(self, datagram: memoryview, marked: bool, source: Any) -> None:
        """See `Receiver.take`."""
        self._arrivals.take(datagram, time.monotonic(), marked)

    def summary(self) -> wire.Record:
        """See `Receiver.summary`; and what the socket had no room for."""
        words = self.socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * MEMINFO_WORDS)
        return {**self._arrivals.summary(), "unread": struct.unpack(f"={MEMINFO_WORDS}I", words)[SK_MEMINFO_DROPS]}


class Echo(Receiver):
    """A socket that sends datagrams back, uncounted."""

    def take(self, datagram: memoryview, marked: bool, source: Any) -> None:
        """See `Receiver.take`."""
        self.socket.sendto(datagram, source)


class DatagramSockets(Sockets):
    """The datagrams of some flows: one thread sends them, and one takes in what arrives."""

    def __init__(self, surroundings: Surroundings) -> None:
        """See `Sockets`."""
        # What another thread has asked for, and that there is something.
        self._asked: deque[Callable[[], None]] = deque()
        self._woken = threading.Event()
        self._open_socket = surroundings.open_socket
        self._tell = surroundings.tell
        self._senders: list[Sender] = []
        # When each sender is to send next, and which it is.
        self._due: list[tuple[float, int]] = []
        self._receivers: dict[int, Receiver] = {}
        self._poll = select.epoll()
        self._stopped = False
        self._closing = False
        self._closed, self._close = socket.socketpair()
        self._poll.register(self._closed.fileno(), select.EPOLLIN)
        self._receiving: threading.Thread | None = None
        self._t0_s = 0.0

    def listen(self, host: str, flows: Sequence[DatagramsSpecification]) -> None:
        """See `Sockets.listen`."""
        for flow in flows:
            self._add(self._receiver(flow, self._open(host, flow.dst, flow.dst_port, flow.ecn)))

    def prepare(self, flows: Sequence[DatagramsSpecification]) -> None:
        """See `Sockets.prepare`; what arrives is taken in from then on."""
        for flow in flows:
            sender = self._sender(flow, self._open(flow.host, flow.src, flow.src_port, flow.ecn))
            self._senders.append(sender)
            if (answers := sender.answers(lambda: time.monotonic() - self._t0_s)) is not None:
                self._add(answers)

        self._receiving = threading.Thread(target=self._take_in)
        self._receiving.start()

    def _receiver(self, flow: DatagramsSpecification, opened: socket.socket) -> Receiver:
        """What takes in the datagrams of a flow."""
        return Echo(flow.name, opened) if flow.echo else Counter(flow.name, opened, Arrivals(flow.one_clock))

    def _sender(self, flow: DatagramsSpecification, opened: socket.socket) -> Sender:
        """What sends the datagrams of a flow."""
        return Sender(flow, opened)

    def run(self, t0_s: float) -> None:
        """See `Sockets.run`: a host that has sent everything waits for what comes back.

        Raises:
            OSError: the kernel refuses a datagram, as one that is too long.
        """
        self._t0_s, due = t0_s, self._due
        for place, sender in enumerate(self._senders):
            if not sender.flow.held:
                self._note(place)
        while True:
            self._do_asked()
            if self._stopped:
                break
            if not due:
                self._woken.wait()
                continue
            at_s, place = due[0]
            wait_s = t0_s + at_s - time.monotonic()
            if wait_s > LAST_S:
                self._woken.wait(wait_s - LAST_S)
                continue
            if wait_s > 0:
                time.sleep(wait_s)
                continue
            heapq.heappop(due)
            sender = self._senders[place]
            if sender.is_over:
                continue
            if sender.is_sent:
                self._end(sender, "time_over")
                continue
            began = sender.started_s is None
            if sender.started_s is None:
                sender.started_s = time.monotonic() - t0_s
            sender.send()
            if began:
                # Its receiver may need as long as a datagram takes.
                self._tell(wire.Started(sender.flow.name, 0, sender.started_s))
            self._note(place)
        for _, place in due:
            if not self._senders[place].is_over:
                self._end(self._senders[place], "interrupted")

    def _note(self, place: int) -> None:
        """Note when a sender has something to do again."""
        heapq.heappush(self._due, (self._senders[place].next_s(), place))

    def release(self, name: str, at_s: float) -> None:
        """See `Sockets.release`."""
        place = self._place(name)

        def release() -> None:
            self._senders[place].release(at_s)
            self._note(place)

        self._ask(release)

    def finish(self, name: str, at_s: float) -> None:
        """See `Sockets.finish`."""
        place = self._place(name)

        def finish() -> None:
            self._senders[place].finish(at_s)
            heapq.heappush(self._due, (at_s, place))

        self._ask(finish)

    def _place(self, name: str) -> int:
        return next(place for place, one in enumerate(self._senders) if one.flow.name == name)

    def _ask(self, action: Callable[[], None]) -> None:
        self._asked.append(action)
        self._woken.set()

    def _do_asked(self) -> None:
        self._woken.clear()
        while self._asked:
            self._asked.popleft()()

    def stop(self) -> None:
        """See `Sockets.stop`; what is under way is still taken in."""
        self._stopped = True
        self._woken.set()

    def close(self) -> None:
        """See `Sockets.close`; reports what each receiver has counted."""
        self.stop()
        if self._closing:
            return
        self._closing = True
        self._close.send(b"\0")
        if self._receiving is not None:
            self._receiving.join()
        for receiver in self._receivers.values():
            if (summary := receiver.summary()) is not None:
                self._tell(wire.Received(receiver.name, summary))
        sockets = [*(one.socket for one in self._receivers.values()), *(one.socket for one in self._senders)]
        for opened in sockets:
            opened.close()
        self._poll.close()
        self._closed.close()
        self._close.close()

    def _end(self, sender: Sender, ending: str) -> None:
        sender.is_over = True
        name, ended_s = sender.flow.name, time.monotonic() - self._t0_s
        if sender.started_s is not None:
            self._tell(wire.Ended(name, 0, ended_s, sender.record(ended_s, ending)))
        if ending == "time_over":
            self._tell(wire.Done(name))

    def _open(self, host: str, address: str, port: int, ecn: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        opened = self._open_socket(host, family, socket.SOCK_DGRAM)
        try:
            set_up(opened, address, port, ecn)
        except OSError:
            opened.close()
            raise
        return opened

    def _add(self, receiver: Receiver) -> None:
        self._receivers[receiver.socket.fileno()] = receiver
        self._poll.register(receiver.socket.fileno(), select.EPOLLIN)

    def _take_in(self) -> None:
        view = memoryview(bytearray(MAX_DATAGRAM))
        while True:
            ready = [self._receivers[number] for number, _ in self._poll.poll() if number in self._receivers]
            for receiver in ready:
                receiver.read(view)
            # What has arrived before the end is read.
            if self._closing and not ready:
                return


def set_up(opened: socket.socket, address: str, port: int, ecn: str) -> None:
    """Give a socket its buffers, its ECN field and its port.

    Raises:
        OSError: the port is in use, or the kernel does not take the ECN field.
    """
    opened.setblocking(False)
    for forced, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            opened.setsockopt(socket.SOL_SOCKET, forced, BUFFER_BYTES)
        except PermissionError:
            opened.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)
    is_ipv6 = opened.family == socket.AF_INET6
    level = socket.IPPROTO_IPV6 if is_ipv6 else socket.IPPROTO_IP
    opened.setsockopt(level, socket.IPV6_RECVTCLASS if is_ipv6 else IP_RECVTOS, 1)
    field = socket.IPV6_TCLASS if is_ipv6 else socket.IP_TOS
    opened.setsockopt(level, field, ECN_FIELDS[ecn])
    found = opened.getsockopt(level, field)
    if found != ECN_FIELDS[ecn]:
        raise OSError(errno.EPROTO, f"the ECN field of {address} is {found}, not {ECN_FIELDS[ecn]}")
    opened.bind((address, port))


SOCKETS = DatagramSockets
