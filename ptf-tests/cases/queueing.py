# SPDX-License-Identifier: Apache-2.0
"""The queue: what waits, what is dropped, how long it took, and what egress made of it."""

from __future__ import annotations

import itertools

import expected
import frames
from bench import PROGRAM_EPOCH, WATERMARK, BottleneckTest
from targets.base import Ability

SIZE = 500


class TailDropAtThePacket(BottleneckTest):
    """A queue of five takes the fifth packet and drops the sixth, and takes the next when one has left."""

    needs = frozenset({Ability.PACKET_LIMIT, Ability.EXACT_RATE})

    def runTest(self) -> None:
        self.reported()
        sent = [frames.ipv4(size=SIZE, identification=number) for number in range(10)]
        self.switch.limit_packets(2, 0, 5)
        reports = [self.occupy(sent[0])]
        self.send(1, sent[1:9])
        reports += self.reports(1)
        self.send(1, sent[9:10])
        self.expect(2, sent[:6] + sent[9:10])
        reports += self.reports(5)
        self.expect_silence()
        depths = [report.enqueue_depth for report in reports]
        self.assertEqual(depths, [self.profile.depth(waiting, SIZE) for waiting in (0, 0, 1, 2, 3, 4, 4)])


class TailDropAtTheByte(BottleneckTest):
    """A queue of exactly three frames takes three; with one byte less it takes two, and a smaller frame after them."""

    needs = frozenset({Ability.BYTE_LIMIT, Ability.EXACT_RATE})

    def runTest(self) -> None:
        frame, small = frames.ipv4(size=SIZE), frames.ipv4(size=SIZE - 1)
        self.reported()
        for limit, burst, kept in (
            (3 * SIZE, [frame] * 4, [frame] * 3),
            (3 * SIZE - 1, [frame] * 3 + [small], [frame] * 2 + [small]),
            (3 * SIZE - 2, [frame] * 3 + [small], [frame] * 2),
        ):
            self.switch.limit_bytes(2, 0, limit)
            self.occupy(frame)
            self.send(1, burst)
            self.expect(2, [frame, *kept])
            self.reports(len(kept))
            self.expect_silence()


class DepthsOfARamp(BottleneckTest):
    """Depths that a burst finds grow by one frame each, those it leaves behind shrink; the watermark is the top."""

    needs = frozenset({Ability.HOLD})

    def runTest(self) -> None:
        self.reported(1, 2, 7)
        self.assertEqual(self.switch.read_register(WATERMARK, 7), 0)
        frame = frames.ipv4(size=SIZE)
        reports = [self.occupy(frame)]
        self.send(1, [frame] * 5)
        self.wait_for_arrivals(self.flow_of(frame, 7), 6)
        self.switch.release(2, 0)
        self.expect(2, [frame] * 6)
        reports += self.reports(5)
        depth, left = self.profile.depth, self.profile.depth_left
        self.assertEqual([r.enqueue_depth for r in reports], [depth(n, SIZE) for n in (0, 0, 1, 2, 3, 4)])
        self.assertEqual([r.dequeue_depth for r in reports], [left(n, SIZE) for n in (0, 4, 3, 2, 1, 0)])
        self.assertEqual(self.switch.read_register(WATERMARK, 7), depth(4, SIZE))
        self.assertEqual(self.switch.read_register(WATERMARK, 6), 0)
        self.pass_through([frame])
        self.assertEqual(self.switch.read_register(WATERMARK, 7), depth(4, SIZE))


class DepthsOfMixedSizes(BottleneckTest):
    """The depth is the sum of what waits, frame by frame."""

    needs = frozenset({Ability.HOLD})

    def runTest(self) -> None:
        self.reported()
        sizes = [64, 1500, 65, 9216, 200]
        self.occupy(frames.ipv4(size=SIZE))
        self.send(1, [frames.ipv4(size=size) for size in sizes])
        self.wait_for_arrivals(self.flow_of(frames.ipv4()), 1 + len(sizes))
        self.switch.release(2, 0)
        self.receive(2, 1 + len(sizes))
        found = [report.enqueue_depth for report in self.reports(5)]
        taken = [self.profile.depth_of(size) for size in sizes]
        self.assertEqual(found, [sum(taken[:waiting]) for waiting in range(5)])


