# SPDX-License-Identifier: Apache-2.0
"""Packets and bytes of arrivals, departures and emulated loss, and what happens when 32 bits are full."""

from __future__ import annotations

import frames
from bench import (
    ARRIVAL_COUNTER,
    ARRIVALS,
    DEPARTURE_COUNTER,
    DEPARTURES,
    LOSS_COUNTER,
    LOSS_DROPS,
    SEQUENCE,
    BottleneckTest,
)
from targets.base import Ability

ALL_BUT_ONE_IN_4_BILLION = 0xFFFFFFFF


class PacketsAndBytes(BottleneckTest):
    """Registers and counters of two flows at the boundary sizes, to the byte."""

    def runTest(self) -> None:
        self.reported()
        sizes = {4: [64, 65, 1500, 9216, 64], 6: [9216, 75, 1500]}
        sent = {4: [frames.ipv4(size=size) for size in sizes[4]], 6: [frames.ipv6(size=size) for size in sizes[6]]}
        for version in (4, 6):
            self.pass_through(sent[version])
        for version in (4, 6):
            flow = self.flow_of(sent[version][0])
            counted = len(sizes[version]), sum(sizes[version])
            self.assertEqual(self.totals(flow), (counted[0], counted[0], 0))
            self.assertEqual(self.counted(ARRIVAL_COUNTER, flow), counted)
            self.assertEqual(self.counted(DEPARTURE_COUNTER, flow), counted)
            self.assertEqual(self.counted(LOSS_COUNTER, flow), (0, 0))
        self.assertEqual(self.switch.read_register(SEQUENCE, 0), 8)


class LossIsCountedApart(BottleneckTest):
    """What loss emulation takes is neither an arrival nor a departure; reports carry its count."""

    def runTest(self) -> None:
        self.reported()
        frame, flow = frames.ipv4(size=300), self.flow_of(frames.ipv4())
        self.pass_through([frame] * 2)
        entry = self.lose(ALL_BUT_ONE_IN_4_BILLION)
        self.send(1, [frame] * 5)
        self.wait_for_loss(flow, 5)
        self.assertEqual(self.totals(flow), (2, 2, 5))
        self.switch.control.delete(entry)
        self.pass_through([frame])
        self.assertEqual([report.loss_drops for report in self.reports(3)], [0, 0, 5])
        self.assertEqual(self.totals(flow), (3, 3, 5))
        self.assertEqual(self.counted(ARRIVAL_COUNTER, flow), (3, 900))
        self.assertEqual(self.counted(DEPARTURE_COUNTER, flow), (3, 900))
        self.assertEqual(self.counted(LOSS_COUNTER, flow), (5, 1500))


class QueueDropsAreArrivalsMinusDepartures(BottleneckTest):
    """A full queue's drops show as the difference of the two totals, in registers, counters and the next report."""

    needs = frozenset({Ability.HOLD, Ability.PACKET_LIMIT})

    def runTest(self) -> None:
        self.reported()
        frame = frames.ipv4(size=500)
        flow = self.flow_of(frame)
        self.switch.limit_packets(2, 0, 3)
        reports = [self.occupy(frame)]
        self.send(1, [frame] * 8)
        self.wait_for_arrivals(flow, 9)
        self.switch.release(2, 0)
        self.receive(2, 4)
        self.pass_through([frame])
        self.assertEqual(self.totals(flow), (10, 5, 0))
        self.assertEqual(self.counted(ARRIVAL_COUNTER, flow), (10, 5000))
        self.assertEqual(self.counted(DEPARTURE_COUNTER, flow), (5, 2500))
        reports += self.reports(4)
        self.assertEqual([report.arrivals - report.departures for report in reports], [0, 0, 0, 0, 5])


class TotalsWrap(BottleneckTest):
    """32-bit totals run from 2^32-1 to 0, and their differences stay right."""

    def runTest(self) -> None:
        self.reported()
        frame = frames.ipv4()
        flow = self.flow_of(frame)
        self.switch.write_register(ARRIVALS, flow, 0xFFFFFFFE)
        self.switch.write_register(DEPARTURES, flow, 0xFFFFFFF0)
        self.switch.write_register(LOSS_DROPS, flow, 0xFFFFFFFF)
        self.switch.write_register(SEQUENCE, 0, 0xFFFFFFFC)
        self.pass_through([frame] * 20)
        reports = self.reports(20)
        self.assertEqual([report.arrivals for report in reports[:4]], [0xFFFFFFFF, 0, 1, 2])
        self.assertEqual([report.departures for report in reports[13:17]], [0xFFFFFFFE, 0xFFFFFFFF, 0, 1])
        self.assertEqual({(report.arrivals - report.departures) % 2**32 for report in reports}, {14})
        self.assertEqual([report.sequence for report in reports[:5]], [0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF, 0, 1])
        self.assertEqual({report.loss_drops for report in reports}, {0xFFFFFFFF})
        entry = self.lose(ALL_BUT_ONE_IN_4_BILLION)
        # The count is 2^32 - 1 and becomes 0, which cannot be waited for as a count that grows.
        self.send(1, [frame])
        self.assertEqual(self.drain(2), [])
        self.switch.control.delete(entry)
        self.pass_through([frame])
        self.assertEqual(self.reports(1)[0].loss_drops, 0)
        self.assertEqual(self.totals(flow), (19, 5, 0))


class SamplingAcrossTheWrap(BottleneckTest):
    """One report of each four goes on as one of four when the sequence number wraps."""

    def runTest(self) -> None:
        self.reported(sample_shift=2)
        self.switch.write_register(SEQUENCE, 0, 0xFFFFFFF8)
        self.pass_through([frames.ipv4()] * 16)
        rows = [((report.sequence - 1) & 0xFFFFFFFF) >> 2 for report in self.reports(4)]
        self.assertEqual(rows, [0x3FFFFFFE, 0x3FFFFFFF, 0, 1])
        self.expect_silence()
