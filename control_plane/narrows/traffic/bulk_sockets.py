# SPDX-License-Identifier: Apache-2.0
"""Sockets of bulk TCP flows, in as few system calls as can be: for virtual time, where waking up is what costs.

One thread serves them all. The receiving side reads a batch of bytes at a time and throws them away; TCP acknowledges
what has arrived whether it was read or not. A sender writes what its socket takes until the flow's time is over, then
ends the connection at once.
"""

from __future__ import annotations

import ctypes
import errno
import heapq
import os
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Flow

LIBRARY = ctypes.CDLL(None, use_errno=True)
LIBRARY.recv.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
LIBRARY.recv.restype = ctypes.c_ssize_t
MAX_BYTES = 1 << 30
CHUNK = 1 << 20
# The kernel may stretch a wait by a thousandth: many short ones are more exact than a long one.
LONGEST_WAIT_S = 0.25
INTERVAL_S = 1.0
TCP_INFO_BYTES = 192
ONE = struct.pack("=Q", 1)  # what makes an eventfd ready
RESET = struct.pack("ii", 1, 0)  # struct linger: closing ends the connection and drops what was not sent

# What iperf3 would say of a flow, as far as Narrows reads that.
Result = dict[str, Any]
# Opens a socket on a host: its name, family, type.
OpenSocket = Callable[[str, int, int], socket.socket]
# Is told how a flow ended: its name and what there is to tell of it, or why it failed.
Told = Callable[[str, Result | OSError], None]


class Sender:
    """One flow: its connection, what was sent, and what the kernel said about it once a second."""

    def __init__(self, flow: Flow, origin_s: float, data: int) -> None:
        """Take a flow, and a file of `CHUNK` bytes to send again and again."""
        assert flow.duration_ns is not None
        self.flow = flow
        self.start_s = origin_s + flow.start_ns / NANOSECONDS
        self.end_s = self.start_s + flow.duration_ns / NANOSECONDS
        self._connection: socket.socket | None = None
        self._next_reading_s = self.start_s + INTERVAL_S
        self._data = data
        self._sent = 0
        self._cca = ""
        self._rtts_us: list[int] = []
        self._intervals: list[dict[str, Any]] = []

    @property
    def has_begun(self) -> bool:
        """Whether its connection was opened."""
        return self._connection is not None

    @property
    def due_s(self) -> float:
        """When something is to be done next."""
        return min(self.end_s, self._next_reading_s) if self.has_begun else self.start_s

    def connect(self, open_socket: OpenSocket) -> socket.socket:
        """Begin to connect."""
        flow = self.flow
        connection = open_socket(flow.sender, family(flow.dst), socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow.cca.encode())
        self._cca = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        connection.bind((flow.src, flow.src_port))
        connection.connect_ex((flow.dst, flow.dst_port))
        self._connection = connection
        return connection

    def send(self) -> None:
        """Give the socket all that it takes.

        Raises:
            OSError: the connection was refused or broke.
        """
        assert self._connection is not None
        try:
            while True:
                self._sent += os.sendfile(self._connection.fileno(), self._data, 0, CHUNK)
        except BlockingIOError:
            return

    def read(self, now_s: float) -> None:
        """Note what the kernel knows of the connection, if it is time."""
        if now_s < self._next_reading_s:
            return
        self._next_reading_s += INTERVAL_S
        info = self._info()
        self._rtts_us.append(info["rtt"])
        stream = {"end": now_s - self.start_s, "rtt": info["rtt"], "snd_cwnd": info["cwnd"] * info["mss"]}
        self._intervals.append({"streams": [stream]})

    def close(self) -> Result:
        """End the connection; returns what there is to tell."""
        assert self._connection is not None
        info = self._info()
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        port = self._connection.getsockname()[1]
        self._connection.close()
        rtts = self._rtts_us or [info["rtt"]]
        sender = {
            "bytes": self._sent,
            "retransmits": info["retransmits"],
            "min_rtt": min(rtts),
            "mean_rtt": sum(rtts) / len(rtts),
        }
        return {
            "start": {"connected": [{"local_port": port, "remote_port": self.flow.dst_port}]},
            "intervals": self._intervals,
            "end": {
                "streams": [{"sender": sender}],
                "sum_sent": {"bytes": self._sent},
                "sender_tcp_congestion": self._cca,
            },
        }

    def _info(self) -> dict[str, int]:
        assert self._connection is not None
        info = self._connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        # struct tcp_info (linux/tcp.h), by byte offset.
        places = {"mss": 16, "rtt": 68, "cwnd": 80, "retransmits": 100}
        return {name: int(struct.unpack_from("=I", info, at)[0]) for name, at in places.items()}