class ShaperKeepsItsClock(BottleneckTest):
    """Frames of a backlog leave at exactly the set distance, and waited for the time between."""

    needs = frozenset({Ability.EXACT_RATE})

    def runTest(self) -> None:
        rate, count = 10, 6
        self.reported()
        frame = frames.ipv4(size=SIZE)
        self.switch.shape(2, 0, SIZE, rate)
        self.send(1, [frame] * count)
        self.receive(2, count)
        reports = self.reports(count)
        distance = round(1 / rate / self.profile.time_unit_s)
        tolerance = self.profile.clock_tolerance
        for earlier, later in itertools.pairwise(reports):
            self.assertAlmostEqual(later.timestamp - earlier.timestamp, distance, delta=tolerance)
            waited_more = later.queue_delay - earlier.queue_delay
            # The later one arrived later, but by far less than a distance.
            self.assertLessEqual(waited_more, distance + tolerance)
            self.assertGreater(waited_more, distance // 2 - tolerance)
        self.assertLess(reports[0].queue_delay, distance)


class LongWait(BottleneckTest):
    """A wait of more than 2^32 ns is reported as it was."""

    needs = frozenset({Ability.EXACT_RATE})

    def runTest(self) -> None:
        count = 6
        self.reported()
        self.switch.shape(2, 0, SIZE, 1)
        self.send(1, [frames.ipv4(size=SIZE)] * count)
        self.receive(2, count)
        second = round(1 / self.profile.time_unit_s)
        for number, report in enumerate(self.reports(count)):
            self.assertAlmostEqual(report.queue_delay, number * second, delta=second // 10)


class DelayHistogram(BottleneckTest):
    """Every packet, reported or not, is counted in the bin of its queue delay, four bins an octave."""

    needs = frozenset({Ability.RATE})

    def runTest(self) -> None:
        self.install_delay_bins()
        self.reported(1, 2, 9)
        frame = frames.ipv4(size=SIZE)
        self.pass_through([frame] * 20)
        for rate in (400, 150, 40):
            self.switch.shape(2, 0, SIZE, rate)
            self.send(1, [frame] * 12)
            self.receive(2, 12)
        reports = self.reports(56)
        wanted = [0] * self.profile.delay_bins
        for report in reports:
            wanted[expected.delay_bin(report.queue_delay)] += 1
        self.assertEqual(self.histogram(9), wanted)
        self.assertEqual(sum(self.histogram(8)), 0)
        octaves = {report.queue_delay.bit_length() for report in reports}
        self.assertGreaterEqual(len(octaves), 4, "too few octaves of delay to tell the bins apart")
        # Unreported packets count as well.
        self.switch.shape(2, 0, SIZE, 0)
        self.observe(9, sample_shift=10, change=True)
        self.pass_through([frame] * 30)
        self.assertEqual(sum(self.histogram(9)), 86)


class QueuesOfOnePort(BottleneckTest):
    """Two priorities of one port are two bottlenecks: one overtakes the other, both keep their order and counts."""

    needs = frozenset({Ability.HOLD})

    def runTest(self) -> None:
        slow = [frames.ipv4(size=SIZE, identification=number) for number in range(5)]
        fast = [frames.ipv6(size=SIZE - number) for number in range(10)]
        self.reported(1, 2, 0, queue=0)
        self.connect(3, 2, bottleneck=1, queue=1)
        self.observe(1)
        self.report_to(expected.Collector(), 1)
        reports = [self.occupy(slow[0])]
        self.send(1, slow[1:])
        for frame in fast:
            self.send(3, [frame])
            reports += self.reports(1)
        self.switch.release(2, 0)
        left = self.receive(2, 15)
        reports += self.reports(4)
        self.expect_silence()
        self.assertEqual([frame for frame in left if frame in slow], slow)
        self.assertEqual([frame for frame in left if frame in fast], fast)
        self.assertLess(left.index(fast[-1]), left.index(slow[1]), "the second queue did not overtake the first")
        self.assertEqual([r.bottleneck for r in reports], [0] + [1] * 10 + [0] * 4)
        self.assertEqual([r.sequence for r in reports if r.bottleneck == 0], [1, 2, 3, 4, 5])
        self.assertEqual([r.sequence for r in reports if r.bottleneck == 1], list(range(1, 11)))
        self.assertEqual(self.totals(self.flow_of(slow[0], 0)), (5, 5, 0))
        self.assertEqual(self.totals(self.flow_of(fast[0], 1)), (10, 10, 0))
        self.assertEqual(self.switch.read_register(WATERMARK, 1), 0)


class SettingsHaveAnEpoch(BottleneckTest):
    """A report names the generation of the settings under which its packet was enqueued."""

    needs = frozenset({Ability.HOLD})

    def runTest(self) -> None:
        self.reported(1, 2, 0)
        frame = frames.ipv4(size=SIZE)
        self.pass_through([frame])
        first = self.switch.epoch(2, 0, PROGRAM_EPOCH)
        found = [self.reports(1)[0].epoch, self.occupy(frame).epoch]
        second = self.switch.epoch(2, 0, PROGRAM_EPOCH)
        self.send(1, [frame])
        self.wait_for_arrivals(self.flow_of(frame), 3)
        self.switch.release(2, 0)
        third = self.switch.epoch(2, 0, PROGRAM_EPOCH)
        self.send(1, [frame])
        self.receive(2, 3)
        found += [report.epoch for report in self.reports(2)]
        self.assertEqual(found, [first, second, second, third])
        self.assertEqual(self.profile.counts_settings, len({first, second, third}) == 3)
