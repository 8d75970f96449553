# SPDX-License-Identifier: Apache-2.0
"""Bulk flows, finite ones and workloads on a host: TCP in as few system calls as can be, each started at its time.

Used as ``tcp.py SPECIFICATION`` on a host, or by its classes from a thread. One thread serves all sockets: those
that start flows are made, bound and given their congestion control before the experiment begins, so that nothing but
connect() is left to do at a flow's time. The receiving side throws away what has arrived; TCP acknowledges it whether
it was read or not. A bulk flow ends at its time, at once; a finite one when the receiving side has read its last byte.

What became of a flow is reported as an event, a mapping that `narrows.traffic.generator` describes; times are seconds
since the experiment's start. Only the standard library of Python 3.8 is used, so that it runs on any host.
"""

from __future__ import annotations

import ctypes
import errno
import heapq
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost.payload import Payload
else:
    sys.path.insert(0, str(Path(__file__).parent))
    from payload import Payload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    # A flow as `narrows.traffic.flows.specify` writes it, and one of its connections.
    Flow = dict[str, Any]
    Part = dict[str, Any]
    Tell = Callable[[dict[str, Any]], None]
    # Opens a socket on a host: its name, family, type.
    OpenSocket = Callable[[str, int, int], socket.socket]
    # Whether all flows of a group have ended.
    HasEnded = Callable[[str], bool]

LIBRARY = ctypes.CDLL(None, use_errno=True)
LIBRARY.recv.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
LIBRARY.recv.restype = ctypes.c_ssize_t
MAX_BYTES = 1 << 30
CHUNK = 1 << 20
BACKLOG = 4096
INTERVAL_S = 1.0
TIMER = struct.Struct("=qqqq")  # struct itimerspec
TFD_NONBLOCK, TFD_TIMER_ABSTIME = os.O_NONBLOCK, 1
RESET = struct.pack("ii", 1, 0)  # struct linger: closing ends the connection and drops what was not sent
# asm-generic/socket.h: the window and the rate of the congestion controls that `external.c` has.
SO_MARK, SO_MAX_PACING_RATE = 36, 47
POLL_S = 0.005
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


class Progress(Enum):
    """How far a connection came in its turn."""

    WAITS = auto()  # for room in the socket, or for the other side
    GOES_ON = auto()  # the turn ended before the socket was full
    DELIVERED = auto()  # all has arrived at the other side


class Failed(Exception):
    """A flow is not what was asked; the message says in which way."""


def check(connection: socket.socket, flow: Flow) -> None:
    """Read back what an established connection runs with: the only place where that is compared with what was asked.

    A congestion control that needs ECN and did not get it becomes another one, as ``dctcp-reno``, and a listener with
    another one than the sender's does not agree on ECN (RFC 8257, section 3.1).

    Raises:
        Failed: the congestion control is another one, or ECN is in use and was not asked for, or the reverse.
        OSError: there is no connection any more.
    """
    used = congestion_control(connection)
    if used != flow["cca"]:
        raise Failed(f"ran with {used}, not {flow['cca']}")
    options = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)[OPTIONS]
    if flow["ecn"] and not options & OPTION_ECN:
        raise Failed("ran without ECN, which it was to use")
    if flow["ecn"] is False and options & OPTION_ECN:
        raise Failed("ran with ECN, which it was not to")


def check_start(connection: socket.socket, flow: Flow) -> None:
    """Read back what a connection starts with, before anything of it is sent.

    After its first sample R the timeout is R + max(2 R, least) (RFC 6298, section 2.2, G being the least in Linux). One
    whose SYN was lost starts with another window, and may have no sample (RFC 6298, section 5.7, and Karn's algorithm).

    Raises:
        Failed: the initial window is another one, or the retransmission timeout.
    """
    info = tcp_info(connection)
    if info["retransmits"] or not info["rtt"]:
        return
    if flow["initial_window"] is not None and info["cwnd"] != flow["initial_window"]:
        raise Failed(f"began with a window of {info['cwnd']} segments, not {flow['initial_window']}")
    if flow["rto_min_s"] is not None:
        rtt_s, rto_s = info["rtt"] / 1e6, info["rto"] / 1e6
        asked_s = rtt_s + max(2 * rtt_s, flow["rto_min_s"])
        if not asked_s - TICK_S <= rto_s <= asked_s + TICK_S:
            raise Failed(f"began with a retransmission timeout of {rto_s:g} s, not {asked_s:g} s")


