# SPDX-License-Identifier: Apache-2.0
"""What every target promises the runner.

The order of calls is fixed: `Target.missing` and `Target.refusals` before anything is created, then `start`,
`configure`, any number of readings, and `stop`, which is called whatever happened before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from narrows.hosts.base import Testbed
from narrows.plan import Plan
from narrows.state import RunState


@dataclass(frozen=True)
class TargetProfile:
    """Units of a target's telemetry, and what it can do; stored with every run as ``target_profile``.

    ``time_unit_s`` and ``timestamp_bits`` describe the report's times, ``depth_unit`` its depths, and
    ``depth_unit_bytes`` the bytes of one such unit (None where a unit has no fixed size, such as packets).
    """

    name: str
    time_unit_s: float
    timestamp_bits: int
    depth_unit: Literal["bytes", "packets", "cells"]
    depth_unit_bytes: int | None
    rate_unit: Literal["bit/s", "packets/s"]
    rate_layer: Literal["l2", "l1"]
    delay_line: bool
    flow_drop_counters: bool

    def as_json(self) -> dict[str, Any]:
        """The profile as it stands in run.json."""
        return asdict(self)


@dataclass(frozen=True)
class QueueStats:
    """One reading of a queue: counters since the target started, and what waits in it now.

    None stands for what a target cannot tell.
    """

    port: int
    queue: int
    rate_bps: int
    limit_bytes: int
    limit_packets: int
    delay_ns: int
    epoch: int
    enqueued_packets: int | None
    enqueued_bytes: int | None
    dequeued_packets: int
    dequeued_bytes: int | None
    dropped_packets: int | None
    dropped_bytes: int | None
    depth_packets: int | None
    depth_bytes: int | None
    peak_depth_bytes: int | None


@dataclass(frozen=True)
class FlowDrops:
    """The traffic manager's own count of what one flow index lost at one queue."""

    flow: int
    packets: int
    bytes: int


@dataclass(frozen=True)
class FlowTotals:
    """The program's own count of one flow index: packets offered to the queue, and packets that left it."""

    flow: int
    arrivals: int
    departures: int


@dataclass(frozen=True)
class PortStats:
    """Counters of one port; everything that could lose a packet outside the queue is named.

    ``rx_ring_drops`` is None where the target cannot tell.
    """

    port: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rx_ring_drops: int | None
    rx_errors: int
    tx_drops: int
    link_up: bool


@dataclass(frozen=True)
class Balance:
    """Packets counted on both sides of a place where a target may lose some without counting them."""

    place: str
    entered: int
    left: int

    @property
    def lost(self) -> int:
        """Packets that went in and did not come out."""
        return self.entered - self.left


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
