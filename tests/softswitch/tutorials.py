# SPDX-License-Identifier: Apache-2.0
"""What the exercises of p4lang/tutorials say their solutions do, as scripts of packets for the softswitch's tests.

Entries are the exercises' own ``sX-runtime.json``. Scripts are in the language of p4c's tests (STF).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

HOSTS = {number: (f"10.0.{number}.{number}", f"0800000000{number:02x}") for number in range(5)}
TCP, UDP = 6, 17


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def ones_complement(data: bytes) -> int:
    """The Internet checksum of RFC 1071."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(
    source: str,
    target: str,
    rest: bytes,
    *,
    ttl: int = 64,
    tos: int = 0,
    protocol: int = UDP,
    options: bytes = b"",
) -> bytes:
    """A packet whose header has a right checksum."""
    words = 5 + len(options) // 4
    head = struct.pack(">BBHHHBBH", 0x40 | words, tos, 4 * words + len(rest), 7, 0, ttl, protocol, 0)
    head += IPv4Address(source).packed + IPv4Address(target).packed
    summed = ones_complement(head)
    return head[:10] + summed.to_bytes(2, "big") + head[12:] + options + rest


def ethernet(target: str, source: str, kind: int, rest: bytes) -> bytes:
    return mac(target) + mac(source) + kind.to_bytes(2, "big") + rest


def tcp(source: int, target: int, flags: int) -> bytes:
    return struct.pack(">HHIIBBHHH", source, target, 1, 2, 0x50, flags, 1000, 0, 0)


class Script:
    """Lines of a script; the expected packets of a port are in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def entries(self, file: Path) -> None:
        """Those of a switch of an exercise."""
        found: dict[str, Any] = json.loads(file.read_text())
        for group in found.get("multicast_group_entries", ()):
            number = group["multicast_group_id"]
            self.lines.append(f"mc_mgrp_create {number}")
            for node, replica in enumerate(group["replicas"]):
                self.lines.append(f"mc_node_create {replica['instance']} {replica['egress_port']}")
                self.lines.append(f"mc_node_associate {number} {node}")
        for entry in found.get("table_entries", ()):
            action = f"{entry['action_name']}({','.join(_params(entry.get('action_params', {})))})"
            if entry.get("default_action"):
                self.lines.append(f"setdefault {entry['table']} {action}")
            else:
                keys = " ".join(f"{name}:{_key(value)}" for name, value in entry["match"].items())
                self.lines.append(f"add {entry['table']} {keys} {action}")

    def packet(self, port: int, frame: bytes, *leaves: tuple[int, bytes]) -> None:
        """A packet that comes in by a port, and what leaves by which port."""
        self.lines.append(f"packet {port} {frame.hex()}")
        self.lines.extend(f"expect {at} {out.hex()}$" for at, out in leaves)


def _value(given: object) -> str:
    text = str(given)
    if text.count(":") == 5:
        return "0x" + text.replace(":", "")
    if text.count(".") == 3:
        return hex(int(IPv4Address(text)))
    return text


def _key(given: object) -> str:
    if not isinstance(given, list):
        return _value(given)
    return "/".join(_value(one) for one in given)


def _params(given: dict[str, object]) -> Iterator[str]:
    return (f"{name}:{_value(value)}" for name, value in given.items())


ENTER = ("080000000100", "080000000111")


def forwarded(frame: bytes, target: str, **changes: Any) -> bytes:
    """What ``ipv4_forward`` makes of a packet without options: a hop less, the next addresses, a new checksum."""
    packet = bytearray(frame[14:])
    packet[8] -= 1
    for at, value in changes.items():
        packet[{"tos": 1}[at]] = value
    packet[10:12] = bytes(2)
    packet[10:12] = ones_complement(bytes(packet[:20])).to_bytes(2, "big")
    return mac(target) + frame[:6] + frame[12:14] + bytes(packet)


def routed(script: Script) -> None:
    """Hosts of a pod are reached by the entries of its first switch; what has no route is dropped."""
    for target, (port, address) in {
        "10.0.1.1": (1, "080000000111"),
        "10.0.2.2": (2, "080000000222"),
        "10.0.3.3": (3, "080000000300"),
        "10.0.4.4": (4, "080000000400"),
    }.items():
        frame = ethernet(*ENTER, 0x800, ipv4("10.0.1.1", target, b"basic"))
        script.packet(1, frame, (port, forwarded(frame, address)))
    script.packet(1, ethernet(*ENTER, 0x800, ipv4("10.0.1.1", "10.9.9.9", b"lost")))


def basic(at: Path) -> Script:
    """Packets are forwarded by longest prefix."""
    script = Script()
    script.entries(at / "pod-topo" / "s1-runtime.json")
    routed(script)
    return script


def basic_tunnel(at: Path) -> Script:
    """A packet with the tunnel's header goes where that says, whatever its address; one without is routed."""
    script = Script()
    script.entries(at / "s1-runtime.json")
    plain = ethernet(*ENTER, 0x800, ipv4("10.0.1.1", "10.0.2.2", b"plain"))
    script.packet(1, plain, (2, forwarded(plain, "080000000200")))
    for target in (2, 3):
        tunnel = struct.pack(">HH", 0x800, target)
        frame = ethernet(*ENTER, 0x1212, tunnel + ipv4("10.0.1.1", "10.0.1.1", b"tunnelled"))
        script.packet(1, frame, (target, frame))
    return script


