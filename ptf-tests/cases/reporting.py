# SPDX-License-Identifier: Apache-2.0
"""Telemetry reports: every field, their encapsulation, their length, and which packets are reported."""

from __future__ import annotations

import itertools
import operator
from dataclasses import replace

import expected
import frames
from bench import PROGRAM_EPOCH, SEQUENCE, SESSION, BottleneckTest
from expected import ENCAPSULATION_BYTES, FLAG_CE_MARKED, Collector, Report
from targets.base import COLLECTOR_PORT, SLOW, Ability

SIZE = 500
ECT_0 = 2


class EveryField(BottleneckTest):
    """Reports of a hand-made sequence: two flows, a queue, marks, losses; each field against its expected value."""

    needs = frozenset({Ability.EXACT_RATE, Ability.PACKET_LIMIT})

    def runTest(self) -> None:
        depth = self.profile.depth
        self.reported(1, 2, 41, queue=3, ecn_threshold=depth(1, SIZE))
        one = frames.ipv4(size=SIZE, ecn=ECT_0)
        other = frames.ipv6(size=SIZE)
        entry = self.lose(0xFFFFFFFF, 41)
        self.send(1, [one, one, other])
        self.wait_for_loss(self.flow_of(one, 41), 2)
        self.wait_for_loss(self.flow_of(other, 41), 1)
        self.switch.control.delete(entry)
        self.switch.limit_packets(2, 3, 3)
        # One on the link; then waiting: one, other, one; then two drops of each flow.
        reports = [self.occupy(one, queue=3)]
        epoch = self.switch.epoch(2, 3, PROGRAM_EPOCH)
        self.send(1, [one, other, one, one, one, other, other])
        self.expect(2, [one, one, other, expected.congestion_marked(one)])
        self.pass_through([other])
        reports += self.reports(4)
        self.expect_silence()
        self.check(
            reports,
            [
                # flags, frame, arrivals, departures, lost, found, left behind
                (0, one, 1, 1, 2, 0, 0),
                (0, one, 2, 2, 2, 0, 2),
                (0, other, 1, 1, 1, 1, 1),
                (FLAG_CE_MARKED, one, 3, 3, 2, 2, 0),
                (0, other, 4, 2, 1, 0, 0),
            ],
            epoch,
        )

    def check(
        self, reports: list[Report], wanted: list[tuple[int, bytes, int, int, int, int, int]], epoch: int
    ) -> None:
        """Compare reports with what is expected of them; times must grow and agree with each other."""
        for number, (report, line) in enumerate(zip(reports, wanted, strict=True)):
            flags, frame, arrivals, departures, lost, found, left = line
            self.assertEqual(
                report,
                Report(
                    version=2,
                    flags=flags | expected.arrival_flags(frame),
                    bottleneck=41,
                    sample_shift=0,
                    flow=self.flow_of(frame, 41),
                    packet_length=SIZE,
                    signature=self.signature_of(frame, 41),
                    sequence=number + 1,
                    arrivals=arrivals,
                    departures=departures,
                    loss_drops=lost,
                    aqm_drops=0,
                    enqueue_depth=self.profile.depth(found, SIZE),
                    dequeue_depth=self.profile.depth_left(left, SIZE),
                    queue_delay=report.queue_delay,
                    epoch=epoch,
                    timestamp=report.timestamp,
                    queue=0,
                    original=(expected.congestion_marked(frame) if flags else frame)[:86],
                ),
            )
        second = round(1 / self.profile.time_unit_s)
        service, tolerance = second // SLOW, self.profile.clock_tolerance
        for earlier, later in itertools.pairwise(reports[:4]):
            self.assertAlmostEqual(later.timestamp - earlier.timestamp, service, delta=tolerance)
        self.assertLess(reports[0].queue_delay, service // 4)
        for waited, report in enumerate(reports[1:4], 1):
            self.assertLessEqual(report.queue_delay, waited * service + tolerance)
            self.assertGreater(report.queue_delay, waited * service - service // 2 - tolerance)


class CollectorOfEachBottleneck(BottleneckTest):
    """Every address and port of the encapsulation is the bottleneck's own."""

    def runTest(self) -> None:
        plain = Collector()
        odd = Collector("0a:0b:0c:0d:0e:0f", "fa:fb:fc:fd:fe:ff", "203.0.113.255", "255.254.253.252", 65535, 1, 200)
        self.reported(1, 2, 0, collector=plain)
        self.connect(3, 4, bottleneck=1)
        self.observe(1)
        self.report_to(odd, 1)
        frame = frames.ipv4(size=300)
        self.pass_through([frame], 1, 2)
        self.assertEqual(self.reports(1, plain)[0].original, frame[: 184 - ENCAPSULATION_BYTES])
        self.pass_through([frame], 3, 4)
        self.assertEqual(self.reports(1, odd)[0].original, frame[: 200 - ENCAPSULATION_BYTES])


class EveryReportLength(BottleneckTest):
    """Reports are cut at every length that can be set, and are whole when the limit is beyond them."""

    def runTest(self) -> None:
        collector = Collector()
        self.reported(collector=collector)
        frame = frames.ipv4(size=200)
        for limit in [*range(self.profile.shortest_report, ENCAPSULATION_BYTES + 204), 1500, 9000, 65535]:
            collector = replace(collector, report_length=limit)
            self.report_to(collector, change=True)
            self.pass_through([frame])
            (report,) = self.reports(1, collector)
            self.assertEqual(report.original, frame[: limit - ENCAPSULATION_BYTES], f"report_length {limit}")
            self.assertEqual(report.packet_length, 200)
        self.expect_silence()


class ShortAndLongPackets(BottleneckTest):
    """A packet shorter than the report's limit is reported whole; the original is never cut."""

    def runTest(self) -> None:
        self.reported()
        sent = [frames.ipv4(size=size) for size in (60, 64, 65, 85, 86, 87, 1500, 9216)] + [frames.ipv4()[:14]]
        for frame in self.carried(sent):
            self.pass_through([frame])
            (report,) = self.reports(1)
            self.assertEqual(report.packet_length, len(frame))
            self.assertEqual(report.original, frame[:86])


class WholeJumboInAReport(BottleneckTest):
    """A report may hold a whole 9000 B packet."""

    def runTest(self) -> None:
        collector = Collector(report_length=9200)
        self.reported(collector=collector)
        frame = frames.ipv4(size=9000)
        self.pass_through([frame])
        self.assertEqual(self.reports(1, collector)[0].original, frame)


def row(report: Report) -> int:
    """Which row of 2^k departures of its bottleneck a report is of."""
    return ((report.sequence - 1) & 0xFFFFFFFF) >> report.sample_shift


class Sampling(BottleneckTest):
    """One report of each 2^k departures, by the bottleneck's own count, now of this one and now of that one, or of the
    last where the program does not draw; the state is kept for all packets."""

    def runTest(self) -> None:
        self.reported()
        frame = frames.ipv4()
        for shift in (0, 1, 2, 3, 5):
            self.switch.write_register(SEQUENCE, 0, 0)
            self.observe(sample_shift=shift, change=True)
            self.pass_through([frame] * 64)
            reports = self.reports(64 >> shift)
            self.expect_silence()
            self.assertEqual([row(report) for report in reports], list(range(64 >> shift)))
            self.assertEqual({r.sample_shift for r in reports}, {shift})
            places = {(report.sequence - 1) % (1 << shift) for report in reports}
            if Ability.SEEDED_SAMPLING in self.profile.lacks:
                self.assertEqual(places, {(1 << shift) - 1}, f"shift {shift}: the last of each row")
            else:
                # All of 8 or more rows at one place: by chance once in 10^6 and less.
                self.assertTrue(shift in (0, 5) or len(places) > 1, f"shift {shift}: always the same place")
        self.assertEqual(self.totals(self.flow_of(frame)), (320, 320, 0))


class SamplingIsRandom(BottleneckTest):
    """Every place in a row is as likely, whatever came in the rows before, and another seed chooses others."""

    needs = frozenset({Ability.SEEDED_SAMPLING})
    ROWS = 512

    def places(self, seed: int) -> list[int]:
        """Which one of each four departures is reported."""
        self.switch.write_register(SEQUENCE, 0, 0)
        self.observe(sample_shift=2, seed=seed, change=True)
        found: list[int] = []
        for _ in range(16):
            self.pass_through([frames.ipv4()] * (4 * self.ROWS // 16))
            found += [(report.sequence - 1) % 4 for report in self.reports(self.ROWS // 16)]
        return found

    def runTest(self) -> None:
        self.reported()
        chosen, again, other = self.places(1), self.places(1), self.places(2)
        self.assertEqual(chosen, again)
        # Binomial with a quarter of 512: 128 and a deviation of 9.8; five of them are exceeded once in a million.
        for name, equal in (
            ("the other seed's", sum(map(operator.eq, chosen, other))),
            ("those before", sum(map(operator.eq, chosen, chosen[1:]))),
            ("those two before", sum(map(operator.eq, chosen, chosen[2:]))),
            *((f"place {place}", chosen.count(place)) for place in range(4)),
        ):
            self.assertTrue(79 <= equal <= 177, f"{name}: {equal}")


class SequenceIsTheBottlenecks(BottleneckTest):
    """Flows of one bottleneck share a sequence; another bottleneck has its own."""

    def runTest(self) -> None:
        self.reported(1, 2, 0)
        self.connect(3, 4, bottleneck=1)
        self.observe(1)
        self.report_to(Collector(), 1)
        for number in range(4):
            self.pass_through([frames.ipv4(src_port=number + 1)], 1, 2)
            self.pass_through([frames.ipv4(src_port=number + 1)] * 2, 3, 4)
        reports = self.reports(12)
        self.assertEqual([r.sequence for r in reports if r.bottleneck == 0], [1, 2, 3, 4])
        self.assertEqual([r.sequence for r in reports if r.bottleneck == 1], list(range(1, 9)))


class NoCollector(BottleneckTest):
    """A bottleneck that mirrors without a collector's address sends nothing to the collector's port."""

    def runTest(self) -> None:
        self.connect(1, 2, bottleneck=0)
        self.observe()
        self.switch.control.add_mirror(SESSION, COLLECTOR_PORT)
        frame = frames.ipv4()
        self.pass_through([frame] * 3)
        self.expect_silence()
        self.report_to(Collector())
        self.pass_through([frame])
        self.assertEqual(self.reports(1)[0].sequence, 4)


class NoReports(BottleneckTest):
    """Without settings, with mirror session 0, or with one that does not exist, nothing is reported; all is counted."""

    def runTest(self) -> None:
        frame = frames.ipv4()
        self.connect(1, 2, bottleneck=0)
        self.report_to(Collector())
        self.switch.control.add_mirror(SESSION, COLLECTOR_PORT)
        self.pass_through([frame])
        self.observe(mirror=0)
        self.pass_through([frame])
        self.observe(mirror=SESSION + 1, change=True)
        self.pass_through([frame])
        self.expect_silence()
        self.assertEqual(self.totals(self.flow_of(frame)), (3, 3, 0))
