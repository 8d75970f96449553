# SPDX-License-Identifier: Apache-2.0
"""ECN: who is marked, from which depth on, and with what checksum."""

from __future__ import annotations

import expected
import frames
from bench import BottleneckTest
from expected import FLAG_CE_MARKED
from targets.base import Ability

SIZE = 500
ECT_1, ECT_0, CE = range(1, 4)


def with_checksum(wanted: int, ecn: int) -> bytes:
    """An IPv4 frame whose correct header checksum is ``wanted``: it falls as the identification grows."""
    checksum = expected.ipv4_checksum(expected.ipv4_header(frames.ipv4(identification=0, size=60, ecn=ecn)))
    frame = frames.ipv4(identification=(checksum - wanted) % 0xFFFF, size=60, ecn=ecn)
    if int.from_bytes(frame[24:26], "big") != wanted:
        raise ValueError(f"no identification gives the checksum {wanted:#06x}")
    return frame


class EcnTest(BottleneckTest):
    """Sends frames through a bottleneck that marks at any depth."""

    def check_marks(self, sent: list[bytes]) -> None:
        """What leaves is what RFC 3168 asks for, and the reports say which frames were changed."""
        marked = [expected.congestion_marked(frame) for frame in sent]
        for frame, wanted in zip(sent, marked, strict=True):
            self.send(1, [frame])
            self.expect(2, [wanted])
            (report,) = self.reports(1)
            flags = int(frame != wanted) * FLAG_CE_MARKED | expected.arrival_flags(frame)
            self.assertEqual(report.flags, flags, frame.hex())
            self.assertEqual(report.original, wanted[:86], "the report shows the frame as it left")


class ThresholdIsExact(BottleneckTest):
    """The packet that finds the threshold's depth is marked, the one before is not; one more unit marks one later."""

    needs = frozenset({Ability.HOLD})

    def runTest(self) -> None:
        frame = frames.ipv4(size=SIZE, ecn=ECT_0)
        two_waiting = self.profile.depth(2, SIZE)
        self.reported(ecn_threshold=two_waiting)
        trials = ((two_waiting, [0, 0, 0, 1, 1]), (two_waiting + 1, [0, 0, 0, 0, 1]))
        for number, (threshold, marks) in enumerate(trials, 1):
            self.observe(ecn_threshold=threshold, change=True)
            reports = [self.occupy(frame)]
            self.send(1, [frame] * 4)
            self.wait_for_arrivals(self.flow_of(frame), 5 * number)
            self.switch.release(2, 0)
            left = self.receive(2, 5)
            reports += self.reports(4)
            wanted = [expected.congestion_marked(frame) if marked else frame for marked in marks]
            self.assertEqual([f.hex() for f in left], [f.hex() for f in wanted], f"threshold {threshold}")
            self.assertEqual([report.flags & FLAG_CE_MARKED for report in reports], marks)


