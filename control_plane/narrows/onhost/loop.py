# SPDX-License-Identifier: Apache-2.0
"""One thread for all sockets of some flows: it does what is due at its time, and serves what is ready.

Only the standard library of Python 3.8 is used, so that it runs on any host.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import resource
import select
import socket
import struct
import sys
import time
from abc import abstractmethod
from collections import deque
from functools import partial
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from narrows.onhost.sockets import Sockets, Surroundings
else:
    sys.path.insert(0, str(Path(__file__).parent))
    from sockets import Sockets, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY = ctypes.CDLL(None, use_errno=True)
LIBRARY.recv.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
LIBRARY.recv.restype = ctypes.c_ssize_t
# What is sent again and again.
CHUNK = 1 << 20
TIMER = struct.Struct("=qqqq")  # struct itimerspec
TFD_NONBLOCK, TFD_TIMER_ABSTIME = os.O_NONBLOCK, 1


class Loop(Sockets):
    """Calls what is due, and what serves files that are ready, in one thread."""

    def __init__(self, surroundings: Surroundings) -> None:
        """See `Sockets`."""
        self._open_socket = surroundings.open_socket
        self._tell = surroundings.tell
        self._poll = select.epoll()
        # What is to be done when a file is ready, by its number.
        self._handlers: dict[int, Callable[[], object]] = {}
        # What is to be done at a time; things of one instant in their order.
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._noted = 0
        self._armed_s = -1.0
        self._t0_s = 0.0
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
        self._payload = os.memfd_create("payload")
        os.ftruncate(self._payload, CHUNK)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def stop(self) -> None:
        """See `Sockets.stop`."""
        self._stopped = True
        self._wake.send(b"\0")

    def close(self) -> None:
        """See `Sockets.close`: nothing can be asked of it any more."""
        self._poll.close()
        self._woken.close()
        self._wake.close()

    def release(self, name: str, at_s: float) -> None:
        """See `Sockets.release`."""
        self._call(partial(self._release, name, at_s))

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

    def run(self, t0_s: float) -> None:
        """See `Sockets.run`."""
        try:
            self._serve(t0_s)
            self._end_all()
        finally:
            self._close_sockets()
            os.close(self._timer)
            os.close(self._payload)

    @abstractmethod
    def _end_all(self) -> None:
        """End the flows that still run."""

    @abstractmethod
    def _close_sockets(self) -> None:
        """Close every socket, without an event."""

    def _serve(self, t0_s: float) -> None:
        self._t0_s = t0_s
        while not self._stopped:
            now_s = self._now_s()
            while self._due and self._due[0][0] <= now_s:
                heapq.heappop(self._due)[2]()
            self._arm()
            for ready, _ in self._poll.poll():
                if handler := self._handlers.get(ready):
                    handler()

    def _now_s(self) -> float:
        return time.monotonic() - self._t0_s

    def _at(self, time_s: float, action: Callable[[], None]) -> None:
        self._noted += 1
        heapq.heappush(self._due, (time_s, self._noted, action))

    def _arm(self) -> None:
        """Have the timer wake us up when something is due."""
        due_s = self._due[0][0] if self._due else 0.0
        if not self._due or due_s == self._armed_s:
            return
        self._armed_s = due_s
        at_ns = max(1, round((self._t0_s + due_s) * 1e9))
        timer = TIMER.pack(0, 0, *divmod(at_ns, 1_000_000_000))
        if LIBRARY.timerfd_settime(self._timer, TFD_TIMER_ABSTIME, timer, None) != 0:
            raise OSError(ctypes.get_errno(), "the timer cannot be set")

    def _watch(self, number: int, events: int, handler: Callable[[], object]) -> None:
        self._poll.register(number, events)
        self._handlers[number] = handler
