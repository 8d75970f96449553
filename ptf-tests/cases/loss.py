# SPDX-License-Identifier: Apache-2.0
"""Bernoulli loss: never, at a rate, and as good as always."""

from __future__ import annotations

import itertools
import math
import time

import frames
from bench import ARRIVALS, LOSS_COUNTER, LOSS_DROPS, PATIENCE_S, BottleneckTest

# Standard deviations between a fair coin and a failed case: once in 1.7 million runs where the target takes no seed.
DEVIATIONS = 5
NUMBER_BYTES = 4


class LossTest(BottleneckTest):
    """Sends numbered frames through a lossy bottleneck."""

    def survivors(self, count: int, threshold: int) -> list[int]:
        """Numbers of the frames that came through, after checking that every frame is accounted for."""
        self.connect(1, 2, bottleneck=0)
        entry = self.lose(threshold)
        frame = frames.ipv4(size=80)
        sent = [frame[:-NUMBER_BYTES] + number.to_bytes(NUMBER_BYTES, "big") for number in range(count)]
        arrived: list[bytes] = []
        flow = self.flow_of(sent[0])
        for start in range(0, count, self.profile.largest_burst):
            burst = sent[start : start + self.profile.largest_burst]
            self.send(1, burst)
            survived = self.wait_for_decisions(flow, start + len(burst))
            arrived += self.receive(2, survived - len(arrived))
        self.expect_silence()
        self.switch.control.delete(entry)
        lost = count - len(arrived)
        self.assertEqual(self.switch.read_register(LOSS_DROPS, flow), lost)
        self.assertEqual(self.counted(LOSS_COUNTER, flow), (lost, 80 * lost))
        self.assertEqual(self.switch.read_register(ARRIVALS, flow), len(arrived))
        numbers = [int.from_bytes(frame[-NUMBER_BYTES:], "big") for frame in arrived]
        self.assertEqual([sent[number] for number in numbers], arrived)
        return numbers

    def wait_for_decisions(self, flow: int, count: int) -> int:
        """Wait until the switch has lost or let through so many frames; returns how many it let through."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            arrivals, lost = (self.switch.read_register(name, flow) for name in (ARRIVALS, LOSS_DROPS))
            if arrivals + lost == count:
                return arrivals
            if time.monotonic() > deadline:
                self.fail(f"{arrivals} frames arrived and {lost} were lost, of {count}")


class NoLoss(LossTest):
    """A threshold of 0 loses nothing."""

    def runTest(self) -> None:
        self.assertEqual(self.survivors(1000, 0), list(range(1000)))


class AlmostCertainLoss(LossTest):
    """The largest threshold loses all but one in 2^32."""

    def runTest(self) -> None:
        self.assertEqual(self.survivors(1000, 0xFFFFFFFF), [])


class LossRate(LossTest):
    """A loss of 20 % is 20 %, and frames are lost independently of each other."""

    def runTest(self) -> None:
        count, ratio = 4000, 0.2
        numbers = self.survivors(count, round(ratio * 2**32))
        lost = sorted(set(range(count)) - set(numbers))
        self.assert_binomial(len(lost), count, ratio)
        pairs = sum(one + 1 == other for one, other in itertools.pairwise(lost))
        self.assert_binomial(pairs, count - 1, ratio * ratio)

    def assert_binomial(self, hits: int, trials: int, ratio: float) -> None:
        """The number of hits is one that independent trials give."""
        deviation = math.sqrt(trials * ratio * (1 - ratio))
        self.assertLess(abs(hits - trials * ratio), DEVIATIONS * deviation, f"{hits} of {trials} at {ratio}")


class SmallLossRate(LossTest):
    """A loss of 2^-9 is neither none nor three times as much."""

    def runTest(self) -> None:
        count = 6000
        lost = count - len(self.survivors(count, 1 << 23))
        self.assertGreater(lost, 0)
        self.assertLess(lost, 31)


class SmallestLossRate(LossTest):
    """The smallest loss, 2^-32, loses nothing in a test's time: the coin is not coarser than that by much."""

    def runTest(self) -> None:
        self.assertEqual(len(self.survivors(3000, 1)), 3000)


class LossOfOneBottleneckOnly(BottleneckTest):
    """The loss of one bottleneck touches neither another one nor wires."""

    def runTest(self) -> None:
        self.connect(1, 2, bottleneck=1)
        self.connect(3, 4, bottleneck=2)
        self.connect(5, 6)
        self.lose(0xFFFFFFFF, 1)
        frame = frames.ipv4()
        self.send(1, [frame] * 10)
        self.wait_for_loss(self.flow_of(frame, 1), 10)
        self.pass_through([frame] * 10, 3, 4)
        self.pass_through([frame] * 10, 5, 6)
        self.expect_silence()
        self.assertEqual(self.totals(self.flow_of(frame, 1)), (0, 0, 10))
        self.assertEqual(self.totals(self.flow_of(frame, 2)), (10, 10, 0))