def calc(_: Path) -> Script:
    """A question comes back to who asked it, with its result; what is not one is dropped."""
    script = Script()
    a, b = 0x12345678, 0xF0F0F0F1
    results = {"+": a + b, "-": a - b, "&": a & b, "|": a | b, "^": a ^ b}
    for sign, result in results.items():
        question = b"P4\x01" + sign.encode() + struct.pack(">II", a, b)
        asked = ethernet("000000000002", "000000000001", 0x1234, question + bytes(4))
        answer = question + (result & 0xFFFFFFFF).to_bytes(4, "big")
        script.packet(3, asked, (3, ethernet("000000000001", "000000000002", 0x1234, answer)))
    script.packet(3, ethernet("000000000002", "000000000001", 0x1234, b"P4\x01*" + bytes(12)))
    script.packet(3, ethernet("000000000002", "000000000001", 0x1234, b"Q4\x01+" + bytes(12)))
    return script


def queued(script: Script, bits_s: int = 1_000) -> None:
    """All packets wait behind the first one."""
    script.lines.append(f"set_rate 3 {bits_s}")


def ecn(at: Path) -> Script:
    """From the tenth packet that waits on, what can be marked is, and nothing else."""
    script = Script()
    script.entries(at / "s1-runtime.json")
    queued(script)
    for number in range(1, 15):
        # Of ECT(0), but for one that cannot be marked.
        tos = 0 if number == 13 else 2
        frame = ethernet(*ENTER, 0x800, ipv4("10.0.1.1", "10.0.2.2", b"%02d" % number, tos=tos))
        # The first is in service: the n-th finds n - 2 that wait.
        marked = 3 if number - 2 >= 10 and tos else tos
        script.packet(1, frame, (3, forwarded(frame, "080000000200", tos=marked)))
    return script


def crc16(data: bytes) -> int:
    """CRC-16/ARC, bit by bit."""
    state = 0
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0xA001 if state & 1 else 0)
    return state


def load_balance(at: Path) -> Script:
    """Connections to the virtual address are spread over two hosts, each packet of one to the same."""
    script = Script()
    script.entries(at / "s1-runtime.json")
    for port in (*range(5000, 5008), 5000):
        segment = tcp(port, 80, 2)
        source, target = IPv4Address("10.0.1.1").packed, IPv4Address("10.0.0.1").packed
        chosen = crc16(source + target + bytes([TCP]) + struct.pack(">HH", port, 80)) % 2
        host = (2, 3)[chosen]
        frame = ethernet(*ENTER, 0x800, ipv4("10.0.1.1", "10.0.0.1", segment, protocol=TCP))
        packet = ipv4("10.0.1.1", f"10.0.{host}.{host}", segment, ttl=63, protocol=TCP)
        script.packet(1, frame, (host, ethernet(f"080000000{host}0{host}", "080000000100", 0x800, packet)))
    return script


