# SPDX-License-Identifier: Apache-2.0
"""Reads what the live view shows from the switch.

Which index a flow has is told by the switch itself, once per flow (the program's digest). A poll is then three short
calls: the traffic manager's list of queues, its drops by flow, and the departure counters of the flows that are shown.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any, Protocol, runtime_checkable

from narrows.live.sampler import LearnedFlow, Reading, Sampler, Snapshot
from narrows.p4runtime import P4RuntimeSession
from narrows.plan import Plan
from narrows.program import NEW_FLOW, read_departed_bytes
from narrows.targets.base import QueueStats, Target


@runtime_checkable
class SpeaksP4Runtime(Protocol):
    """A target whose program is reached by P4Runtime; others show the queue only."""

    @property
    def session(self) -> P4RuntimeSession:
        """The session, while the switch runs."""
        ...


class Observer:
    """Readings of one run."""

    def __init__(self, plan: Plan, target: Target) -> None:
        """Nothing is asked of the target before `start`."""
        self._plan = plan
        self._target = target
        self._sampler = Sampler(plan)

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
        departed: dict[int, int] | None = None
        if isinstance(self._target, SpeaksP4Runtime):
            session = self._target.session
            for record in session.take_digests():
                self._sampler.learn(learned_flow(record))
            departed = await read_departed_bytes(session, self._sampler.to_read(time_s))
        drops: dict[int, int] | None = None
        if self._target.profile.flow_drop_counters:
            bottleneck = self._plan.bottleneck
            found = await self._target.flow_drops(bottleneck.port, bottleneck.queue)
            drops = {drop.flow: drop.packets for drop in found}
        return self._sampler.take(Reading(time_s, queue, departed, drops), active)


def learned_flow(record: dict[str, Any]) -> LearnedFlow:
    """A record of the program's digest of new flows."""
    kind = IPv6Address if record["is_ipv6"] else IPv4Address
    return LearnedFlow(
        index=record["index"],
        src=str(kind(record["src"])),
        dst=str(kind(record["dst"])),
        protocol=record["protocol"],
        src_port=record["src_port"],
        dst_port=record["dst_port"],
    )
