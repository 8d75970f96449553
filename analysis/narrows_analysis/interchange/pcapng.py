# SPDX-License-Identifier: Apache-2.0
"""pcapng, as far as it is written here: interfaces and addresses with a name, packets with a comment
(draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from typing import IO

SECTION, INTERFACE, NAMES, PACKET = 0x0A0D0D0A, 1, 4, 6
BYTE_ORDER = 0x1A2B3C4D
ETHERNET = 1
NAME_RECORDS = {4: 1, 6: 2}  # nrb_record_ipv4 and nrb_record_ipv6, by version of IP; 0 ends the records
COMMENT, NAME, DESCRIPTION, TSRESOL, TSOFFSET = 1, 2, 3, 9, 14
NANOSECOND_DIGITS = 9  # if_tsresol: units of 10^-9 s


class PcapngWriter:
    """Writes a section, then its interfaces and names of addresses, then packets."""

    def __init__(self, sink: IO[bytes], comment: str) -> None:
        """Begin a section."""
        self._sink = sink
        self._block(SECTION, struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1) + _option(COMMENT, comment.encode()))

    def interface(self, name: str, description: str) -> None:
        """Add an interface; they are numbered from 0."""
        options = _option(NAME, name.encode()) + _option(DESCRIPTION, description.encode())
        options += _option(TSRESOL, bytes([NANOSECOND_DIGITS]))
        self._block(INTERFACE, struct.pack("<HHI", ETHERNET, 0, 0) + options)

    def names(self, names: Mapping[str, str]) -> None:
        """Add a name resolution block: names by IP addresses."""
        records = b""
        for text, name in names.items():
            address = ipaddress.ip_address(text)
            records += _option(NAME_RECORDS[address.version], address.packed + name.encode() + b"\0")
        self._block(NAMES, records + _option(0, b""))

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
