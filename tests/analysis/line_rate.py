# SPDX-License-Identifier: Apache-2.0
"""Captures of TCP packets at line rate, the softswitch configured for them, and an independent model of its FIFO."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NS = 1_000_000_000
HEADERS = 66
CAPTURED = HEADERS
PROGRAM = Path(__file__).parents[2] / "p4src" / "compiled" / "v1model" / "narrows.json"


@dataclass(frozen=True)
class Packet:
    """A packet in front of the bottleneck; `offset` counts the flow's payload bytes."""

    time_ns: int
    flow: int
    offset: int
    payload: int

    @property
    def length(self) -> int:
        """Ethernet frame in bytes."""
        return HEADERS + self.payload


@dataclass(frozen=True)
class Departure:
    """A packet that left the queue: what a report of it has to say."""

    packet: Packet
    time_ns: int
    found_bytes: int
    left_bytes: int


def traffic(rate_bps: int, duration_ns: int, flows: int, seed: int) -> list[Packet]:
    """Poisson arrivals, 5 % above the rate on average and in bursts, of short and full-size packets; one in 20 is one
    of the flow's last hundred again."""
    rng = np.random.default_rng(seed)
    offsets = [0] * flows
    sent: list[deque[tuple[int, int]]] = [deque(maxlen=100) for _ in range(flows)]
    packets: list[Packet] = []
    # Twice as many draws as are needed on average.
    draws = 2 * duration_ns * rate_bps // (1000 * 8 * NS)
    chosen = rng.integers(flows, size=draws).tolist()
    again = (rng.random(draws) < 0.05).tolist()
    back = rng.integers(1, 100, size=draws).tolist()
    sizes = rng.choice([1448, 1448, 1448, 700, 1], size=draws).tolist()
    gaps = rng.exponential((HEADERS + 1000) * 8 * NS / rate_bps, size=draws).tolist()
    time = 1_000.0
    for flow, repeat, steps, size, gap in zip(chosen, again, back, sizes, gaps, strict=True):
        if time >= duration_ns:
            break
        if repeat and len(sent[flow]) >= steps:
            offset, payload = sent[flow][-steps]
        else:
            offset, payload = offsets[flow], size
            offsets[flow] += payload
            sent[flow].append((offset, payload))
        packets.append(Packet(int(time), flow, offset, payload))
        time += gap / (1.4 if int(time) // 2_000_000 % 2 else 0.7)
    return packets


def write_capture(path: Path, packets: list[Packet]) -> None:
    """A pcap file with nanoseconds and the packets' headers only."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, CAPTURED, 1))
        for packet in packets:
            second, rest = divmod(packet.time_ns, NS)
            file.write(struct.pack("<IIII", second, rest, CAPTURED, packet.length))
            file.write(_frame(packet))


def _frame(packet: Packet) -> bytes:
    total = 52 + packet.payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, 0, 0x4000, 64, 6, 0, _address(packet), bytes([10, 1, 0, 1]))
    words = struct.unpack(">10H", ip)
    folded = sum(words) % 0xFFFF
    ip = ip[:10] + struct.pack(">H", 0xFFFF - folded) + ip[12:]
    sequence = (4_294_000_000 + packet.offset) % (1 << 32)
    stamp = packet.time_ns // 1_000_000
    tcp = struct.pack(">HHIIBBHHHBBBBII", 40_000, 5201, sequence, 1, 8 << 4, 0x10, 500, 0, 0, 1, 1, 8, 10, stamp, 7)
    return bytes.fromhex("020000000001020000000002") + b"\x08\x00" + ip + tcp


def _address(packet: Packet) -> bytes:
    return bytes([10, 0, packet.flow >> 8, packet.flow & 255])


def configuration(rate_bps: int, limit_bytes: int, capture: Path) -> dict[str, Any]:
    """The compiled program as one bottleneck with a report for every packet."""
    encapsulation = {
        "src_mac": "02:00:00:00:00:fe", "dst_mac": "02:00:00:00:00:ff", "src_ip": "10.255.0.1", "dst_ip": "10.255.0.2",
        "src_port": 5499, "dst_port": 5500, "length": 184,
    }  # fmt: skip
    observe = {
        "threshold": "0xffffffff",
        "counts_packets": 0,
        "seed": 0,
        "mask": 0,
        "shift": 0,
        "epoch": 0,
        "mirror": 1,
    }
    return {
        "program": str(PROGRAM),
        "ports": [1, 2, 3],
        "entries": [
            {"table": "NarrowsIngress.cross_connect.cross_connect", "match": {"ingress_port": 1}, "priority": 1,
             "action": "NarrowsIngress.cross_connect.bottleneck", "params": {"index": 0, "port": 2, "queue": 0}},
            {"table": "NarrowsEgress.settings.bottleneck", "match": {"bottleneck": 0},
             "action": "NarrowsEgress.settings.observe", "params": observe},
            {"table": "NarrowsEgress.report.collector", "match": {"bottleneck": 0},
             "action": "NarrowsEgress.report.encapsulate", "params": encapsulation},
        ],
        "clone_sessions": [{"session": 1, "ports": [3], "length_limit": 128}],
        "queues": [
            {"port": 2, "rate_bps": rate_bps, "limit_bytes": limit_bytes, "limit_packets": 0},
            {"port": 3, "rate_bps": "unlimited", "limit_bytes": 0, "limit_packets": 0},
        ],
        "inputs": [{"port": 1, "pcap": str(capture), "start_ns": 1_000}],
        "outputs": [{"port": 3, "pcap": "reports.pcap", "snap_bytes": 184}],
    }  # fmt: skip


def fifo(packets: list[Packet], rate_bps: int, limit_bytes: int) -> tuple[list[Departure], list[Packet]]:
    """A byte-exact tail-drop FIFO: departures in order, and the packets it dropped.

    Times are kept in units of 1 / rate ns, so that no fraction of a nanosecond is lost. The packet in service does not
    count as waiting.
    """
    free = waiting_bytes = 0
    waiting: deque[tuple[int, int]] = deque()
    accepted: list[tuple[Packet, int, int]] = []
    dropped: list[Packet] = []
    for packet in packets:
        now = packet.time_ns * rate_bps
        # Within a nanosecond packets leave before others arrive.
        while waiting and waiting[0][0] <= packet.time_ns:
            waiting_bytes -= waiting.popleft()[1]
        if waiting_bytes + packet.length > limit_bytes:
            dropped.append(packet)
            continue
        start = max(now, free)
        free = start + packet.length * 8 * NS
        accepted.append((packet, start, waiting_bytes))
        if start // rate_bps > packet.time_ns:
            waiting.append((start // rate_bps, packet.length))
            waiting_bytes += packet.length
    # A packet leaves behind all that has arrived until then and is still waiting.
    arrival = np.array([packet.time_ns for packet, _, _ in accepted])
    total = np.concatenate(([0], np.cumsum([packet.length for packet, _, _ in accepted])))
    departures = []
    for number, (packet, start, found) in enumerate(accepted):
        time_ns = start // rate_bps
        # Arrivals at the very moment come behind it.
        behind = int(np.searchsorted(arrival, time_ns, side="left"))
        left = int(total[max(behind, number + 1)] - total[number + 1])
        departures.append(Departure(packet, time_ns, found, left))
    return departures, dropped
