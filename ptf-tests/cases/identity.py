# SPDX-License-Identifier: Apache-2.0
"""Flow identity: which frames are one flow, what happens when two share an index, and what is learned of new ones."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

import expected
import frames
from bench import SESSION, SIGNATURES, BottleneckTest
from expected import FLAG_COLLISION, FLAG_ECN_SHIFT, FLAG_NOT_IP, Report
from scapy.layers.inet import ICMP, TCP, UDP
from scapy.layers.inet6 import IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.packet import Raw
from targets.base import COLLECTOR_PORT


class IdentityTest(BottleneckTest):
    """Sends frames one by one and compares every report's flow with the reference."""

    def check_identity(self, sent: Iterable[bytes], bottleneck: int = 0) -> list[Report]:
        """Each frame is reported with the index and signature that its 5-tuple has."""
        found = []
        for frame in sent:
            self.pass_through([frame])
            (report,) = self.reports(1)
            self.assertEqual(report.flow, self.flow_of(frame, bottleneck), frame.hex())
            self.assertEqual(report.signature, self.signature_of(frame, bottleneck), frame.hex())
            self.assertEqual(report.bottleneck, bottleneck)
            found.append(report)
        return found


class Ipv4FiveTuple(IdentityTest):
    """Every part of the IPv4 5-tuple counts, nothing else does."""

    def runTest(self) -> None:
        self.reported()
        same = [frames.ipv4(), frames.ipv4(size=1500, ecn=1, identification=9), frames.ipv4(tags=(7,))]
        same += [frames.ipv4(tags=(100, 7)), frames.ipv4(dst_mac="02:00:00:00:00:44")]
        different = [
            frames.ipv4(src="198.18.0.9"),
            frames.ipv4(dst="198.18.0.9"),
            frames.ipv4(src_port=10001),
            frames.ipv4(dst_port=5202),
            frames.ipv4(transport=UDP(sport=10000, dport=5201)),
            frames.ipv4(src="198.18.0.2", dst="198.18.0.1", src_port=5201, dst_port=10000),
        ]
        reports = self.check_identity([*same, *different])
        self.assertEqual(len({(report.flow, report.signature) for report in reports}), 1 + len(different))
        self.assertEqual([report.arrivals for report in reports[: len(same)]], [1, 2, 3, 4, 5])
        # All have an identity of their own, and the second came as ECT(1).
        self.assertEqual([report.flags for report in reports], [0, 1 << FLAG_ECN_SHIFT] + [0] * (len(reports) - 2))


class Ipv6FiveTuple(IdentityTest):
    """Every part of the IPv6 5-tuple counts, to the last bit of the addresses; the flow label does not."""

    def runTest(self) -> None:
        self.reported()
        relabelled = bytearray(frames.ipv6())
        relabelled[17] ^= 0xFF
        same = [frames.ipv6(), bytes(relabelled), frames.ipv6(tags=(7,)), frames.ipv6(ecn=2, size=1500)]
        different = [
            frames.ipv6(src="2001:2::3"),
            frames.ipv6(src="a001:2::1"),
            frames.ipv6(dst="2001:2::3"),
            frames.ipv6(dst="2001:3::2"),
            frames.ipv6(src_port=10001),
            frames.ipv6(dst_port=5202),
            frames.ipv6(transport=UDP(sport=10000, dport=5201)),
        ]
        reports = self.check_identity([*same, *different])
        self.assertEqual(len({(report.flow, report.signature) for report in reports}), 1 + len(different))
        self.assertEqual([report.arrivals for report in reports[: len(same)]], [1, 2, 3, 4])


