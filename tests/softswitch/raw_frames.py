# SPDX-License-Identifier: Apache-2.0
"""Raw frames in and out of namespaces: sent one by one, received with what the kernel's buffer can hold."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

from narrows.hosts.links import call_inside

# A local experimental EtherType: the hosts' stacks leave such frames alone.
ETHERTYPE = 0x88B5
BUFFER_BYTES = 256 << 20
SO_RCVBUFFORCE = 33
TUNSETIFF = 0x400454CA
IFF_TAP_WITHOUT_HEADER = 0x0002 | 0x1000
REPORT_AT = 42  # behind Ethernet, IPv4 and UDP


def mac(number: int) -> bytes:
    """A locally administered address."""
    return b"\x02\x00\x00\x00" + number.to_bytes(2, "big")


def frame(destination: int, number: int, length: int) -> bytes:
    """A frame of a length, with a number in its first payload bytes."""
    header = mac(destination) + mac(0) + ETHERTYPE.to_bytes(2, "big") + number.to_bytes(4, "big")
    return header.ljust(length, b"\0")


def number_of(found: bytes) -> int:
    """The number in a frame."""
    return int.from_bytes(found[14:18], "big")


def raw_socket(namespace: str, interface: str = "eth0", ethertype: int = ETHERTYPE) -> socket.socket:
    """A raw socket on an interface in a namespace that receives frames of an EtherType."""

    def opened() -> socket.socket:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ethertype))
        raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        raw.bind((interface, ethertype))
        return raw

    return call_inside(namespace, opened)


def receive(raw: socket.socket, count: int, *, at_most_s: float = 20.0) -> list[bytes]:
    """The next frames, as many as are wanted; fewer when no more come for so long."""
    found: list[bytes] = []
    raw.settimeout(at_most_s)
    while len(found) < count:
        try:
            found.append(raw.recv(16_384))
        except TimeoutError:
            break
    return found


def waiting(raw: socket.socket) -> list[bytes]:
    """What has arrived and has not been read."""
    return receive(raw, 1 << 30, at_most_s=0.2)


def report_field(report: bytes, at: int, octets: int) -> int:
    """A number of report_t by its place."""
    return int.from_bytes(report[REPORT_AT + at : REPORT_AT + at + octets], "big")


def stuck_interface(namespace: str, name: str) -> int:
    """A tap interface that is not read: it is full after some frames. The file descriptor that keeps it."""

    def opened() -> int:
        handle = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_WITHOUT_HEADER))
        return handle

    return call_inside(namespace, opened)


def resident_bytes(process: int) -> int:
    """Memory of a process that is in RAM."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) * 1024
