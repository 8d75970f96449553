# SPDX-License-Identifier: Apache-2.0
"""The flow index that planning computes is the one that the compiled program reports."""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
from pathlib import Path

import line_rate
import pytest
from narrows.experiment.flow_index import INDEX_BITS, begin, finish, packed
from narrows_formats.programs import SOFTSWITCH, find_binary
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

FLOWS = 100
# A capture's header and that of a record; in a report the encapsulation before the report, and its flow index.
PCAP_HEADER, PCAP_RECORD = 24, struct.Struct("<IIII")
INDEX_AT = 14 + 20 + 8 + 4


def drawn(draw: random.Random, version: int) -> tuple[str, str, int, int, int]:
    """Addresses, protocol and ports of a flow."""
    length, family = (4, socket.AF_INET) if version == 4 else (16, socket.AF_INET6)
    src, dst = (socket.inet_ntop(family, draw.randbytes(length)) for _ in range(2))
    protocol = draw.choice([socket.IPPROTO_TCP, socket.IPPROTO_UDP])
    return src, dst, protocol, draw.randrange(1, 65536), draw.randrange(1, 65536)


def frame(flow: tuple[str, str, int, int, int]) -> Packet:
    """A packet of it."""
    src, dst, protocol, sport, dport = flow
    ip = IPv6(src=src, dst=dst) if ":" in src else IP(src=src, dst=dst)
    return (
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / ip
        / (TCP(sport=sport, dport=dport) if protocol == socket.IPPROTO_TCP else UDP(sport=sport, dport=dport))
    )


def reported(directory: Path, frames: list[Packet], bottleneck: int) -> list[int]:
    """The index in the report of each frame."""
    wrpcap(str(directory / "in.pcap"), frames, nano=True)
    document = line_rate.configuration(1_000_000_000, 1_000_000, directory / "in.pcap")
    connect, *settings = document["entries"]
    connect["params"]["index"] = bottleneck
    for entry in settings:
        entry["match"]["bottleneck"] = bottleneck
    (directory / "replay.json").write_text(json.dumps(document))
    command = [find_binary(SOFTSWITCH), "replay", "--config", directory / "replay.json", "--out", directory / "out"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    capture = (directory / "out" / "reports.pcap").read_bytes()
    found: list[int] = []
    at = PCAP_HEADER
    while at < len(capture):
        _, _, held, _ = PCAP_RECORD.unpack_from(capture, at)
        at += PCAP_RECORD.size
        found += struct.unpack_from(">H", capture, at + INDEX_AT)
        at += held
    return found


@pytest.mark.needs(SOFTSWITCH)
@pytest.mark.parametrize(("bottleneck", "version"), [(0, 4), (5, 6), (63, 4), (63, 6)])
def test_an_index_is_the_compiled_programs(bottleneck: int, version: int, tmp_path: Path) -> None:
    draw = random.Random(bottleneck + version)
    flows = [drawn(draw, version) for _ in range(FLOWS)]
    computed = [
        finish(begin(bottleneck, src, dst, protocol), packed(*ports)) & (1 << INDEX_BITS) - 1
        for src, dst, protocol, *ports in flows
    ]
    assert reported(tmp_path, [frame(flow) for flow in flows], bottleneck) == computed
    assert len(set(computed)) > FLOWS - 3
