# SPDX-License-Identifier: Apache-2.0
"""Requests and responses over TCP on a host: the server of a flow, and its users.

A request says how many bytes it asks for; the server answers those of a connection in their order, and both ends send
at once what they have (TCP_NODELAY), as browsers and web servers do. A response is complete when its last byte was
read; its time counts from when the request was to be made, so that a request that had to wait for its connection has
waited.

Only the standard library of Python 3.8 is used, so that it runs on any host.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost import tcp, wire
    from narrows.onhost.loop import CHUNK, Loop
    from narrows.onhost.payload import Payload
else:
    sys.path.insert(0, str(Path(__file__).parent))
    import tcp
    import wire
    from loop import CHUNK, Loop
    from payload import Payload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from narrows.onhost.sockets import Surroundings

    # One request as hosts/NAME.json has it.
    Row = wire.Record

# How many bytes a request asks for.
REQUEST = struct.Struct("!Q")
READ_BYTES = 1 << 18
# What was read is thrown away.
SINK = memoryview(bytearray(READ_BYTES))
READY = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET


@dataclass(frozen=True)
class Request:
    """A request for ``size`` bytes: when, since the experiment's start, or how long after the response before it."""

    time_ns: int
    size: int


@dataclass(frozen=True)
class Requests(Payload):
    """What each user of a server asks for, in order; the responses are the flow's data, from its sender.

    ``closed_loop``: times of requests count from the responses before. ``keep_alive``: a user has one connection; else
    each request has its own. Connections are made from the flow's receiver, each from the next of the flow's ports, to
    its destination port.
    """

    kind = "requests"
    made_by = "requests"
    receiver_initiates = True
    match_by_host_pair = "requests"
    users: tuple[tuple[Request, ...], ...]
    closed_loop: bool
    keep_alive: bool
    request_bytes: int

    @property
    def connections(self) -> int:
        """See `Payload.connections`."""
        return len(self.users) if self.keep_alive else sum(map(len, self.users))

    @property
    def at_once(self) -> int:
        """See `Payload.at_once`."""
        return len(self.users)

    @property
    def asked_bytes(self) -> int:
        """See `Payload.asked_bytes`."""
        return sum(one.size for user in self.users for one in user)


@wire.message
@dataclass
class RequestsSpecification(tcp.TcpSpecification):
    """A flow of requests: what each of its users asks for, pairs of seconds and bytes (see `Requests`).

    Users are those of a ``module`` here, with what is its kind's ``own``. No request of a closed loop is made at
    ``end_s`` or later.
    """

    module: str
    own: Any
    server: str
    server_port: int
    client: str
    client_host: str
    client_ports: list[int]
    start_s: float
    end_s: float
    closed_loop: bool
    keep_alive: bool
    request_bytes: int
    users: list[list[tuple[float, int]]]


class Served:
    """The server's side of a connection."""

    def __init__(self, flow: RequestsSpecification, opened: socket.socket, payload: int) -> None:
        """Take a flow, an accepted connection, and a file of `CHUNK` bytes to send again and again."""
        self.flow = flow
        self.socket = opened
        self._payload = payload
        self._asked = b""
        self._left = 0
        self.is_over = False

    def advance(self) -> bool:
        """Read what there is, and send all that the socket takes in a turn; returns whether more could be sent.

        Raises:
            OSError: the connection broke.
        """
        self._read()
        turn_ends = time.monotonic() + tcp.TURN_S
        try:
            while self._left:
                if time.monotonic() >= turn_ends:
                    return True
                self._left -= os.sendfile(self.socket.fileno(), self._payload, 0, min(self._left, CHUNK))
        except BlockingIOError:
            pass
        return False

    def _read(self) -> None:
        length = self.flow.request_bytes
        try:
            while not self.is_over:
                data = self.socket.recv(READ_BYTES)
                self.is_over = not data
                self._asked += data
        except BlockingIOError:
            pass
        while len(self._asked) >= length:
            self._left += REQUEST.unpack_from(self._asked)[0]
            self._asked = self._asked[length:]


class Channel:
    """A user's side of a connection."""

    def __init__(self, flow: RequestsSpecification, opened: socket.socket) -> None:
        """Take a flow, and a socket that is bound."""
        self.flow = flow
        self.socket = opened
        self.pending: deque[Row] = deque()
        self._lasting = tcp.lasting(flow.receiver_options)
        self._left: deque[int] = deque()
        self._unsent = b""
        self.is_established = False

    def ask(self, row: Row) -> None:
        """Send a request behind those before."""
        self.pending.append(row)
        self._left.append(row["bytes"])
        self._unsent += REQUEST.pack(row["bytes"]).ljust(self.flow.request_bytes, b"\0")

    def advance(self, now_s: float) -> list[Row]:
        """Send and read what there is; returns the requests whose responses are complete.

        Raises:
            OSError: the connection was refused, or broke.
            tcp.Failed: it is not what was asked.
        """
        if not self.is_established:
            if code := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            tcp.check(self.socket, self.flow)
            self.is_established = True
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        done: list[Row] = []
        try:
            while count := self.socket.recv_into(SINK):
                self._take(count, now_s, done)
            if self.pending:
                raise tcp.Failed("the server has closed the connection")
        except BlockingIOError:
            tcp.set_options(self.socket, self._lasting)
        return done

    def _take(self, count: int, now_s: float, done: list[Row]) -> None:
        while count:
            row, part = self.pending[0], min(count, self._left[0])
            if row["first_byte_s"] is None:
                row["first_byte_s"] = now_s
            self._left[0] -= part
            count -= part
            if not self._left[0]:
                row["done_s"] = now_s
                self._left.popleft()
                done.append(self.pending.popleft())


