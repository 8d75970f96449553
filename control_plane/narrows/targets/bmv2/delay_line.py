# SPDX-License-Identifier: Apache-2.0
"""The delay that BMv2 does not have: a softswitch as a cable between BMv2's ports and the senders.

    sender eth0 -- portN [softswitch: portN <-> lineN] lineN -- bmvN [BMv2, port N]

Frames to a sender wait there for its base RTT. Frames from a sender pass at once, and only those for the receiver pass:
what a host's kernel says of its own accord never reaches BMv2, so that its interfaces count the experiment alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from narrows.experiment.plan import COLLECTOR_PORT, Plan
from narrows.hosts.base import SwitchAttachment, Testbed
from narrows.hosts.links import End, add_cable, links
from narrows.switch.entries import passthrough_entries
from narrows.switch.p4runtime_entries import table_entries
from narrows.targets.soft.softswitch import Softswitch, missing_parts
from narrows.targets.soft.virtual_time import VirtualTimeSettings

# Port N towards a sender, port N + OFFSET towards BMv2; v1model's port numbers end at 510.
OFFSET = 250
MAX_PORTS = OFFSET - COLLECTOR_PORT


class Bmv2DelayLine:
    """One process for all senders, in the switch's namespace."""

    def __init__(self, seed: int, virtual_time: VirtualTimeSettings | None = None) -> None:
        """Take the seed of what senders take for a frame, and how it runs if in virtual time."""
        self._seed = seed
        self._switch = Softswitch("delay line", virtual_time)

    @staticmethod
    def missing() -> list[str]:
        """What this machine lacks to run it."""
        return missing_parts()

    async def start(
        self,
        testbed: Testbed,
        attachments: Sequence[SwitchAttachment],
        others: Mapping[int, str] = MappingProxyType({}),
        pipes: Mapping[int, str] = MappingProxyType({}),
    ) -> dict[int, str]:
        """Put it in front of ports; returns the interface that each of them now has for BMv2.

        Args:
            testbed: whose switch namespace it runs in.
            attachments: the ports.
            others: interfaces of ports of its own, which BMv2 has nothing of.
            pipes: named pipes that it writes what leaves by some ports into.

        Raises:
            RunError: a link cannot be made, or the softswitch does not come up.
        """
        interfaces = dict(others)
        ends: dict[int, str] = {}
        for attachment in attachments:
            line, end = f"line{attachment.port}", f"bmv{attachment.port}"
            # libpcap, by which BMv2 takes frames in, has room for fewer of them the longer they may be.
            mtu = links(attachment.namespace)[attachment.interface].mtu
            add_cable(End(attachment.namespace, line), End(attachment.namespace, end), mtu)
            interfaces |= {attachment.port: attachment.interface, attachment.port + OFFSET: line}
            ends[attachment.port] = end
        await self._switch.start(testbed, interfaces, self._seed, pipes=pipes)
        return ends

    async def configure(self, plan: Plan) -> None:
        """Set each sender's delay and connect it.

        Raises:
            RunError: the softswitch refuses something, or a delay reads back differently.
        """
        session = self._switch.session
        await session.push_pipeline()
        senders = {sender.port for sender in plan.senders}
        for port in plan.ports:
            if port.number in senders:
                await self._switch.set_delay(port.number, port.delay_ns)
        cables = [(port, plan.receivers[0].mac, port + OFFSET) for port in sorted(senders)]
        back = [(port + OFFSET, None, port) for port in sorted(senders)]
        await session.insert(table_entries(passthrough_entries([*cables, *back]), session.schema))

    def check(self) -> None:
        """Notice early that it has died.

        Raises:
            RunError: it is not running.
        """
        self._switch.check()

    async def losses(self) -> list[str]:
        """Packets that it lost, one line for each place."""
        return [f"delay line: {line}" for line in await self._switch.losses()]

    async def stop(self) -> None:
        """End it; safe to call at any time, and twice."""
        await self._switch.stop()
