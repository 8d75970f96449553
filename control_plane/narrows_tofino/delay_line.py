# SPDX-License-Identifier: Apache-2.0
"""Base RTTs without netem: a softswitch beside the Tofino holds what the receiver sends back.

    receiver -- Tofino -- NIC [softswitch] NIC -- Tofino -- sender

It runs where Narrows does, with one NIC of its own. A frame for a sender waits in a port that leads back into the
softswitch and goes out by the NIC it came from.
"""

from __future__ import annotations

from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.switch.entries import passthrough_entries
from narrows.switch.p4runtime_entries import table_entries
from narrows.targets.soft.softswitch import Softswitch, missing_parts

NIC = 1
FIRST_WAITING = 2
# It draws no random numbers.
SEED = 1


class TofinoDelayLine:
    """One process for all senders."""

    def __init__(self) -> None:
        """Nothing is created before `start`."""
        self._switch = Softswitch("delay line")
        self._runs = False

    @staticmethod
    def missing() -> list[str]:
        """What this machine lacks to run it."""
        return missing_parts()

    async def start(self, testbed: Testbed, interface: str, plan: Plan) -> None:
        """Start it on a NIC with the delays of a plan's senders.

        Raises:
            RunError: it does not come up, refuses something, or a delay reads back differently.
        """
        delays = {port.host: port.delay_ns for port in plan.ports}
        waiting = {FIRST_WAITING + number: sender for number, sender in enumerate(plan.senders)}
        self._runs = True
        await self._switch.start(testbed, {NIC: interface}, SEED, tuple(waiting))
        session = self._switch.session
        await session.push_pipeline()
        for port, sender in waiting.items():
            await self._switch.set_delay(port, delays[sender.name])
        in_ = [(NIC, sender.mac, port) for port, sender in waiting.items()]
        out = [(port, None, NIC) for port in waiting]
        await session.insert(table_entries(passthrough_entries([*in_, *out]), session.schema))

    def check(self) -> None:
        """Notice early that it has died.

        Raises:
            RunError: it is not running any more.
        """
        if self._runs:
            self._switch.check()

    async def losses(self) -> list[str]:
        """Packets that it lost, one line a place."""
        return [f"delay line: {line}" for line in await self._switch.losses()] if self._runs else []

    async def stop(self) -> None:
        """End it; safe to call at any time, and twice."""
        self._runs = False
        await self._switch.stop()
