# SPDX-License-Identifier: Apache-2.0
"""Bulk TCP flows of one host, in as few system calls as can be: for virtual time, where waking up is what costs.

Used as ``bulk_host.py sink ADDRESS BATCH PORT...`` and ``bulk_host.py send FLOWS.json ORIGIN``, the origin being the
experiment's start on this host's monotonic clock. A sink reads ``BATCH`` bytes at a time and throws them away; TCP
acknowledges what has arrived whether it was read or not. A sender writes what the socket takes until the flow's time is
over, then ends the connection at once. What it tells of a flow has the layout of iperf3's JSON, as far as Narrows reads
that. Only the standard library is used.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

LIBRARY = ctypes.CDLL(None, use_errno=True)
LIBRARY.recv.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
LIBRARY.recv.restype = ctypes.c_ssize_t
MAX_BYTES = 1 << 30
CHUNK = 1 << 20
# The kernel may stretch a wait by a thousandth: many short ones are more exact than a long one.
LONGEST_WAIT_S = 0.25
INTERVAL_S = 1.0
TCP_INFO_BYTES = 192
RESET = struct.pack("ii", 1, 0)  # struct linger: closing ends the connection and drops what was not sent


def sink(address: str, batch: int, ports: list[int]) -> None:
    """Take everything that arrives at some ports, until killed; prints ``ready`` when it listens."""
    poll = select.epoll()
    listeners: dict[int, socket.socket] = {}
    connections: dict[int, socket.socket] = {}
    for port in ports:
        listener = socket.create_server((address, port), family=_family(address))
        # Connections inherit it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, batch)
        listeners[listener.fileno()] = listener
        poll.register(listener, select.EPOLLIN)
    print("ready", flush=True)
    while True:
        for number, _ in poll.poll():
            if number in listeners:
                connection = listeners[number].accept()[0]
                connection.setblocking(False)
                connections[connection.fileno()] = connection
                poll.register(connection, select.EPOLLIN)
            elif not _discard(connections[number]):
                connections.pop(number).close()


def _discard(connection: socket.socket) -> bool:
    """Throw away what has arrived, without copying it; returns whether more can come."""
    # Python's own call would have memory made for it.
    count = int(LIBRARY.recv(connection.fileno(), None, MAX_BYTES, socket.MSG_TRUNC))
    return count > 0 or (count < 0 and ctypes.get_errno() in (errno.EAGAIN, errno.EINTR))


class Sender:
    """One flow: its connection, what was sent, and what the kernel said about it once a second."""

    def __init__(self, flow: dict[str, Any], origin_s: float, data: int) -> None:
        """Take the specification of the flow, and a file of `CHUNK` bytes to send again and again."""
        self.flow = flow
        self.start_s: float = origin_s + flow["start_s"]
        self.end_s: float = self.start_s + flow["duration_s"]
        self.connection: socket.socket | None = None
        self._next_reading_s = self.start_s + INTERVAL_S
        self._data = data
        self._origin_s = origin_s
        self._sent = 0
        self._cca = ""
        self._rtts_us: list[int] = []
        self._intervals: list[dict[str, Any]] = []

    def due_s(self) -> float:
        """When something is to be done next."""
        return self.start_s if self.connection is None else min(self.end_s, self._next_reading_s)

    def open(self) -> socket.socket:
        """Begin to connect."""
        flow = self.flow
        connection = socket.socket(_family(flow["dst"]), socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow["cca"].encode())
        self._cca = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        connection.bind((flow["src"], flow["src_port"]))
        connection.connect_ex((flow["dst"], flow["dst_port"]))
        self.connection = connection
        return connection

    def send(self) -> None:
        """Give the socket all that it takes.

        Raises:
            OSError: the connection was refused or broke.
        """
        assert self.connection is not None
        try:
            while True:
                self._sent += os.sendfile(self.connection.fileno(), self._data, 0, CHUNK)
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

    def close(self) -> dict[str, Any]:
        """End the connection; returns what there is to tell."""
        assert self.connection is not None
        info = self._info()
        port = self.connection.getsockname()[1]
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.connection.close()
        rtts = self._rtts_us or [info["rtt"]]
        sender = {
            "bytes": self._sent,
            "retransmits": info["retransmits"],
            "min_rtt": min(rtts),
            "mean_rtt": sum(rtts) / len(rtts),
        }
        return {
            "start": {"connected": [{"local_port": port, "remote_port": self.flow["dst_port"]}]},
            "intervals": self._intervals,
            "end": {
                "streams": [{"sender": sender}],
                "sum_sent": {"bytes": self._sent},
                "sender_tcp_congestion": self._cca,
            },
        }

    def _info(self) -> dict[str, int]:
        assert self.connection is not None
        info = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        # struct tcp_info (linux/tcp.h), by byte offset.
        places = {"mss": 16, "rtt": 68, "cwnd": 80, "retransmits": 100}
        return {name: int(struct.unpack_from("=I", info, at)[0]) for name, at in places.items()}


def send(specification: Path, origin_s: float) -> None:
    """Run the flows of a specification to their ends, each with a file that tells of it."""
    data = os.memfd_create("payload")
    os.ftruncate(data, CHUNK)
    senders = [Sender(flow, origin_s, data) for flow in json.loads(specification.read_text(encoding="utf-8"))]
    waiting, running = list(senders), dict[int, Sender]()
    poll = select.epoll()
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGINT, stop)
    while waiting or running:
        now = time.monotonic()
        for sender in [sender for sender in waiting if sender.start_s <= now]:
            waiting.remove(sender)
            connection = sender.open()
            running[connection.fileno()] = sender
            poll.register(connection, select.EPOLLOUT | select.EPOLLET)
        for number, sender in list(running.items()):
            sender.read(now)
            if stopped or sender.end_s <= now:
                del running[number]
                _tell(sender.flow, sender.close())
        if stopped:
            return
        due = min((sender.due_s() for sender in (*waiting, *running.values())), default=now)
        for number, _ in poll.poll(min(max(due - now, 0.0), LONGEST_WAIT_S)):
            sender = running[number]
            try:
                sender.send()
            except OSError as error:
                raise SystemExit(f"{sender.flow['name']}: {error.strerror}") from None


def _tell(flow: dict[str, Any], result: dict[str, Any]) -> None:
    """Write a flow's file, then say on stdout that it has ended."""
    Path(flow["result"]).write_text(json.dumps(result), encoding="utf-8")
    print(flow["name"], flush=True)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


if __name__ == "__main__":
    # A sink has two sockets a flow.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    role, *arguments = sys.argv[1:]
    if role == "sink":
        sink(arguments[0], int(arguments[1]), [int(port) for port in arguments[2:]])
    else:
        send(Path(arguments[0]), float(arguments[1]))
