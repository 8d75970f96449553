# SPDX-License-Identifier: Apache-2.0
"""Which cell of its registers and counters the P4 program counts a flow in: `FlowIndex` of p4src/*/primitives.p4.

CRC-32 (IEEE 802.3) of the link's number in one byte, source and destination in 16 bytes each (IPv4 addresses are their
low 32 bits), protocol, source port and destination port. v1model takes the low 16 bits of it, Tofino fewer.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from ipaddress import ip_address

# FLOW_INDEX_WIDTH of p4src/common/constants.p4: what switches in software have.
INDEX_BITS = 16
_PORTS = struct.Struct(">HH")


def begin(bottleneck: int, src: str, dst: str, protocol: int) -> int:
    """The hash of all but the ports, for `finish`; many flows have this part in common.

    Args:
        bottleneck: index of the link in the P4 program, below 64.
        src: address that packets are from.
        dst: address that they are for, of the same IP version.
        protocol: IP protocol.
    """
    return zlib.crc32(b"%c%b%b%c" % (bottleneck, _octets(src), _octets(dst), protocol))


def finish(begun: int, ports: bytes) -> int:
    """All 32 bits of the hash of packets with `packed` ports."""
    return zlib.crc32(ports, begun)


def packed(src_port: int, dst_port: int) -> bytes:
    """Ports of packets as the hash takes them."""
    return _PORTS.pack(src_port, dst_port)


# The hosts of a large experiment.
@lru_cache(1024)
def _octets(address: str) -> bytes:
    return int(ip_address(address)).to_bytes(16, "big")
