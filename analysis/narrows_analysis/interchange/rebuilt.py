# SPDX-License-Identifier: Apache-2.0
"""A packet's headers, rebuilt from its report's columns and its flow's key.

What no report has is fixed: addresses of Ethernet 0, hop limit 64, identification 0, TCP window 65535 and checksums of
TCP and UDP 0. Options of TCP other than timestamps are padding (NOP), an IPv6 flow label is 0, and tags of VLANs are
missing. Payload is left out, as by a capture with a short snapshot length.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import ip_address

from narrows_analysis.records.flow_table import KeyRow

ETHERNET = 14
IPV4, IPV6 = 20, 40
TCP, UDP = 6, 17
TCP_HEADER, UDP_HEADER = 20, 8
TCP_HEADER_MAX = 60
HOPS = 64
WINDOW = 0xFFFF
NOP = b"\x01"
TIMESTAMPS = struct.Struct("!BBII")
# IEEE 802's EtherType for private use: the packet was neither IPv4 nor IPv6, and its own is not reported.
NOT_IP = 0x88B5


@dataclass(frozen=True)
class FlowKey:
    """The 5-tuple of a flow; addresses packed, empty where it is not IP."""

    ip_version: int
    src: bytes
    dst: bytes
    protocol: int
    src_port: int
    dst_port: int

    @classmethod
    def of(cls, row: KeyRow) -> FlowKey:
        """From a row of flow_keys.parquet."""
        protocol, *ends, src_port, dst_port = row.connection
        src, dst = (ip_address(end).packed if end else b"" for end in ends)
        return cls(row.ip_version, src, dst, protocol, src_port, dst_port)


@dataclass(frozen=True)
class Tcp:
    """TCP's fields of one packet."""

    seq: int
    ack: int
    flags: int
    tsval: int
    tsecr: int


def headers(key: FlowKey, frame_bytes: int, payload: int, ecn: int, tcp: Tcp) -> bytes:
    """Ethernet, IP and TCP or UDP headers of a frame of ``frame_bytes`` with ``payload`` bytes of TCP or UDP."""
    if key.ip_version not in (4, 6):
        return bytes(12) + NOT_IP.to_bytes(2)
    internet = IPV4 if key.ip_version == 4 else IPV6
    if key.protocol == TCP:
        inner = _tcp(key, tcp, frame_bytes - ETHERNET - internet - payload)
        length = len(inner) + payload
    elif key.protocol == UDP:
        length = UDP_HEADER + payload
        inner = struct.pack("!HHHH", key.src_port, key.dst_port, length, 0)
    else:
        length, inner = frame_bytes - ETHERNET - internet, b""
    if key.ip_version == 6:
        ip = struct.pack("!IHBB", 6 << 28 | ecn << 20, length, key.protocol, HOPS) + key.src + key.dst
        return bytes(12) + b"\x86\xdd" + ip + inner
    ip = struct.pack("!BBHIBBH", 0x45, ecn, IPV4 + length, 0, HOPS, key.protocol, 0) + key.src + key.dst
    return bytes(12) + b"\x08\x00" + ip[:10] + _checksum(ip).to_bytes(2) + ip[12:] + inner


def _tcp(key: FlowKey, tcp: Tcp, between: int) -> bytes:
    """The header; ``between`` is what lies between IP header and payload, and padding of short frames."""
    options = b""
    if tcp.tsval or tcp.tsecr:
        options = NOP * 2 + TIMESTAMPS.pack(8, 10, tcp.tsval, tcp.tsecr)
    whole = TCP_HEADER + len(options)
    if whole <= between <= TCP_HEADER_MAX and between % 4 == 0:
        options, whole = options + NOP * (between - whole), between
    offset = whole // 4 << 12 | tcp.flags
    return struct.pack("!HHIIHHHH", key.src_port, key.dst_port, tcp.seq, tcp.ack, offset, WINDOW, 0, 0) + options


def _checksum(header: bytes) -> int:
    """RFC 1071, of a header whose own checksum is 0."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
