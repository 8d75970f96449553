# SPDX-License-Identifier: Apache-2.0
"""Queue management of Tofino's program: what its AQMs drop and mark, what is counted, and what reports say of it.

The probabilities are entries, as the control plane writes them during a run. Of 2^32 - 1, one packet in 2^32 is not
picked. Nothing needs to wait for that, so that these cases are also for the SDE's model; only RED decides by a depth.
"""

from __future__ import annotations

import expected
import frames
from bench import ARRIVALS, BottleneckTest
from expected import Report
from narrows_tofino.chip.red import Wred
from p4runtime import Entry
from targets.base import Ability
from targets.tofino_switch import TofinoSwitch

SIZE = 500
# Fewer than may be under way at once on any target.
COUNT = 20
DRAWN = 300
CERTAIN = (1 << 32) - 1
NOT_ECT, ECT_1, ECT_0, CE = range(4)
LOW_QUEUE = 1
ENQUEUE_DROPS = "enqueue_drops"
DEQUEUE_DROPS = "dequeue_drops"
FLOW_DROPS = "flow_enqueue_drops"
# From fewer cells than two frames take at the most, all is picked; the average follows within a thousandth of the time
# between two departures.
AVERAGE = Wred(time_constant_ns=1000, min_cells=2, max_cells=6, percent=100)
DEPARTURES_A_SECOND = 1000


class LawTest(BottleneckTest):
    """A case of an AQM on bottleneck 0, from port 1 to port 2, where the program has these AQMs."""

    needs = frozenset({Ability.TOFINO_AQMS})

    def setUp(self) -> None:
        """All frames are reported."""
        super().setUp()
        self.reported()

    def set_aqm(self, table: str, action: str, *, change: bool = False, **parameters: int) -> None:
        """Bottleneck 0's entry in a table of AQMs."""
        entry = Entry(table, {"bottleneck": 0}, action, parameters)
        (self.switch.control.modify if change else self.switch.control.insert)(entry)

    def two_queues(self) -> None:
        """ECT(1) and CE wait in the second queue of the port."""
        key = {"bottleneck": 0, "low_latency": 1}
        self.switch.control.insert(
            Entry("arrival_queue", key, "wait_in", {"number": LOW_QUEUE}), Entry("departure_queue", key, "second", {})
        )

    def passes(self, ecn: int, *, marked: bool = False) -> Report:
        """One frame passes, marked or as it is; returns its report."""
        frame = frames.ipv4(size=SIZE, ecn=ecn)
        self.send(1, [frame])
        self.expect(2, [expected.congestion_marked(frame) if marked else frame])
        (report,) = self.reports(1)
        flags = expected.arrival_flags(frame) | (expected.FLAG_CE_MARKED if marked else 0)
        self.assertEqual(report.flags, flags, "ECN field of the arrival, and whether it was marked")
        return report

    def dropped(self, ecn: int, count: int = COUNT) -> None:
        """Frames come, and none leaves."""
        frame = frames.ipv4(size=SIZE, ecn=ecn)
        flow = self.flow_of(frame)
        before = self.switch.read_register(ARRIVALS, flow)
        self.send(1, [frame] * count)
        self.wait_for_arrivals(flow, before + count)
        self.expect_silence()


class PicksAreDropped(LawTest):
    """What is picked and may not be marked is dropped: counted for the flow and the bottleneck, and in its reports."""

    def runTest(self) -> None:
        self.set_aqm("enqueue_aqm", "pick", probability=CERTAIN, ecn_marks=0)
        self.set_aqm("dequeue_aqm", "decided_on_arrival")
        for ecn in (NOT_ECT, ECT_0, CE):
            self.dropped(ecn)
        flow = self.flow_of(frames.ipv4(size=SIZE))
        self.assertEqual(self.counted(ENQUEUE_DROPS, 0), (3 * COUNT, 3 * COUNT * SIZE))
        self.assertEqual(self.switch.read_register(FLOW_DROPS, flow), 3 * COUNT)
        self.set_aqm("enqueue_aqm", "pick", change=True, probability=0, ecn_marks=0)
        report = self.passes(NOT_ECT)
        self.assertEqual(
            (report.arrivals, report.departures, report.aqm_drops, report.loss_drops, report.queue),
            (3 * COUNT + 1, 1, 3 * COUNT, 0, 0),
        )


class PicksAreMarked(LawTest):
    """With marks ECT is marked, CE passes as it came, and Not-ECT is dropped."""

    def runTest(self) -> None:
        self.set_aqm("enqueue_aqm", "pick", probability=CERTAIN, ecn_marks=1)
        self.set_aqm("dequeue_aqm", "decided_on_arrival")
        for ecn in (ECT_0, ECT_1):
            self.assertEqual(self.passes(ecn, marked=True).aqm_drops, 0)
        self.passes(CE)
        self.dropped(NOT_ECT)
        self.assertEqual(self.counted(ENQUEUE_DROPS, 0), (COUNT, COUNT * SIZE))


