# SPDX-License-Identifier: Apache-2.0
"""Cross-connect: which port a frame leaves by."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import expected
import frames
from bench import ARRIVAL_COUNTER, DEPARTURE_COUNTER, DEPARTURES, SEQUENCE, BottleneckTest

MAC_MASK = (1 << 48) - 1


def mac(text: str) -> int:
    """A MAC address as a number."""
    return int(text.replace(":", ""), 16)


def prefix(text: str) -> tuple[int, int]:
    """An IP prefix as (value, mask)."""
    network = ip_network(text)
    return int(network.network_address), int(network.netmask)


class WireByPort(BottleneckTest):
    """A wire joins two ports in both directions, and counts nothing."""

    def runTest(self) -> None:
        self.connect(1, 2)
        self.connect(2, 1)
        there, back = frames.ipv4(src_port=1), frames.ipv4(src_port=2)
        self.pass_through([there] * 3, 1, 2)
        self.pass_through([back] * 2, 2, 1)
        self.expect_silence()
        self.assertEqual(self.totals(self.flow_of(there)), (0, 0, 0))
        self.assertEqual(self.switch.read_register(SEQUENCE, 0), 0)


class DiscardUnconnected(BottleneckTest):
    """What comes in at a port without an entry is discarded and belongs to no flow."""

    def runTest(self) -> None:
        self.connect(1, 2)
        frame = frames.ipv4()
        self.send(3, [frame, frames.arp(), frames.ipv6()])
        self.expect_silence()
        self.pass_through([frame], 1, 2)
        self.assertEqual(self.totals(self.flow_of(frame)), (0, 0, 0))


class DiscardByEntry(BottleneckTest):
    """An explicit discard wins over a wire of lower priority."""

    def runTest(self) -> None:
        self.connect(1, 2, priority=1)
        unwanted = frames.ipv4(dst="203.0.113.9")
        entry = self.connect(1, 3, priority=2, is_ipv4=(1, 1), dst_ipv4=prefix("203.0.113.0/24"))
        self.switch.control.modify(type(entry)(entry.table, entry.match, "discard", {}, entry.priority))
        self.send(1, [unwanted])
        self.pass_through([frames.ipv4()], 1, 2)
        self.expect_silence()


class ByDestinationMac(BottleneckTest):
    """Several hosts behind one port are distinguished by MAC address or by a prefix of it."""

    def runTest(self) -> None:
        self.connect(1, 2, dst_mac=(mac("02:00:00:00:00:02"), MAC_MASK))
        self.connect(1, 3, dst_mac=(mac("02:00:00:00:00:03"), MAC_MASK))
        self.connect(1, 4, priority=1, dst_mac=(mac("02:aa:00:00:00:00"), mac("ff:ff:00:00:00:00")))
        for port, address in ((2, "02:00:00:00:00:02"), (3, "02:00:00:00:00:03"), (4, "02:aa:bb:cc:dd:ee")):
            for frame in (frames.ipv4(dst_mac=address), frames.ipv6(dst_mac=address)):
                self.pass_through([frame], 1, port)
        self.send(1, [frames.ipv4(dst_mac="02:00:00:00:00:04")])
        self.expect_silence()


class ByIpv4Prefix(BottleneckTest):
    """Prefixes of the IPv4 destination, longer ones first by priority; others fall through to the port's entry."""

    def runTest(self) -> None:
        self.connect(1, 2, priority=1)
        self.connect(1, 4, priority=24, is_ipv4=(1, 1), dst_ipv4=prefix("10.1.2.0/24"))
        self.connect(1, 3, priority=16, is_ipv4=(1, 1), dst_ipv4=prefix("10.1.0.0/16"))
        self.connect(1, 5, priority=32, is_ipv4=(1, 1), dst_ipv4=prefix("10.1.2.3/32"))
        cases = {"10.1.2.3": 5, "10.1.2.4": 4, "10.1.3.3": 3, "10.2.2.3": 2, "10.1.255.255": 3, "10.1.2.0": 4}
        for address, port in cases.items():
            self.pass_through([frames.ipv4(dst=address)], 1, port)
            self.pass_through([frames.ipv4(dst=address, tags=(5,))], 1, port)
        self.pass_through([frames.arp(), frames.ipv6()], 1, 2)
        self.expect_silence()


