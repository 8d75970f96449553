# SPDX-License-Identifier: Apache-2.0
"""The queue: what waits, what is dropped, how long it took, and what egress made of it."""

from __future__ import annotations

import itertools

import expected
import frames
from bench import SEQUENCE, WATERMARK, BottleneckTest, flow_of

SIZE = 500
# Slow enough for a burst to be complete before the first frame of it leaves.
SLOW = 4


class QueueTest(BottleneckTest):
    """Fills a queue behind a slow port."""

    def fill(self, frame: bytes, count: int, port: int = 2, queue: int = 0) -> None:
        """Occupy the link with one frame, which is received, and send ``count`` more while it is busy."""
        self.switch.shape(port, queue, len(frame), SLOW)
        self.pass_through([frame], 1, port)
        self.send(1, [frame] * count)


class TailDropAtThePacket(QueueTest):
    """A queue of five takes the fifth packet and drops the sixth, and takes the next when one has left."""

    def runTest(self) -> None:
        self.reported()
        sent = [frames.ipv4(size=SIZE, identification=number) for number in range(10)]
        self.switch.limit_packets(2, 0, 5)
        self.switch.shape(2, 0, SIZE, SLOW)
        self.pass_through(sent[:1])
        self.send(1, sent[1:9])
        self.expect(2, sent[1:2])
        self.send(1, sent[9:10])
        self.expect(2, sent[2:6] + sent[9:10])
        depths = [report.enqueue_depth for report in self.reports(7)]
        self.expect_silence()
        self.assertEqual(depths, [self.profile.depth(waiting, SIZE) for waiting in (0, 0, 1, 2, 3, 4, 4)])


class TailDropAtTheByte(QueueTest):
    """A queue of exactly three frames takes three; with one byte less it takes two, and a smaller frame after them."""

    def runTest(self) -> None:
        if not self.profile.depth_in_bytes:
            self.skipTest(f"{self.profile.name} has no queue limit in bytes")
        frame, small = frames.ipv4(size=SIZE), frames.ipv4(size=SIZE - 1)
        self.reported()
        for limit, burst, kept in (
            (3 * SIZE, [frame] * 4, [frame] * 3),
            (3 * SIZE - 1, [frame] * 3 + [small], [frame] * 2 + [small]),
            (3 * SIZE - 2, [frame] * 3 + [small], [frame] * 2),
        ):
            self.switch.limit_bytes(2, 0, limit)
            self.switch.shape(2, 0, SIZE, SLOW)
            self.pass_through([frame])
            self.send(1, burst)
            self.expect(2, kept)
            self.expect_silence_at(2)

    def expect_silence_at(self, port: int) -> None:
        """Nothing more leaves a port."""
        self.assertEqual(self.drain(port), [])


class DepthsOfARamp(QueueTest):
    """Depths that a burst finds grow by one frame each, those it leaves behind shrink; the watermark is the top."""

    def runTest(self) -> None:
        self.reported(1, 2, 7)
        self.assertEqual(self.switch.read_register(WATERMARK, 7), 0)
        self.fill(frames.ipv4(size=SIZE), 5)
        self.receive(2, 5)
        reports = self.reports(6)
        depth = self.profile.depth
        self.assertEqual([r.enqueue_depth for r in reports], [depth(n, SIZE) for n in (0, 0, 1, 2, 3, 4)])
        self.assertEqual([r.dequeue_depth for r in reports], [depth(n, SIZE) for n in (0, 4, 3, 2, 1, 0)])
        self.assertEqual(self.switch.read_register(WATERMARK, 7), depth(4, SIZE))
        self.assertEqual(self.switch.read_register(WATERMARK, 6), 0)
        self.switch.shape(2, 0, SIZE, 0)
        self.pass_through([frames.ipv4(size=SIZE)])
        self.assertEqual(self.switch.read_register(WATERMARK, 7), depth(4, SIZE))


class DepthsOfMixedSizes(QueueTest):
    """The depth is the sum of what waits, frame by frame."""

    def runTest(self) -> None:
        self.reported()
        sizes = [64, 1500, 65, 9216, 200]
        self.fill(frames.ipv4(size=SIZE), 0)
        self.send(1, [frames.ipv4(size=size) for size in sizes])
        self.switch.shape(2, 0, SIZE, 100)
        self.receive(2, len(sizes))
        found = [report.enqueue_depth for report in self.reports(6)[1:]]
        if self.profile.depth_in_bytes:
            self.assertEqual(found, [0, 64, 1564, 1629, 10845])
        else:
            self.assertEqual(found, [0, 1, 2, 3, 4])


class ShaperKeepsItsClock(QueueTest):
    """Frames of a backlog leave at exactly the set distance, and waited for the time between."""

    def runTest(self) -> None:
        rate, count = 50, 8
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


class DelayHistogram(QueueTest):
    """Every packet, reported or not, is counted in the bin of its queue delay, four bins an octave."""

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
        wanted = [0] * 128
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


class QueuesOfOnePort(QueueTest):
    """Two priorities of one port are two bottlenecks: one overtakes the other, both keep their order and counts."""

    def runTest(self) -> None:
        slow = [frames.ipv4(size=SIZE, identification=number) for number in range(5)]
        fast = [frames.ipv6(size=SIZE - number) for number in range(10)]
        self.reported(1, 2, 0, queue=0)
        self.connect(3, 2, bottleneck=1, queue=1)
        self.observe(1)
        self.report_to(expected.Collector(), 1)
        self.switch.shape(2, 0, SIZE, SLOW)
        self.pass_through(slow[:1], 1, 2)
        self.send(1, slow[1:])
        for frame in fast:
            self.pass_through([frame], 3, 2)
        self.expect(2, slow[1:])
        self.expect_silence_at_2()
        reports = self.reports(15)
        by_bottleneck = {number: [r for r in reports if r.bottleneck == number] for number in (0, 1)}
        self.assertEqual([r.sequence for r in by_bottleneck[0]], [1, 2, 3, 4, 5])
        self.assertEqual([r.sequence for r in by_bottleneck[1]], list(range(1, 11)))
        self.assertEqual([r.bottleneck for r in reports], [0] + [1] * 10 + [0] * 4)
        self.assertEqual(self.totals(flow_of(slow[0], 0)), (5, 5, 0))
        self.assertEqual(self.totals(flow_of(fast[0], 1)), (10, 10, 0))
        self.assertEqual(self.switch.read_register(WATERMARK, 1), 0)

    def expect_silence_at_2(self) -> None:
        """Nothing more leaves the shared port."""
        self.assertEqual(self.drain(2), [])


class SettingsHaveAnEpoch(QueueTest):
    """A report names the generation of the settings under which its packet was enqueued."""

    def runTest(self) -> None:
        self.reported(1, 2, 0)
        frame = frames.ipv4(size=SIZE)
        self.pass_through([frame])
        first = self.switch.epoch(2, 0, 0x1234)
        self.switch.shape(2, 0, SIZE, SLOW)
        second = self.switch.epoch(2, 0, 0x1234)
        self.pass_through([frame])
        self.send(1, [frame])
        self.receive(2, 1)
        self.assertEqual([report.epoch for report in self.reports(3)], [first, second, second])
        self.assertEqual(self.switch.read_register(SEQUENCE, 0), 3)
