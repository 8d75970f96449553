# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest that is only to say what its kernel is, and how exactly it keeps time.

Started by `narrows.python.in_guest`; tells ``about`` when it is up and ``slept_s`` after a sleep. What is about
it too are ``random`` numbers, which are the same at every boot if the seed is all that they come from, and ``times``:
what a kernel of ours does in no time, or at a time to the nanosecond, on which runs rest.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path

from narrows.hosts.machine import kernel_ccas
from narrows.virtual.init import Channel, power_off, prepare, seed_random_numbers

LAUNCHES = Path("/dev/narrows_launch")
NOWHERE = Path("/nowhere")
SLEEP_S = 10.0
SEED = 1
FLOWS = 100
# A port that nothing listens at.
CLOSED = ("127.0.0.1", 1)
# Different times, so that a timer that counts ticks is seen.
NAPS_S = tuple(1e-4 * number for number in range(1, 51))
SIOCSIFFLAGS, IFF_UP = 0x8914, 1  # linux/sockios.h, linux/if.h
INTERFACE_FLAGS = struct.Struct("16sh14x")  # of struct ifreq
SO_MAX_PACING_RATE = 47  # asm-generic/socket.h
PACED_BYTES_S, PACED_BYTES, SEGMENT_BYTES = 1_000_000, 150_000, 1_000


def loopback_up() -> None:
    """Bring the only interface up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, INTERFACE_FLAGS.pack(b"lo", IFF_UP))


def starts_ns() -> int:
    """How long it takes that a hundred flows begin which begin in one instant."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(FLOWS)]
        for one in sockets:
            one.setblocking(False)
        began = time.monotonic_ns()
        for one in sockets:
            one.connect_ex(CLOSED)
        return time.monotonic_ns() - began


def late_ns() -> int:
    """How late the latest of some timers is."""
    latest = 0
    for nap_s in NAPS_S:
        due = time.monotonic_ns() + round(nap_s * 1e9)
        time.sleep(nap_s)
        latest = max(latest, time.monotonic_ns() - due)
    return latest


def paced_ratio() -> float:
    """What a TCP flow carries that the kernel paces, once it has begun, of what it is to carry."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, PACED_BYTES_S)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PACED_BYTES)
        sender.connect(server.getsockname())
        receiver, _ = server.accept()
        with receiver:
            sender.sendall(bytes(PACED_BYTES))
            sender.shutdown(socket.SHUT_WR)
            arrivals, before = [], 0
            while data := receiver.recv(PACED_BYTES):
                # What is sent at a time waits for what was sent before it. The first ten segments are not paced.
                arrivals += [(before, time.monotonic_ns())] if before > PACED_BYTES // 3 else []
                before += len(data)
    (first, first_ns), (last, last_ns) = arrivals[0], arrivals[-1]
    return (last - first) * 1e9 / (last_ns - first_ns) / PACED_BYTES_S


def main() -> None:
    """The life of the guest."""
    try:
        seed_random_numbers(SEED)
        prepare()
        channel = Channel()
        # A kernel tells versions only of those of its parts that state one.
        versions = {
            path.parent.name.removeprefix("tcp_"): path.read_text().strip()
            for path in Path("/sys/module").glob("tcp_*/version")
        }
        read = time.monotonic_ns()
        step_ns = time.monotonic_ns() - read
        before_failure = time.monotonic_ns()
        NOWHERE.exists()
        about = {
            "clock_step_ns": step_ns,
            "failed_call_ns": time.monotonic_ns() - before_failure - step_ns,
            "release": os.uname().release,
            "ccas": kernel_ccas(),
            "versions": versions,
            "launches": LAUNCHES.exists(),
        }
        channel.tell(about=about, random=os.urandom(16).hex())
        before = time.monotonic()
        time.sleep(SLEEP_S)
        channel.tell(slept_s=time.monotonic() - before)
        loopback_up()
        channel.tell(times={"starts_ns": starts_ns(), "late_ns": late_ns(), "paced_ratio": paced_ratio()})
    finally:
        power_off()


if __name__ == "__main__":
    main()
