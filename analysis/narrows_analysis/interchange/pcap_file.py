# SPDX-License-Identifier: Apache-2.0
"""Packets of a capture: pcap, and pcapng (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from narrows_analysis.errors import AnalysisError
from narrows_analysis.interchange.pcapng import BYTE_ORDER, INTERFACE, PACKET, SECTION, TSOFFSET, TSRESOL

# Of pcap: nanoseconds in a unit of its times.
MAGIC = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
SIMPLE_PACKET, OLD_PACKET = 3, 2
NANOSECONDS = 1_000_000_000
# More than any packet with its headers and options has.
LONGEST = 1 << 24
ALLOWED = "a pcap or pcapng file"


@dataclass(frozen=True)
class Frame:
    """A captured frame: its time since 1970, what was stored of it, how long it was, and what its first header is.
    ``interface`` counts those of a pcapng's section."""

    interface: int
    time_ns: int
    link_type: int
    data: bytes
    length: int


class _EndOfFile(Exception):
    """The file ends within a record."""


def read_frames(path: Path) -> Iterator[Frame]:
    """The frames of a capture, in the order of the file; what a file that was cut short has before its end.

    Raises:
        AnalysisError: it cannot be read, or is neither pcap nor pcapng; the message names it.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            try:
                if magic == struct.pack("<I", SECTION):
                    yield from _pcapng(file, path)
                elif (order := _order(magic)) is not None:
                    yield from _pcap(file, order, MAGIC[struct.unpack(order + "I", magic)[0]])
                else:
                    raise AnalysisError(f"{path}: is not a capture; allowed: {ALLOWED}")
            except _EndOfFile:
                return
            except struct.error:
                raise AnalysisError(f"{path}: is damaged; allowed: {ALLOWED}") from None
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}") from error


def _order(magic: bytes) -> str | None:
    """Byte order of a pcap file; None if it is none."""
    orders = (order for order in "<>" if len(magic) == 4 and struct.unpack(order + "I", magic)[0] in MAGIC)
    return next(orders, None)


def _take(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise _EndOfFile
    return data


def _pcap(file: IO[bytes], order: str, unit_ns: int) -> Iterator[Frame]:
    *_, network = struct.unpack(order + "HHiIII", _take(file, 20))
    record = struct.Struct(order + "IIII")
    while True:
        seconds, fraction, stored, length = record.unpack(_take(file, record.size))
        if stored > LONGEST:
            raise _EndOfFile
        yield Frame(0, seconds * NANOSECONDS + fraction * unit_ns, network & 0xFFFF, _take(file, stored), length)


def _pcapng(file: IO[bytes], path: Path) -> Iterator[Frame]:
    order, kind = "<", SECTION
    interfaces: list[tuple[int, int, int]] = []
    while True:
        if kind == SECTION:
            size_bytes, word = _take(file, 4), _take(file, 4)
            order = "<" if struct.unpack("<I", word)[0] == BYTE_ORDER else ">"
            (size,) = struct.unpack(order + "I", size_bytes)
            body, interfaces = word, []
        else:
            (size,), body = struct.unpack(order + "I", _take(file, 4)), b""
        if not 12 <= size <= LONGEST or size % 4:
            raise AnalysisError(f"{path}: has a block of {size} bytes; allowed: {ALLOWED}")
        body += _take(file, size - 12 - len(body))
        _take(file, 4)
        if kind == INTERFACE:
            interfaces.append((struct.unpack_from(order + "H", body)[0], *_times(body[8:], order)))
        elif kind in (SIMPLE_PACKET, OLD_PACKET):
            raise AnalysisError(
                f"{path}: has packets without a time or of an old kind; allowed: enhanced packet blocks"
            )
        elif kind == PACKET:
            interface, high, low, stored, length = struct.unpack_from(order + "IIIII", body)
            if interface >= len(interfaces):
                raise AnalysisError(f"{path}: has a packet of interface {interface}, which it does not describe")
            link_type, units, later_s = interfaces[interface]
            time_ns = (high << 32 | low) * NANOSECONDS // units + later_s * NANOSECONDS
            yield Frame(interface, time_ns, link_type, body[20 : 20 + stored], length)
        kind = struct.unpack(order + "I", _next(file))[0]


def _next(file: IO[bytes]) -> bytes:
    """The kind of the next block; there may be none."""
    return _take(file, 4)


def _times(options: bytes, order: str) -> tuple[int, int]:
    """Of an interface's times: units a second, without the option microseconds, and seconds to be added."""
    at, units, later_s = 0, 1_000_000, 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(order + "HH", options, at)
        if code == TSRESOL and length:
            resolution = options[at + 4]
            units = 1 << (resolution & 0x7F) if resolution & 0x80 else 10 ** (resolution & 0x7F)
        elif code == TSOFFSET:
            (later_s,) = struct.unpack_from(order + "q", options, at + 4)
        at += 4 + -(-length // 4) * 4
    return units, later_s
