# SPDX-License-Identifier: Apache-2.0
"""All bottlenecks at once, and many flows."""

from __future__ import annotations

import random

import frames
from bench import (
    ARRIVAL_COUNTER,
    DEPARTURE_COUNTER,
    SEQUENCE,
    SESSION,
    BottleneckTest,
)
from expected import FLAG_COLLISION, Collector, congestion_marked, frame_length
from p4runtime import Entry
from targets.base import COLLECTOR_PORT, DATA_PORTS, QUEUES

BOTTLENECKS = 64
ECT_0 = 2


def packets(number: int) -> int:
    """How many packets cross a bottleneck: whole rows of those that are sampled."""
    return 2 * (1 + number % 3)


class SixtyFourBottlenecks(BottleneckTest):
    """64 bottlenecks on 8 ports with 8 queues each: settings, state and reports of one never touch another's."""

    def runTest(self) -> None:
        self.switch.control.add_mirror(SESSION, COLLECTOR_PORT)
        shortest = self.profile.shortest_report + 10
        collectors = [Collector(dst_port=5500 + n, report_length=shortest + n) for n in range(BOTTLENECKS)]
        for number in range(BOTTLENECKS):
            self.settle(number, collectors[number])
        sent: dict[int, list[bytes]] = {port: [] for port in DATA_PORTS}
        for number in range(BOTTLENECKS):
            burst = [self.frame(number)] * packets(number)
            self.send(1, burst)
            marked = [congestion_marked(frame) for frame in burst] if number % 3 == 0 else burst
            self.expect(self.port(number), marked)
            sent[self.port(number)] += marked
        self.check_reports(collectors)
        flows = [self.flow_of(self.frame(number), number) for number in range(BOTTLENECKS)]
        for number, flow in enumerate(flows):
            count = packets(number)
            self.assertEqual(self.switch.read_register(SEQUENCE, number), count)
            self.assertEqual(self.totals(flow), (count, count, 0))
        # All cells at once: before it can be read, a Tofino's counter is fetched as a whole.
        offered = [(packets(number), packets(number) * (100 + number)) for number in range(BOTTLENECKS)]
        for counter in (ARRIVAL_COUNTER, DEPARTURE_COUNTER):
            self.assertEqual(self.switch.control.read_counters(counter, flows), offered)
        self.expect_silence()

    @staticmethod
    def port(number: int) -> int:
        """Egress port of a bottleneck."""
        return DATA_PORTS[number % len(DATA_PORTS)]

    @staticmethod
    def frame(number: int) -> bytes:
        """The frames of a bottleneck."""
        return frames.ipv4(dst_mac=f"02:00:00:00:01:{number:02x}", ecn=ECT_0, size=100 + number)

    def settle(self, number: int, collector: Collector) -> None:
        """Connect and observe one of them; every third marks, sampling alternates."""
        self.switch.control.insert(
            Entry(
                "cross_connect",
                {"ingress_port": (1, 0x1FF), "dst_mac": (0x020000000100 | number, (1 << 48) - 1)},
                "bottleneck",
                {"index": number, "port": self.port(number), "queue": number // 8 % QUEUES},
                1 + number,
            )
        )
        self.observe(number, ecn_threshold=0 if number % 3 == 0 else 1 << 20, sample_shift=number % 2)
        self.report_to(collector, number)

    def check_reports(self, collectors: list[Collector]) -> None:
        """Each bottleneck's reports, with its own addresses, lengths and sequence."""
        for number in range(BOTTLENECKS):
            shift = number % 2
            for place, frame in enumerate(self.receive(COLLECTOR_PORT, packets(number) >> shift)):
                self.assertEqual(frame_length(frame), collectors[number].report_length)
                report = self.open_report(frame, collectors[number])
                self.assertEqual((report.bottleneck, report.sample_shift), (number, shift))
                self.assertEqual(report.flow, self.flow_of(self.frame(number), number))
                self.assertEqual(report.signature, self.signature_of(self.frame(number), number))
                self.assertEqual((report.sequence - 1) >> shift, place)


class ManyFlows(BottleneckTest):
    """A thousand flows of one bottleneck: each is counted for itself, or its collision is flagged."""

    def runTest(self) -> None:
        self.reported()
        draw = random.Random(1)
        flows = [frames.ipv4(src=f"10.0.0.{draw.randrange(256)}", src_port=draw.randrange(65536)) for _ in range(1000)]
        self.pass_through(flows)
        reports = self.reports(1000)
        seen: dict[int, int] = {}
        owners: dict[int, int] = {}
        collisions = 0
        for frame, report in zip(flows, reports, strict=True):
            index = self.flow_of(frame)
            self.assertEqual((report.flow, report.signature), (index, self.signature_of(frame)))
            seen[index] = seen.get(index, 0) + 1
            self.assertEqual(report.arrivals, seen[index])
            owner = owners.setdefault(index, self.signature_of(frame))
            self.assertEqual(bool(report.flags & FLAG_COLLISION), owner != self.signature_of(frame))
            collisions += owner != self.signature_of(frame)
        self.assertGreater(collisions, 0)
