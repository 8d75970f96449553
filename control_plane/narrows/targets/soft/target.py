# SPDX-License-Identifier: Apache-2.0
"""The embedded target: narrows-softswitch in the run's switch namespace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats.target_profile import TargetProfile

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.hosts.netns import CARD, NetnsTestbed
from narrows.hosts.state import RunState
from narrows.switch.readings import FlowDrops, PortStats, QueueStats
from narrows.targets.base import Realised, Target, TargetOptions
from narrows.targets.p4runtime import P4RuntimeTarget
from narrows.targets.soft.softswitch import Softswitch, missing_parts
from narrows.targets.soft.virtual_time import adapted, settings

# Imported when there is a switch to speak to, see `narrows.targets.p4runtime`.
if TYPE_CHECKING:
    from narrows.experiment.model import Experiment
    from narrows.switch import traffic_manager_pb2 as pb
    from narrows.switch.p4runtime import P4RuntimeSession

PROFILE = TargetProfile(
    name="soft",
    time_unit_s=1e-9,
    timestamp_bits=48,
    depth_unit="bytes",
    depth_unit_bytes=1,
    rate_unit="bit/s",
    rate_layer="l2",
    delay_line=True,
    flow_drop_counters=True,
)


class SoftTarget(P4RuntimeTarget):
    """The embedded target: one softswitch is all of it."""

    def __init__(self, seed: int = 1) -> None:
        """Take the seed of the switch's random numbers (loss emulation)."""
        self._seed = seed
        self._switch = Softswitch("softswitch")
        self._card: tuple[str, ...] = ()

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets with the experiments' seeds."""
        return lambda experiment: cls(experiment.seed)

    @property
    def profile(self) -> TargetProfile:
        """Nanoseconds and bytes; bit/s rates, a delay line on every port."""
        return PROFILE

    @property
    def session(self) -> P4RuntimeSession:
        """The P4Runtime session, while the switch runs."""
        return self._switch.session

    def missing(self) -> list[str]:
        """What this machine lacks to run the softswitch."""
        return missing_parts()

    def enter_guest(self, plan: Plan) -> Plan:
        """The switch looks ahead for half of the delays, and completes the checksums of what passes."""
        plan = adapted(plan)
        self._switch = Softswitch("softswitch", settings(plan))
        self._card = CARD
        return plan

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """Namespaces."""
        return NetnsTestbed(plan, state, mtu, self._card)

    async def start(self, testbed: Testbed) -> None:
        """Start the switch on the testbed's ports and connect to it.

        Raises:
            RunError: it does not come up; the message has its last output.
        """
        interfaces = {attachment.port: attachment.interface for attachment in testbed.attachments}
        await self._switch.start(testbed, interfaces, self._seed)

    def reports_pipe(self) -> Path | None:
        """The softswitch's, in virtual time."""
        return self._switch.reports

    async def configure(self, plan: Plan) -> Realised:
        """Load the program, install the plan's entries and set queues and delays.

        Raises:
            RunError: the switch refuses something, or a setting reads back differently.
        """
        from narrows.switch import traffic_manager_pb2 as pb
        from narrows.switch.p4runtime_entries import entities

        session, manager = self._switch.session, self._switch.manager
        await session.push_pipeline()
        bottleneck = plan.bottleneck
        await manager.configure(
            pb.ConfigureRequest(
                port=bottleneck.port,
                queue=bottleneck.queue,
                rate_bps=bottleneck.rate_bps,
                # A depth in packets is kept as one: the byte limit would count a short packet for less.
                limit_bytes=bottleneck.limit_bytes if bottleneck.limit_packets is None else 0,
                limit_packets=bottleneck.limit_packets or 0,
            )
        )
        for port in plan.ports:
            if port.delay_ns:
                await self._switch.set_delay(port.number, port.delay_ns)
        # Paths are connected last: no packet passes a switch that is half set up.
        await session.insert(entities(plan, PROFILE, session.schema))
        return await self._read_back(plan)

    async def now_ns(self) -> int:
        """CLOCK_MONOTONIC of this host, as the switch tells it."""
        return (await self._switch.manager.list()).timestamp_ns

    async def queues(self) -> list[QueueStats]:
        """All queues that were set or have seen a packet."""
        return [_queue_stats(queue) for queue in (await self._switch.manager.list()).queues]

    async def flow_drops(self, port: int, queue: int) -> list[FlowDrops]:
        """Tail drops at a queue by flow index."""
        answer = await self._switch.manager.flow_drops(port, queue)
        return [FlowDrops(drop.flow, drop.packets, drop.bytes) for drop in answer.flows]

    async def ports(self) -> list[PortStats]:
        """Interface counters of all ports."""
        return await self._switch.ports()

    async def losses_elsewhere(self, plan: Plan) -> list[str]:
        """Packets lost anywhere but at the bottleneck's queue or by loss emulation."""
        collector = plan.collector.port
        return await self._switch.losses(queues_except=(plan.bottleneck.port, collector), ports_except=(collector,))

    async def stop(self) -> None:
        """End the switch; safe to call at any time, and twice."""
        await self._switch.stop()

    async def _read_back(self, plan: Plan) -> Realised:
        from narrows.switch.p4runtime_entries import program_digests

        asked = plan.bottleneck
        queue = next(q for q in await self.queues() if (q.port, q.queue) == (asked.port, asked.queue))
        limit = asked.limit_bytes if asked.limit_packets is None else 0
        if (queue.rate_bps, queue.limit_bytes, queue.limit_packets) != (
            asked.rate_bps,
            limit,
            asked.limit_packets or 0,
        ):
            raise RunError(f"the softswitch's queue reads back as {queue}, not {asked}")
        return Realised(queue.rate_bps, asked.limit_bytes, asked.limit_packets, queue.epoch, program=program_digests())


def _queue_stats(queue: pb.Queue) -> QueueStats:
    return QueueStats(**{field.name: getattr(queue, field.name) for field in fields(QueueStats)})
