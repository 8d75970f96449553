# SPDX-License-Identifier: Apache-2.0
"""Single frames among many, timed by the kernel where they leave an interface and where they arrive at another one.

Both are of this machine, and so is the clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import time
from types import TracebackType

from narrows.hosts.base import Testbed

# UDP source port of probes; load has others.
PORT = 40_000
INTERVAL_S = 0.001
ETH_P_ALL = 0x0003  # linux/if_ether.h
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35  # asm-generic/socket.h
BUFFER_BYTES = 8 << 20
LINGER_S = 0.2
SEQUENCE_AT = 42
# linux/filter.h: load a halfword, jump if it is equal, and answer how much of the frame is to be kept.
LOAD, EQUAL, ANSWER = 0x28, 0x15, 0x06
FILTER = (
    (LOAD, 0, 0, 12), (EQUAL, 0, 3, 0x0800),
    (LOAD, 0, 0, 34), (EQUAL, 0, 1, PORT), (ANSWER, 0, 0, 64),
    (ANSWER, 0, 0, 0),
)  # fmt: skip
TIMESPEC = struct.Struct("=qq")


class Probes:
    """Sockets of two hosts: one that sends, and one at each end that sees the probes pass."""

    def __init__(self, testbed: Testbed, sender: str, receiver: str) -> None:
        """Open them."""
        self._stack = contextlib.ExitStack()
        self._out = self._open(testbed, sender, 0)
        self._left, self._arrived = (self._open(testbed, host, ETH_P_ALL) for host in (sender, receiver))

    def __enter__(self) -> Probes:
        """Nothing more."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        self._stack.close()

    def send(self, frame: bytes, seconds: float) -> None:
        """Send a frame every `INTERVAL_S`, numbered behind its headers."""
        started = time.monotonic()
        number = 0
        while (elapsed := time.monotonic() - started) < seconds:
            if elapsed < number * INTERVAL_S:
                time.sleep(number * INTERVAL_S - elapsed)
            sent = frame[:SEQUENCE_AT] + struct.pack("!I", number) + frame[SEQUENCE_AT + 4 :]
            self._out.send(sent)
            number += 1

    def times_ns(self) -> list[int]:
        """How long each probe took that was seen at both ends."""
        time.sleep(LINGER_S)
        left, arrived = _seen(self._left), _seen(self._arrived)
        return [arrived[number] - at for number, at in left.items() if number in arrived]

    def _open(self, testbed: Testbed, host: str, protocol: int) -> socket.socket:
        one = self._stack.enter_context(testbed.open_socket(host, socket.AF_PACKET, socket.SOCK_RAW, 0))
        if protocol:
            program = b"".join(struct.pack("=HBBI", *step) for step in FILTER)
            steps = ctypes.create_string_buffer(program, len(program))
            one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(FILTER), ctypes.addressof(steps)))
            one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
            one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            one.setblocking(False)
        one.bind((testbed.interface(host), protocol))
        return one


def _seen(one: socket.socket) -> dict[int, int]:
    """When each probe passed, by number; each has one direction only at an interface."""
    found: dict[int, int] = {}
    with contextlib.suppress(BlockingIOError):
        while True:
            data, ancillary, _, _ = one.recvmsg(64, socket.CMSG_SPACE(TIMESPEC.size))
            for level, kind, value in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, nanoseconds = TIMESPEC.unpack(value[: TIMESPEC.size])
                    found.setdefault(struct.unpack_from("!I", data, SEQUENCE_AT)[0], seconds * 10**9 + nanoseconds)
    return found