def set_options(opened: socket.socket, options: Sequence[Sequence[Any]]) -> None:
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


def lasting(options: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
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


class Connection:
    """The sending side of one TCP connection."""

    def __init__(self, flow: Flow, part: Part, payload: int) -> None:
        """Take a flow and which connection of it, and a file of `CHUNK` bytes to send again and again."""
        self.flow = flow
        self.number: int = part["number"]
        self.start_s: float = part["start_s"]
        self._left: int | None = part["size"]
        self._src_port: int = part["src_port"]
        self._payload = payload
        self._socket: socket.socket | None = None
        self._is_checked = False
        self._sent = 0
        self._started_s: float | None = None
        self._samples: list[dict[str, Any]] = []
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
        self._socket = open_socket(flow["host"], family(flow["src"]), socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow["cca"].encode())
        set_options(self._socket, flow["options"])
        self._socket.bind((flow["src"], self._src_port))

    def connect(self, now_s: float) -> None:
        """Begin to connect."""
        self._started_s = now_s
        self.socket.connect_ex((self.flow["dst"], self.flow["dst_port"]))

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
            while self.has_more:
                # A receiver as fast as we are would keep us here for good.
                if time.monotonic() >= turn_ends:
                    return Progress.GOES_ON
                count = CHUNK if self._left is None else min(self._left, CHUNK)
                sent = os.sendfile(self.socket.fileno(), self._payload, 0, count)
                self._sent += sent
                if self._left is not None:
                    self._left -= sent
                    if not self._left:
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
    def has_more(self) -> bool:
        """Whether there is anything to send at the moment."""
        return self._left is None or self._left > 0

    def schedule(self) -> list[tuple[float, Callable[[float], None]]]:
        """What is to be done at which time, each with the time at which it is done; what there is to send follows."""
        return []

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

    def record(self, now_s: float, ending: str) -> dict[str, Any]:
        """What there is to say at the end of an open connection: `narrows_formats.connection_record`."""
        self.sample(now_s)
        info = tcp_info(self.socket)
        return {
            "congestion_control": congestion_control(self.socket),
            "src_port": self._src_port,
            "dst_port": self.flow["dst_port"],
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


def sender_of(module: str) -> type[Connection]:
    """The sending side of such flows: the class `Sender` of a module here, or `Connection`."""
    if module == "tcp":
        return Connection
    found = importlib.import_module(f"{__package__}.{module}" if __package__ else module)
    kind: type[Connection] = found.Sender
    return kind


class Loop(ABC):
    """Calls what is due, and what serves files that are ready, in one thread."""

    def __init__(self) -> None:
        """Nothing is due yet, and nothing is watched."""
        self._poll = select.epoll()
        # What is to be done when a file is ready, by its number.
        self._handlers: dict[int, Callable[[], object]] = {}
        # What is to be done at a time; things of one instant in their order.
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._noted = 0
        self._armed_s = -1.0
        self._origin_s = 0.0
        self._stopped = False
        # What other threads have asked for.
        self._calls: deque[Callable[[], None]] = deque()
        self._woken, self._wake = socket.socketpair()
        self._watch(self._woken.fileno(), select.EPOLLIN, self._do_calls)
        # epoll waits in whole milliseconds.
        self._timer = LIBRARY.timerfd_create(time.CLOCK_MONOTONIC, TFD_NONBLOCK)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "no timer")
        self._watch(self._timer, select.EPOLLIN, partial(os.read, self._timer, 8))
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def stop(self) -> None:
        """Have `run` end what still runs, and close its sockets; safe to call from another thread, and twice."""
        self._stopped = True
        self._wake.send(b"\0")

    def close(self) -> None:
        """Close what the loop itself holds, after `run`: nothing can be asked of it any more."""
        self._poll.close()
        self._woken.close()
        self._wake.close()

    def release(self, name: str, at_s: float) -> None:
        """Let a flow that was held back begin, its times counting from that one; safe to call from another thread."""
        self._call(partial(self._release, name, at_s))

    def run_commands(self, commands: int) -> None:
        """Do what comes out of a pipe: a JSON object a line."""
        self._watch(commands, select.EPOLLIN, partial(self._take_commands, commands))

    def _take_commands(self, commands: int) -> None:
        # Shorter than what a pipe takes at once: lines are whole.
        for line in os.read(commands, CHUNK).splitlines():
            run_command(self, json.loads(line))

    @abstractmethod
    def _release(self, name: str, at_s: float) -> None:
        """Do what `release` says."""

    def _call(self, action: Callable[[], None]) -> None:
        self._calls.append(action)
        self._wake.send(b"\0")

    def _do_calls(self) -> None:
        self._woken.recv(CHUNK)
        while self._calls:
            self._calls.popleft()()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def _serve(self, origin_s: float) -> None:
        """Serve until `stop`, times being counted from this monotonic time."""
        self._origin_s = origin_s
        while not self._stopped:
            now_s = self._now_s()
            while self._due and self._due[0][0] <= now_s:
                heapq.heappop(self._due)[2]()
            self._arm()
            for ready, _ in self._poll.poll():
                if handler := self._handlers.get(ready):
                    handler()

    def _now_s(self) -> float:
        return time.monotonic() - self._origin_s

    def _at(self, time_s: float, action: Callable[[], None]) -> None:
        self._noted += 1
        heapq.heappush(self._due, (time_s, self._noted, action))

    def _arm(self) -> None:
        """Have the timer wake us up when something is due."""
        due_s = self._due[0][0] if self._due else 0.0
        if not self._due or due_s == self._armed_s:
            return
        self._armed_s = due_s
        at_ns = max(1, round((self._origin_s + due_s) * 1e9))
        timer = TIMER.pack(0, 0, *divmod(at_ns, 1_000_000_000))
        if LIBRARY.timerfd_settime(self._timer, TFD_TIMER_ABSTIME, timer, None) != 0:
            raise OSError(ctypes.get_errno(), "the timer cannot be set")

    def _watch(self, number: int, events: int, handler: Callable[[], object]) -> None:
        self._poll.register(number, events)
        self._handlers[number] = handler


class FlowSockets(Loop):
    """The sockets of some flows, served by one thread."""

    def __init__(self, batch_bytes: int, open_socket: OpenSocket, tell: Tell, has_ended: HasEnded) -> None:
        """No port is opened before `listen`, and no connection before `run`.

        Args:
            batch_bytes: what the receiving side reads at a time; 0: whatever there is.
            open_socket: on a host.
            tell: takes each event.
            has_ended: whether the flows of a group have ended, for flows that last until then.
        """
        super().__init__()
        self._batch_bytes = batch_bytes
        self._open_socket = open_socket
        self._tell = tell
        self._has_ended = has_ended
        # What keeps a socket open as long as it is served.
        self._received: dict[int, socket.socket] = {}
        # Of each flow: its connections, and how many of them have not ended.
        self._connections: dict[str, list[Connection]] = {}
        self._left: dict[str, int] = {}
        self._failed: set[str] = set()
        self._running: dict[Connection, None] = {}
        # Those whose turn ended before their socket was full.
        self._next_turns: set[Connection] = set()
        self._payload = os.memfd_create("payload")
        os.ftruncate(self._payload, CHUNK)

    def listen(self, host: str, flows: Sequence[Flow]) -> None:
        """Open the ports of flows on their receiving host, each with the flow's congestion control.

        Raises:
            OSError: a port is in use, or the kernel does not have the congestion control.
        """
        for flow in flows:
            listener = self._open_socket(host, family(flow["dst"]), socket.SOCK_STREAM)
            self._received[listener.fileno()] = listener
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Connections inherit both. The first decides over ECN while a connection is made.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow["cca"].encode())
            try:
                set_options(listener, flow["receiver_options"])
            except Failed as error:
                self._tell({"flow": flow["name"], "failed": f"the receiver's {error}"})
            if self._batch_bytes and not lasting(flow["receiver_options"]):
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._batch_bytes)
            listener.setblocking(False)
            listener.bind((flow["dst"], flow["dst_port"]))
            listener.listen(BACKLOG)
            self._watch(listener.fileno(), select.EPOLLIN, partial(self._accept, listener, flow))

    def prepare(self, flows: Sequence[Flow]) -> None:
        """Make the first connections ready, of flows that start by this process."""
        for flow in flows:
            kind = sender_of(flow["module"])
            connections = [kind(flow, part, self._payload) for part in flow["connections"]]
            self._connections[flow["name"]] = connections
            self._left[flow["name"]] = len(connections)
            if self._opened(connections[0]) and not flow["held"]:
                self._schedule(flow)

    def _schedule(self, flow: Flow) -> None:
        connections = self._connections[flow["name"]]
        # Of a sequence the next one starts when the one before has ended.
        for connection in connections[:1] if flow["sequence"] else connections:
            self._at(connection.start_s, partial(self._begin, connection))

    def _release(self, name: str, at_s: float) -> None:
        connections = self._connections[name]
        flow = connections[0].flow
        if flow["last_start_s"] is not None:
            flow["last_start_s"] += at_s
        for connection in connections:
            connection.start_s += at_s
        self._schedule(flow)

    def finish(self, name: str, at_s: float) -> None:
        """Let a flow that lasts for a time end at that one; safe to call from another thread."""
        self._call(partial(self._finish_at, name, at_s))

    def _finish_at(self, name: str, at_s: float) -> None:
        for connection in self._connections[name]:
            self._at(at_s, partial(self._finish, connection))

    def steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        """Set a flow's window and rate, see `Connection.steer`, at a time or at once, and tell what its socket says.

        Safe to call from another thread.
        """
        self._call(partial(self._steer_at, name, window, rate, at_s))

    def _steer_at(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        if at_s is None:
            self._steer(name, window, rate, None)
        else:
            self._at(at_s, partial(self._steer, name, window, rate, at_s))

    def _steer(self, name: str, window: int | None, rate: int | None, at_s: float | None) -> None:
        connection = self._connections[name][0]
        answer: dict[str, Any] = {
            "at_s": self._now_s() if at_s is None else at_s, "tcp_info": None, "refused": None,
        }  # fmt: skip
        if connection in self._running and connection.is_established:
            try:
                answer["tcp_info"] = connection.steer(window, rate).hex()
            except OSError as error:
                answer["refused"] = str(error.strerror)
            except Failed as error:
                answer["refused"] = str(error)
        self._tell({"flow": name, "steered": answer})

    def run(self, origin_s: float) -> None:
        """Serve all sockets until `stop`, times being counted from this monotonic time."""
        try:
            self._serve(origin_s)
            for connection in list(self._running):
                self._end(connection, "interrupted")
        finally:
            for connections in self._connections.values():
                for connection in connections:
                    connection.close()
            for received in self._received.values():
                received.close()
            os.close(self._timer)
            os.close(self._payload)

    def _opened(self, connection: Connection) -> bool:
        try:
            connection.open(self._open_socket)
        except OSError as error:
            self._fail(connection.flow, str(error.strerror))
            return False
        except Failed as error:
            self._fail(connection.flow, str(error))
            return False
        return True

    def _begin(self, connection: Connection) -> None:
        flow = connection.flow
        if flow["name"] in self._failed:
            return
        if connection.number and flow["sequence"]:
            last_s = flow["last_start_s"]
            if (last_s is not None and self._now_s() >= last_s) or (flow["until"] and self._has_ended(flow["until"])):
                self._tell({"flow": flow["name"], "done": True})
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
        self._tell({"flow": flow["name"], "number": connection.number, "started_s": started_s})
        for at_s, action in connection.schedule():
            self._at(at_s, partial(self._do, connection, action))
        if flow["duration_s"] is not None:
            self._at(connection.start_s + flow["duration_s"], partial(self._finish, connection))
            self._at(connection.start_s + INTERVAL_S, partial(self._read, connection, 1))

    def _do(self, connection: Connection, action: Callable[[float], None]) -> None:
        if connection in self._running:
            action(self._now_s())
            self._advance(connection)

    def _read(self, connection: Connection, number: int) -> None:
        if connection in self._running:
            connection.sample(self._now_s())
            self._at(connection.start_s + (number + 1) * INTERVAL_S, partial(self._read, connection, number + 1))

    def _finish(self, connection: Connection) -> None:
        """A bulk flow's time is over."""
        if connection not in self._running:
            return
        self._end(connection, "time_over")
        self._tell({"flow": connection.flow["name"], "done": True})

    def _advance(self, connection: Connection) -> None:
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
        if flow["duration_s"] is not None:
            self._fail(flow, "the receiver has closed the connection")
            return
        now_s = self._end(connection, "delivered")
        self._left[flow["name"]] -= 1
        if not self._left[flow["name"]]:
            self._tell({"flow": flow["name"], "done": True})
        elif flow["sequence"]:
            following = self._connections[flow["name"]][connection.number + 1]
            self._at(now_s + flow["gap_s"], partial(self._begin, following))

    def _take_turn(self, connection: Connection) -> None:
        self._next_turns.remove(connection)
        if connection in self._running:
            self._advance(connection)

    def _end(self, connection: Connection, ending: str) -> float:
        """Close a connection, and tell what there is to tell of it; returns when that was."""
        now_s = self._now_s()
        record = connection.record(now_s, ending)
        self._handlers.pop(connection.socket.fileno(), None)
        del self._running[connection]
        connection.close()
        self._tell({"flow": connection.flow["name"], "number": connection.number, "ended_s": now_s, "record": record})
        return now_s

    def _fail(self, flow: Flow, why: str) -> None:
        """End what there is of a flow; the others go on."""
        self._failed.add(flow["name"])
        for connection in [one for one in self._running if one.flow is flow]:
            self._end(connection, "failed")
        self._tell({"flow": flow["name"], "failed": why})

    def _accept(self, listener: socket.socket, flow: Flow) -> None:
        try:
            connection = listener.accept()[0]
        except (BlockingIOError, ConnectionError):
            return
        try:
            check(connection, flow)
        except Failed as error:
            connection.close()
            self._tell({"flow": flow["name"], "failed": f"the receiver {error}"})
            return
        connection.setblocking(False)
        self._received[connection.fileno()] = connection
        self._watch(
            connection.fileno(),
            select.EPOLLIN,
            partial(self._discard, connection, flow, lasting(flow["receiver_options"])),
        )

    def _discard(self, connection: socket.socket, flow: Flow, options: Sequence[Sequence[Any]]) -> None:
        """Throw away what has arrived, without copying it, and close what has ended."""
        # Python's own call would have memory made for it.
        count = int(LIBRARY.recv(connection.fileno(), None, MAX_BYTES, socket.MSG_TRUNC))
        if count > 0 or (count < 0 and ctypes.get_errno() in (errno.EAGAIN, errno.EINTR)):
            try:
                set_options(connection, options)
            except Failed as error:
                self._tell({"flow": flow["name"], "failed": f"the receiver's {error}"})
            return
        self._handlers.pop(connection.fileno(), None)
        self._received.pop(connection.fileno()).close()


def family(address: str) -> socket.AddressFamily:
    """The family of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def flow_sockets(spec: dict[str, Any], beside: Path) -> FlowSockets:
    """What makes a host's flows; a file named after a group says that its flows have ended."""
    return FlowSockets(spec["batch_bytes"], open_here, print_event, lambda group: (beside / f"{group}.ended").exists())


def open_here(_: str, *kind: int) -> socket.socket:
    """Open a socket of this host."""
    return socket.socket(*kind)


def run_command(flows: Any, command: dict[str, Any]) -> None:
    """Have what makes flows do to one what a command says: ``release``, ``finish`` or ``steer`` names it, and ``at_s``
    is when; ``window`` and ``rate`` are what it gets."""
    if "release" in command:
        flows.release(command["release"], command["at_s"])
    elif "steer" in command:
        flows.steer(command["steer"], command["window"], command["rate"], command["at_s"])
    else:
        flows.finish(command["finish"], command["at_s"])


def print_event(event: dict[str, Any]) -> None:
    """Tell an event on a line."""
    print(json.dumps(event), flush=True)


def serve(specification: Path, make: Callable[[dict[str, Any], Path], Any] = flow_sockets) -> None:
    """Make a host's flows as a specification says; prints ``ready``, and an event a line.

    Beside the specification, a file ``origin`` names it gives the experiment's start on this host's monotonic clock.
    ``make`` has what makes the flows of a specification, as `FlowSockets` does.
    """
    spec = json.loads(specification.read_text(encoding="utf-8"))
    beside = specification.parent
    sockets = make(spec, beside)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sockets.stop())
    sockets.listen(spec["host"], spec["receive"])
    sockets.prepare(spec["send"])
    if spec["commands"] is not None:
        sockets.run_commands(os.open(spec["commands"], os.O_RDONLY))
    print("ready", flush=True)
    origin = ""
    # A host that only receives need not know when the experiment begins.
    while spec["send"] and not origin.endswith("\n") and not sockets.stopped:
        time.sleep(POLL_S)
        if (beside / spec["origin"]).exists():
            origin = (beside / spec["origin"]).read_text(encoding="utf-8")
    sockets.run(float(origin or 0.0))


if __name__ == "__main__":
    if TYPE_CHECKING or __package__:
        from narrows.onhost import tcp
    else:
        # Modules of kinds import this one by its name.
        import tcp
    tcp.serve(Path(sys.argv[1]))
