# SPDX-License-Identifier: Apache-2.0
"""What the bottleneck must do with a frame, worked out in Python from the documentation and nothing else.

Written against p4src/common/headers.p4's comments and the RFCs, not against the program's statements: where the two
disagree, a case fails, and it has to be decided which is right.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Protocol

FLAG_CE_MARKED = 0x01
FLAG_COLLISION = 0x02
FLAG_NOT_IP = 0x04
# Where the ECN field is with which the packet arrived.
FLAG_ECN_SHIFT = 3

ENCAPSULATION_BYTES = 14 + 20 + 8 + 56

_PROTOCOLS_WITH_PORTS = {6, 17, 33, 132, 136}
_REPORT = struct.Struct(">BBBBHHIIIIIIII6sH6sH")
# Those of six bytes, which struct has no number for.
_LONG_FIELDS = (14, 16)


@dataclass(frozen=True)
class Identity:
    """The 5-tuple as far as it can be read; zeros for what is absent."""

    ip_version: int = 0
    src: int = 0
    dst: int = 0
    protocol: int = 0
    src_port: int = 0
    dst_port: int = 0


def network_offset(frame: bytes) -> tuple[int, int]:
    """EtherType of the payload and where it starts, behind at most two VLAN tags; (0, 0) if the frame ends before."""
    offset = 12
    for allowed in ({0x8100, 0x88A8}, {0x8100}):
        if len(frame) < offset + 2:
            return 0, 0
        ethertype = int.from_bytes(frame[offset : offset + 2], "big")
        if ethertype not in allowed:
            return ethertype, offset + 2
        if len(frame) < offset + 6:
            return 0, 0
        offset += 4
    return int.from_bytes(frame[offset : offset + 2], "big"), offset + 2


def identify(frame: bytes) -> Identity:
    """The flow a frame belongs to. Ports count only where they surely are ports."""
    ethertype, start = network_offset(frame)
    packet = frame[start:]
    if ethertype == 0x0800 and len(packet) >= 20:
        plain = packet[0] & 0x0F == 5 and int.from_bytes(packet[6:8], "big") & 0x3FFF == 0
        src, dst = struct.unpack_from(">II", packet, 12)
        return _with_ports(Identity(4, src, dst, packet[9]), packet[20:] if plain else b"")
    if ethertype == 0x86DD and len(packet) >= 40:
        src, dst = (int.from_bytes(packet[at : at + 16], "big") for at in (8, 24))
        return _with_ports(Identity(6, src, dst, packet[6]), packet[40:])
    return Identity()


def _with_ports(identity: Identity, transport: bytes) -> Identity:
    if identity.protocol not in _PROTOCOLS_WITH_PORTS or len(transport) < 4:
        return identity
    src_port, dst_port = struct.unpack_from(">HH", transport)
    return Identity(identity.ip_version, identity.src, identity.dst, identity.protocol, src_port, dst_port)


# A field of a hash: value and width in bits.
_Field = tuple[int, int]


def _five_tuple(identity: Identity) -> list[_Field]:
    return [
        (identity.src, 128),
        (identity.dst, 128),
        (identity.protocol, 8),
        (identity.src_port, 16),
        (identity.dst_port, 16),
    ]


def _crc32(fields: Sequence[_Field]) -> int:
    """CRC-32 of the fields one after the other, behind as many zero bits as make whole bytes of them."""
    message = width = 0
    for value, bits in fields:
        message, width = message << bits | value, width + bits
    return zlib.crc32(message.to_bytes(-(-width // 8), "big"))


class FlowHash(Protocol):
    """How an architecture makes a flow's index and signature of its bottleneck and 5-tuple."""

    # Flow indices that there are.
    flow_count: int

    def index(self, bottleneck: int, identity: Identity) -> int:
        """Index of a flow's registers and counters."""

    def signature(self, bottleneck: int, identity: Identity) -> int:
        """Second hash of a flow; never 0, which means that no flow owns an index."""


class V1modelHash:
    """v1model: a bottleneck takes a whole byte; the second hash has its fields in reverse order and leaves 0 out."""

    flow_count = 65536

    def index(self, bottleneck: int, identity: Identity) -> int:
        """See `FlowHash.index`."""
        return _crc32([(bottleneck, 8), *_five_tuple(identity)]) % self.flow_count

    def signature(self, bottleneck: int, identity: Identity) -> int:
        """See `FlowHash.signature`."""
        return 1 + _crc32([*reversed(_five_tuple(identity)), (bottleneck, 8)]) % 0xFFFFFFFF


class TofinoHash:
    """Tofino: a bottleneck takes six bits, with the zeros for a whole byte in front of all; signatures are odd."""

    flow_count = 32768

    def index(self, bottleneck: int, identity: Identity) -> int:
        """See `FlowHash.index`."""
        return _crc32([(bottleneck, 6), *_five_tuple(identity)]) % self.flow_count

    def signature(self, bottleneck: int, identity: Identity) -> int:
        """See `FlowHash.signature`."""
        return _crc32([*reversed(_five_tuple(identity)), (bottleneck, 6)]) | 1