class ByIpv6Prefix(BottleneckTest):
    """Prefixes of the IPv6 destination, up to the last bit."""

    def runTest(self) -> None:
        self.connect(1, 2, priority=1)
        self.connect(1, 3, priority=32, is_ipv6=(1, 1), dst_ipv6=prefix("2001:db8::/32"))
        self.connect(1, 4, priority=64, is_ipv6=(1, 1), dst_ipv6=prefix("2001:db8:0:1::/64"))
        self.connect(1, 5, priority=128, is_ipv6=(1, 1), dst_ipv6=prefix("2001:db8:0:1::1/128"))
        cases = {"2001:db8:0:1::1": 5, "2001:db8:0:1::3": 4, "2001:db8:0:2::1": 3, "2001:db9::1": 2}
        for address, port in cases.items():
            self.pass_through([frames.ipv6(dst=address)], 1, port)
        self.pass_through([frames.ipv4()], 1, 2)
        self.expect_silence()


class Ipv4AndIpv6AreApart(BottleneckTest):
    """A prefix of one family never catches the other, nor what is not IP: 0.0.0.0/0 and ::/0 are families."""

    def runTest(self) -> None:
        self.connect(1, 2, priority=2, is_ipv4=(1, 1))
        self.connect(1, 3, priority=2, is_ipv6=(1, 1))
        self.connect(1, 4, priority=1)
        low = str(ip_address(int(ip_address("198.18.0.2"))))
        self.pass_through([frames.ipv4(dst=low)], 1, 2)
        self.pass_through([frames.ipv6(dst=f"::{low}")], 1, 3)
        self.pass_through([frames.arp()], 1, 4)
        self.expect_silence()


class PriorityDecides(BottleneckTest):
    """Of overlapping entries the one with the larger priority wins, whichever came first."""

    def runTest(self) -> None:
        self.connect(1, 2, priority=5)
        self.connect(None, 3, priority=9, dst_mac=(mac(frames.DST_MAC), MAC_MASK))
        self.connect(1, 4, priority=7, is_ipv4=(1, 1))
        self.pass_through([frames.ipv4()], 1, 3)
        self.pass_through([frames.ipv4(dst_mac="02:00:00:00:00:77")], 1, 4)
        self.pass_through([frames.arp()], 1, 2)
        self.expect_silence()


class SharedQueue(BottleneckTest):
    """Two senders at two ports share one bottleneck; each flow is counted for itself."""

    def runTest(self) -> None:
        self.reported(1, 2, 0)
        self.connect(3, 2, bottleneck=0)
        one, other = frames.ipv4(src="198.18.0.1"), frames.ipv4(src="198.18.0.3")
        for port, frame in ((1, one), (3, other), (3, other), (1, one), (3, other)):
            self.pass_through([frame], port, 2)
        self.assertEqual(self.totals(self.flow_of(one)), (2, 2, 0))
        self.assertEqual(self.totals(self.flow_of(other)), (3, 3, 0))
        self.assertEqual([report.sequence for report in self.reports(5)], [1, 2, 3, 4, 5])


