# SPDX-License-Identifier: Apache-2.0
"""Bulk flows, finite ones and workloads on a host: TCP in as few system calls as can be, each started at its time.

One thread serves all sockets (`narrows.onhost.loop`): those that start flows are made, bound and given their congestion
control before the experiment begins, so that nothing but connect() is left to do at a flow's time. The receiving side
throws away what has arrived; TCP acknowledges it whether it was read or not. A bulk flow ends at its time, at once; a
finite one when the receiving side has read its last byte.

Times are seconds since the experiment's start. Only the standard library of Python 3.8 is used, so that it runs on any
host.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import wire
    from narrows.onhost.loop import CHUNK, LIBRARY, Loop
    from narrows.onhost.payload import Payload
    from narrows.onhost.sockets import Surroundings
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import wire
    from loop import CHUNK, LIBRARY, Loop
    from payload import Payload
    from sockets import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from narrows.onhost.sockets import OpenSocket

    # An option of a socket: name, level, number, how the value is packed, value.
    Option = tuple[str, int, int, str, int]
    # What is done at a time, which it gets: it says what is to be done later.
    Action = Callable[[float], "Due"]
    Due = list[tuple[float, Action]]

MAX_BYTES = 1 << 30
BACKLOG = 4096
INTERVAL_S = 1.0
RESET = struct.pack("ii", 1, 0)  # struct linger: closing ends the connection and drops what was not sent
# asm-generic/socket.h: the window and the rate of the congestion controls that `external.c` has.
SO_MARK, SO_MAX_PACING_RATE = 36, 47
# How long a socket that takes all it is given may keep the thread from what else is due.
TURN_S = 0.001

# struct tcp_info (linux/tcp.h): options are a byte, the others 32-bit words, by byte offset.
TCP_INFO_BYTES = 280
OPTIONS = 5
WORDS = {"rto": 8, "mss": 16, "rtt": 68, "cwnd": 80, "retransmits": 100, "min_rtt": 148, "delivered_ce": 196}
# The two low bits of a byte that kernels before accurate ECN do not have, and what they say (TCPI_ECN_MODE_*).
ECN_MODE, ECN_MODES = 276, ("off", "classic", "accurate", None)
NO_MIN_RTT = (1 << 32) - 1  # the kernel has measured none
OPTION_ECN = 8  # TCPI_OPT_ECN: both ends have agreed on it
TICK_S = 0.01  # timeouts are whole ticks, and no kernel has longer ones


@dataclass(frozen=True)
class Bulk(Payload):
    """One connection that sends for the flow's duration."""

    kind = "bulk"
    lasts = True


@dataclass(frozen=True)
class Finite(Payload):
    """A sequence of ``repeat`` connections of ``size`` bytes, one after the other, ``pause_ns`` between them.

    With ``until``, none starts after the flows of that group have ended.
    """

    kind = "finite"
    size: int
    repeat: int = 1
    pause_ns: int = 0
    until: str | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """See `Payload.sizes`."""
        return (self.size,)

    @property
    def waits_ns(self) -> int:
        """See `Payload.waits_ns`."""
        return (self.repeat - 1) * self.pause_ns


@dataclass(frozen=True)
class Workload(Payload):
    """Connections that do not wait for each other: when each starts, after the flow's start, and its bytes."""

    kind = "workload"
    starts_ns: tuple[int, ...]
    bytes_each: tuple[int, ...]

    @property
    def repeat(self) -> int:
        """See `Payload.repeat`."""
        return len(self.bytes_each)

    @property
    def sizes(self) -> tuple[int, ...]:
        """See `Payload.sizes`."""
        return self.bytes_each

    @property
    def arrivals_ns(self) -> tuple[int, ...]:
        """See `Payload.arrivals_ns`."""
        return self.starts_ns

    @property
    def total_bytes(self) -> int:
        """See `Payload.total_bytes`."""
        return sum(self.sizes)