def index_in_share(hashes: FlowHash, index: int, share: int) -> int:
    """Where a flow index lies in a pipe's share of them: 0 is all, 4 to 7 are the quarters."""
    if share == 0:
        return index
    size = hashes.flow_count // 4
    return (share - 4) * size + index % size


def colliding_port(hashes: FlowHash, bottleneck: int, owner: bytes, template: bytes) -> int:
    """A source port with which a frame like ``template`` gets the flow index of ``owner`` and another signature.

    Raises:
        ValueError: there is none: take another address for ``template``.
    """
    first, other = identify(owner), identify(template)
    wanted, taken = hashes.index(bottleneck, first), hashes.signature(bottleneck, first)
    for port in range(65536):
        identity = replace(other, src_port=port)
        if hashes.index(bottleneck, identity) == wanted and hashes.signature(bottleneck, identity) != taken:
            return port
    raise ValueError("no source port collides")


def delay_bin(delay: int) -> int:
    """Histogram bin of a queue delay: 0..3 for these delays, then 4 bins an octave."""
    if delay < 4:
        return delay
    octave = delay.bit_length() - 1
    return 4 + 4 * (octave - 2) + (delay >> (octave - 2) & 3)


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071 sum of 16-bit words, folded."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def ipv4_checksum(header: bytes) -> int:
    """Checksum of an IPv4 header, whatever its checksum field says now."""
    return 0xFFFF ^ ones_complement_sum(header[:10] + b"\0\0" + header[12:])


def ipv4_header(frame: bytes) -> bytes:
    """The IPv4 header of a frame, options included."""
    _, start = network_offset(frame)
    return frame[start : start + 4 * (frame[start] & 0x0F)]


def arrival_flags(frame: bytes) -> int:
    """What a report's flags say of how a frame arrived: its ECN field, or that it is not IP."""
    ethertype, start = network_offset(frame)
    packet = frame[start:]
    if ethertype == 0x0800 and len(packet) >= 20:
        return (packet[1] & 3) << FLAG_ECN_SHIFT
    if ethertype == 0x86DD and len(packet) >= 40:
        return (packet[1] >> 4 & 3) << FLAG_ECN_SHIFT
    return FLAG_NOT_IP


def congestion_marked(frame: bytes) -> bytes:
    """The frame as a marking queue must send it: CE if it is ECN-capable (RFC 3168), its checksum computed afresh."""
    ethertype, start = network_offset(frame)
    marked = bytearray(frame)
    if ethertype == 0x0800 and frame[start + 1] & 3 in (1, 2):
        marked[start + 1] |= 3
        header = ipv4_header(bytes(marked))
        marked[start + 10 : start + 12] = ipv4_checksum(header).to_bytes(2, "big")
    elif ethertype == 0x86DD and frame[start + 1] >> 4 & 3 in (1, 2):
        marked[start + 1] |= 0x30
    return bytes(marked)


@dataclass(frozen=True)
class Report:
    """A telemetry report as report_t documents it; ``original`` is what follows it: the start of the frame."""

    version: int
    flags: int
    bottleneck: int
    sample_shift: int
    flow: int
    packet_length: int
    signature: int
    sequence: int
    arrivals: int
    departures: int
    loss_drops: int
    aqm_drops: int
    enqueue_depth: int
    dequeue_depth: int
    queue_delay: int
    epoch: int
    timestamp: int
    queue: int
    original: bytes


@dataclass(frozen=True)
class Collector:
    """Addresses of the reports."""

    src_mac: str = "02:4e:57:00:00:00"
    dst_mac: str = "02:4e:57:00:00:09"
    src_ip: str = "198.19.255.254"
    dst_ip: str = "198.19.255.1"
    src_port: int = 5499
    dst_port: int = 5500
    report_length: int = 184


def encapsulation(collector: Collector, length: int, flow: int) -> bytes:
    """Ethernet, IPv4, UDP of a report of ``length`` bytes; the source port's last six bits are the flow's."""
    header = struct.pack(">BBHHHBBH", 0x45, 0, length - 14, 0, 0x4000, 64, 17, 0)
    header += ip_address(collector.src_ip).packed + ip_address(collector.dst_ip).packed
    header = header[:10] + ipv4_checksum(header).to_bytes(2, "big") + header[12:]
    macs = bytes.fromhex((collector.dst_mac + collector.src_mac).replace(":", ""))
    udp = struct.pack(">HHHH", collector.src_port & 0xFFC0 | flow & 0x3F, collector.dst_port, length - 34, 0)
    return macs + b"\x08\x00" + header + udp


def frame_length(frame: bytes) -> int:
    """Length in bytes of a frame as its IPv4 header states it."""
    return 14 + int.from_bytes(frame[16:18], "big")


def decode_report(frame: bytes) -> Report:
    """Reads a report behind its 42 bytes of encapsulation.

    Raises:
        ValueError: the frame is too short to be a report.
    """
    if len(frame) < ENCAPSULATION_BYTES:
        raise ValueError(f"{len(frame)} B are too few for a report")
    fields = list(_REPORT.unpack_from(frame, 42))
    for long in _LONG_FIELDS:
        fields[long] = int.from_bytes(fields[long], "big")
    return Report(*fields, frame[ENCAPSULATION_BYTES:])  # type: ignore[call-arg]
