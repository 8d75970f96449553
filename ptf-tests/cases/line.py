# SPDX-License-Identifier: Apache-2.0
"""The delay line behind the queue: what leaves a port twice, later, or in another order, and is counted once."""

from __future__ import annotations

import itertools
import math
import time

import frames
from bench import ARRIVALS, DEPARTURES, BottleneckTest
from narrows.switch.traffic_manager_pb2 import Samples, Variation
from targets.base import Ability
from targets.soft import Softswitch

# Standard deviations between a fair coin and a failed case; the seed is always the same.
DEVIATIONS = 5
NUMBER_BYTES = 4
COUNT = 400
# All frames are sent well within this.
LATER_S = 1.0


class LineTest(BottleneckTest):
    """Sends numbered frames through a bottleneck whose port has a delay line that varies."""

    needs = frozenset({Ability.VARYING_LINE})

    def left(self, variation: Variation, count: int = COUNT, copies: int | None = 0) -> list[int]:
        """Numbers of the frames as they leave port 2, so many more than were sent; None: as many as come.

        Every frame is reported and counted once, however often it leaves.
        """
        assert isinstance(self.switch, Softswitch)
        self.reported()
        self.switch.vary(2, variation)
        frame = frames.ipv4(size=80)
        sent = [frame[:-NUMBER_BYTES] + number.to_bytes(NUMBER_BYTES, "big") for number in range(count)]
        before = self.switch.read_register(DEPARTURES, self.flow_of(frame))
        self.send(1, sent)
        reports = self.reports(count)
        found = self.drain(2, LATER_S) if copies is None else self.receive(2, count + copies)
        self.expect_silence()
        self.assertEqual([report.departures for report in reports], list(range(before + 1, before + count + 1)))
        for name in (ARRIVALS, DEPARTURES):
            self.assertEqual(self.switch.read_register(name, self.flow_of(frame)), before + count)
        self.assertLessEqual(set(found), set(sent))
        return [int.from_bytes(frame[-NUMBER_BYTES:], "big") for frame in found]

    def assert_half(self, hits: int, trials: int) -> None:
        """The number of hits is one that a fair coin gives."""
        self.assertLess(abs(hits - trials / 2), DEVIATIONS * math.sqrt(trials) / 2, f"{hits} of {trials}")


class NothingVaries(LineTest):
    """Each frame leaves once, in order."""

    def runTest(self) -> None:
        self.assertEqual(self.left(Variation()), list(range(COUNT)))


class AllLeaveTwice(LineTest):
    """A copy follows its frame at once where nothing else varies."""

    def runTest(self) -> None:
        found = self.left(Variation(duplicate=1.0), copies=COUNT)
        self.assertEqual(found, [number for number in range(COUNT) for _ in range(2)])


class HalfLeaveTwice(LineTest):
    """Half of the frames leave twice, those that the seed says; no frame leaves three times."""

    def runTest(self) -> None:
        found = self.left(Variation(duplicate=0.5, seed=7), copies=None)
        times = [found.count(number) for number in range(COUNT)]
        self.assertEqual(set(times), {1, 2})
        self.assertEqual(found, sorted(found))
        self.assert_half(times.count(2), COUNT)
        twice = [number for number, often in enumerate(times) if often == 2]
        pairs = sum(one + 1 == other for one, other in itertools.pairwise(twice))
        self.assertLess(abs(pairs - COUNT / 4), DEVIATIONS * math.sqrt(COUNT * 5) / 4)


class JitterInOrder(LineTest):
    """Half of the frames take longer, and those behind them with them: none overtakes, and none is early."""

    def runTest(self) -> None:
        begun = time.monotonic()
        found = self.left(Variation(samples=Samples(delay_ns=[0, round(LATER_S * 1e9)]), seed=3))
        self.assertGreater(time.monotonic() - begun, LATER_S)
        self.assertEqual(found, list(range(COUNT)))


class JitterReorders(LineTest):
    """Half of the frames take longer and are overtaken by all others; the same seed draws the same ones."""

    def runTest(self) -> None:
        variation = Variation(samples=Samples(delay_ns=[0, round(LATER_S * 1e9)]), reorder=True, seed=3)
        begun = time.monotonic()
        found = self.left(variation)
        self.assertGreater(time.monotonic() - begun, LATER_S)
        self.assertEqual(sorted(found), list(range(COUNT)))
        # All that take less leave before the first one that takes more.
        (turn,) = [place for place in range(1, COUNT) if found[place] < found[place - 1]]
        self.assert_half(turn, COUNT)
        self.switch.reset()
        self.assertEqual(self.left(variation), found)
