# SPDX-License-Identifier: Apache-2.0
"""Queue management: what each AQM drops and marks, when, and what reports say of it.

All frames of a case are of one size and wait before the first of them starts; they leave at distances of SERVICE_NS.
`T` is when frame 1 starts, frame 0 having kept the link until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import expected
import frames
from bench import BottleneckTest
from expected import Report
from narrows.switch.traffic_manager_pb2 import Coupled, Fair, Management
from p4runtime import Entry
from targets.base import COLLECTOR_PORT, Ability
from targets.soft import TWO_QUEUES_PORT, Softswitch

SIZE = 500
RATE = 50
MS = 1_000_000
SERVICE_NS = 1000 * MS // RATE
# Frames of a case whose AQM draws, and the rate at which they leave.
DRAWN, FAST = 300, 20_000
NOT_ECT, ECT_1, ECT_0 = 0, 1, 2
NO_THRESHOLD = 0xFFFFFFFF
PI2_CERTAIN = (1 << 32) - 1
PIE_CERTAIN = (1 << 56) - 1
PIE_BURST_NS = 150 * MS
RED_AVERAGE = "red_enqueue.averages"
BLUE_PROBABILITY = "blue_enqueue.probabilities"
ENQUEUE_DROPS, DEQUEUE_DROPS = "enqueue_drop_counter.flows", "dequeue_drop_counter.flows"


class ManagedTest(BottleneckTest):
    """A case whose queue is managed, where the program can."""

    egress = 2
    needs = frozenset({Ability.MANAGED, Ability.EXACT_RATE, Ability.PACKET_LIMIT})

    def setUp(self) -> None:
        """Skip where the program has no AQMs."""
        super().setUp()
        assert isinstance(self.switch, Softswitch)
        self.soft = self.switch
        try:
            self.soft.control.program.find("tables", "dequeue_aqm")
        except KeyError:
            self.skipTest("the program manages no queue")

    def set_aqm(self, table: str, action: str, **parameters: int) -> None:
        """Bottleneck 0's entry in a table of AQMs."""
        self.switch.control.insert(Entry(table, {"bottleneck": 0}, action, parameters))

    def manage(self, period_ns: int = 0, coupled: Coupled | None = None, fair: Fair | None = None) -> None:
        """Let the program manage the queue of bottleneck 0."""
        self.reported(1, self.egress)
        self.soft.manage(
            self.egress, 0, Management(enabled=True, index=0, period_ns=period_ns, coupled=coupled, fair=fair)
        )

    def arrive(self, sent: list[bytes], before: Callable[[], None] = lambda: None) -> None:
        """Frame 0 occupies the link, then ``before`` is called, and all others arrive."""
        first = self.occupy(sent[0], egress=self.egress)
        self.assertEqual((first.queue_delay, first.aqm_drops, first.flags & expected.FLAG_CE_MARKED), (0, 0, 0))
        before()
        self.send(1, sent[1:])
        arrived = [self.flow_of(frame) for frame in sent]
        for flow in set(arrived):
            self.wait_for_arrivals(flow, arrived.count(flow))

    def backlog(self, sent: list[bytes], before: Callable[[], None] = lambda: None) -> None:
        """Frame 0 occupies the link until all others have arrived; then they leave."""
        self.arrive(sent, before)
        self.switch.shape(self.egress, 0, SIZE, RATE)

    def leave_at_once(self) -> list[bytes]:
        """All that waits, of which the reports are not looked at."""
        self.switch.shape(self.egress, 0, SIZE, FAST)
        left = self.drain(self.egress)
        self.drain(COLLECTOR_PORT)
        return left

    def leaves(self, sent: list[bytes], order: list[int], marked: set[int]) -> list[Report]:
        """Frames leave in this order, some marked, and no time of the link lost; returns all reports but frame 0's."""
        self.expect(self.egress, [expected.congestion_marked(sent[n]) if n in marked else sent[n] for n in [0, *order]])
        reports = self.reports(len(order))
        self.expect_silence()
        starts = [r.timestamp - reports[0].timestamp for r in reports]
        self.assertEqual(starts, [SERVICE_NS * n for n in range(len(order))])
        flags = [expected.arrival_flags(sent[n]) | (expected.FLAG_CE_MARKED if n in marked else 0) for n in order]
        self.assertEqual([r.flags for r in reports], flags, "ECN field of the arrival, and whether it was marked")
        return reports

    def codel(self, **settings: int) -> None:
        """CoDel of 5 ms and 90 ms: no multiple of a frame's time, so that no decision is a tie."""
        usual = {"target": 5 * MS, "interval": 90 * MS, "mtu": SIZE, "ecn_marks": 0, "shares_link": 0}
        self.set_aqm("dequeue_aqm", "codel", **{**usual, "threshold": NO_THRESHOLD, "low_latency_only": 0, **settings})

    def red(self, **settings: int) -> None:
        """RED that forgets nothing in idle times."""
        usual = {"counts_packets": 0, "slope": 0, "halvings": 0, "forgotten": (1 << 47) - 1}
        self.set_aqm("enqueue_aqm", "red", **{**usual, "ecn_marks": 0, "harddrop": 0, "nodrop": 0, **settings})

    def passes(self) -> Report:
        """One frame through an idle link; returns its report."""
        sent = burst(1)
        self.send(1, sent)
        self.expect(self.egress, sent)
        (report,) = self.reports(1)
        return report


