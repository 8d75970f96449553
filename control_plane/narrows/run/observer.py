# SPDX-License-Identifier: Apache-2.0
"""Reads what the live view shows from the switch.

Which index a flow has is told by the switch itself, once per flow (the program's digest). A poll is then three short
calls: the traffic manager's list of queues, its drops by flow, and the departure counters of the flows that are shown.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

from narrows_formats.learned_flows import address

from narrows.experiment.plan import Plan
from narrows.run.sampler import LearnedFlow, Reading, Sampler, Snapshot
from narrows.switch.entries import NEW_FLOW, read_departed_bytes
from narrows.switch.p4runtime import P4RuntimeSession
from narrows.switch.readings import QueueStats
from narrows.targets.base import Target


@runtime_checkable
class SpeaksP4Runtime(Protocol):
    """A target whose program is reached by P4Runtime."""

    @property
    def session(self) -> P4RuntimeSession:
        """The session, while the switch runs."""
        ...


@runtime_checkable
class CountsFlows(Protocol):
    """A target that reads its program's counters itself. Of other targets only the queue is shown."""

    async def new_flows(self) -> list[dict[str, Any]]:
        """Records of the program's digest that have arrived since the last call."""
        ...

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """L2 bytes of some flow indices that have left the bottleneck's queue."""
        ...


class Observer:
    """Readings of one run."""

    def __init__(self, plan: Plan, target: Target) -> None:
        """Nothing is asked of the target before `start`."""
        self._plan = plan
        self._target = target
        self._sampler = Sampler(plan)
        self.learned: list[dict[str, Any]] = []

    async def start(self) -> None:
        """Begin to learn flows; the switch has its program and no traffic yet.

        Raises:
            RunError: the switch refuses to tell.
        """
        if isinstance(self._target, SpeaksP4Runtime):
            await self._target.session.subscribe(NEW_FLOW)

    async def sample(self, queue: QueueStats, time_s: float, active: int) -> Snapshot:
        """One poll.

        Args:
            queue: the bottleneck's queue, just read.
            time_s: seconds since the experiment's start.
            active: flows under way.

        Raises:
            RunError: the switch does not answer.
        """
        await self.learn()
        departed: dict[int, int] | None = None
        if isinstance(self._target, SpeaksP4Runtime):
            departed = await read_departed_bytes(self._target.session, self._sampler.to_read(time_s))
        elif isinstance(self._target, CountsFlows):
            departed = await self._target.departed_bytes(self._sampler.to_read(time_s))
        drops: dict[int, int] | None = None
        if self._target.profile.flow_drop_counters:
            bottleneck = self._plan.bottleneck
            found = await self._target.flow_drops(bottleneck.port, bottleneck.queue)
            drops = {drop.flow: drop.packets for drop in found}
        return self._sampler.take(Reading(time_s, queue, departed, drops), active)

    async def learn(self) -> None:
        """Take what the switch has told of new flows; `learned` has all of it.

        Raises:
            RunError: the switch does not answer.
        """
        records: list[dict[str, Any]] = []
        if isinstance(self._target, SpeaksP4Runtime):
            records = self._target.session.take_digests()
        elif isinstance(self._target, CountsFlows):
            records = await self._target.new_flows()
        for record in records:
            self._sampler.learn(learned_flow(record))
        self.learned += records


def learned_flow(record: dict[str, Any]) -> LearnedFlow:
    """A record of the program's digest of new flows."""
    return LearnedFlow(
        index=record["index"],
        src=address(record, "src"),
        dst=address(record, "dst"),
        protocol=record["protocol"],
        src_port=record["src_port"],
        dst_port=record["dst_port"],
    )
