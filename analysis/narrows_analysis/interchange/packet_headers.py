# SPDX-License-Identifier: Apache-2.0
"""What is needed of a captured packet: whose it is, what of TCP it has, and by what two captures know it as one."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from narrows_analysis.records.five_tuple import FiveTuple

TCP, UDP = 6, 17
# Link types (tcpdump.org/linktypes.html), and how long each one's header is before its EtherType ends.
ETHERNET, SLL, SLL2 = 1, 113, 276
# Without one: LINKTYPE_RAW, DLT_RAW, which some write in its place, LINKTYPE_IPV4 and LINKTYPE_IPV6.
RAW_IP = {101, 12, 228, 229}
IPV4, IPV6, VLAN, SERVICE_VLAN = 0x0800, 0x86DD, 0x8100, 0x88A8
# IPv6 headers that may be in front of the transport's (RFC 8200).
EXTENSIONS = {0, 43, 60}
FRAGMENT = 44
# Bytes of a header, which each packet but a later fragment has.
LEAST = {UDP: 8, TCP: 20}
TIMESTAMPS = 8
# Bytes of the transport by which a packet is known: all of TCP's header, and what begins the payload.
KNOWN_BY = 64


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet: ``ip_bytes`` and ``payload`` are lengths on the wire, ``network`` and ``transport`` what identifies it:
    all that neither a router nor a NIC changes. ``cut``: less of the transport was stored than there was."""

    flow: FiveTuple
    ip_bytes: int
    payload: int
    network: bytes
    transport: bytes
    cut: bool
    seq: int = 0
    flags: int = 0
    tsval: int = 0
    tsecr: int = 0


def decode(link_type: int, data: bytes) -> Packet | None:
    """A captured frame's packet; None if it is not IP, or not enough of it was stored.

    Raises:
        KeyError: the link type is not known.
    """
    try:
        return _ip(*_network(link_type, data))
    except (struct.error, IndexError):
        return None


def _network(link_type: int, data: bytes) -> tuple[int, bytes]:
    """EtherType, and the bytes from the IP header on."""
    if link_type in RAW_IP:
        return (IPV6 if data[0] >> 4 == 6 else IPV4), data
    if link_type == SLL2:
        return struct.unpack_from(">H", data)[0], data[20:]
    at = {ETHERNET: 12, SLL: 14}[link_type]
    (kind,) = struct.unpack_from(">H", data, at)
    at += 2
    while kind in (VLAN, SERVICE_VLAN):
        (kind,) = struct.unpack_from(">H", data, at + 2)
        at += 4
    return kind, data[at:]


def _ip(kind: int, data: bytes) -> Packet | None:
    if kind == IPV4 and data[0] >> 4 == 4:
        header = (data[0] & 15) * 4
        length, _, fragment = struct.unpack_from(">HHH", data, 2)
        # Neither the hop limit, nor the checksum, nor DSCP and ECN, which the way may change.
        network = data[2:8] + data[9:10] + data[12:20]
        src, dst = (str(ipaddress.IPv4Address(data[at : at + 4])) for at in (12, 16))
        first = not fragment & 0x1FFF
        return _transport(data[9], src, dst, length, length - header, network, data[header:] if first else b"")
    if kind == IPV6 and data[0] >> 4 == 6:
        (payload,) = struct.unpack_from(">H", data, 4)
        src, dst = (str(ipaddress.IPv6Address(data[at : at + 16])) for at in (8, 24))
        protocol, at, first = data[6], 40, True
        while protocol in EXTENSIONS or protocol == FRAGMENT:
            if protocol == FRAGMENT:
                first = not struct.unpack_from(">H", data, at + 2)[0] >> 3
                protocol, at = data[at], at + 8
            else:
                protocol, at = data[at], at + (data[at + 1] + 1) * 8
        network = data[4:7] + data[8:at]
        return _transport(protocol, src, dst, 40 + payload, 40 + payload - at, network, data[at:] if first else b"")
    return None


def _transport(
    protocol: int, src: str, dst: str, ip_bytes: int, length: int, network: bytes, data: bytes
) -> Packet | None:
    if length < LEAST.get(protocol, 0):
        # Longer ones than the field can say have none: a kernel's, which no link carries.
        return None
    cut, stored = len(data) < min(length, KNOWN_BY), data[:KNOWN_BY]
    if protocol == UDP and data:
        ports = struct.unpack_from(">HH", data)
        # With checksum offload, packets are captured before the NIC fills the checksum in.
        return Packet(
            FiveTuple(protocol, src, dst, *ports), ip_bytes, length - 8, network, stored[:6] + stored[8:], cut
        )
    if protocol == TCP and data:
        source, target, seq, _, offset, flags = struct.unpack_from(">HHIIBB", data)
        header = (offset >> 4) * 4
        tsval, tsecr = _timestamps(data[20:header])
        return Packet(
            FiveTuple(protocol, src, dst, source, target), ip_bytes, length - header, network,
            stored[:16] + stored[18:], cut, seq, flags, tsval, tsecr,
        )  # fmt: skip
    return Packet(FiveTuple(protocol, src, dst, 0, 0), ip_bytes, length, network, stored, cut)


def _timestamps(options: bytes) -> tuple[int, int]:
    """TCP's timestamps (RFC 7323); zeros where there are none."""
    at = 0
    while at < len(options) and options[at]:
        if options[at] == 1:
            at += 1
        elif options[at] == TIMESTAMPS:
            value, echo = struct.unpack_from(">II", options, at + 2)
            return value, echo
        else:
            at += max(2, options[at + 1])
    return 0, 0