class User:
    """A user who sends requests: ``schedule`` are times and sizes, in order."""

    wants_all_time = False
    """Whether what is asked for ends with the flow's time only."""

    def __init__(self, flow: RequestsSpecification, number: int, schedule: Sequence[tuple[float, int]]) -> None:
        """Take a flow, which of its users it is, and what is asked for."""
        self.flow = flow
        self.number = number
        self.schedule = schedule
        self.next = 0
        self.done = 0
        self.channel: Channel | None = None

    def take(self, row: Row, now_s: float) -> None:
        """A response is complete."""
        self.done += 1

    @property
    def is_over(self) -> bool:
        """Whether all responses are there, and nothing more is asked for."""
        return self.done == self.next == len(self.schedule)

    def close(self, now_s: float) -> wire.Record:
        """The flow ends; returns what its record has of this kind of user alone."""
        return {}

    def following(self, now_s: float) -> tuple[float, int, Row] | None:
        """When the next request is to be made, its response's bytes, and what else is to be noted; None: not known.

        Raises:
            tcp.Failed: in a closed loop even the request was made that there could be no time for.
        """
        if self.flow.closed_loop and self.done < self.next:
            return None
        if self.next == len(self.schedule):
            if self.flow.closed_loop:
                raise tcp.Failed("had time for more requests than its links allow as the experiment has them")
            return None
        after_s, size = self.schedule[self.next]
        at_s = now_s + after_s if self.flow.closed_loop else after_s
        if self.flow.closed_loop and at_s >= self.flow.end_s:
            self.schedule = self.schedule[: self.next]
            return None
        return at_s, int(size), {}


