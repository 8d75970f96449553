# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for frames, and for the entries that connect ports, of the differential test."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

import expected
import frames as suite_frames
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from targets.base import DATA_PORTS

INGRESS_PORTS = DATA_PORTS[:3]
EGRESS_PORTS = DATA_PORTS[3:]
BOTTLENECKS = (0, 1, 31, 63)
EVERYTHING = 0xFFFFFFFF
SESSION = 5

# Few of each, so that flows come back and entries are hit.
_MACS = (0x020000000001, 0x020000000002, 0x0200000000FF, 0xFFFFFFFFFFFF)
_IPV4 = (0x0A000001, 0x0A000002, 0x0A010001, 0xC6120001, 0xFFFFFFFF, 0)
_IPV6 = (1 << 127 | 5, 0x20010DB8 << 96 | 1, 0x20010DB8 << 96 | 2, 0x0A000001, (1 << 128) - 1)
_PROTOCOLS = (6, 6, 6, 6, 17, 17, 33, 132, 136, 1, 0, 44, 59, 60, 50, 253)
_PORTS = (0, 1, 80, 5201, 65535)
# Linux discards frames with a tag and less than two bytes behind it before any switch sees them.
_SHORTEST_TAGGED = 20


def _choose(values: tuple[int, ...]) -> st.SearchStrategy[int]:
    return st.sampled_from(values)


@st.composite
def _ipv4(draw: DrawFn) -> bytes:
    words = draw(st.sampled_from([5, 5, 5, 5, 6, 15, 4, 0]))
    flags_offset = draw(st.sampled_from([0, 0, 0, 0x4000, 0x2000, 0x2001, 1, 0x1FFF, 0x8000]))
    head = struct.pack(
        ">BBHHHBBHII",
        draw(st.sampled_from([4, 4, 4, 7])) << 4 | words,
        draw(st.sampled_from([0, 0x28, 0xFC])) | draw(st.sampled_from([0, 1, 1, 2, 2, 3])),
        draw(st.sampled_from([20, 60, 1500, 0, 65535])),
        draw(st.integers(0, 65535)),
        flags_offset,
        draw(st.integers(0, 255)),
        draw(_choose(_PROTOCOLS)),
        0,
        draw(_choose(_IPV4)),
        draw(_choose(_IPV4)),
    )
    header = head + draw(st.binary(min_size=max(0, words - 5) * 4, max_size=max(0, words - 5) * 4))
    checksum = expected.ipv4_checksum(header)
    if draw(st.booleans()):
        # Where the one's complement wraps.
        checksum = draw(st.sampled_from([0, 0, 0, 1, 1, 1, 2, 0xFFFF, 0x1234]))
    return header[:10] + checksum.to_bytes(2, "big") + header[12:]


@st.composite
def _ipv6(draw: DrawFn) -> bytes:
    first = draw(st.sampled_from([6, 6, 6, 4])) << 28 | draw(st.integers(0, (1 << 28) - 1))
    length = draw(st.sampled_from([0, 20, 1440, 65535]))
    start = struct.pack(">IHBB", first, length, draw(_choose(_PROTOCOLS)), draw(st.integers(0, 255)))
    return start + draw(_choose(_IPV6)).to_bytes(16, "big") + draw(_choose(_IPV6)).to_bytes(16, "big")


@functools.cache
def _colliding() -> list[bytes]:
    """A frame, and for each bottleneck one of another flow with the same index."""
    owner = suite_frames.ipv4()
    template = suite_frames.ipv4(src="198.18.0.77")
    ports = [expected.colliding_port(expected.V1modelHash(), bottleneck, owner, template) for bottleneck in BOTTLENECKS]
    return [owner, *(suite_frames.ipv4(src="198.18.0.77", src_port=port) for port in ports)]


@st.composite
def frames(draw: DrawFn) -> bytes:
    """An Ethernet frame of 14 to 1514 bytes: tagged or not, IPv4, IPv6 or neither, whole or cut anywhere."""
    macs = draw(_choose(_MACS)).to_bytes(6, "big") + draw(_choose(_MACS)).to_bytes(6, "big")
    tags = b""
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 3]))):
        tags += struct.pack(">HH", draw(st.sampled_from([0x8100, 0x8100, 0x88A8])), draw(st.integers(0, 65535)))
    kind = draw(st.sampled_from(["ipv4", "ipv4", "ipv6", "ipv6", "other", "collision"]))
    if kind == "collision":
        return draw(st.sampled_from(_colliding()))
    if kind == "ipv4":
        ethertype, network = 0x0800, draw(_ipv4())
    elif kind == "ipv6":
        ethertype, network = 0x86DD, draw(_ipv6())
    else:
        ethertype, network = draw(st.sampled_from([0x0806, 0x88CC, 0x8847, 0x0030, 0xFFFF])), b""
    ports = struct.pack(">HH", draw(_choose(_PORTS)), draw(_choose(_PORTS)))
    payload = bytes(i % 251 for i in range(draw(st.sampled_from([0, 2, 12, 26, 60, 400, 1400]))))
    frame = (macs + tags + struct.pack(">H", ethertype) + network + ports + payload)[:1514]
    if draw(st.integers(0, 3)) == 0:
        shortest = _SHORTEST_TAGGED if tags else 14
        frame = frame[: draw(st.integers(shortest, max(shortest, min(len(frame), 90))))]
    return frame