@dataclass
class TcpSpecification(wire.FlowSpecification):
    """What the sockets of a flow are set to, and what of it is read back.

    ``ecn`` is whether it is used; None: as the kernel does.
    """

    cca: str
    ecn: bool | None
    options: list[Option]
    receiver_options: list[Option]
    initial_window: int | None
    rto_min_s: float | None


@wire.message
@dataclass
class Part:
    """A connection of a flow; without a ``size`` it lasts for a time."""

    number: int
    start_s: float
    size: int | None
    src_port: int


@wire.message
@dataclass
class ConnectionsSpecification(TcpSpecification):
    """A flow of connections that its sender makes, of the kind of a ``module`` here, with what is that kind's ``own``.

    A sequence has one connection after the other, ``gap_s`` between them, the last one starting before
    ``last_start_s`` and before all flows of the group ``until`` have ended.
    """

    module: str
    own: Any
    host: str
    src: str
    dst: str
    dst_port: int
    duration_s: float | None
    sequence: bool
    gap_s: float
    last_start_s: float | None
    until: str | None
    connections: list[Part]


class Progress(Enum):
    """How far a connection came in its turn."""

    WAITS = auto()  # for room in the socket, or for the other side
    GOES_ON = auto()  # the turn ended before the socket was full
    DELIVERED = auto()  # all has arrived at the other side


class Failed(Exception):
    """A flow is not what was asked; the message says in which way."""


def check(connection: socket.socket, flow: TcpSpecification) -> None:
    """Read back what an established connection runs with: the only place where that is compared with what was asked.

    A congestion control that needs ECN and did not get it becomes another one, as ``dctcp-reno``, and a listener with
    another one than the sender's does not agree on ECN (RFC 8257, section 3.1).

    Raises:
        Failed: the congestion control is another one, or ECN is in use and was not asked for, or the reverse.
        OSError: there is no connection any more.
    """
    used = congestion_control(connection)
    if used != flow.cca:
        raise Failed(f"ran with {used}, not {flow.cca}")
    options = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)[OPTIONS]
    if flow.ecn and not options & OPTION_ECN:
        raise Failed("ran without ECN, which it was to use")
    if flow.ecn is False and options & OPTION_ECN:
        raise Failed("ran with ECN, which it was not to")


def check_start(connection: socket.socket, flow: TcpSpecification) -> None:
    """Read back what a connection starts with, before anything of it is sent.

    After its first sample R the timeout is R + max(2 R, least) (RFC 6298, section 2.2, G being the least in Linux). One
    whose SYN was lost starts with another window, and may have no sample (RFC 6298, section 5.7, and Karn's algorithm).

    Raises:
        Failed: the initial window is another one, or the retransmission timeout.
    """
    info = tcp_info(connection)
    if info["retransmits"] or not info["rtt"]:
        return
    if flow.initial_window is not None and info["cwnd"] != flow.initial_window:
        raise Failed(f"began with a window of {info['cwnd']} segments, not {flow.initial_window}")
    if flow.rto_min_s is not None:
        rtt_s, rto_s = info["rtt"] / 1e6, info["rto"] / 1e6
        asked_s = rtt_s + max(2 * rtt_s, flow.rto_min_s)
        if not asked_s - TICK_S <= rto_s <= asked_s + TICK_S:
            raise Failed(f"began with a retransmission timeout of {rto_s:g} s, not {asked_s:g} s")


def set_options(opened: socket.socket, options: Sequence[Option]) -> None:
    """Set options of a socket, and read them back.

    Raises:
        Failed: the kernel refuses one, or has another value.
    """
    for name, level, number, form, value in options:
        try:
            opened.setsockopt(level, number, struct.pack(form, value))
        except OSError as error:
            raise Failed(f"{name} cannot be set to {value}: {error.strerror}") from error
        (found,) = struct.unpack(form, opened.getsockopt(level, number, struct.calcsize(form)))
        if found != value:
            raise Failed(f"{name} is {found}, not {value}")