class ThresholdInPackets(BottleneckTest):
    """A threshold in packets is one of packets, whatever their size."""

    needs = frozenset({Ability.HOLD, Ability.PACKET_DEPTH})

    def runTest(self) -> None:
        sizes = (SIZE, SIZE // 4, SIZE, SIZE // 3, SIZE // 2)
        sent = [frames.ipv4(size=size, ecn=ECT_0) for size in sizes]
        self.reported(ecn_threshold=2, counts_packets=True)
        reports = [self.occupy(sent[0])]
        self.send(1, sent[1:])
        self.wait_for_arrivals(self.flow_of(sent[0]), 5)
        self.switch.release(2, 0)
        self.receive(2, 5)
        reports += self.reports(4)
        # The first is on the link: the fourth finds two that wait.
        self.assertEqual([report.flags & FLAG_CE_MARKED for report in reports], [0, 0, 0, 1, 1])


class Ipv4Codepoints(EcnTest):
    """Only ECT(0) and ECT(1) become CE; Not-ECT and CE stay as they are."""

    def runTest(self) -> None:
        self.reported(ecn_threshold=0)
        self.check_marks([frames.ipv4(ecn=ecn, tags=tags) for ecn in range(4) for tags in ((), (7,), (100, 7))])


class Ipv6Codepoints(EcnTest):
    """The same for IPv6, which has no checksum to keep."""

    def runTest(self) -> None:
        self.reported(ecn_threshold=0)
        self.check_marks([frames.ipv6(ecn=ecn, tags=tags) for ecn in range(4) for tags in ((), (7,), (100, 7))])


class ChecksumEndAround(EcnTest):
    """The checksum is right where one's-complement arithmetic wraps: around 0x0000, 0x0001, 0x00ff and 0xfffe."""

    def runTest(self) -> None:
        self.reported(ecn_threshold=0)
        for ecn in (ECT_0, ECT_1):
            checksums = (0, 1, 2, 3, 0x00FF, 0x0100, 0x0101, 0x7FFF, 0x8000, 0xFFFD, 0xFFFE)
            sent = [with_checksum(checksum, ecn=ecn) for checksum in checksums]
            for frame in sent:
                self.assertEqual(expected.ones_complement_sum(expected.ipv4_header(frame)), 0xFFFF)
                marked = expected.congestion_marked(frame)
                self.assertEqual(expected.ones_complement_sum(expected.ipv4_header(marked)), 0xFFFF)
            self.check_marks(sent)


class OptionsAndFragments(EcnTest):
    """IPv4 headers with options, fragments, and ICMP are marked as well, with the checksum over the whole header."""

    def runTest(self) -> None:
        self.reported(ecn_threshold=0)
        options = (bytes.fromhex("94040000"), b"\x01" * 40, bytes.fromhex("8307040a00000100"))
        sent = [frames.ipv4(ecn=ecn, options=option, size=140) for ecn in range(4) for option in options]
        for offset, more in ((0, True), (1480, False)):
            fragment = bytearray(frames.ipv4_fragment(offset, more))
            fragment[15] |= ECT_0
            header = bytes(fragment[14:34])
            fragment[24:26] = expected.ipv4_checksum(header).to_bytes(2, "big")
            sent.append(bytes(fragment))
        self.check_marks(sent)


class WrongChecksumStaysWrong(BottleneckTest):
    """Marking updates the checksum by the difference: a header that was damaged before is still seen to be."""

    def runTest(self) -> None:
        self.reported(ecn_threshold=0)
        damaged = bytearray(frames.ipv4(ecn=ECT_0))
        damaged[22] ^= 0x10
        self.send(1, [bytes(damaged)])
        (left,) = self.receive(2, 1)
        self.assertEqual(left[15] & 3, CE)
        before = expected.ones_complement_sum(expected.ipv4_header(bytes(damaged)))
        self.assertEqual(expected.ones_complement_sum(expected.ipv4_header(left)), before)
        self.assertNotEqual(before, 0xFFFF)


class NotIpIsNotMarked(EcnTest):
    """Nothing but IP is touched, however deep the queue."""

    def runTest(self) -> None:
        self.reported(ecn_threshold=0)
        catalogue = frames.catalogue()
        names = ("ARP", "LLDP", "MPLS", "three tags", "802.3 length field", "VLAN ARP")
        self.check_marks([catalogue[name] for name in names])


class OffMarksNothing(BottleneckTest):
    """Without a threshold, and on passthrough ports, no packet is marked, not even in a queue."""

    def runTest(self) -> None:
        frame = frames.ipv4(size=SIZE, ecn=ECT_0)
        self.reported()
        self.connect(3, 4)
        self.pass_through([frame], 3, 4)
        self.switch.shape(2, 0, SIZE, 20)
        self.send(1, [frame] * 4)
        self.expect(2, [frame] * 4)
        self.assertEqual([report.flags & FLAG_CE_MARKED for report in self.reports(4)], [0] * 4)