class LoopbackFanOut(BottleneckTest):
    """Through a loopback port: the first pass queues for all receivers, the second tells them apart."""

    def runTest(self) -> None:
        leaves, returns = self.profile.loopback
        self.reported(1, leaves, 3)
        self.connect(2, leaves, bottleneck=3)
        self.connect(returns, 4, is_ipv4=(1, 1), dst_ipv4=prefix("10.0.4.0/24"))
        self.connect(returns, 5, is_ipv6=(1, 1), dst_ipv6=prefix("2001:db8:5::/48"))
        self.connect(returns, 6, priority=1)
        for_4, for_5, for_6 = frames.ipv4(dst="10.0.4.1"), frames.ipv6(dst="2001:db8:5::1"), frames.arp()
        for ingress in (1, 2):
            self.pass_through([for_4], ingress, 4)
            self.pass_through([for_5], ingress, 5)
            self.pass_through([for_6], ingress, 6)
        self.expect_passes([for_4, for_5, for_6])

    def expect_passes(self, sent: list[bytes]) -> None:
        """Every frame was queued once and reported once, though it went through the switch twice."""
        reports = self.reports(2 * len(sent))
        self.expect_silence()
        self.assertEqual([report.sequence for report in reports], [1, 2, 3, 4, 5, 6])
        self.assertEqual([report.flow for report in reports], [self.flow_of(frame, 3) for frame in sent] * 2)
        for frame in sent:
            self.assertEqual(self.totals(self.flow_of(frame, 3)), (2, 2, 0))
        self.assertEqual(self.switch.read_register(DEPARTURES, self.flow_of(sent[0], 0)), 0)


class TwoBottlenecksInSeries(BottleneckTest):
    """A loopback path: two bottlenecks one after the other, each with counts, drops and reports of its own."""

    def runTest(self) -> None:
        leaves, returns = self.profile.loopback
        first, second = 3, 11
        self.reported(1, leaves, first)
        self.connect(returns, 2, bottleneck=second)
        self.observe(second)
        self.report_to(expected.Collector(), second)
        # Cross traffic at the second one only.
        self.connect(4, 2, bottleneck=second)
        crossing, cross = frames.ipv4(size=200), frames.ipv6(size=300)
        for _ in range(3):
            self.pass_through([crossing], 1, 2)
            self.pass_through([cross], 4, 2)
        found = self.reports(9)
        self.expect_silence()
        at = {number: [report for report in found if report.bottleneck == number] for number in (first, second)}
        self.assertEqual([report.sequence for report in at[first]], [1, 2, 3])
        self.assertEqual([report.sequence for report in at[second]], [1, 2, 3, 4, 5, 6])
        for number, frame, size in ((first, crossing, 200), (second, crossing, 200), (second, cross, 300)):
            flow = self.flow_of(frame, number)
            mine = [report for report in at[number] if report.flow == flow]
            self.assertEqual([(r.arrivals, r.departures, r.flags) for r in mine], [(n, n, 0) for n in (1, 2, 3)])
            self.assertEqual({report.signature for report in mine}, {self.signature_of(frame, number)})
            # Arrivals less departures are its drops at this bottleneck: none.
            self.assertEqual(self.totals(flow), (3, 3, 0))
            self.assertEqual(self.counted(ARRIVAL_COUNTER, flow), (3, 3 * size))
            self.assertEqual(self.counted(DEPARTURE_COUNTER, flow), (3, 3 * size))
        self.assertNotEqual(self.flow_of(crossing, first), self.flow_of(crossing, second))
        self.assertEqual(self.totals(self.flow_of(cross, first)), (0, 0, 0))

        # What is lost at the first one never comes to the second one, and the other way round.
        lost = self.lose((1 << 32) - 1, first)
        self.send(1, [crossing] * 5)
        self.wait_for_loss(self.flow_of(crossing, first), 5)
        self.switch.control.delete(lost)
        self.assertEqual(self.totals(self.flow_of(crossing, first)), (3, 3, 5))
        self.assertEqual(self.totals(self.flow_of(crossing, second)), (3, 3, 0))
        self.lose((1 << 32) - 1, second)
        self.send(1, [crossing] * 4)
        self.wait_for_loss(self.flow_of(crossing, second), 4)
        self.assertEqual(self.totals(self.flow_of(crossing, first)), (7, 7, 5))
        self.assertEqual(self.totals(self.flow_of(crossing, second)), (3, 3, 4))
        self.assertEqual([(r.bottleneck, r.sequence) for r in self.reports(4)], [(first, n) for n in (4, 5, 6, 7)])
        self.expect_silence()