def burst(count: int, ecn: int = NOT_ECT, src_port: int = 10000) -> list[bytes]:
    """Frames of a flow, each distinguished from the others by its identification."""
    return [frames.ipv4(size=SIZE, ecn=ecn, src_port=src_port, identification=n) for n in range(count)]


class CoDelDrops(ManagedTest):
    """CoDel drops after an interval above the target, then ever sooner, and a drop costs the link no time.

    Frame 1 is the first above the target, at T: drops from T + 90 on. Frame 6 would start at T + 100 and is dropped,
    frame 7 starts then. Next drop at T + 190: frame 12 (T + 200). 1/sqrt(2) by one step of Newton's from 1 is
    (3 - 2) / 2: next at T + 190 + 45 = 235: frame 15 (T + 240). From 1/2 it is 1/2 (3 - 3/4) / 2 = 9/16: next at
    T + 285.6; but at T + 280 only one frame is left behind.
    """

    def runTest(self) -> None:
        self.manage()
        self.codel()
        sent = burst(20)
        self.backlog(sent)
        order = [n for n in range(1, 20) if n not in (6, 12, 15)]
        reports = self.leaves(sent, order, set())
        self.assertEqual([r.aqm_drops for r in reports], [sum(n > drop for drop in (6, 12, 15)) for n in order])
        self.assertEqual([r.arrivals for r in reports], [n + 1 for n in order])
        self.assertEqual(self.counted(DEQUEUE_DROPS, self.flow_of(sent[0])), (3, 3 * SIZE))


class CoDelMarks(ManagedTest):
    """With ECN it marks instead, which takes the link's time.

    Due, as `CoDelDrops` works out, at T + 90, 190, 235 and 285.6: frames 6 (T + 100), 11 (T + 200), 13 (T + 240) and
    16 (T + 300). The next is due at T + 329.5, when too little waits.
    """

    def runTest(self) -> None:
        self.manage()
        self.codel(ecn_marks=1)
        sent = burst(20, ECT_0)
        self.backlog(sent)
        reports = self.leaves(sent, list(range(1, 20)), {6, 11, 13, 16})
        self.assertEqual({r.aqm_drops for r in reports}, {0})


class StepMarks(ManagedTest):
    """What waited longer than the threshold is marked: ECT(0) and ECT(1), or with ect1_only ECT(1) alone."""

    def runTest(self) -> None:
        for only in (0, 1):
            with self.subTest(ect1_only=only):
                self.switch.reset()
                self.manage()
                self.set_aqm("dequeue_aqm", "step", threshold=70 * MS, low_latency_only=only)
                codepoints = [(NOT_ECT, ECT_1, ECT_0)[n % 3] for n in range(13)]
                sent = [frames.ipv4(size=SIZE, ecn=ecn, identification=n) for n, ecn in enumerate(codepoints)]
                self.backlog(sent)
                self.receive(2, len(sent))
                reports = self.reports(len(sent) - 1)
                late = [r.queue_delay > 70 * MS for r in reports]
                # Frame 5 starts at T + 80, so that all from it on surely are.
                self.assertTrue(all(late[4:]))
                allowed = {ECT_1} if only else {ECT_1, ECT_0}
                self.assertEqual(
                    [bool(r.flags & expected.FLAG_CE_MARKED) for r in reports],
                    [is_late and ecn in allowed for is_late, ecn in zip(late, codepoints[1:], strict=True)],
                )


