# SPDX-License-Identifier: Apache-2.0
"""What Tofino's program does for a testbed's hosts: several at a port by VLAN, and base RTTs by recirculation."""

from __future__ import annotations

import frames
from bench import BottleneckTest
from narrows.switch.entries import mac_number
from p4runtime import Entry
from targets.base import Ability

VLAN_MASK = 0x0FFF
PRIORITY_BITS = 0xA000
# Longer than a frame takes without it, even on a model.
DELAY_NS = 400_000_000
HELD = [
    frames.ipv4(identification=1),
    frames.ipv6(),
    frames.ipv4(identification=2, size=1514),
    frames.ipv4_fragment(offset=800, more=True),
    frames.ipv4(identification=3, tags=(101,)),
]


class WaysByVlan(BottleneckTest):
    """Hosts in different VLANs at one port send the same way or another, by their VLAN alone, or as all do."""

    needs = frozenset({Ability.VLAN_HOSTS})

    def runTest(self) -> None:
        for vlan, egress in ((101, 2), (102, 3)):
            self.connect(1, egress, priority=2, is_tagged=(1, 1), vlan=(vlan, VLAN_MASK))
        self.connect(1, 4, priority=1)
        for tags, egress in (((101,), 2), ((102,), 3), ((103,), 4), ((), 4), ((102, 101), 3)):
            self.pass_through([frames.ipv4(tags=tags), frames.ipv6(tags=tags)], 1, egress)
        # The priority of a tag is not part of its VLAN.
        urgent = bytearray(frames.ipv4(tags=(102,)))
        urgent[14:16] = (PRIORITY_BITS | 102).to_bytes(2, "big")
        self.pass_through([bytes(urgent)], 1, 3)
        self.expect_silence()


class RetaggedForItsHost(BottleneckTest):
    """A frame leaves with the VLAN of the host that it is for, as long as before; what has no tag gets none."""

    needs = frozenset({Ability.VLAN_HOSTS})

    def runTest(self) -> None:
        self.connect(1, 2)
        self.connect(3, 4, bottleneck=0)
        self.switch.control.insert(
            Entry("host_vlan", {"is_tagged": 1, "dst_mac": mac_number(frames.DST_MAC)}, "retag", {"vlan": 0xABC})
        )
        other = "02:00:00:00:00:09"
        for ingress, egress in ((1, 2), (3, 4)):
            for make in (frames.ipv4, frames.ipv6):
                sent, wanted = make(tags=(101,)), make(tags=(0xABC,))
                self.send(ingress, [sent])
                self.expect(egress, [wanted])
                self.pass_through([make(), make(tags=(101,), dst_mac=other)], ingress, egress)
            urgent, wanted_urgent = bytearray(frames.ipv4(tags=(101,))), bytearray(frames.ipv4(tags=(0xABC,)))
            for frame, vlan in ((urgent, 101), (wanted_urgent, 0xABC)):
                frame[14:16] = (PRIORITY_BITS | vlan).to_bytes(2, "big")
            self.send(ingress, [bytes(urgent)])
            self.expect(egress, [bytes(wanted_urgent)])
        self.expect_silence()


class HoldingTest(BottleneckTest):
    """A case with frames that go round."""

    needs = frozenset({Ability.BASE_DELAY})

    def hold(self, ingress: int, dst_mac: str, line: int, delay_ns: int) -> None:
        """Let frames from a port for a host go round the loopback."""
        leaves, returns = self.profile.loopback
        for port in {leaves, returns}:
            self.switch.control.insert(Entry("$PORT_METADATA", {"intrinsic.ingress_port": port}, "", {"holds": 1}))
        key = {"ingress_port": ingress, "dst_mac": mac_number(dst_mac)}
        self.switch.control.insert(
            Entry("base_delay", key, "hold", {"line": line, "delay": delay_ns, "loopback": leaves})
        )

    def out_of_line(self, line: int) -> tuple[int, int]:
        """Frames that a line has taken in, and the number of the one that leaves it next."""
        return self.switch.read_register("taken_in", line), self.switch.read_register("next_out", line)


class BaseDelayByRecirculation(HoldingTest):
    """Frames of a pair of hosts leave after their delay, unchanged; all others pass at once."""

    def runTest(self) -> None:
        self.connect(1, 2)
        self.reported(3, 4)
        self.hold(1, frames.DST_MAC, 7, DELAY_NS)
        at_once = frames.ipv4(dst_mac="02:00:00:00:00:09")
        self.pass_through([at_once], 1, 2)
        begun = self.clock()
        self.send(1, HELD[:1])
        self.send(1, [at_once])
        self.expect(2, [at_once, HELD[0]])
        self.assertGreaterEqual(self.clock() - begun, DELAY_NS)
        self.send(1, HELD)
        self.assertEqual(sorted(self.receive(2, len(HELD))), sorted(HELD))
        self.expect_silence()
        self.assertEqual(self.out_of_line(7), (6, 6))

    def clock(self) -> int:
        """The switch's time in ns: a model's goes neither as fast as ours nor evenly."""
        self.pass_through([frames.ipv4()], 3, 4)
        (report,) = self.reports(1)
        return report.timestamp


class HeldFramesKeepTheirOrder(HoldingTest):
    """Frames that are held together leave in the order in which they came."""

    needs = frozenset({Ability.BASE_DELAY, Ability.SHORT_ROUNDS})

    def runTest(self) -> None:
        self.connect(1, 2)
        self.hold(1, frames.DST_MAC, 7, DELAY_NS)
        self.send(1, HELD)
        self.expect(2, HELD)
        self.expect_silence()


class LostInTheLoop(HoldingTest):
    """A frame that is lost on its way round does not keep those behind it for good."""

    def runTest(self) -> None:
        self.connect(1, 2)
        self.hold(1, frames.DST_MAC, 7, 1_000_000)
        # As if frame 0 had been taken in and lost.
        self.switch.write_register("taken_in", 7, 1)
        behind = [frames.ipv4(identification=number) for number in range(1, 4)]
        self.send(1, behind[:1])
        self.expect(2, behind[:1])
        self.send(1, behind[1:])
        self.expect(2, behind[1:])
        self.assertEqual(self.out_of_line(7), (4, 4))
