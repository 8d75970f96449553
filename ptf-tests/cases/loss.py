# SPDX-License-Identifier: Apache-2.0
"""Loss before the queue: by chance, never to as good as always; in bursts, as two states make them; and by position."""

from __future__ import annotations

import itertools
import math
import time

import frames
from bench import ARRIVALS, LOSS_COUNTER, LOSS_DROPS, PRIORITY, BottleneckTest
from p4runtime import Entry
from targets.base import CERTAIN, Ability

# Standard deviations between a fair coin and a failed case: once in 1.7 million runs where the target takes no seed.
DEVIATIONS = 5
NUMBER_BYTES = 4
# The largest chance that the good state is left or loses, on every target.
ALMOST = CERTAIN - 1
# Of `set_loss_model`.
BY_PATTERN = 2
BAD_STATES = "bad_states"


class LossTest(BottleneckTest):
    """Sends numbered frames through a lossy bottleneck."""

    def survivors(self, count: int, threshold: int) -> list[int]:
        """Numbers of the frames that came through where each is lost with a probability of ``threshold`` / 2^32."""
        self.lose(threshold)
        return self.passed(count)

    def passed(self, count: int) -> list[int]:
        """Numbers of the frames that came through, after checking that every frame is accounted for."""
        self.connect(1, 2, bottleneck=0)
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
        lost = count - len(arrived)
        self.assertEqual(self.switch.read_register(LOSS_DROPS, flow), lost)
        self.assertEqual(self.counted(LOSS_COUNTER, flow), (lost, 80 * lost))
        self.assertEqual(self.switch.read_register(ARRIVALS, flow), len(arrived))
        numbers = [int.from_bytes(frame[-NUMBER_BYTES:], "big") for frame in arrived]
        self.assertEqual([sent[number] for number in numbers], arrived)
        return numbers

    def assert_binomial(self, hits: int, trials: int, ratio: float) -> None:
        """The number of hits is one that independent trials give."""
        deviation = math.sqrt(trials * ratio * (1 - ratio))
        self.assertLess(abs(hits - trials * ratio), DEVIATIONS * deviation, f"{hits} of {trials} at {ratio}")

    def wait_for_decisions(self, flow: int, count: int) -> int:
        """Wait until the switch has lost or let through so many frames; returns how many it let through."""
        deadline = time.monotonic() + self.profile.patience_s
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

    needs = frozenset({Ability.INDEPENDENT_DRAWS})

    def runTest(self) -> None:
        count, ratio = 4000, 0.2
        numbers = self.survivors(count, round(ratio * 2**32))
        lost = sorted(set(range(count)) - set(numbers))
        self.assert_binomial(len(lost), count, ratio)
        pairs = sum(one + 1 == other for one, other in itertools.pairwise(lost))
        self.assert_binomial(pairs, count - 1, ratio * ratio)


class SmallLossRate(LossTest):
    """A loss of 2^-9 is neither none nor three times as much."""

    needs = frozenset({Ability.INDEPENDENT_DRAWS})

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
    """The loss of one bottleneck touches neither another one nor passthrough ports."""

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


class BurstsOfOne(LossTest):
    """States that are left with certainty lose every second frame, the first one passing: judged, then moved."""

    def runTest(self) -> None:
        self.switch.control.lose_by_state(0, (0, ALMOST), (CERTAIN, CERTAIN))
        self.assertEqual(self.passed(200), list(range(0, 200, 2)))
        self.assertEqual(self.switch.read_register(BAD_STATES, 0), 0)


class ABurstWithoutEnd(LossTest):
    """A bad state that is hardly ever left loses all frames but the first one, which finds the good state."""

    def runTest(self) -> None:
        self.switch.control.lose_by_state(0, (0, ALMOST), (CERTAIN, 1))
        self.assertEqual(self.passed(300), [0])
        self.assertNotEqual(self.switch.read_register(BAD_STATES, 0), 0)


class ABurstThatNeverComes(LossTest):
    """A good state that is never left loses nothing by what the bad one says."""

    def runTest(self) -> None:
        self.switch.control.lose_by_state(0, (0, 0), (CERTAIN, CERTAIN))
        self.assertEqual(self.passed(200), list(range(200)))
        self.assertEqual(self.switch.read_register(BAD_STATES, 0), 0)


class TheGoodStateLosesToo(LossTest):
    """A good state that is never left and loses almost all, while the bad one would lose hardly anything."""

    def runTest(self) -> None:
        self.switch.control.lose_by_state(0, (ALMOST, 0), (1, CERTAIN))
        self.assertEqual(self.passed(200), [])


class TheBadStateLetsPass(LossTest):
    """A bad state that is hardly ever left and loses hardly anything, behind one frame that the good one lost."""

    def runTest(self) -> None:
        self.switch.control.lose_by_state(0, (ALMOST, ALMOST), (1, 1))
        self.assertEqual(self.passed(200), list(range(1, 200)))