class TransportsWithPorts(IdentityTest):
    """Ports of TCP, UDP, DCCP, SCTP and UDP-Lite tell flows apart; the first four bytes of others do not."""

    def runTest(self) -> None:
        self.reported()
        ports = Raw(bytes.fromhex("00070008"))
        with_ports = [
            build(transport=ports, protocol=protocol)
            for build in (frames.ipv4, frames.ipv6)
            for protocol in (6, 17, 33, 132, 136)
        ]
        self.check_identity(with_ports)
        for frame in with_ports:
            identity = expected.identify(frame)
            self.assertEqual((identity.src_port, identity.dst_port), (7, 8))
        pings = [frames.ipv4(transport=ICMP(id=number, seq=number)) for number in (1, 2)]
        reports = self.check_identity(pings)
        self.assertEqual(reports[0].flow, reports[1].flow)
        self.assertEqual(reports[1].arrivals, 2)


class FragmentsAreOneFlow(IdentityTest):
    """First, middle and last fragment of a datagram share a flow, though only the first has ports."""

    def runTest(self) -> None:
        self.reported()
        udp = UDP(sport=7, dport=8)
        parts = [
            frames.ipv4_fragment(0, True, transport=udp),
            frames.ipv4_fragment(1480, True),
            frames.ipv4_fragment(2960, False),
        ]
        reports = self.check_identity(parts)
        self.assertEqual(len({report.flow for report in reports}), 1)
        self.assertEqual([report.arrivals for report in reports], [1, 2, 3])
        parts6 = [
            frames.ipv6(transport=IPv6ExtHdrFragment(offset=0, m=1, id=9, nh=17) / udp, size=120),
            frames.ipv6(transport=IPv6ExtHdrFragment(offset=185, m=0, id=9, nh=17) / Raw(bytes(8)), size=120),
        ]
        reports = self.check_identity(parts6)
        self.assertEqual(len({report.flow for report in reports}), 1)


class HeadersBetweenIpAndTransport(IdentityTest):
    """Behind IPv4 options or IPv6 extension headers nothing is taken for ports."""

    def runTest(self) -> None:
        self.reported()
        options = bytes.fromhex("9404000001010101")
        reports = self.check_identity([frames.ipv4(options=options, src_port=port) for port in (1, 2)])
        self.assertEqual(reports[1].arrivals, 2)
        extended = [frames.ipv6(transport=IPv6ExtHdrHopByHop() / TCP(sport=port), size=120) for port in (1, 2)]
        reports = self.check_identity(extended)
        self.assertEqual(reports[1].arrivals, 2)


class NotIpIsOneFlow(IdentityTest):
    """All that is not IP, or too short to be, is one flow of its bottleneck, and flagged."""

    def runTest(self) -> None:
        self.reported()
        cut = self.carried([frames.ipv4()[:33], frames.ipv6()[:53]])
        catalogue = frames.catalogue()
        sent = [catalogue["ARP"], catalogue["LLDP"], catalogue["MPLS"], catalogue["three tags"], *cut]
        reports = self.check_identity(sent)
        self.assertEqual([report.flags for report in reports], [FLAG_NOT_IP] * len(sent))
        self.assertEqual([report.arrivals for report in reports], list(range(1, 1 + len(sent))))
        self.assertEqual(self.check_identity([frames.ipv4()])[0].flags, 0)


class BrokenFramesHaveAnIdentity(IdentityTest):
    """Truncated and malformed frames belong to the flow that can still be read off them."""

    def runTest(self) -> None:
        self.reported()
        self.check_identity(self.carried(frames.broken().values()))


class BottleneckIsPartOfIdentity(IdentityTest):
    """The same 5-tuple has a flow of its own in every bottleneck."""

    def runTest(self) -> None:
        frame = frames.ipv4()
        self.reported()
        (in_0,) = self.check_identity([frame])
        for bottleneck, port in ((1, 3), (63, 4)):
            self.connect(port, 2, bottleneck=bottleneck)
            self.observe(bottleneck)
            self.report_to(expected.Collector(), bottleneck)
            self.pass_through([frame], port)
            (report,) = self.reports(1)
            self.assertEqual(report.flow, self.flow_of(frame, bottleneck))
            self.assertNotEqual(report.flow, in_0.flow)
            self.assertEqual((report.bottleneck, report.arrivals, report.flags), (bottleneck, 1, 0))


