# SPDX-License-Identifier: Apache-2.0
"""What every target promises the runner.

The order of calls is fixed: `Target.missing` and `Target.refusals` before anything is created, then `start`,
`configure`, any number of readings, and `stop`, which is called whatever happened before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from narrows_formats.target_profile import TargetProfile

from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.hosts.state import RunState
from narrows.switch.readings import Balance, FlowDrops, FlowTotals, PortStats, QueueStats


@dataclass(frozen=True)
class Realised:
    """What the target made of the bottleneck's settings, and which program does it.

    ``notes`` are for the user; ``rate_packets_s`` is set where the target shapes packets instead of bits.
    """

    rate_bps: int
    limit_bytes: int
    limit_packets: int | None
    epoch: int
    rate_packets_s: int | None = None
    notes: tuple[str, ...] = ()
    program: dict[str, Any] = field(default_factory=dict)


class Target(Protocol):
    """One switch, for one run."""

    @property
    def profile(self) -> TargetProfile:
        """Units and capabilities."""
        ...

    def missing(self) -> list[str]:
        """What this machine lacks to use the target, each with how to get it; empty when it can be used."""
        ...

    def refusals(self, plan: Plan) -> list[str]:
        """What of this plan the target cannot do as written; empty when it can do all of it."""
        ...

    async def start(self, testbed: Testbed) -> None:
        """Start the switch on the testbed's ports (or connect to it).

        Raises:
            RunError: it does not come up; the message has its last output.
        """
        ...

    async def configure(self, plan: Plan) -> Realised:
        """Load the program, install the entries and set the queues.

        Raises:
            RunError: the switch refuses something; the message names what.
        """
        ...

    async def now_ns(self) -> int | None:
        """The switch's clock, the one that stamps reports, in nanoseconds; None where it cannot be read."""
        ...

    async def queues(self) -> list[QueueStats]:
        """All queues that the target knows."""
        ...

    async def flow_drops(self, port: int, queue: int) -> list[FlowDrops]:
        """Drops at a queue, per flow index; empty where the target has no such counter."""
        ...

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """The program's counters of some flow indices."""
        ...

    async def ports(self) -> list[PortStats]:
        """All ports."""
        ...

    async def losses_elsewhere(self, plan: Plan) -> list[str]:
        """Packets lost where the experiment does not say so, one line a place.

        Not counted are the bottleneck's queue, loss emulation, and lost reports, which their sequence numbers show.
        """
        ...

    async def stop(self) -> None:
        """Stop the switch, or give it back as it was found. Safe to call at any time, and twice."""
        ...


@runtime_checkable
class Balancing(Protocol):
    """A target that may lose packets without counting them, so that what enters and what leaves is compared."""

    async def balances(self, plan: Plan) -> list[Balance]:
        """Both sides of every such place, since the target was configured; read when nothing moves any more."""
        ...


@runtime_checkable
class Laboratory(Protocol):
    """A target that comes with a testbed of machines, which are checked and set up instead of this one."""

    def adapt(self, plan: Plan) -> Plan:
        """The plan on the testbed's ports and machines.

        Raises:
            InputError: it does not fit the testbed.
        """
        ...

    def machine_problems(self, plan: Plan) -> list[str]:
        """What the machines lack for an adapted plan, each with how to get it. Looks only; nothing is changed."""
        ...

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """The machines of an adapted plan; nothing is changed before its `create`."""
        ...
