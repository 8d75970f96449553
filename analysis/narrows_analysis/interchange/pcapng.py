# SPDX-License-Identifier: Apache-2.0
"""pcapng, as far as it is written here: interfaces with a name, packets with a comment (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from typing import IO

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER = 0x1A2B3C4D
ETHERNET = 1
COMMENT, NAME, DESCRIPTION, TSRESOL, TSOFFSET = 1, 2, 3, 9, 14
NANOSECOND_DIGITS = 9  # if_tsresol: units of 10^-9 s


class PcapngWriter:
    """Writes a section, then its interfaces, then packets."""

    def __init__(self, sink: IO[bytes], comment: str) -> None:
        """Begin a section."""
        self._sink = sink
        self._block(SECTION, struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1) + _option(COMMENT, comment.encode()))

    def interface(self, name: str, description: str) -> None:
        """Add an interface; they are numbered from 0."""
        options = _option(NAME, name.encode()) + _option(DESCRIPTION, description.encode())
        options += _option(TSRESOL, bytes([NANOSECOND_DIGITS]))
        self._block(INTERFACE, struct.pack("<HHI", ETHERNET, 0, 0) + options)

    def packet(self, interface: int, time_ns: int, data: bytes, length: int, comment: str) -> None:
        """Add a packet of ``length`` bytes of which ``data`` are there."""
        fields = (interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), length)
        body = struct.pack("<IIIII", *fields) + _padded(data)
        self._block(PACKET, body + (_option(COMMENT, comment.encode()) if comment else b""))

    def _block(self, kind: int, body: bytes) -> None:
        size = len(body) + 12
        self._sink.write(struct.pack("<II", kind, size) + body + struct.pack("<I", size))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)