class PieDropsOnArrival(ManagedTest):
    """PIE at certainty drops what finds two frames waiting, once its burst allowance is spent; before, nothing."""

    def runTest(self) -> None:
        for spent, kept in ((PIE_BURST_NS - 1, 8), (PIE_BURST_NS, 3)):
            with self.subTest(spent=spent):
                self.switch.reset()
                self.manage()
                limits = {"limit_bytes": 0, "limit_packets": 0}
                self.set_aqm("enqueue_aqm", "pie_at_enqueue", target=15 * MS, mtu=SIZE, **limits, ecn_marks=1)
                self.switch.write_register("pie_probabilities", 0, PIE_CERTAIN)
                self.switch.write_register("pie_bursts", 0, spent)
                # ECT(0): a probability above a tenth drops those, too (RFC 8033, section 5.1).
                sent = burst(8, ECT_0)
                self.backlog(sent)
                self.leaves(sent, list(range(1, kept)), set())
                self.send(1, sent[:1])
                self.expect(2, sent[:1])
                (after,) = self.reports(1)
                self.assertEqual(after.aqm_drops, 8 - kept)
                self.assertEqual(self.counted(ENQUEUE_DROPS, self.flow_of(sent[0])), (8 - kept, (8 - kept) * SIZE))


class PieMarksOnArrival(ManagedTest):
    """At a tenth PIE still marks. Its sum is 8.5 from the start: packets are picked without a draw (section 5.4)."""

    def runTest(self) -> None:
        self.manage()
        limits = {"limit_bytes": 0, "limit_packets": 0}
        self.set_aqm("enqueue_aqm", "pie_at_enqueue", target=0, mtu=SIZE, **limits, ecn_marks=1)
        self.switch.write_register("pie_probabilities", 0, PIE_CERTAIN // 10)
        self.switch.write_register("pie_bursts", 0, PIE_BURST_NS)
        self.switch.write_register("pie_sums", 0, PIE_CERTAIN // 2 * 17)
        sent = burst(6, ECT_0)
        self.backlog(sent)
        reports = self.leaves(sent, list(range(1, 6)), {3, 4, 5})
        self.assertEqual({r.aqm_drops for r in reports}, {0})


class PieSpendsItsAllowance(ManagedTest):
    """Each update spends 40 ms of the allowance until 150 ms are: four do, and a fifth changes nothing."""

    def runTest(self) -> None:
        self.manage(period_ns=5 * MS)
        self.switch.write_register("pie_probabilities", 0, PIE_CERTAIN)
        self.set_aqm("update_aqm", "pie_at_update", target=15 * MS, tupdate=40 * MS, alpha=0, beta=0)
        deadline = time.monotonic() + self.profile.patience_s
        while self.switch.read_register("pie_bursts", 0) < PIE_BURST_NS and time.monotonic() < deadline:
            pass
        time.sleep(0.05)
        self.assertEqual(self.switch.read_register("pie_bursts", 0), 160 * MS)


class PieDraws(ManagedTest):
    """At p = 1/2 the sum allows a draw at each second frame after a drop, which hits half the time: 3 frames a drop.

    Of N frames that is N / 3 with a variance of 2 N / 27, as 1 + a geometric number of frames has a variance of 2. Hits
    at each draw would be N / 2, and none until the sum is 8.5 N / 17.
    """

    def runTest(self) -> None:
        self.manage()
        limits = {"limit_bytes": 0, "limit_packets": 0}
        self.set_aqm("enqueue_aqm", "pie_at_enqueue", target=0, mtu=0, **limits, ecn_marks=0)
        self.switch.write_register("pie_bursts", 0, PIE_BURST_NS)
        sent = burst(DRAWN + 1)
        self.arrive(sent, lambda: self.switch.write_register("pie_probabilities", 0, PIE_CERTAIN // 2))
        drops, _ = self.counted(ENQUEUE_DROPS, self.flow_of(sent[0]))
        self.assertAlmostEqual(drops, DRAWN / 3, delta=6 * (2 * DRAWN / 27) ** 0.5)
        self.leave_at_once()


class RedAtItsBounds(ManagedTest):
    """Below `min` nothing is picked, from `max` on everything: dropped, or marked, by ecn, harddrop and nodrop.

    A weight of 2^-20 leaves the average where it is set.
    """

    def runTest(self) -> None:
        for average, flags, ecn, kept, marked in (
            (9_999, {"ecn_marks": 0}, ECT_0, 3, False),
            (30_001, {"ecn_marks": 0}, ECT_0, 0, False),
            (30_001, {"ecn_marks": 1}, NOT_ECT, 0, False),
            (30_001, {"ecn_marks": 1}, ECT_0, 3, True),
            (30_001, {"ecn_marks": 1, "nodrop": 1}, NOT_ECT, 3, False),
            (30_001, {"ecn_marks": 1, "harddrop": 1, "nodrop": 1}, ECT_0, 0, False),
        ):
            with self.subTest(average=average, flags=flags, ecn=ecn):
                self.switch.reset()
                self.manage()
                self.red(weight=20, low=10_000 << 20, high=30_000 << 20, **flags)
                sent = burst(4, ecn)
                self.backlog(sent, partial(self.switch.write_register, RED_AVERAGE, 0, average << 20))
                order = list(range(1, kept + 1))
                self.leaves(sent, order, set(order) if marked else set())
                self.assertEqual(self.counted(ENQUEUE_DROPS, self.flow_of(sent[0])), (3 - kept, (3 - kept) * SIZE))


class RedSpreadsItsDrops(ManagedTest):
    """Half way to `max` p is 1/4: the drops are 1, 2 or 3 frames apart, all alike, since p / (1 - n p) is 1 for n = 3.

    That is 2 on average with a variance of 2/3: of N frames N / 2 with a variance of N / 12. Draws by p alone would
    drop N / 4.
    """

    def runTest(self) -> None:
        self.manage()
        slope = (1 << 63) // (20_000 << 20)
        self.red(weight=20, low=10_000 << 20, high=30_000 << 20, slope=slope, ecn_marks=0)
        sent = burst(DRAWN + 1)
        # A hair above half, so that roundings do not take from the certainty.
        self.arrive(sent, lambda: self.switch.write_register(RED_AVERAGE, 0, 20_001 << 20))
        drops, _ = self.counted(ENQUEUE_DROPS, self.flow_of(sent[0]))
        self.assertAlmostEqual(drops, DRAWN / 2, delta=6 * (DRAWN / 12) ** 0.5)
        self.leave_at_once()


class RedAverages(ManagedTest):
    """The average follows what a frame finds waiting, and of an idle link by how long it was."""

    def runTest(self) -> None:
        with self.subTest("busy"):
            self.manage()
            self.red(weight=1, low=1 << 60, high=1 << 61)
            sent = burst(5)
            self.arrive(sent)
            # In halves of a byte, found by frames 1 to 4: 0, 0 + 500, 500 + 1000 - 250, 1250 + 1500 - 625.
            self.assertEqual(self.switch.read_register(RED_AVERAGE, 0), 2125)
            self.leave_at_once()
        with self.subTest("in packets"):
            self.switch.reset()
            self.manage()
            self.red(counts_packets=1, weight=1, low=1 << 60, high=1 << 61)
            self.arrive(burst(5))
            # In halves of 2^-10 packets: 0, 0 + 1024, 1024 + 2048 - 512, 2560 + 3072 - 1280.
            self.assertEqual(self.switch.read_register(RED_AVERAGE, 0), 4352)
            self.leave_at_once()
        with self.subTest("idle"):
            self.switch.reset()
            self.manage()
            self.red(weight=1, low=1 << 60, high=1 << 61, halvings=(1 << 56) // (10 * MS), forgotten=500 * MS)
            self.switch.shape(self.egress, 0, SIZE, RATE)
            first = self.passes()
            self.switch.write_register(RED_AVERAGE, 0, 1 << 40)
            time.sleep(0.06)
            second = self.passes()
            idle_ns = second.timestamp - first.timestamp - SERVICE_NS
            self.assertGreater(idle_ns, 0)
            halved = 2.0 ** (40 - idle_ns / (10 * MS))
            self.assertAlmostEqual(self.switch.read_register(RED_AVERAGE, 0) / halved, 1, delta=1e-6)
            time.sleep(0.6)
            self.passes()
            self.assertEqual(self.switch.read_register(RED_AVERAGE, 0), 0)


class BlueLearns(ManagedTest):
    """A frame without room raises the probability, an idle time lowers it, and neither does within a freeze time."""

    def runTest(self) -> None:
        settings = {"limit_bytes": 2 * SIZE, "limit_packets": 0, "increment": 1000, "decrement": 10, "ecn_marks": 0}
        for freeze, raised, lowered in ((0, 3000, 2990), (4_000 * MS, 1000, 1000)):
            with self.subTest(freeze=freeze):
                self.switch.reset()
                self.manage()
                self.set_aqm("enqueue_aqm", "blue", **settings, freeze=freeze)
                # Frame 0 keeps the link, 1 and 2 have room.
                self.arrive(burst(6), partial(self.switch.write_register, "blue_enqueue.change_times", 0, 0))
                self.assertEqual(self.switch.read_register(BLUE_PROBABILITY, 0), raised)
                self.leave_at_once()
                self.passes()
                self.assertEqual(self.switch.read_register(BLUE_PROBABILITY, 0), lowered)


class BlueDraws(ManagedTest):
    """At p = 1/2 it drops, or marks, half of N frames, with a variance of N / 4."""

    def runTest(self) -> None:
        self.manage()
        changes = {"increment": 0, "decrement": 0, "freeze": 0}
        self.set_aqm("enqueue_aqm", "blue", limit_bytes=0, limit_packets=0, **changes, ecn_marks=0)
        sent = burst(DRAWN + 1)
        self.arrive(sent, lambda: self.switch.write_register(BLUE_PROBABILITY, 0, 1 << 31))
        drops, _ = self.counted(ENQUEUE_DROPS, self.flow_of(sent[0]))
        self.assertAlmostEqual(drops, DRAWN / 2, delta=6 * (DRAWN / 4) ** 0.5)
        self.leave_at_once()


class Pi2AtCertainty(ManagedTest):
    """PI2 whose p is 1 drops Not-ECT and marks ECT, while two frames are left behind: frames 1 to 4 of 6."""

    def runTest(self) -> None:
        for ecn, order, marked in ((NOT_ECT, [5, 6], set()), (ECT_0, list(range(1, 7)), {1, 2, 3, 4})):
            with self.subTest(ecn=ecn):
                self.switch.reset()
                self.manage()
                self.set_aqm("dequeue_aqm", "pi2_at_dequeue", step=NO_THRESHOLD, coupling=1, mtu=SIZE, ecn_marks=1)
                self.switch.write_register("pi2_probabilities", 0, PI2_CERTAIN)
                sent = burst(7, ecn)
                self.backlog(sent)
                reports = self.leaves(sent, order, marked)
                self.assertEqual({r.aqm_drops for r in reports}, {0 if marked else 4})


class Pi2Draws(ManagedTest):
    """The classic queue drops with p squared, a quarter at p = 1/2; the other marks with k p, half at k = 2, p = 1/4.

    Of N frames within six standard deviations, the last two of them aside, behind which too little waits.
    """

    egress = TWO_QUEUES_PORT

    def runTest(self) -> None:
        for ecn, p, chance in ((NOT_ECT, 1 / 2, 1 / 4), (ECT_1, 1 / 4, 1 / 2)):
            with self.subTest(ecn=ecn):
                self.switch.reset()
                self.manage(coupled=Coupled(classic_percent=10, mtu=SIZE))
                self.set_aqm("enqueue_aqm", "two_queues")
                self.set_aqm("dequeue_aqm", "pi2_at_dequeue", step=NO_THRESHOLD, coupling=2, mtu=SIZE, ecn_marks=1)
                self.switch.write_register("pi2_probabilities", 0, int(p * PI2_CERTAIN))
                sent = burst(DRAWN + 1, ecn)
                self.arrive(sent)
                left = self.leave_at_once()[1:]
                marked = {expected.congestion_marked(frame) for frame in sent}
                hits = len([frame for frame in left if frame in marked]) if ecn else DRAWN - len(left)
                self.assertAlmostEqual(hits, DRAWN * chance, delta=2 + 6 * (DRAWN * chance * (1 - chance)) ** 0.5)


class Pi2Updates(ManagedTest):
    """An update without delay lowers p by alpha * target / 64 = 2^14 * 2^16 / 2^6 = 2^24."""

    def runTest(self) -> None:
        self.manage(period_ns=10 * MS)
        self.switch.write_register("pi2_probabilities", 0, PI2_CERTAIN)
        self.set_aqm("update_aqm", "pi2_at_update", target=1 << 16, alpha=1 << 14, beta=0)
        deadline = time.monotonic() + self.profile.patience_s
        while (p := self.switch.read_register("pi2_probabilities", 0)) == PI2_CERTAIN and time.monotonic() < deadline:
            pass
        self.assertLess(p, PI2_CERTAIN)
        self.assertTrue(p == 0 or (PI2_CERTAIN - p) % (1 << 24) == 0, hex(p))


class DualPi2Queues(ManagedTest):
    """ECT(1) has its own queue, which goes first and marks what waited longer than the step; the other marks nothing.

    Credit begins at 10 % - 90 % of a frame and gains 10 % with each: the classic queue's turn would come after eight,
    and there are four.
    """

    egress = TWO_QUEUES_PORT

    def runTest(self) -> None:
        self.manage(coupled=Coupled(classic_percent=10, mtu=SIZE))
        self.set_aqm("enqueue_aqm", "two_queues")
        self.set_aqm("dequeue_aqm", "pi2_at_dequeue", step=1 * MS, coupling=2, mtu=SIZE, ecn_marks=1)
        sent = burst(1, ECT_1) + burst(5, ECT_0, 10001)[1:] + burst(5, ECT_1, 10002)[1:]
        self.backlog(sent)
        reports = self.leaves(sent, [5, 6, 7, 8, 1, 2, 3, 4], {5, 6, 7, 8})
        self.assertEqual([r.queue for r in reports], [1] * 4 + [0] * 4)


class FairTurns(ManagedTest):
    """Two flows of six frames take turns of a quantum, which is two frames."""

    def runTest(self) -> None:
        self.manage(fair=Fair(queues=1024, quantum=2 * SIZE, batch=1))
        self.set_aqm("enqueue_aqm", "fair_queues", mask=1023)
        sent = burst(1) + burst(6, src_port=10001) + burst(6, src_port=10002)
        self.backlog(sent)
        order = [1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12]
        reports = self.leaves(sent, order, set())
        self.assertEqual([r.queue for r in reports], [self.flow_of(sent[n]) & 1023 for n in order])


class FairCoDel(ManagedTest):
    """Each fair queue has a CoDel of its own: the first frame of a flow of two forgets nothing of one of nineteen.

    They take turns: 1 at T, 20 at T + 20, 2, 21, 3 at T + 80. Of the long flow drops are due from T + 90: frame 4
    (T + 100; if frame 20, which begins its queue, had reset the same state, from T + 110). Next at T + 190: frame 10
    (T + 200), at 235: 13 (T + 240), at 285.6: 17 (T + 300).
    """

    def runTest(self) -> None:
        self.manage(fair=Fair(queues=1024, quantum=SIZE, batch=64))
        self.set_aqm("enqueue_aqm", "fair_queues", mask=1023)
        self.codel(shares_link=1)
        sent = burst(1) + burst(19, src_port=10001) + burst(2, src_port=10002)
        self.backlog(sent)
        order = [1, 20, 2, 21, 3, *(n for n in range(5, 20) if n not in (10, 13, 17))]
        reports = self.leaves(sent, order, set())
        self.assertEqual([r.aqm_drops for r in reports[:6]], [0] * 5 + [1])
        self.assertEqual(reports[-1].aqm_drops, 4)


class HeadDrop(ManagedTest):
    """A full queue of three drops its oldest: of five that come, the last three leave."""

    def runTest(self) -> None:
        self.reported()
        self.switch.limit_packets(2, 0, 3)
        self.soft.drop_at_the_head(2, 0)
        sent = burst(6)
        self.backlog(sent)
        reports = self.leaves(sent, [3, 4, 5], set())
        self.assertEqual([r.arrivals - r.departures for r in reports], [2, 2, 2])
