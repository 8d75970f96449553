# SPDX-License-Identifier: Apache-2.0
"""Base RTTs that the switch makes by itself (`delay.at: switch`, p4src/tofino/base_delay.p4).

What a receiver sends back to a sender goes round a port in loopback until its time has come, so that it leaves up to
one round late. The more frames go round, the longer a round is: all of them pass the port in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from narrows.errors import InputError
from narrows.experiment.plan import Plan
from narrows.switch.entries import ProgramEntry, mac_number
from narrows_formats.units import format_time

from narrows_tofino.chip.depth import HEADROOM_CELLS
from narrows_tofino.testbed.inventory import Inventory

# LINE_COUNT of p4src/tofino/base_delay.p4.
LINES = 256
# Of a time to leave, whose half is past: release of held_t.
LONGEST_NS = (1 << 31) - 1
# An acknowledgement over IPv6 with timestamps, and what goes round with it: held_t, FCS; on the wire preamble and gap.
ACK_BYTES = 14 + 40 + 32
HELD_BYTES = 11 + 4
GAP_BYTES = 20
# From the port in loopback through both pipelines to it again, without a queue: less than two microseconds.
THROUGH_NS = 2_000
# A round is no more than that part of the shortest delay. Nor may it come near 2^20 ns, after which the program lets a
# frame pass those in front of it.
MOST_LATE = 0.01
LONGEST_ROUND_NS = 1 << 19


@dataclass(frozen=True)
class Held:
    """What goes from one receiver to one sender: the line that holds it, in the program's words, and for how long."""

    line: int
    ingress_port: int
    dst_mac: str
    delay_ns: int


@dataclass(frozen=True)
class BaseDelay:
    """What goes round ``port``: frames of all lines together, and the longest round that they make."""

    port: int
    held: tuple[Held, ...]
    frames: int
    cells: int
    round_ns: int

    @property
    def note(self) -> str:
        """For the user of a run."""
        return (
            f"base RTTs: made by recirculation: a frame is up to {format_time(self.round_ns)} late, with {self.frames} "
            "acknowledgements under way"
        )


def base_delay(plan: Plan, inventory: Inventory) -> BaseDelay | None:
    """What a bound plan's base RTTs need of the switch; None where it makes none.

    Raises:
        InputError: a delay that it cannot make; the message says what is allowed.
    """
    port = inventory.base_delay_port
    held = () if port is None else tuple(_held(plan))
    if port is None or not held:
        return None
    longest = max(one.delay_ns for one in held)
    if longest > LONGEST_NS:
        raise InputError(
            f"hosts: an rtt of {format_time(longest)} is longer than the switch can hold a frame; allowed: up to "
            f"{format_time(LONGEST_NS)}, or delay.at: receiver or line in the inventory"
        )
    if len(held) > LINES:
        raise InputError(
            f"hosts: {len(held)} pairs of a receiver and a sender with an rtt; allowed: up to {LINES}, or delay.at: "
            "receiver in the inventory"
        )
    # As many acknowledgements as full-size packets.
    packets_s = sum(link.rate_bps for link in plan.links) / (8 * plan.frame_bytes)
    frames = round(packets_s * longest / 1e9) + 1
    round_ns = THROUGH_NS + round(frames * (ACK_BYTES + HELD_BYTES + GAP_BYTES) * 8e9 / port.speed_bps)
    shortest = min(one.delay_ns for one in held)
    if round_ns > min(MOST_LATE * shortest, LONGEST_ROUND_NS):
        raise InputError(
            f"hosts: frames that go round port {port.name} would be up to {format_time(round_ns)} late, with {frames} "
            f"acknowledgements under way; allowed: up to {MOST_LATE:.0%} of the shortest rtt and "
            f"{format_time(LONGEST_ROUND_NS)}: a lower rate, a faster port, or delay.at: receiver or line in the "
            "inventory"
        )
    cells_each = -(-(ACK_BYTES + HELD_BYTES) // inventory.switch.generation.cell_bytes)
    return BaseDelay(port.dev_port, held, frames, frames * cells_each + HEADROOM_CELLS, round_ns)


def looped_ports(inventory: Inventory, plan: Plan) -> list[int]:
    """Ports in loopback: of links, then the one that makes base RTTs."""
    delay = base_delay(plan, inventory)
    return [*plan.loopbacks, *(() if delay is None else (delay.port,))]


def base_delay_entries(delay: BaseDelay) -> Iterator[ProgramEntry]:
    """The program's entries: which port is in loopback, and a line for each pair."""
    key = {"intrinsic.ingress_port": delay.port}
    yield ProgramEntry("$PORT_METADATA", key, "", {"reserved": 0, "holds": 1}, "frames come back from there")
    for one in delay.held:
        yield ProgramEntry(
            "base_delay",
            {"ingress_port": one.ingress_port, "dst_mac": mac_number(one.dst_mac)},
            "hold",
            {"line": one.line, "delay": one.delay_ns, "loopback": delay.port},
            f"{one.dst_mac} from port {one.ingress_port}: its base RTT",
            {"delay": "ns"},
        )


def _held(plan: Plan) -> Iterator[Held]:
    delays = {port.host: port.delay_ns for port in plan.ports}
    of_mac = {host.mac: delays[host.name] for host in plan.end_hosts}
    line = 0
    for path in plan.paths:
        delay_ns = of_mac[path.dst_mac]
        if not delay_ns:
            continue
        if path.link is not None:
            raise InputError(
                f"links: packets for {path.dst_mac} cross a link and have an rtt; allowed with delay.at: switch in the "
                "inventory: an rtt of hosts that no link leads to, or delay.at: receiver"
            )
        yield Held(line, path.ingress_port, path.dst_mac, delay_ns)
        line += 1