@dataclass(frozen=True)
class Connection:
    """A cross-connect entry; ``bottleneck`` None is a wire, ``egress`` None discards."""

    match: tuple[tuple[str, tuple[int, int]], ...]
    egress: int | None
    bottleneck: int | None


@dataclass(frozen=True)
class Settings:
    """What a bottleneck does with its packets."""

    ecn_threshold: int
    sample_shift: int
    mirror: int
    report_length: int
    loss: int | None


@dataclass(frozen=True)
class Scenario:
    """Entries, values that registers start from, and frames with the port that they come from."""

    connections: tuple[Connection, ...]
    settings: dict[int, Settings]
    start: int
    sent: tuple[tuple[int, bytes], ...]


@st.composite
def _connections(draw: DrawFn) -> Connection:
    match: dict[str, tuple[int, int]] = {}
    if draw(st.booleans()):
        match["ingress_port"] = (draw(_choose(INGRESS_PORTS)), 0x1FF)
    kind = draw(st.sampled_from(["any", "any", "mac", "ipv4", "ipv6"]))
    if kind == "mac":
        match["dst_mac"] = (draw(_choose(_MACS)), (1 << 48) - 1)
    elif kind == "ipv4":
        mask = 0xFFFFFFFF << (32 - draw(st.sampled_from([1, 8, 16, 31, 32]))) & 0xFFFFFFFF
        match["is_ipv4"], match["dst_ipv4"] = (1, 1), (draw(_choose(_IPV4)) & mask, mask)
    elif kind == "ipv6":
        mask = ((1 << 128) - 1) ^ ((1 << 128 - draw(st.sampled_from([1, 32, 64, 127, 128]))) - 1)
        match["is_ipv6"], match["dst_ipv6"] = (1, 1), (draw(_choose(_IPV6)) & mask, mask)
    bottleneck = draw(st.sampled_from([*BOTTLENECKS, *BOTTLENECKS, None]))
    # A bottleneck has one egress port: behind two, the order of its reports is anybody's.
    egress = EGRESS_PORTS[BOTTLENECKS.index(bottleneck)] if bottleneck is not None else EGRESS_PORTS[-1]
    if bottleneck is None and draw(st.integers(0, 3)) == 0:
        return Connection(tuple(match.items()), None, None)
    # A key whose value is 0 under its mask matches anything and may not be written out.
    kept = tuple((name, (value & mask, mask)) for name, (value, mask) in match.items())
    return Connection(kept, egress, bottleneck)


_SETTINGS = st.builds(
    Settings,
    ecn_threshold=st.sampled_from([0, 0, EVERYTHING]),
    sample_shift=st.sampled_from([0, 0, 0, 1, 2]),
    mirror=st.sampled_from([SESSION, SESSION, SESSION, 0]),
    report_length=st.sampled_from([98, 99, 120, 184, 185, 1000]),
    loss=st.sampled_from([None, None, None, 0, EVERYTHING]),
)


def scenarios() -> st.SearchStrategy[Scenario]:
    """Entries and frames; always with at least one bottleneck that catches what nothing else does."""
    catch_all = st.sampled_from(BOTTLENECKS).map(lambda b: Connection((), EGRESS_PORTS[BOTTLENECKS.index(b)], b))
    return st.builds(
        Scenario,
        connections=st.tuples(st.lists(_connections(), max_size=5).map(tuple), catch_all).map(
            lambda both: (*both[0], both[1])
        ),
        settings=st.fixed_dictionaries(dict.fromkeys(BOTTLENECKS, _SETTINGS)),
        start=st.sampled_from([0, 0, 0x7FFFFFFE, 0xFFFFFFFD]),
        sent=st.lists(st.tuples(_choose(INGRESS_PORTS), frames()), min_size=20, max_size=40).map(tuple),
    )