def lasting(options: Sequence[Option]) -> list[Option]:
    """Those that are to be set again whenever data were read: the kernel has another window clamp once it knows how
    much memory a segment takes, and when it makes the receive buffer larger."""
    return [option for option in options if option[0] == "TCP_WINDOW_CLAMP"]


def tcp_info(connection: socket.socket) -> dict[str, int]:
    """What the kernel knows of a connection, by the names of `WORDS`."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    return {name: int(struct.unpack_from("=I", info, at)[0]) for name, at in WORDS.items()}


def ecn_mode(info: bytes) -> str | None:
    """The feedback of congestion that a connection uses, from its tcp_info; None: its kernel does not say which."""
    if len(info) > ECN_MODE:
        return ECN_MODES[info[ECN_MODE] & 3]
    return None if info[OPTIONS] & OPTION_ECN else "off"


def congestion_control(connection: socket.socket) -> str:
    """What a socket runs with."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


class TcpConnection:
    """The sending side of one TCP connection."""

    def __init__(self, flow: ConnectionsSpecification, part: Part, payload: int) -> None:
        """Take a flow and which connection of it, and a file of `CHUNK` bytes to send again and again."""
        self.flow = flow
        self.number = part.number
        self.start_s = part.start_s
        self._remaining = part.size
        self._src_port = part.src_port
        self._payload = payload
        self._socket: socket.socket | None = None
        self._is_checked = False
        self._sent = 0
        self._started_s: float | None = None
        self._samples: list[dict[str, float | None]] = []
        self._marks = 0

    @property
    def is_established(self) -> bool:
        """Whether it is connected, and with what was asked."""
        return self._is_checked

    @property
    def socket(self) -> socket.socket:
        """Its socket, once it is open."""
        assert self._socket is not None
        return self._socket

    def open(self, open_socket: OpenSocket) -> None:
        """Make everything ready but the connection itself; nothing to do if that was done before.

        Raises:
            OSError: the kernel does not have the congestion control, or the port is in use.
            Failed: it does not take an option.
        """
        if self._socket is not None:
            return
        flow = self.flow
        self._socket = open_socket(flow.host, family(flow.src), socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow.cca.encode())
        set_options(self._socket, flow.options)
        self._socket.bind((flow.src, self._src_port))

    def connect(self, now_s: float) -> None:
        """Begin to connect."""
        self._started_s = now_s
        self.socket.connect_ex((self.flow.dst, self.flow.dst_port))

    def advance(self) -> Progress:
        """Give the socket all that it takes in a turn.

        Raises:
            OSError: the connection was refused, or broke.
            Failed: it is not what was asked.
        """
        if not self._is_checked:
            if code := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            check(self.socket, self.flow)
            check_start(self.socket, self.flow)
            self._is_checked = True
        turn_ends = time.monotonic() + TURN_S
        try:
            while count := self.available:
                # A receiver as fast as we are would keep us here for good.
                if time.monotonic() >= turn_ends:
                    return Progress.GOES_ON
                sent = os.sendfile(self.socket.fileno(), self._payload, 0, count)
                self._sent += sent
                if self._remaining is not None:
                    self._remaining -= sent
                    if not self._remaining:
                        self.socket.shutdown(socket.SHUT_WR)
            # The receiving side closes when it has read the last byte.
            return Progress.WAITS if self.socket.recv(1) else Progress.DELIVERED
        except BlockingIOError:
            return Progress.WAITS

    def steer(self, window: int | None, rate: int | None) -> bytes:
        """Set a window in segments and a pacing rate in bytes/s, those that are given, of the congestion control
        `external`: from now on. Returns the tcp_info of that moment.

        Raises:
            OSError: the kernel refuses one.
            Failed: it has another value.
        """
        if window is not None:
            # Two settings of one window differ.
            self._marks += 1
            mark = (self._marks & 1) << 31 | window
            set_options(self.socket, [("SO_MARK", socket.SOL_SOCKET, SO_MARK, "=I", mark)])
        if rate is not None:
            set_options(self.socket, [("SO_MAX_PACING_RATE", socket.SOL_SOCKET, SO_MAX_PACING_RATE, "=Q", rate)])
        if window is not None or rate is not None:
            # What there is to send is sent, as far as both allow now.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)

    @property
    def sent(self) -> int:
        """Bytes that the socket has taken."""
        return self._sent

    @property
    def available(self) -> int:
        """Bytes that there are to send at the moment, `CHUNK` at most."""
        return CHUNK if self._remaining is None else min(self._remaining, CHUNK)

    def schedule(self) -> Due:
        """What is to be done at which time; what there is to send follows."""
        return []

    def apply(self, command: wire.Apply, now_s: float) -> Due:
        """Do what a command says; returns what is to be done next."""
        raise ValueError(f"flow {command.flow} has no application")

    def sample(self, now_s: float) -> None:
        """Note what the kernel knows of the connection at the moment; without an RTT it has measured none."""
        info = tcp_info(self.socket)
        rtt_s = info["rtt"] / 1e6 if info["rtt"] else None
        self._samples.append({"time_s": now_s, "rtt_s": rtt_s, "cwnd_bytes": info["cwnd"] * info["mss"]})

    def close(self) -> None:
        """End the connection; what was not sent is dropped. Safe to call twice."""
        if self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._socket.close()
            self._socket = None

    def record(self, now_s: float, ending: str) -> wire.Record:
        """What there is to say at the end of an open connection: `narrows_formats.connection_record`."""
        self.sample(now_s)
        info = tcp_info(self.socket)
        return {
            "congestion_control": congestion_control(self.socket),
            "src_port": self._src_port,
            "dst_port": self.flow.dst_port,
            "started_s": self._started_s,
            "ended_s": now_s,
            "ending": ending,
            "bytes_sent": self._sent,
            "retransmits": info["retransmits"],
            "mss_bytes": info["mss"],
            "rtt_min_s": None if info["min_rtt"] == NO_MIN_RTT else info["min_rtt"] / 1e6,
            "ecn": ecn_mode(self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)),
            "delivered_ce": info["delivered_ce"],
            "samples": self._samples,
        }