def firewall(at: Path) -> Script:
    """From outside only packets of connections that were opened from inside come in."""
    script = Script()
    script.entries(at / "pod-topo" / "s1-runtime.json")

    def segment(source: str, target: str, ports: tuple[int, int], flags: int) -> bytes:
        return ethernet(*ENTER, 0x800, ipv4(source, target, tcp(*ports, flags), protocol=TCP))

    inside, outside = "10.0.1.1", "10.0.3.3"
    stranger = segment(outside, inside, (80, 4000), 2)
    script.packet(3, stranger)
    syn = segment(inside, outside, (4000, 80), 2)
    script.packet(1, syn, (3, forwarded(syn, "080000000300")))
    answer = segment(outside, inside, (80, 4000), 0x12)
    script.packet(3, answer, (1, forwarded(answer, "080000000111")))
    script.packet(3, segment(outside, inside, (80, 4001), 0x12))
    return script


def multicast(at: Path) -> Script:
    """An unknown address is flooded to all ports but the one of its sender; a known one is switched."""
    script = Script()
    script.entries(at / "solution" / "s1-runtime.json")
    flooded = ethernet("ffffffffffff", "080000000111", 0x806, b"who has")
    script.packet(1, flooded, *((port, flooded) for port in (2, 3, 4)))
    known = ethernet("080000000333", "080000000111", 0x800, ipv4("10.0.1.1", "10.0.3.3", b"known"))
    script.packet(1, known, (3, known))
    return script


def mri(at: Path) -> Script:
    """Each switch adds its number and its queue's length in front of those of the switches before."""
    script = Script()
    script.entries(at / "s1-runtime.json")
    queued(script)

    def probe(traces: bytes, count: int, ttl: int) -> bytes:
        options = struct.pack(">BBH", 31, 4 + len(traces), count) + traces
        return ipv4("10.0.1.1", "10.0.2.2", b"probe", ttl=ttl, options=options)

    before = struct.pack(">II", 9, 5)
    # Of three packets the first leaves at once; when the second leaves, the third waits.
    for length in (0, 1, 0):
        frame = ethernet(*ENTER, 0x800, probe(before, 1, 64))
        out = probe(struct.pack(">II", 1, length) + before, 2, 63)
        # The solution's checksum does not cover options.
        covered = out[:10] + bytes(2) + out[12:20]
        out = out[:10] + ones_complement(covered).to_bytes(2, "big") + out[12:]
        script.packet(1, frame, (3, ethernet("080000000200", "080000000100", 0x800, out)))
    return script


def link_monitor(at: Path) -> Script:
    """A probe goes where it says, and brings the bytes that the port has sent since the probe before."""
    script = Script()
    script.entries(at / "pod-topo" / "s1-runtime.json")
    plain = ethernet(*ENTER, 0x800, ipv4("10.0.1.1", "10.0.2.2", bytes(100)))
    frames = 3
    times: list[int] = []
    for number in range(2):
        for _ in range(frames):
            script.packet(1, plain, (2, forwarded(plain, "080000000222")))
        # One hop, out of port 2.
        asked = ethernet("ffffffffffff", "080000000111", 0x812, bytes([0, 2]))
        # Packets come each millisecond, and times are in microseconds.
        times.append(1_000 * (frames + 1) * (number + 1))
        # A probe counts as well, with its length as it comes in.
        sent = frames * len(plain) + len(asked)
        last = times[-2] if number else 0
        data = bytes([0x80 | 1, 2]) + sent.to_bytes(4, "big") + last.to_bytes(6, "big") + times[-1].to_bytes(6, "big")
        script.packet(1, asked, (2, ethernet("ffffffffffff", "080000000111", 0x812, bytes([1]) + data + bytes([2]))))
    return script


def qos(at: Path) -> Script:
    """UDP gets the mark of expedited forwarding, TCP that of voice admit, other packets none."""
    script = Script()
    script.entries(at / "s1-runtime.json")
    for protocol, code in ((UDP, 46), (TCP, 44), (1, 0)):
        frame = ethernet(*ENTER, 0x800, ipv4("10.0.1.1", "10.0.2.2", bytes(20), protocol=protocol))
        script.packet(1, frame, (3, forwarded(frame, "080000000200", tos=code << 2)))
    return script


def source_routing(_: Path) -> Script:
    """The first port of the packet's list is taken off it, and is where it goes; the last one leaves IPv4."""
    script = Script()
    packet = ipv4("10.0.1.1", "10.0.2.2", b"way")
    hop = bytearray(packet)
    hop[8] -= 1
    script.packet(
        1,
        ethernet(*ENTER, 0x1234, struct.pack(">HHH", 2, 3, 0x8000 | 4) + packet),
        (2, ethernet(*ENTER, 0x1234, struct.pack(">HH", 3, 0x8000 | 4) + bytes(hop))),
    )
    script.packet(
        1,
        ethernet(*ENTER, 0x1234, struct.pack(">H", 0x8000 | 4) + packet),
        (4, ethernet(*ENTER, 0x800, bytes(hop))),
    )
    script.packet(1, ethernet(*ENTER, 0x800, packet))
    return script


def p4runtime(_: Path) -> Script:
    """With the rules that the exercise's controller writes, a packet enters the tunnel, crosses it and leaves it."""
    script = Script()
    script.lines += [
        "add MyIngress.ipv4_lpm hdr.ipv4.dstAddr:0x0a000202/32 MyIngress.myTunnel_ingress(dst_id:100)",
        "add MyIngress.myTunnel_exact hdr.myTunnel.dst_id:100 MyIngress.myTunnel_forward(port:2)",
        "add MyIngress.myTunnel_exact hdr.myTunnel.dst_id:200 MyIngress.myTunnel_egress(dstAddr:0x080000000111,port:1)",
    ]
    packet = ipv4("10.0.1.1", "10.0.2.2", b"tunnel")
    frame = ethernet(*ENTER, 0x800, packet)
    script.packet(1, frame, (2, ethernet(*ENTER, 0x1212, struct.pack(">HH", 0x800, 100) + packet)))
    back = ipv4("10.0.2.2", "10.0.1.1", b"back")
    arriving = ethernet(*ENTER, 0x1212, struct.pack(">HH", 0x800, 200) + back)
    script.packet(2, arriving, (1, ethernet("080000000111", ENTER[1], 0x800, back)))
    return script


def flowcache(_: Path) -> Script:
    """A packet of a flow that is not known goes to the controller, at port 510, with its port and the reason; of one
    that is known it is forwarded. The controller's packets leave by the port that they name, or come back."""
    controller, known, unknown = 510, 1, 2
    script = Script()
    script.lines.append(f"mirroring_add 57 {controller}")
    packet = ethernet(*ENTER, 0x800, ipv4("10.0.1.1", "10.0.2.2", b"flow"))
    script.packet(1, packet, (controller, struct.pack(">HBB", 1, known, 0) + packet))
    script.lines.append(
        f"add MyIngress.flow_cache hdr.ipv4.protocol:{UDP} hdr.ipv4.srcAddr:0x0a000101 hdr.ipv4.dstAddr:0x0a000202 "
        "MyIngress.cached_action(port:2,decrement_ttl:1,new_dscp:5,dst_eth_addr:0x080000000222)"
    )
    out = forwarded(packet, "080000000222", tos=5 << 2)
    script.packet(1, packet, (2, out[:6] + packet[6:12] + out[12:]))
    script.packet(controller, struct.pack(">BBI", 1, 0, 3) + packet, (3, packet))
    script.packet(
        controller,
        struct.pack(">BBI", 7, 0, 3) + packet,
        (controller, struct.pack(">HBB", controller, unknown, 0) + packet),
    )
    return script


EXERCISES: dict[str, Callable[[Path], Script]] = {
    one.__name__: one
    for one in (
        basic,
        basic_tunnel,
        calc,
        ecn,
        firewall,
        flowcache,
        link_monitor,
        load_balance,
        mri,
        multicast,
        p4runtime,
        qos,
        source_routing,
    )
}


def source(tutorials: Path, name: str) -> Path:
    """The program of an exercise's solution; that of the one about P4Runtime is given, its solution is a controller."""
    folder = tutorials / "exercises" / name
    return folder / "advanced_tunnel.p4" if name == "p4runtime" else folder / "solution" / f"{name}.p4"