class RequestSockets(Loop):
    """Servers and users of some flows, in one thread."""

    def __init__(self, surroundings: Surroundings) -> None:
        """See `Sockets`."""
        super().__init__(surroundings)
        self._users: dict[str, list[User]] = {}
        self._rows: dict[str, list[Row]] = {}
        self._started_s: dict[str, float] = {}
        # Each connection has the next one.
        self._ports: dict[str, Iterator[int]] = {}
        self._opened: dict[int, socket.socket] = {}

    def listen(self, host: str, flows: Sequence[RequestsSpecification]) -> None:
        """Open the ports of flows on their servers' host, each with the flow's congestion control and options.

        Raises:
            OSError: a port is in use, or the kernel does not have the congestion control.
        """
        for flow in flows:
            listener = self._socket(host, flow, flow.server, flow.server_port)
            try:
                tcp.set_options(listener, flow.options)
            except tcp.Failed as error:
                self._tell(wire.Failure(flow.name, f"the server's {error}"))
            listener.listen(tcp.BACKLOG)
            self._watch(listener.fileno(), select.EPOLLIN, partial(self._accept, listener, flow))

    def prepare(self, flows: Sequence[RequestsSpecification]) -> None:
        """Know the flows whose users are served by this process."""
        for flow in flows:
            kind: type[User] = wire.sibling(flow.module).USER
            self._users[flow.name] = [kind(flow, number, schedule) for number, schedule in enumerate(flow.users)]
            self._rows[flow.name] = []
            self._ports[flow.name] = iter(flow.client_ports)
            if not flow.held:
                self._at(flow.start_s, partial(self._begin, flow))

    def _release(self, name: str, at_s: float) -> None:
        users = self._users[name]
        flow = users[0].flow
        flow.start_s += at_s
        flow.end_s += at_s
        for user in users:
            if not flow.closed_loop:
                user.schedule = [(ask_s + at_s, size) for ask_s, size in user.schedule]
        self._at(flow.start_s, partial(self._begin, flow))

    def _end_all(self) -> None:
        for name in list(self._started_s):
            self._end(self._users[name][0].flow, "interrupted")

    def _close_sockets(self) -> None:
        for opened in self._opened.values():
            opened.close()

    def _socket(self, host: str, flow: RequestsSpecification, address: str, port: int) -> socket.socket:
        opened = self._open_socket(host, tcp.family(address), socket.SOCK_STREAM)
        self._opened[opened.fileno()] = opened
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow.cca.encode())
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.bind((address, port))
        return opened

    def _close(self, opened: socket.socket) -> None:
        self._handlers.pop(opened.fileno(), None)
        self._opened.pop(opened.fileno(), None)
        opened.close()

    def _accept(self, listener: socket.socket, flow: RequestsSpecification) -> None:
        try:
            opened = listener.accept()[0]
        except (BlockingIOError, ConnectionError):
            return
        try:
            tcp.check(opened, flow)
            tcp.check_start(opened, flow)
        except tcp.Failed as error:
            opened.close()
            self._tell(wire.Failure(flow.name, f"the server {error}"))
            return
        opened.setblocking(False)
        self._opened[opened.fileno()] = opened
        served = Served(flow, opened, self._payload)
        self._watch(opened.fileno(), READY, partial(self._answer, served))
        # What came with the connection is not a change of it.
        self._answer(served)

    def _answer(self, served: Served) -> None:
        try:
            goes_on = served.advance()
        except OSError:
            # The user's side knows why.
            self._close(served.socket)
            return
        if goes_on:
            self._at(self._now_s(), partial(self._answer, served))
        elif served.is_over:
            self._close(served.socket)

    def _begin(self, flow: RequestsSpecification) -> None:
        name = flow.name
        self._started_s[name] = self._now_s()
        self._tell(wire.Started(name, 0, self._started_s[name]))
        for user in self._users[name]:
            if flow.keep_alive:
                user.channel = self._connect(user)
            if name not in self._started_s:
                return  # It has failed.
            self._go_on(user)
        if self._users[name][0].wants_all_time:
            self._at(flow.end_s, partial(self._finish, flow))
        self._end_if_over(flow)

    def _finish(self, flow: RequestsSpecification) -> None:
        """The time of a session is over."""
        if flow.name in self._started_s:
            self._end(flow, "time_over")
            self._tell(wire.Done(flow.name))

    def _connect(self, user: User) -> Channel | None:
        flow = user.flow
        try:
            opened = self._socket(flow.client_host, flow, flow.client, next(self._ports[flow.name]))
            tcp.set_options(opened, flow.receiver_options)
            opened.connect_ex((flow.server, flow.server_port))
        except OSError as error:
            self._fail(flow, str(error.strerror))
            return None
        except tcp.Failed as error:
            self._fail(flow, str(error))
            return None
        channel = Channel(flow, opened)
        self._watch(opened.fileno(), READY, partial(self._advance, user, channel))
        return channel

    def _go_on(self, user: User) -> None:
        """Have the user's next request made at its time, if that is known."""
        try:
            following = user.following(self._now_s())
        except tcp.Failed as error:
            self._fail(user.flow, str(error))
            return
        if following is not None:
            at_s, size, noted = following
            self._at(at_s, partial(self._ask, user, at_s, size, noted))

    def _ask(self, user: User, due_s: float, size: int, noted: Row) -> None:
        name = user.flow.name
        if name not in self._started_s:
            return
        channel = user.channel if user.flow.keep_alive else self._connect(user)
        if channel is None:
            return
        row = {
            "user": user.number, "due_s": due_s, "sent_s": self._now_s(), "first_byte_s": None, "done_s": None,
            "bytes": size, "src_port": channel.socket.getsockname()[1], **noted,
        }  # fmt: skip
        self._rows[name].append(row)
        user.next += 1
        channel.ask(row)
        if channel.is_established:
            self._advance(user, channel)
        if not user.flow.closed_loop:
            self._go_on(user)

    def _advance(self, user: User, channel: Channel) -> None:
        try:
            done = channel.advance(self._now_s())
        except OSError as error:
            self._fail(user.flow, str(error.strerror))
            return
        except tcp.Failed as error:
            self._fail(user.flow, str(error))
            return
        for row in done:
            user.take(row, row["done_s"])
        if done and not user.flow.keep_alive:
            self._close(channel.socket)
        if done and user.flow.closed_loop:
            self._go_on(user)
        if done:
            self._end_if_over(user.flow)

    def _end_if_over(self, flow: RequestsSpecification) -> None:
        name = flow.name
        if name not in self._started_s or not all(user.is_over for user in self._users[name]):
            return
        if self._now_s() < flow.end_s:
            # A flow whose users want nothing more is running until its time is over, like any other that pauses.
            self._at(flow.end_s, partial(self._end_if_over, flow))
            return
        self._end(flow, "delivered")
        self._tell(wire.Done(name))

    def _end(self, flow: RequestsSpecification, ending: str) -> None:
        """Close what the flow's users have open, and tell what there is to tell."""
        name, now_s = flow.name, self._now_s()
        for user in self._users[name]:
            if user.channel is not None:
                self._close(user.channel.socket)
        rows = self._rows[name]
        record: wire.Record = {
            "kind": "requests",
            "congestion_control": flow.cca,
            "src_port": flow.server_port,
            "dst_port": flow.client_ports[0],
            "started_s": self._started_s.pop(name),
            "ended_s": now_s,
            "ending": ending,
            "bytes_sent": sum(row["bytes"] for row in rows if row["done_s"] is not None),
            "responses": rows,
        }
        for user in self._users[name]:
            record.update(user.close(now_s))
        self._tell(wire.Ended(name, 0, now_s, record))

    def _fail(self, flow: RequestsSpecification, why: str) -> None:
        """End what there is of a flow; the others go on."""
        if flow.name in self._started_s:
            self._end(flow, "failed")
        self._tell(wire.Failure(flow.name, why))


SOCKETS, USER = RequestSockets, User
