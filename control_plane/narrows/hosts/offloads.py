# SPDX-License-Identifier: Apache-2.0
"""Offloads of network interfaces, as `ethtool -K` sets them, without a process for each: those take long in a guest."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from narrows.errors import RunError

SIOCETHTOOL = 0x8946  # linux/sockios.h
# struct ifreq of linux/if.h: a name, and a pointer to what the request is about.
REQUEST = struct.Struct("=16sQ16x")


class Offload(NamedTuple):
    """What `ethtool -k` calls an offload, and the request that reads it; the next one sets it (linux/ethtool.h)."""

    name: str
    read: int


# What joins, splits or leaves unfinished the packets that we want to see as they are, by ethtool's short names. Since
# Linux 6.16 ethtool counts the segmentation of Accurate ECN to TSO too: no sender uses it where TSO is off.
OFFLOADS = {
    "tso": Offload("tcp-segmentation-offload", 0x1E),
    "gso": Offload("generic-segmentation-offload", 0x23),
    "gro": Offload("generic-receive-offload", 0x2B),
    "tx": Offload("tx-checksumming", 0x16),
    "rx": Offload("rx-checksumming", 0x14),
    "sg": Offload("scatter-gather", 0x18),
}


def turn_offloads(interface: str, on: Collection[str] = ()) -> dict[str, str]:
    """Turn offloads of an interface off, all but those of ``on`` (keys of `OFFLOADS`); returns what is read back.

    Raises:
        RunError: there is no such interface, or an offload reads back differently.
    """
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
        for short, (_, read) in OFFLOADS.items():
            # Whether it can be changed is seen when it is read.
            with suppress(OSError):
                _ask(kernel, interface, read + 1, int(short in on))
        for short, (name, read) in OFFLOADS.items():
            try:
                is_on = bool(_ask(kernel, interface, read))
            except OSError as error:
                raise RunError(f"{interface}: {name} cannot be read: {error.strerror}") from error
            if is_on != (short in on):
                raise RunError(f"{interface}: {name} cannot be turned {'on' if short in on else 'off'}")
            found[name] = "on" if is_on else "off"
    return found


def _ask(kernel: socket.socket, interface: str, request: int, value: int = 0) -> int:
    """A request of linux/ethtool.h with one value (struct ethtool_value), and the value that the kernel gives back."""
    answer = (ctypes.c_uint32 * 2)(request, value)
    fcntl.ioctl(kernel, SIOCETHTOOL, REQUEST.pack(interface.encode(), ctypes.addressof(answer)))
    return answer[1]