class FlowSockets(Loop):
    """The sockets of some flows, served by one thread."""

    def __init__(self, surroundings: Surroundings) -> None:
        """See `Sockets`."""
        super().__init__(surroundings)
        self._batch_bytes = surroundings.batch_bytes
        self._has_ended = surroundings.has_ended
        # What keeps a socket open as long as it is served.
        self._received: dict[int, socket.socket] = {}
        # Of each flow: its connections, and how many of them have not ended.
        self._connections: dict[str, list[TcpConnection]] = {}
        self._left: dict[str, int] = {}
        self._failed: set[str] = set()
        self._running: dict[TcpConnection, None] = {}
        # Those whose turn ended before their socket was full.
        self._next_turns: set[TcpConnection] = set()

    def listen(self, host: str, flows: Sequence[ConnectionsSpecification]) -> None:
        """Open the ports of flows on their receiving host, each with the flow's congestion control.

        Raises:
            OSError: a port is in use, or the kernel does not have the congestion control.
        """
        for flow in flows:
            listener = self._open_socket(host, family(flow.dst), socket.SOCK_STREAM)
            self._received[listener.fileno()] = listener
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Connections inherit both. The first decides over ECN while a connection is made.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow.cca.encode())
            try:
                set_options(listener, flow.receiver_options)
            except Failed as error:
                self._tell(wire.Failure(flow.name, f"the receiver's {error}"))
            if self._batch_bytes and not lasting(flow.receiver_options):
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._batch_bytes)
            listener.setblocking(False)
            listener.bind((flow.dst, flow.dst_port))
            listener.listen(BACKLOG)
            self._watch(listener.fileno(), select.EPOLLIN, partial(self._accept, listener, flow))

    def prepare(self, flows: Sequence[ConnectionsSpecification]) -> None:
        """Make the first connections ready, of flows that start by this process."""
        for flow in flows:
            kind: type[TcpConnection] = wire.sibling(flow.module).SENDER
            connections = [kind(flow, part, self._payload) for part in flow.connections]
            self._connections[flow.name] = connections
            self._left[flow.name] = len(connections)
            if self._opened(connections[0]) and not flow.held:
                self._schedule(flow)

    def _schedule(self, flow: ConnectionsSpecification) -> None:
        connections = self._connections[flow.name]
        # Of a sequence the next one starts when the one before has ended.
        for connection in connections[:1] if flow.sequence else connections:
            self._at(connection.start_s, partial(self._begin, connection))

    def _release(self, name: str, at_s: float) -> None:
        connections = self._connections[name]
        flow = connections[0].flow
        if flow.last_start_s is not None:
            flow.last_start_s += at_s
        for connection in connections:
            connection.start_s += at_s
        self._schedule(flow)

    def finish(self, name: str, at_s: float) -> None:
        """See `Sockets.finish`."""
        self._call(partial(self._finish_at, name, at_s))

    def _finish_at(self, name: str, at_s: float) -> None:
        for connection in self._connections[name]:
            self._at(at_s, partial(self._finish, connection))

    def steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        """See `Sockets.steer`."""
        self._call(partial(self._steer_at, name, window, rate, at_s))

    def apply(self, command: wire.Apply) -> None:
        """See `Sockets.apply`."""
        self._call(partial(self._apply, command))

    def _apply(self, command: wire.Apply) -> None:
        for connection in self._connections[command.flow]:
            if connection in self._running:
                self._do(connection, partial(connection.apply, command))
            else:
                # It has not begun: it will do so with its start.
                connection.flow.own.append((command.event, self._now_s(), command.sends, command.bps))

    def _steer_at(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        if at_s is None:
            self._steer(name, window, rate, None)
        else:
            self._at(at_s, partial(self._steer, name, window, rate, at_s))

    def _steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        connection = self._connections[name][0]
        info = refused = None
        made_s = self._now_s() if at_s is None else at_s
        if connection in self._running and connection.is_established:
            try:
                info = connection.steer(window, rate).hex()
            except OSError as error:
                refused = str(error.strerror)
            except Failed as error:
                refused = str(error)
        self._tell(wire.Steered(name, made_s, info, refused))

    def _end_all(self) -> None:
        for connection in list(self._running):
            self._end(connection, "interrupted")

    def _close_sockets(self) -> None:
        for connections in self._connections.values():
            for connection in connections:
                connection.close()
        for received in self._received.values():
            received.close()

    def _opened(self, connection: TcpConnection) -> bool:
        try:
            connection.open(self._open_socket)
        except OSError as error:
            self._fail(connection.flow, str(error.strerror))
            return False
        except Failed as error:
            self._fail(connection.flow, str(error))
            return False
        return True

    def _begin(self, connection: TcpConnection) -> None:
        flow = connection.flow
        if flow.name in self._failed:
            return
        if connection.number and flow.sequence:
            last_s = flow.last_start_s
            if (last_s is not None and self._now_s() >= last_s) or (flow.until and self._has_ended(flow.until)):
                self._tell(wire.Done(flow.name))
                return
        if not self._opened(connection):
            return
        started_s = self._now_s()
        connection.connect(started_s)
        self._running[connection] = None
        self._watch(
            connection.socket.fileno(),
            select.EPOLLOUT | select.EPOLLIN | select.EPOLLET,
            partial(self._advance, connection),
        )
        self._tell(wire.Started(flow.name, connection.number, started_s))
        self._follow(connection, connection.schedule())
        if flow.duration_s is not None:
            self._at(connection.start_s + flow.duration_s, partial(self._finish, connection))
            self._at(connection.start_s + INTERVAL_S, partial(self._read, connection, 1))

    def _follow(self, connection: TcpConnection, due: Due) -> None:
        for at_s, action in due:
            self._at(at_s, partial(self._do, connection, action))

    def _do(self, connection: TcpConnection, action: Action) -> None:
        if connection not in self._running:
            return
        self._follow(connection, action(self._now_s()))
        # Before that its socket is not ready, and nothing of it can be read back.
        if connection.is_established:
            self._advance(connection)

    def _read(self, connection: TcpConnection, number: int) -> None:
        if connection in self._running:
            connection.sample(self._now_s())
            self._at(connection.start_s + (number + 1) * INTERVAL_S, partial(self._read, connection, number + 1))

    def _finish(self, connection: TcpConnection) -> None:
        """A bulk flow's time is over."""
        if connection not in self._running:
            return
        self._end(connection, "time_over")
        self._tell(wire.Done(connection.flow.name))

    def _advance(self, connection: TcpConnection) -> None:
        flow = connection.flow
        if connection in self._next_turns:
            return
        try:
            progress = connection.advance()
        except OSError as error:
            self._fail(flow, str(error.strerror))
            return
        except Failed as error:
            self._fail(flow, str(error))
            return
        if progress is Progress.GOES_ON:
            self._next_turns.add(connection)
            self._at(self._now_s(), partial(self._take_turn, connection))
        if progress is not Progress.DELIVERED:
            return
        if flow.duration_s is not None:
            self._fail(flow, "the receiver has closed the connection")
            return
        now_s = self._end(connection, "delivered")
        self._left[flow.name] -= 1
        if not self._left[flow.name]:
            self._tell(wire.Done(flow.name))
        elif flow.sequence:
            following = self._connections[flow.name][connection.number + 1]
            self._at(now_s + flow.gap_s, partial(self._begin, following))

    def _take_turn(self, connection: TcpConnection) -> None:
        self._next_turns.remove(connection)
        if connection in self._running:
            self._advance(connection)

    def _end(self, connection: TcpConnection, ending: str) -> float:
        """Close a connection, and tell what there is to tell of it; returns when that was."""
        now_s = self._now_s()
        record = connection.record(now_s, ending)
        self._handlers.pop(connection.socket.fileno(), None)
        del self._running[connection]
        connection.close()
        self._tell(wire.Ended(connection.flow.name, connection.number, now_s, record))
        return now_s

    def _fail(self, flow: ConnectionsSpecification, why: str) -> None:
        """End what there is of a flow; the others go on."""
        self._failed.add(flow.name)
        for connection in [one for one in self._running if one.flow is flow]:
            self._end(connection, "failed")
        self._tell(wire.Failure(flow.name, why))

    def _accept(self, listener: socket.socket, flow: ConnectionsSpecification) -> None:
        try:
            connection = listener.accept()[0]
        except (BlockingIOError, ConnectionError):
            return
        try:
            check(connection, flow)
        except Failed as error:
            connection.close()
            self._tell(wire.Failure(flow.name, f"the receiver {error}"))
            return
        connection.setblocking(False)
        self._received[connection.fileno()] = connection
        self._watch(
            connection.fileno(),
            select.EPOLLIN,
            partial(self._discard, connection, flow, lasting(flow.receiver_options)),
        )

    def _discard(self, connection: socket.socket, flow: ConnectionsSpecification, options: Sequence[Option]) -> None:
        """Throw away what has arrived, without copying it, and close what has ended."""
        # Python's own call would have memory made for it.
        count = int(LIBRARY.recv(connection.fileno(), None, MAX_BYTES, socket.MSG_TRUNC))
        if count > 0 or (count < 0 and ctypes.get_errno() in (errno.EAGAIN, errno.EINTR)):
            try:
                set_options(connection, options)
            except Failed as error:
                self._tell(wire.Failure(flow.name, f"the receiver's {error}"))
            return
        self._handlers.pop(connection.fileno(), None)
        self._received.pop(connection.fileno()).close()


def family(address: str) -> socket.AddressFamily:
    """The family of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


SOCKETS, SENDER = FlowSockets, TcpConnection
