# SPDX-License-Identifier: Apache-2.0
"""Reads what the live view shows from the switch.

The switch itself announces the index of each flow, once (the program's digest). A poll is then three short
calls: the traffic manager's list of queues, its drops by flow, and the departure counters of the flows that are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows_formats.digest import NewFlow

from narrows.experiment.plan import Plan
from narrows.run.driver import FlowState
from narrows.run.sampler import Key, Reading, Sampler, Snapshot
from narrows.switch.readings import FlowDrops, QueueStats
from narrows.targets.base import Target


class Observer:
    """Readings of one run."""

    def __init__(self, plan: Plan, target: Target) -> None:
        """Nothing is asked of the target before `start`."""
        self._plan = plan
        self._target = target
        self._sampler = Sampler(plan)
        self.places = [(link.port, link.queue) for link in plan.links]
        """Ports and queues of the links."""
        self.learned: list[NewFlow] = []

    async def start(self, at_once: bool) -> None:
        """Begin to learn flows, with their first packets if ``at_once``; the switch has its program and no traffic yet.

        Raises:
            RunError: the switch refuses to tell.
        """
        await self._target.subscribe_new_flows(at_once)

    async def sample(
        self,
        queues: Mapping[str, QueueStats],
        drops: Mapping[tuple[int, int], Sequence[FlowDrops]],
        time_s: float,
        active: int,
    ) -> Snapshot:
        """One poll.

        Args:
            queues: the links' queues by name, just read.
            drops: at those queues, read with them.
            time_s: seconds since the experiment's start.
            active: flows under way.

        Raises:
            RunError: the switch does not answer.
        """
        await self.learn()
        departed = await self._target.departed_bytes(self._sampler.to_read(time_s))
        counts_drops = bool(self._target.profile.flow_drop_counters)
        reading = Reading(time_s, queues, departed, self._by_flow(drops) if counts_drops else None)
        return self._sampler.take(reading, active)

    async def counts(self, drops: Mapping[tuple[int, int], Sequence[FlowDrops]]) -> dict[str, FlowState]:
        """What has left each flow's last queue and what queues have dropped of it, by name, of flows that are known.

        Args:
            drops: at the links' queues, just read.

        Raises:
            RunError: the switch does not answer.
        """
        await self.learn()
        return self._sampler.counts(await self._target.departed_bytes(self._sampler.indices), self._by_flow(drops))

    def _by_flow(self, drops: Mapping[tuple[int, int], Sequence[FlowDrops]]) -> dict[Key, int]:
        """Packets that links' queues have dropped, by link and flow index."""
        return {
            (link.index, drop.flow): drop.packets for link in self._plan.links for drop in drops[link.port, link.queue]
        }

    def owners(self) -> dict[Key, str]:
        """Whose each flow index of a link is, of flows that are known: the flow's name by link and flow index."""
        return self._sampler.owners

    async def learn(self) -> None:
        """Take what the switch has announced of new flows; `learned` has all of it.

        Raises:
            RunError: the switch does not answer.
        """
        records = await self._target.new_flows()
        for record in records:
            self._sampler.learn(record)
        self.learned += records