class CollisionIsFlagged(IdentityTest):
    """Two flows with one index: the second is flagged in every report, and the index stays the first one's."""

    def runTest(self) -> None:
        self.reported()
        owner, other = frames.ipv4(), frames.ipv4(src="198.18.0.77")
        intruder = frames.ipv4(src="198.18.0.77", src_port=self.colliding_port(0, owner, other))
        self.assertEqual(self.flow_of(owner), self.flow_of(intruder))
        self.assertNotEqual(self.signature_of(owner), self.signature_of(intruder))
        reports = self.check_identity([owner, intruder, owner, intruder])
        self.assertEqual([report.flags for report in reports], [0, FLAG_COLLISION, 0, FLAG_COLLISION])
        self.assertEqual([report.arrivals for report in reports], [1, 2, 3, 4])
        self.assertEqual(self.switch.read_register(SIGNATURES, self.flow_of(owner)), self.signature_of(owner))


class PipesHaveNoIndexInCommon(IdentityTest):
    """Senders of several pipes: flows that hash alike are counted apart, each in the quarter of its pipe."""

    def runTest(self) -> None:
        owner, other = frames.ipv4(), frames.ipv4(src="198.18.0.77")
        intruder = frames.ipv4(src="198.18.0.77", src_port=self.colliding_port(0, owner, other))
        self.switch.control.enable_digest("new_flow_t")
        self.observe()
        self.report_to(expected.Collector())
        self.switch.control.add_mirror(SESSION, COLLECTOR_PORT)
        shares = {1: 4, 3: 5, 4: 6, 5: 7}
        for port, share in shares.items():
            self.connect(port, 2, bottleneck=0, share=share)
        taken = []
        for number, (port, share) in enumerate(shares.items()):
            index = expected.index_in_share(self.profile.hashes, self.flow_of(owner), share)
            frame = (owner, intruder)[number % 2]
            for arrivals in (1, 2):
                self.pass_through([frame], port)
                (report,) = self.reports(1)
                self.assertEqual((report.flow, report.flags), (index, 0))
                self.assertEqual((report.arrivals, report.departures), (arrivals, arrivals))
                self.assertEqual(report.signature, self.signature_of(frame))
            taken.append(index)
            # Within a share a collision is one as ever.
            self.pass_through([(intruder, owner)[number % 2]], port)
            (report,) = self.reports(1)
            self.assertEqual((report.flow, report.flags, report.arrivals), (index, FLAG_COLLISION, 3))
        self.assertEqual(len(set(taken)), len(shares))
        learned = self.switch.control.digests(len(shares), 1.0)
        self.assertEqual(sorted(fields[1] for fields in learned), sorted(taken))


class NewFlowsAreLearned(BottleneckTest):
    """One digest for each new flow, with its 5-tuple; none for known flows, collisions, and passthrough ports."""

    def runTest(self) -> None:
        self.switch.control.enable_digest("new_flow_t")
        self.reported(1, 2, 5)
        self.connect(3, 4)
        first, other = frames.ipv4(), frames.ipv4(src="198.18.0.77")
        intruder = frames.ipv4(src="198.18.0.77", src_port=self.colliding_port(5, first, other))
        others = [frames.ipv6(transport=UDP(sport=53, dport=99)), frames.ipv4(transport=ICMP()), frames.arp()]
        self.pass_through([frames.ipv4(src="10.9.9.9")], 3, 4)
        for frame in (first, first, intruder, *others, *others):
            self.pass_through([frame])
        learned = self.switch.control.digests(5, 1.0)
        wanted = []
        for frame in (first, *others):
            who = expected.identify(frame)
            is_ipv6 = int(who.ip_version == 6)
            key = [who.src, who.dst, who.protocol, who.src_port, who.dst_port]
            wanted.append([5, self.flow_of(frame, 5), self.signature_of(frame, 5), is_ipv6, *key])
        self.assertEqual(sorted(learned), sorted(wanted))
        self.assertEqual(wanted[1][4], int(ip_address("2001:2::1")))
