# SPDX-License-Identifier: Apache-2.0
"""The search for a loss-free rate, on benches whose capacity is known, and the frames that it sends."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from narrows.experiment.plan import Host
from narrows.run.benchmark import FRAME_BYTES, PRECISION, Findings, Trial, measure, percentile
from narrows.run.benchmark_bench import frame, pcap

SECONDS = 2.0


class KnownBench:
    """Loses what exceeds its capacities: frames a second of the switch, reports a second of the collector."""

    def __init__(self, switch: float, collector: float, sender: float) -> None:
        self.switch, self.collector, self.sender = switch, collector, sender
        self.loads: list[float] = []
        self.latencies_at: list[float] = []

    async def trial(self, frame_bytes: int, frames_per_s: float, seconds: float) -> Trial:
        self.loads.append(frames_per_s)
        rate = min(frames_per_s, self.sender)
        sent = round(rate * seconds)
        arrived = min(sent, round(self.switch * seconds))
        reported = min(arrived, round(self.collector * seconds))
        return Trial(sent, rate, arrived, reported, processors=rate * 2e-6)

    async def latencies_ns(self, frame_bytes: int, frames_per_s: float, seconds: float) -> list[int]:
        self.latencies_at.append(frames_per_s)
        return [10_000] * 99 + [50_000]


def found(bench: KnownBench, sizes: tuple[int, ...] = (64,)) -> Findings:
    return asyncio.run(measure(bench, lambda _words: None, SECONDS, sizes))


@pytest.mark.parametrize(
    ("switch", "collector", "capacity"), [(437_000.0, 1e9, 437_000.0), (437_000.0, 123_000.0, 123_000.0)]
)
def test_the_rate_is_the_highest_of_which_neither_frame_nor_report_is_lost(
    switch: float, collector: float, capacity: float
) -> None:
    bench = KnownBench(switch, collector, sender=1_000_000)
    (one,) = found(bench).throughput
    assert capacity * (1 - PRECISION) * 0.999 <= one.frames_per_s <= capacity * 1.000_01
    assert not one.limited_by_sender and one.trials < 20
    assert one.bps == one.frames_per_s * 60 * 8
    # Latencies are those of that rate.
    assert bench.latencies_at == [one.frames_per_s]
    assert one.latency_ns == {"p50": 10_000, "p90": 10_000, "p99": 10_000, "p99.9": 50_000}


def test_a_sender_that_is_the_limit_is_named() -> None:
    (one,) = found(KnownBench(switch=1e9, collector=1e9, sender=300_000)).throughput
    assert (one.frames_per_s, one.limited_by_sender, one.trials) == (300_000, True, 1)


def test_a_switch_that_always_loses_has_no_rate_and_no_latency() -> None:
    bench = KnownBench(switch=0, collector=1e9, sender=300_000)
    (one,) = found(bench).throughput
    assert (one.frames_per_s, one.limited_by_sender, one.latency_ns) == (0, False, {})
    assert bench.latencies_at == []


def test_processors_are_said_of_rates_that_are_held_only() -> None:
    """250,000 frames/s of 1514 B are 3.03 Gbit/s: 1 and 2.5 Gbit/s are held, 5 and 10 are not."""
    costs = found(KnownBench(switch=250_000, collector=1e9, sender=900_000)).costs
    assert [cost.bps for cost in costs] == [10**9, 25 * 10**8, 5 * 10**9, 10**10]
    held = [cost.processors for cost in costs]
    assert held[:2] == pytest.approx([1e9 / 8 / 1514 * 2e-6, 2.5e9 / 8 / 1514 * 2e-6])
    assert held[2:] == [None, None]


def test_a_sender_that_does_not_keep_up_holds_no_rate() -> None:
    costs = found(KnownBench(switch=1e9, collector=1e9, sender=100_000)).costs
    assert [cost.processors is not None for cost in costs] == [True, False, False, False]


def test_percentiles_are_by_nearest_rank() -> None:
    values = list(range(1, 101))
    assert [percentile(values, percent) for percent in (50, 99, 99.9, 100)] == [50, 99, 100, 100]
    assert percentile([7], 50) == 7


@pytest.mark.parametrize("size", [one - 4 for one in FRAME_BYTES])
def test_frames_are_udp_of_the_size_with_a_right_checksum(size: int) -> None:
    sender, receiver = (
        Host(name, port, f"02:00:00:00:00:0{port}", f"198.18.0.{port}", 15, 4) for name, port in (("a", 1), ("b", 2))
    )
    one = frame(sender, receiver, size, 10_001)
    assert len(one) == size and one[:6].hex(":") == receiver.mac and one[6:12].hex(":") == sender.mac
    version, _, length, _, _, _, protocol = struct.unpack_from("!BBHHHBB", one, 14)
    assert (version, length, protocol) == (0x45, size - 14, socket.IPPROTO_UDP)
    # RFC 1071: the sum of a header with its checksum is all ones.
    words = sum(struct.unpack_from("!10H", one, 14))
    assert (words & 0xFFFF) + (words >> 16) == 0xFFFF
    assert struct.unpack_from("!HHH", one, 34) == (10_001, 9, size - 34)
    capture = pcap([one], 3)
    assert len(capture) == 24 + 3 * (16 + size) and capture.count(one) == 3