class PicksAreDrawn(LawTest):
    """Half of the frames at 1/2, within six standard deviations."""

    def runTest(self) -> None:
        self.set_aqm("enqueue_aqm", "pick", probability=1 << 31, ecn_marks=0)
        for _ in range(DRAWN // COUNT):
            self.send(1, [frames.ipv4(size=SIZE)] * COUNT)
            self.drain(2)
        self.wait_for_arrivals(self.flow_of(frames.ipv4(size=SIZE)), DRAWN)
        (hits, _) = self.counted(ENQUEUE_DROPS, 0)
        self.assertAlmostEqual(hits, DRAWN / 2, delta=6 * (DRAWN / 4) ** 0.5)


class CoupledQueues(LawTest):
    """DualPI2: each queue has its own probability, and reports say which one a packet left."""

    def runTest(self) -> None:
        self.two_queues()
        self.set_aqm("enqueue_aqm", "couple", classic_probability=0, low_probability=CERTAIN)
        self.set_aqm("dequeue_aqm", "coupled", threshold=CERTAIN)
        found = [self.passes(ecn, marked=ecn == ECT_1).queue for ecn in range(4)]
        self.assertEqual(found, [0, 1, 0, 1])
        self.set_aqm("enqueue_aqm", "couple", change=True, classic_probability=CERTAIN, low_probability=0)
        found = [self.passes(ecn, marked=ecn == ECT_0).queue for ecn in (ECT_1, ECT_0, CE)]
        self.assertEqual(found, [1, 0, 1])
        self.dropped(NOT_ECT)
        self.assertEqual(self.counted(ENQUEUE_DROPS, 0), (COUNT, COUNT * SIZE))


class CoupledOverload(LawTest):
    """Above a coupled probability of 1 both queues drop what is picked; of the rest the low-latency one marks all."""

    def runTest(self) -> None:
        self.two_queues()
        self.set_aqm("enqueue_aqm", "couple_overloaded", probability=CERTAIN)
        self.set_aqm("dequeue_aqm", "coupled", threshold=CERTAIN)
        for ecn in range(4):
            self.dropped(ecn)
        self.assertEqual(self.counted(ENQUEUE_DROPS, 0), (4 * COUNT, 4 * COUNT * SIZE))
        self.set_aqm("enqueue_aqm", "couple_overloaded", change=True, probability=0)
        for ecn in range(4):
            self.assertEqual(self.passes(ecn, marked=ecn == ECT_1).aqm_drops, 4 * COUNT)


class CoupledStep(LawTest):
    """DualPI2's step marks ECT(1) above a delay, and there is some in any switch."""

    def runTest(self) -> None:
        self.two_queues()
        self.set_aqm("enqueue_aqm", "couple", classic_probability=0, low_probability=0)
        self.set_aqm("dequeue_aqm", "coupled", threshold=0)
        for ecn in range(4):
            self.passes(ecn, marked=ecn == ECT_1)
        self.set_aqm("dequeue_aqm", "coupled", change=True, threshold=CERTAIN)
        self.passes(ECT_1)


class StepAtDeparture(LawTest):
    """A step of one queue marks ECT, or with low_latency_only ECT(1), above a delay."""

    def runTest(self) -> None:
        self.set_aqm("dequeue_aqm", "step", threshold=0, low_latency_only=0)
        for ecn in range(4):
            self.passes(ecn, marked=ecn in (ECT_0, ECT_1))
        self.set_aqm("dequeue_aqm", "step", change=True, threshold=0, low_latency_only=1)
        for ecn in range(4):
            self.assertEqual(self.passes(ecn, marked=ecn == ECT_1).queue, 0)


class AverageDepth(LawTest):
    """RED picks while frames wait behind the one that departs, and drops or marks them; a lone frame passes."""

    needs = LawTest.needs | {Ability.HOLD, Ability.RATE}

    def setUp(self) -> None:
        """A meter of which any backlog is above the bounds."""
        super().setUp()
        assert isinstance(self.switch, TofinoSwitch)
        self.switch.control.set_average(0, AVERAGE)

    def leave_slowly(self, ecn: int) -> None:
        """Frames wait until all have arrived, and then leave one after the other."""
        frame = frames.ipv4(size=SIZE, ecn=ecn)
        flow = self.flow_of(frame)
        before = self.switch.read_register(ARRIVALS, flow)
        self.occupy(frame)
        self.send(1, [frame] * COUNT)
        self.wait_for_arrivals(flow, before + 1 + COUNT)
        self.switch.shape(2, 0, SIZE, DEPARTURES_A_SECOND)
        self.switch.release(2, 0)

    def runTest(self) -> None:
        self.set_aqm("dequeue_aqm", "red", index=0, ecn_marks=0, nodrop=0)
        self.leave_slowly(ECT_0)
        passed = len(self.drain(2))
        (dropped, _) = self.counted(DEQUEUE_DROPS, 0)
        # Of the backlog; the frame before it, which left an empty queue, passed.
        self.assertEqual(passed + dropped, 1 + COUNT)
        self.assertTrue(COUNT // 2 <= dropped < COUNT, f"{dropped} of {COUNT}: the last ones leave little behind")
        reports = self.reports(passed - 1)
        self.assertEqual(reports[-1].aqm_drops, dropped)
        self.passes(NOT_ECT)

        self.set_aqm("dequeue_aqm", "red", change=True, index=0, ecn_marks=1, nodrop=0)
        self.leave_slowly(ECT_0)
        self.assertEqual(len(self.drain(2)), 1 + COUNT)
        marked = sum(bool(report.flags & expected.FLAG_CE_MARKED) for report in self.reports(COUNT))
        self.assertTrue(COUNT // 2 <= marked < COUNT, f"{marked} of {COUNT}")
        self.passes(ECT_0)
