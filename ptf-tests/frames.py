# SPDX-License-Identifier: Apache-2.0
"""Frames that the cases send, made with scapy so that nothing of ours decides what a correct frame is."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

SRC_MAC = "02:00:00:00:00:01"
DST_MAC = "02:00:00:00:00:02"
SMALLEST_BYTES = 60


def padded(packet: Packet, size: int) -> bytes:
    """Bytes of a packet, with a recognisable payload up to ``size`` bytes of frame."""
    missing = size - len(bytes(packet))
    if missing < 0:
        raise ValueError(f"the headers alone are {size - missing} B, more than the {size} B asked for")
    return bytes(packet / Raw(bytes(i % 251 for i in range(missing)))) if missing else bytes(packet)


def ethernet(tags: Sequence[int] = (), dst_mac: str = DST_MAC) -> Packet:
    """An Ethernet header, with the outer tag 802.1ad when there are two."""
    packet: Packet = Ether(src=SRC_MAC, dst=dst_mac)
    for position, vlan in enumerate(tags):
        outer = len(tags) == 2 and position == 0
        packet = packet / (Dot1AD(vlan=vlan) if outer else Dot1Q(vlan=vlan))
    return packet


def ipv4(
    *,
    src: str = "198.18.0.1",
    dst: str = "198.18.0.2",
    src_port: int = 10000,
    dst_port: int = 5201,
    ecn: int = 0,
    size: int = 100,
    tags: Sequence[int] = (),
    dst_mac: str = DST_MAC,
    identification: int = 1,
    options: bytes = b"",
    transport: Packet | None = None,
    protocol: int | None = None,
) -> bytes:
    """An IPv4 frame of ``size`` bytes; TCP unless another ``transport`` is given. ``options`` is a multiple of 4 B."""
    network = IP(src=src, dst=dst, tos=0x28 | ecn, id=identification, ihl=5 + len(options) // 4)
    network.options = options
    if protocol is not None:
        network.proto = protocol
    inside = TCP(sport=src_port, dport=dst_port) if transport is None else transport
    return padded(ethernet(tags, dst_mac) / network / inside, size)


def ipv6(
    *,
    src: str = "2001:2::1",
    dst: str = "2001:2::2",
    src_port: int = 10000,
    dst_port: int = 5201,
    ecn: int = 0,
    size: int = 100,
    tags: Sequence[int] = (),
    dst_mac: str = DST_MAC,
    transport: Packet | None = None,
    protocol: int | None = None,
) -> bytes:
    """An IPv6 frame of ``size`` bytes; TCP unless another ``transport`` (or extension header) is given."""
    network = IPv6(src=src, dst=dst, tc=0x28 | ecn, fl=0x12345)
    if protocol is not None:
        network.nh = protocol
    inside = TCP(sport=src_port, dport=dst_port) if transport is None else transport
    return padded(ethernet(tags, dst_mac) / network / inside, size)


def arp(size: int = SMALLEST_BYTES) -> bytes:
    """An ARP request."""
    request = Ether(src=SRC_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=SRC_MAC, psrc="198.18.0.1", pdst="198.18.0.2")
    return padded(request, size)


def ipv4_fragment(offset: int, more: bool, size: int = 200, transport: Packet | None = None) -> bytes:
    """A fragment of an IPv4/UDP datagram; ``offset`` in bytes, a multiple of 8."""
    network = IP(src="198.18.0.1", dst="198.18.0.2", id=77, proto=17, flags="MF" if more else 0, frag=offset // 8)
    inside = transport if transport is not None else Raw(b"")
    return padded(ethernet() / network / inside, size)


def catalogue() -> dict[str, bytes]:
    """Frames of every kind that a wire carries; all well-formed."""
    udp = UDP(sport=1, dport=2)
    lldp = Ether(src=SRC_MAC, dst="01:80:c2:00:00:0e", type=0x88CC) / Raw(
        bytes.fromhex("020704020000000001") + bytes(40)
    )
    return {
        "ARP": arp(),
        "LLDP": padded(lldp, 68),
        "unknown EtherType": padded(Ether(src=SRC_MAC, dst=DST_MAC, type=0x88B5), 90),
        "802.3 length field": padded(Ether(src=SRC_MAC, dst=DST_MAC, type=0x0030), 62),
        "MPLS": padded(Ether(src=SRC_MAC, dst=DST_MAC, type=0x8847), 120),
        "IPv4 TCP": ipv4(),
        "IPv4 UDP": ipv4(transport=udp),
        "IPv4 ICMP": ipv4(transport=ICMP()),
        "IPv4 unknown protocol": padded(ethernet() / IP(proto=253), 77),
        "IPv4 options": ipv4(options=bytes.fromhex("0794020300000000000000000000000000000000")),
        "IPv4 60 B of header": ipv4(options=b"\x01" * 40, size=200),
        "IPv4 first fragment": ipv4_fragment(0, True, transport=udp),
        "IPv4 last fragment": ipv4_fragment(1480, False),
        "IPv4 in IPv4": ipv4(transport=IP(src="10.0.0.1", dst="10.0.0.2") / TCP()),
        "VLAN IPv4": ipv4(tags=(7,)),
        "VLAN IPv6": ipv6(tags=(4094,)),
        "priority tag": ipv4(tags=(0,)),
        "VLAN ARP": padded(ethernet((7,)) / ARP(hwsrc=SRC_MAC, psrc="198.18.0.1", pdst="198.18.0.2"), 64),
        "QinQ IPv4": ipv4(tags=(100, 7)),
        "QinQ IPv6": ipv6(tags=(100, 7)),
        "three tags": ipv4(tags=(1, 2, 3)),
        "IPv6 TCP": ipv6(),
        "IPv6 UDP": ipv6(transport=udp),
        "IPv6 hop-by-hop options": ipv6(transport=IPv6ExtHdrHopByHop() / TCP(), size=120),
        "IPv6 destination options": ipv6(transport=IPv6ExtHdrDestOpt() / udp, size=120),
        "IPv6 fragment": ipv6(transport=IPv6ExtHdrFragment(offset=185, m=1, id=9) / Raw(bytes(40)), size=120),
        "IPv6 no next header": padded(ethernet() / IPv6(nh=59), 80),
        "multicast": padded(
            Ether(src=SRC_MAC, dst="33:33:00:00:00:01") / IPv6(src="fe80::1", dst="ff02::1") / UDP(), 90
        ),
        "largest jumbo": ipv4(size=9216),
        "largest jumbo IPv6": ipv6(size=9216),
    }


def broken() -> dict[str, bytes]:
    """Frames that end too early or say what is not so. Linux itself discards tagged frames shorter than 20 B."""
    whole = ipv4(size=100)
    whole6 = ipv6(size=100)
    found = {f"IPv4 cut after {size} B": whole[:size] for size in (14, 15, 33, 34, 35, 37, 38, 53)}
    found.update({f"IPv6 cut after {size} B": whole6[:size] for size in (14, 15, 53, 54, 57, 58, 73)})
    tagged = ipv4(tags=(9,), size=100)
    found.update({f"tagged IPv4 cut after {size} B": tagged[:size] for size in (20, 37, 38, 41, 42)})
    found["IPv4 length too long"] = _with(whole, 16, b"\xff\xff")
    found["IPv4 length 0"] = _with(whole, 16, b"\0\0")
    found["IPv4 checksum wrong"] = _with(whole, 24, b"\xde\xad")
    found["IPv4 header length 0"] = _with(whole, 14, b"\x40")
    found["IPv4 header length beyond the frame"] = _with(ipv4(size=60), 14, b"\x4f")
    found["IPv4 version 7"] = _with(whole, 14, b"\x75")
    found["IPv4 TTL 0"] = _with(whole, 22, b"\0")
    found["IPv6 length too long"] = _with(whole6, 18, b"\xff\xff")
    found["IPv6 version 4"] = _with(whole6, 14, b"\x42")
    return found


def _with(frame: bytes, offset: int, patch: bytes) -> bytes:
    return frame[:offset] + patch + frame[offset + len(patch) :]