class LossInEachState(LossTest):
    """Of frames that find the two states in turn a fifth is lost in the good one, half in the bad one."""

    needs = frozenset({Ability.INDEPENDENT_DRAWS})

    def runTest(self) -> None:
        count = 4000
        self.switch.control.lose_by_state(0, (CERTAIN // 5, ALMOST), (CERTAIN // 2, CERTAIN))
        lost = sorted(set(range(count)) - set(self.passed(count)))
        self.assert_binomial(sum(number % 2 == 0 for number in lost), count // 2, 0.2)
        self.assert_binomial(sum(number % 2 == 1 for number in lost), count // 2, 0.5)


class BurstLoss(LossTest):
    """In Gilbert's model a run of losses begins with probability p, and goes on after each frame with 1 - r."""

    needs = frozenset({Ability.INDEPENDENT_DRAWS})

    def runTest(self) -> None:
        count, p, r = 6000, 0.1, 0.4
        self.switch.control.lose_by_state(0, (0, round(p * CERTAIN)), (CERTAIN, round(r * CERTAIN)))
        passed = self.passed(count)
        # The last run may be cut off, and after it none begins.
        runs = [later - earlier - 1 for earlier, later in itertools.pairwise(passed) if later - earlier > 1]
        self.assert_binomial(len(runs), len(passed) - 1, p)
        self.assert_binomial(runs.count(1), len(runs), r)
        longer = [run for run in runs if run > 1]
        self.assert_binomial(longer.count(2), len(longer), r)


class LossAndMoveAreDrawnApart(LossTest):
    """Half of all frames leave the good state, half of those that find it are lost, and not the same half.

    So three of four frames that pass are followed by a loss.
    """

    needs = frozenset({Ability.INDEPENDENT_DRAWS})

    def runTest(self) -> None:
        count = 4000
        self.switch.control.lose_by_state(0, (CERTAIN // 2, CERTAIN // 2), (CERTAIN, CERTAIN))
        passed = self.passed(count)
        lost_after = sum(later - earlier > 1 for earlier, later in itertools.pairwise(passed))
        self.assert_binomial(lost_after, len(passed) - 1, 0.75)


class StateOfOneBottleneck(LossTest):
    """Each bottleneck has a state of its own: frames of others do not move it."""

    def runTest(self) -> None:
        frame = frames.ipv4()
        self.connect(3, 4, bottleneck=1)
        for bottleneck in (0, 1):
            self.switch.control.lose_by_state(bottleneck, (0, ALMOST), (CERTAIN, CERTAIN))
        self.pass_through([frame], 3, 4)
        self.assertEqual(self.passed(7), [0, 2, 4, 6])
        # Of three frames the first and the last find the bad state.
        self.send(3, [frame] * 3)
        self.wait_for_loss(self.flow_of(frame, 1), 2)
        self.expect(4, [frame])
        self.expect_silence()


class PatternTest(LossTest):
    """Losses at set positions."""

    needs = frozenset({Ability.LOSS_BY_POSITION})

    def lose_by_pattern(self, length: int, runs: list[tuple[int, int]], bottleneck: int = 0) -> None:
        """Lose the packets at runs of positions (first, last), again every ``length`` packets, if it is not 0."""
        self.switch.control.insert(
            Entry("loss", {"bottleneck": bottleneck}, "set_loss_model", {"model": BY_PATTERN}),
            Entry("loss_pattern", {"bottleneck": bottleneck}, "set_length", {"packets": length}),
            *(
                Entry("lost_positions", {"bottleneck": bottleneck, "position": run}, "lose", priority=PRIORITY)
                for run in runs
            ),
        )


class LossByPosition(PatternTest):
    """A recorded pattern is lost to the frame, again and again."""

    def runTest(self) -> None:
        self.lose_by_pattern(10, [(0, 0), (3, 4), (9, 9)])
        self.assertEqual(self.passed(1005), [n for n in range(1005) if n % 10 not in (0, 3, 4, 9)])


class LossByPositionOnce(PatternTest):
    """A pattern that is not repeated loses nothing behind its end."""

    def runTest(self) -> None:
        self.lose_by_pattern(0, [(1, 3), (7, 7)])
        self.assertEqual(self.passed(600), [n for n in range(600) if n not in (1, 2, 3, 7)])


class PositionOfOneBottleneck(PatternTest):
    """Each bottleneck has a position of its own: frames of others do not move it."""

    def runTest(self) -> None:
        frame = frames.ipv4()
        self.connect(3, 4, bottleneck=1)
        self.lose_by_pattern(4, [(1, 1), (3, 3)], 1)
        self.pass_through([frame], 3, 4)
        self.lose_by_pattern(4, [(1, 1), (3, 3)], 0)
        self.assertEqual(self.passed(7), [0, 2, 4, 6])
        # They have positions 1 to 3.
        self.send(3, [frame] * 3)
        self.wait_for_loss(self.flow_of(frame, 1), 2)
        self.expect(4, [frame])
        self.expect_silence()