class BulkSockets:
    """The sockets of some flows and the thread that serves them."""

    def __init__(self, flows: Sequence[Flow], batch_bytes: int, open_socket: OpenSocket, told: Told) -> None:
        """No port is opened before `listen`, and no connection before `start`.

        Args:
            flows: what flows.
            batch_bytes: what the receiving side reads at a time.
            open_socket: on a host.
            told: called from the thread when a flow ends.
        """
        self._flows = flows
        self._batch_bytes = batch_bytes
        self._open_socket = open_socket
        self._told = told
        self._poll = select.epoll()
        # What is to be done when a socket is ready, by its number.
        self._handlers: dict[int, Callable[[], None]] = {}
        # What keeps a socket open as long as it is served.
        self._received: dict[int, socket.socket] = {}
        self._sending: dict[str, Sender] = {}
        self._stopped = threading.Event()
        self._wake = os.fdopen(os.eventfd(0), "wb", buffering=0)
        self._watch(self._wake.fileno(), select.EPOLLIN, self._stopped.is_set)
        self._thread: threading.Thread | None = None

    def listen(self, host: str) -> None:
        """Open the ports of all flows on the receiving host.

        Raises:
            OSError: one is in use.
        """
        # Two sockets a flow and one that listens.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for flow in self._flows:
            listener = self._open_socket(host, family(flow.dst), socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Connections inherit it.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._batch_bytes)
            listener.bind((flow.dst, flow.dst_port))
            listener.listen()
            self._received[listener.fileno()] = listener
            self._watch(listener.fileno(), select.EPOLLIN, partial(self._accept, listener))

    def start(self, origin_s: float) -> None:
        """Let the flows run, counted from this monotonic time."""
        self._thread = threading.Thread(target=self._serve, args=(origin_s,))
        self._thread.start()

    def stop(self) -> None:
        """End what still runs, and close everything; safe to call twice."""
        self._stopped.set()
        if self._thread is not None:
            self._wake.write(ONE)
            self._thread.join()
            self._thread = None
        for received in self._received.values():
            received.close()
        self._received.clear()

    def _serve(self, origin_s: float) -> None:
        data = os.memfd_create("payload")
        os.ftruncate(data, CHUNK)
        try:
            self._run([Sender(flow, origin_s, data) for flow in self._flows])
        except OSError as error:
            # Of the receiving side, or no senders' in particular.
            for flow in self._flows:
                self._told(flow.name, error)
        finally:
            os.close(data)

    def _run(self, senders: list[Sender]) -> None:
        # When each has to do something; those of one instant in their order.
        due = [(sender.due_s, number) for number, sender in enumerate(senders)]
        heapq.heapify(due)
        while not self._stopped.is_set():
            now = time.monotonic()
            while due and due[0][0] <= now:
                number = heapq.heappop(due)[1]
                if self._goes_on(senders[number], now):
                    heapq.heappush(due, (senders[number].due_s, number))
            wait_s = min(max(0.0, due[0][0] - now), LONGEST_WAIT_S) if due else None
            for ready, _ in self._poll.poll(wait_s):
                self._handlers[ready]()
        for sender in list(self._sending.values()):
            self._end(sender, sender.close())

    def _goes_on(self, sender: Sender, now_s: float) -> bool:
        """Do what is due for a flow; returns whether there will be more."""
        if not sender.has_begun:
            return self._begin(sender)
        if sender.flow.name not in self._sending:
            return False
        sender.read(now_s)
        if now_s < sender.end_s:
            return True
        self._end(sender, sender.close())
        return False

    def _begin(self, sender: Sender) -> bool:
        try:
            connection = sender.connect(self._open_socket)
        except OSError as error:
            self._told(sender.flow.name, error)
            return False
        self._sending[sender.flow.name] = sender
        self._watch(connection.fileno(), select.EPOLLOUT | select.EPOLLET, partial(self._send, sender))
        return True

    def _send(self, sender: Sender) -> None:
        try:
            sender.send()
        except OSError as error:
            sender.close()
            self._end(sender, error)

    def _end(self, sender: Sender, how: Result | OSError) -> None:
        del self._sending[sender.flow.name]
        self._told(sender.flow.name, how)

    def _accept(self, listener: socket.socket) -> None:
        connection = listener.accept()[0]
        connection.setblocking(False)
        self._received[connection.fileno()] = connection
        self._watch(connection.fileno(), select.EPOLLIN, partial(self._discard, connection))

    def _discard(self, connection: socket.socket) -> None:
        """Throw away what has arrived, without copying it, and close what has ended."""
        # Python's own call would have memory made for it.
        count = int(LIBRARY.recv(connection.fileno(), None, MAX_BYTES, socket.MSG_TRUNC))
        if count > 0 or (count < 0 and ctypes.get_errno() in (errno.EAGAIN, errno.EINTR)):
            return
        self._received.pop(connection.fileno()).close()

    def _watch(self, number: int, events: int, handler: Callable[[], Any]) -> None:
        self._poll.register(number, events)
        self._handlers[number] = handler


def family(address: str) -> socket.AddressFamily:
    """The family of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET
