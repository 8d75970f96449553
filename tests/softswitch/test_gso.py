# SPDX-License-Identifier: Apache-2.0
"""Segments that the kernel is given as one frame and cuts again: what arrives is what was sent, byte for byte."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy import P4TableMatch
from harness import Network, running, wire
from raw_frames import raw_socket, receive
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

ETHERTYPES = {4: 0x0800, 6: 0x86DD}
# Not the receiver's: its kernel leaves such frames alone.
DESTINATION = "02:00:00:00:00:78"
SEGMENT = 1448 - 20
ROW = 12


def row(version: int, port: int) -> Iterator[Packet]:
    """Segments of a flow that follow one another, without checksums yet."""
    for number in range(ROW):
        ip = IP(src="10.0.0.1", dst="10.0.0.2", id=0xFFFA + number & 0xFFFF, flags="DF")
        network = ip if version == 4 else IPv6(src="fd00::1", dst="fd00::2", fl=7)
        options = [("NOP", None), ("NOP", None), ("Timestamp", (5, 6))]
        tcp = TCP(sport=port, dport=9, seq=number * SEGMENT, ack=9, flags="A", options=options)
        payload = bytes((port + number + at) & 0xFF for at in range(SEGMENT))
        yield Ether(src="02:00:00:00:00:77", dst=DESTINATION) / network / tcp / Raw(payload)


# What one segment has that the kernel would make anew or must not lose: layer, field and value.
TCP_CHANGES: dict[str, tuple[type[Packet], str, object]] = {
    "PSH": (TCP, "flags", "PA"),
    "CWR": (TCP, "flags", "AC"),
    "ECE": (TCP, "flags", "AE"),
    "urgent pointer": (TCP, "urgptr", 3),
    "window": (TCP, "window", 77),
    "timestamp": (TCP, "options", [("Timestamp", (6, 6)), ("NOP", None), ("NOP", None)]),
    "checksum": (TCP, "chksum", 0x1234),
    "length": (Raw, "load", b"short"),
}
IP_CHANGES: dict[int, dict[str, tuple[type[Packet], str, object]]] = {
    4: {"mark": (IP, "tos", 3), "hops": (IP, "ttl", 9), "number": (IP, "id", 4), "IP checksum": (IP, "chksum", 0x1234)},
    6: {"mark": (IPv6, "tc", 3), "hops": (IPv6, "hlim", 9), "flow label": (IPv6, "fl", 4)},
}


def spoilt(version: int) -> dict[str, list[bytes]]:
    """A row as it is, and rows in the middle of which one segment differs in something."""
    found = {"nothing": [bytes(frame) for frame in row(version, 4000)]}
    for port, (name, (layer, field, value)) in enumerate((TCP_CHANGES | IP_CHANGES[version]).items(), 4001):
        frames = list(row(version, port))
        frames[ROW // 2][layer].setfieldval(field, value)
        found[name] = [bytes(frame) for frame in frames]
    other = list(row(version, 5000))
    other[ROW // 2][IP if version == 4 else IPv6].payload = UDP(sport=1, dport=2) / Raw(b"other")
    return found | {"UDP": [bytes(frame) for frame in other]}


async def passed(network: Network, directory: Path, frames: list[bytes], ethertype: int) -> tuple[list[bytes], int]:
    """What arrives of frames that leave the switch in one go, and how many the kernel has cut out of others."""
    async with running(network, directory) as switch:
        await switch.p4.push_pipeline()
        await switch.p4.insert([wire(P4TableMatch(ingress_port=1), port=2)])
        with (
            raw_socket(network.namespace("sender")) as sender,
            raw_socket(network.namespace("receiver"), ethertype=ethertype) as receiver,
            # What is sent by AF_XDP goes past the queueing discipline, and is not seen here.
            raw_socket(network.namespace("switch"), "p2", 0x0003) as cut,
        ):
            switch.process.send_signal(signal.SIGSTOP)
            for frame in frames:
                sender.send(frame)
            switch.process.send_signal(signal.SIGCONT)
            arrived = await asyncio.to_thread(receive, receiver, len(frames), at_most_s=5)
            port = next(port for port in (await switch.tm.port_stats()).ports if port.port == 2)
            assert (port.tx_packets, port.tx_bytes) == (len(frames), sum(map(len, frames)))
            assert port.tx_drops + port.tx_errors == 0
            return arrived, len(receive(cut, len(frames), at_most_s=0.3))


@pytest.mark.parallel_safe
@pytest.mark.parametrize("version", [4, 6])
def test_what_is_joined_arrives_as_it_was_sent(network: Network, tmp_path: Path, version: int) -> None:
    """Rows of segments, also where one of a row is unlike the others."""
    network.inside("switch", "ethtool -K p2 tso off tx off")
    rows = spoilt(version)
    frames = [frame for row in rows.values() for frame in row]
    arrived, cut = asyncio.run(passed(network, tmp_path, frames, ETHERTYPES[version]))
    assert len(arrived) == len(frames)
    for number, (name, row) in enumerate(rows.items()):
        assert arrived[number * ROW : (number + 1) * ROW] == row, name
    # Of each row at least the first half.
    assert cut >= len(rows) * ROW // 2


@pytest.mark.parallel_safe
@pytest.mark.parametrize("reason", ["ethtool -K p2 tx on sg on tso on", "tc qdisc add dev p2 root pfifo"])
def test_nothing_is_joined_where_it_could_show(network: Network, tmp_path: Path, reason: str) -> None:
    """The other end of a veth would get the whole; what goes past a queue would overtake what waits in it."""
    network.inside("switch", "ethtool -K p2 tso off tx off")
    network.inside("switch", reason)
    frames = [bytes(frame) for frame in row(4, 4000)]
    assert asyncio.run(passed(network, tmp_path, frames, ETHERTYPES[4])) == (frames, 0)
