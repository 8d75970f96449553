# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest that sends frames by /dev/narrows_launch, and tells which arrived when.

Used as ``python launches.py``; tells ``refused``, a name of an error for each wrong use, ``arrived``, of each frame its
label, how long after its launch time it arrived, in ns, and whether all behind the label was zeros; then ``lost``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from narrows.virtual.init import Channel, power_off, prepare
from narrows.virtual.probe import LAUNCHES

BIND, LOST = 0x4E00, 0x80084E01
# Launch time, length of the frame, bytes that follow; then a struct virtio_net_hdr of zeros.
RECORD = struct.Struct("=QII16x")
PROTOCOL = 0x88B5  # for experiments (IEEE 802)
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
TIME = struct.Struct("=qq")
HEADER = bytes([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]) + PROTOCOL.to_bytes(2, "big")
LABEL = struct.Struct("=H")


def record(launch_ns: int, label: int, length: int = 1514) -> bytes:
    """A frame whose payload is a label and zeros, which are not passed on."""
    held = HEADER + LABEL.pack(label)
    return RECORD.pack(launch_ns, length, len(held)) + held.ljust(-(-len(held) // 8) * 8, b"\0")


def refusal(call: Callable[[], Any]) -> str:
    """Which error a call gives."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "none"


def refusals(device: int, index: int) -> list[str]:
    """Uses of the device that it refuses; it is bound then."""
    good = record(0, 0)
    unbound = [lambda: os.write(device, good), lambda: fcntl.ioctl(device, BIND, 0)]
    found = [refusal(call) for call in unbound]
    fcntl.ioctl(device, BIND, index)
    cut, short = good[:-8], RECORD.pack(0, 10, 10) + bytes(16)
    inconsistent = [RECORD.pack(0, 1514, 1 << 31) + good[RECORD.size :], RECORD.pack(0, 15, 16) + good[RECORD.size :]]
    endless = RECORD.pack(0, 1 << 20, 16) + good[RECORD.size :]
    bad = [b"", good + cut, short, *inconsistent, endless, bytes(1 << 18)]
    found += [refusal(lambda one=one: os.write(device, one)) for one in bad]  # type: ignore[misc]
    calls = [lambda: fcntl.ioctl(device, BIND, index), lambda: fcntl.ioctl(device, BIND + 7, 0)]
    return [*found, *map(refusal, calls)]


def main() -> None:
    """The life of the guest."""
    try:
        prepare()
        channel = Channel()
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        for words in ("link add left type veth peer name right", "link set left up", "link set right up"):
            subprocess.run(["ip", *words.split()], check=True)
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(PROTOCOL))
        receiver.bind(("right", PROTOCOL))
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 20)
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        receiver.settimeout(0.1)
        device = os.open(LAUNCHES, os.O_WRONLY)
        channel.tell(refused=refusals(device, socket.if_nametoindex("left")))

        start = time.monotonic_ns() + 1_000_000
        launches = {1: 30, 2: 50, 3: 20, 4: 40, 5: 50, 6: 0, **dict.fromkeys(range(100, 300), 90)}
        at = {label: start + us * 1000 if us else 0 for label, us in launches.items()}
        for batch in ((1, 2), (3, 4, 5), (6,), range(100, 300)):
            os.write(device, b"".join(record(at[label], label) for label in batch))
        os.write(device, record(start, 7, 1519))
        wall = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()
        arrived = []
        try:
            while True:
                frame, ((_, _, stamp),), _, _ = receiver.recvmsg(2048, 64)
                seconds, nanoseconds = TIME.unpack(stamp)
                (label,) = LABEL.unpack_from(frame, len(HEADER))
                late = seconds * 10**9 + nanoseconds - wall - at[label]
                whole = len(frame) == 1514 and not any(frame[len(HEADER) + LABEL.size :])
                arrived.append((label, late if at[label] else 0, whole))
        except TimeoutError:
            channel.tell(arrived=arrived)
        lost = bytearray(8)
        fcntl.ioctl(device, LOST, lost)
        channel.tell(lost=int.from_bytes(lost, "little"))
        # What waits goes with its program.
        os.write(device, record(time.monotonic_ns() + 10**9, 8))
        os.close(device)
    finally:
        power_off()


if __name__ == "__main__":
    main()
