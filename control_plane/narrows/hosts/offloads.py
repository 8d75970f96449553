# SPDX-License-Identifier: Apache-2.0
"""Offloads of network interfaces, as `ethtool -K` sets them, without a process for each: those take long in a guest."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from narrows.errors import RunError

SIOCETHTOOL = 0x8946  # linux/sockios.h
# linux/ethtool.h: features by the number that the kernel gives their names, which it lists in strings of a length.
ETHTOOL_GSTRINGS, ETHTOOL_GFEATURES, ETHTOOL_SFEATURES = 0x1B, 0x3A, 0x3B
FEATURE_NAMES, NAME_BYTES, MAX_FEATURES = 4, 32, 256
# Have no requests of their own. What a program hands over as one datagram (UDP_SEGMENT) or message (SCTP) is to be
# split before the link, and a switch completes no checksum of SCTP's. Nor does it cut TCP segments with CWR, which is
# the first one's by RFC 3168 and all segments' with Accurate ECN, or in tunnels.
ALWAYS_OFF = (
    "tx-udp-segmentation", "tx-sctp-segmentation", "tx-checksum-sctp",
    "tx-tcp-ecn-segmentation", "tx-tcp-accecn-segmentation",
    "tx-gre-segmentation", "tx-gre-csum-segmentation", "tx-ipxip4-segmentation", "tx-ipxip6-segmentation",
    "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
)  # fmt: skip
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
        names = _features(kernel, interface)
        unwanted = [name for name in ALWAYS_OFF if name in names]
        _turn_off(kernel, interface, unwanted, names)
    return found | dict.fromkeys(unwanted, "off")


def _features(kernel: socket.socket, interface: str) -> list[str]:
    """The names of all features, by number."""
    # Without a length the kernel returns all; with a wrong one, none.
    names = struct.pack("=III", ETHTOOL_GSTRINGS, FEATURE_NAMES, 0) + bytes(MAX_FEATURES * NAME_BYTES)
    answer = ctypes.create_string_buffer(names, len(names))
    fcntl.ioctl(kernel, SIOCETHTOOL, REQUEST.pack(interface.encode(), ctypes.addressof(answer)))
    ends = range(12, 12 + struct.unpack_from("=I", answer, 8)[0] * NAME_BYTES, NAME_BYTES)
    return [answer.raw[at : at + NAME_BYTES].rstrip(b"\0").decode() for at in ends]


def _turn_off(kernel: socket.socket, interface: str, unwanted: Sequence[str], names: Sequence[str]) -> None:
    """Turn some of all features off.

    Raises:
        RunError: one reads back differently.
    """
    bits = {name: divmod(names.index(name), 32) for name in unwanted}
    # For each 32 features which are meant, and what they are to be.
    words = [ETHTOOL_SFEATURES, -(-len(names) // 32)]
    for block in range(words[1]):
        words += [sum(1 << bit for at, bit in bits.values() if at == block), 0]
    asked = (ctypes.c_uint32 * len(words))(*words)
    with suppress(OSError):
        fcntl.ioctl(kernel, SIOCETHTOOL, REQUEST.pack(interface.encode(), ctypes.addressof(asked)))
    # Of each 32: can be changed, wanted, in use, never changed.
    answer = (ctypes.c_uint32 * (2 + 4 * words[1]))(ETHTOOL_GFEATURES, words[1])
    fcntl.ioctl(kernel, SIOCETHTOOL, REQUEST.pack(interface.encode(), ctypes.addressof(answer)))
    for name, (at, bit) in bits.items():
        if answer[2 + 4 * at + 2] & 1 << bit:
            raise RunError(f"{interface}: {name} cannot be turned off")


def _ask(kernel: socket.socket, interface: str, request: int, value: int = 0) -> int:
    """A request of linux/ethtool.h with one value (struct ethtool_value), and the value that the kernel gives back."""
    answer = (ctypes.c_uint32 * 2)(request, value)
    fcntl.ioctl(kernel, SIOCETHTOOL, REQUEST.pack(interface.encode(), ctypes.addressof(answer)))
    return answer[1]
