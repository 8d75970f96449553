# SPDX-License-Identifier: Apache-2.0
"""A managed queue of the softswitch, given a list of arrivals in virtual time: what becomes of each packet."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.link import NS, Arrival, Draw

ROOT = Path(__file__).parents[2]
BINARY = Path(os.environ.get("NARROWS_SOFTSWITCH", ROOT / "target/release/narrows-softswitch"))
PROGRAM = ROOT / "p4src/compiled/v1model-managed/narrows.json"
BOTTLENECK, LINK = 5, 2
NANOSECOND_PCAP = 0xA1B23C4D
ETHERNET, IPV4, DESTINATION_PORT = 14, 20, 9
WORD = (1 << 64) - 1


def program_draws(seed: int) -> Draw:
    """The program's random numbers of 32 bits: a counter through a mixing function (Steele, Lea and Flood 2014)."""
    state = seed

    def draw() -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & WORD
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & WORD
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
        return (mixed ^ mixed >> 31) >> 32

    return draw


def flow_index(source_port: int) -> int:
    """The program's index of a flow of these datagrams: CRC-32 of bottleneck, addresses, protocol and ports."""
    identity = struct.pack("!B32xBHH", BOTTLENECK, 17, source_port, DESTINATION_PORT)
    return zlib.crc32(identity) & 0xFFFF


@dataclass(frozen=True)
class Law:
    """How the program and the traffic manager manage the bottleneck's queue."""

    dequeue: tuple[str, dict[str, int]] | None = None
    enqueue: tuple[str, dict[str, int]] | None = None
    update: tuple[str, dict[str, int]] | None = None
    period_ns: int = 0
    scheduling: Any = "fifo"
    queue: dict[str, Any] = field(default_factory=dict)

    def entries(self) -> list[dict[str, Any]]:
        """The program's entries."""
        places = {
            "dequeue": ("NarrowsEgress.manage", self.dequeue),
            "enqueue": ("NarrowsIngress.manage", self.enqueue),
            "update": ("NarrowsIngress.update", self.update),
        }
        return [
            {
                "table": f"{control}.{name}_aqm",
                "match": {"bottleneck": BOTTLENECK},
                "action": f"{control}.{call[0]}",
                "params": call[1],
            }
            for name, (control, call) in places.items()
            if call is not None
        ]


@dataclass(frozen=True)
class Left:
    """A packet that left the link: when its last bit did, and its ECN field."""

    number: int
    time_ns: int
    ecn: int


def _frame(number: int, arrival: Arrival) -> bytes:
    """A UDP datagram whose payload begins with its number."""
    length = arrival.size - ETHERNET
    header = struct.pack("!BBHHHBBH4s4s", 0x45, arrival.ecn, length, 0, 0, 64, 17, 0, bytes(4), bytes(4))
    udp = struct.pack("!HHHH", arrival.flow, DESTINATION_PORT, length - IPV4, 0)
    return (bytes(12) + b"\x08\x00" + header + udp + struct.pack("!I", number)).ljust(arrival.size, b"\0")


def through_switch(directory: Path, law: Law, arrivals: Sequence[Arrival], rate_bps: int, seed: int = 1) -> list[Left]:
    """Packets in the order in which they left."""
    with (directory / "in.pcap").open("wb") as capture:
        capture.write(struct.pack("<IHHiIII", NANOSECOND_PCAP, 2, 4, 0, 0, 65535, 1))
        for number, arrival in enumerate(arrivals):
            frame = _frame(number, arrival)
            capture.write(struct.pack("<IIII", *divmod(arrival.time_ns, NS), len(frame), len(frame)) + frame)
    connect = {
        "table": "NarrowsIngress.cross_connect.cross_connect",
        "match": {"ingress_port": 1},
        "priority": 1,
        "action": "NarrowsIngress.cross_connect.bottleneck",
        "params": {"index": BOTTLENECK, "port": LINK, "queue": 0},
    }
    management = {"index": BOTTLENECK, "period_ns": law.period_ns, "scheduling": law.scheduling}
    queue = {"port": LINK, "rate_bps": rate_bps, "limit_packets": 0, "management": management, **law.queue}
    config = {
        "program": str(PROGRAM),
        "seed": seed,
        "ports": [1, LINK],
        "entries": [connect, *law.entries()],
        "queues": [queue],
        "inputs": [{"port": 1, "pcap": "in.pcap", "start_ns": arrivals[0].time_ns}],
        "outputs": [{"port": LINK, "pcap": "left.pcap", "snap_bytes": 64}],
    }
    (directory / "config.json").write_text(json.dumps(config))
    command = [str(BINARY), "replay", "--config", str(directory / "config.json"), "--out", str(directory / "out")]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return list(_read(directory / "out/left.pcap"))


def _read(path: Path) -> list[Left]:
    capture = path.read_bytes()
    left, at = [], 24
    while at < len(capture):
        seconds, nanoseconds, held, _ = struct.unpack_from("<IIII", capture, at)
        frame = capture[at + 16 : at + 16 + held]
        (number,) = struct.unpack_from("!I", frame, ETHERNET + IPV4 + 8)
        left.append(Left(number, seconds * NS + nanoseconds, frame[ETHERNET + 1] & 3))
        at += 16 + held
    return left
