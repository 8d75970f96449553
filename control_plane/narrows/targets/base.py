# SPDX-License-Identifier: Apache-2.0
"""What every target promises a run.

The order of calls is fixed: `Target.bind_to_target`, `missing`, `unsupported` and `machine_problems` before anything is
created; then `prepare_for_guest` in virtual time, `testbed`, `start`, `configure`, any number of readings, and `stop`,
which is always called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows_formats.digest import NewFlow
from narrows_formats.software_timing import AppliedSteps, AppliedUpdates
from narrows_formats.target_profile import TargetProfile

from narrows.errors import InputError, RunError
from narrows.experiment.plan import Link, OwnProgram, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.netns import NetnsTestbed
from narrows.hosts.state import RunState
from narrows.switch.calibration import QueueFacts
from narrows.switch.readings import (
    Discards,
    FlowDrops,
    FlowTotals,
    PacketConservation,
    PortStats,
    QueueReading,
    QueueStats,
)

if TYPE_CHECKING:
    # What measures needs only the plan.
    from narrows.experiment.model import Experiment


@dataclass(frozen=True)
class AppliedLink:
    """What the target made of a link's settings; ``rate_packets_s`` is set where it shapes packets instead of bits."""

    rate_bps: int
    limit_bytes: int
    limit_packets: int | None
    rate_packets_s: int | None = None


@dataclass(frozen=True)
class AppliedSettings:
    """What the target made of a plan's links that have a rate, by name, and which program does it.

    ``notes`` are for the user.
    """

    links: dict[str, AppliedLink]
    notes: tuple[str, ...] = ()
    program: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetOptions:
    """What the command line says of a target: see `narrows.targets.registry.target_factory`."""

    results: Path
    bmv2_path: Path | None = None
    inventory: Path | None = None
    virtual: bool = False

    @property
    def lab(self) -> Path:
        """The inventory of a target between real machines.

        Raises:
            InputError: none is given.
        """
        if self.inventory is None:
            raise InputError("--inventory: is missing; allowed: the file of the lab")
        return self.inventory


class Target(ABC):
    """One switch, for one run. What has a default here most switches need not define."""

    hosts_are_machines: bool = False
    """Whether the hosts are machines of a lab: this machine's tools and congestion controls do not matter then."""

    switch_is_running: bool = False
    """Whether the switch is there before the run: it is connected to, before a host is touched, and not started on the
    hosts' links."""

    times_schedules_here: bool = False
    """Whether this machine, not the switch, makes the steps of links that vary: they begin by its monotonic clock."""

    changes_links: bool = False
    """Whether buffer and loss of links can be changed while traffic flows, and rates otherwise than by schedules."""

    pausable: bool = False
    """Whether it can be halted, together with time: see `pause`."""

    runs_programs: bool = False
    """Whether it runs a P4 program of the user's in place of ours (`Plan.program`)."""

    will_pause: bool = False
    """Whether a run will halt it; set before `start`."""

    @classmethod
    @abstractmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """What makes a target for each run of an experiment.

        Raises:
            InputError: a file that the options name is not valid.
        """

    @property
    @abstractmethod
    def profile(self) -> TargetProfile:
        """Units and capabilities."""

    def bind_to_target(self, plan: Plan) -> Plan:
        """The plan on the target's ports and machines.

        Raises:
            InputError: it does not fit them.
        """
        return plan

    @abstractmethod
    def missing(self) -> list[str]:
        """What this machine lacks to use the target, each with how to get it; empty when it can be used."""

    def unsupported(self, plan: Plan) -> list[str]:
        """What of an adapted plan the target cannot do as written; empty when it can do all of it."""
        return []

    def programs(self, plan: Plan) -> dict[str, Path]:
        """Programs and files here of which the switch of a plan is made, by the name that messages have."""
        return {}

    def notes(self, plan: Plan) -> list[str]:
        """What a user should know of an adapted plan before it runs, each with the field that it is about."""
        return []

    def real_time_notes(self, plan: Plan) -> list[str]:
        """What of an adapted plan it may be too slow for in real time; empty when nothing is known against it."""
        return []

    def machine_problems(self, plan: Plan) -> list[str]:
        """What other machines lack for an adapted plan, each with how to get it. Looks only; nothing is changed."""
        return []

    def prepare_for_guest(self, plan: Plan) -> Plan:
        """Run in virtual time from here on; returns the plan as it is carried out there.

        Called in a guest and before `testbed`, of a target that was pickled outside as it was made.

        Raises:
            RunError: it runs in real time only.
        """
        raise RunError(f"{self.profile.name} runs in real time only")

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """The hosts of an adapted plan; nothing is made or changed before its `create`."""
        return NetnsTestbed(plan, state, mtu)

    @abstractmethod
    async def start(self, testbed: Testbed, piped: bool = False) -> None:
        """Start the switch on the testbed's ports (or connect to it).

        With ``piped`` it may write its reports into a pipe for one collector (`reports_pipe`).

        Raises:
            RunError: it does not come up; the message has its last output.
        """

    def reports_pipe(self) -> str | None:
        """The pipe on the collector's machine that the started switch writes reports into; None: it sends them."""
        return None

    @abstractmethod
    async def configure(self, plan: Plan) -> AppliedSettings:
        """Load the program, install the entries and set the queues.

        Raises:
            RunError: the switch refuses something; the message names what.
        """

    async def start_schedules(self, epoch_ns: int) -> None:
        """Let links that vary begin to do so at a time of the switch's clock, or see `times_schedules_here`.

        Raises:
            RunError: the switch cannot, or that time is past.
        """
        raise RunError(f"{self.profile.name} has no links that vary")

    async def change(self, before: Link, after: Link) -> int:
        """Give a link other settings while traffic flows: a constant rate, its limit, its delay, its loss; read back.

        Args:
            before: as it is.
            after: as it is to be.

        Returns:
            The time on the switch's clock from which all of it holds, in nanoseconds.

        Raises:
            RunError: the switch cannot, or refuses.
        """
        raise RunError(f"{self.profile.name} cannot change a link while traffic flows")

    async def pause(self, at_ns: int | None) -> None:
        """Halt at a time of the switch's clock, once all that is due until then has been processed, and return then.

        What is changed and read until the next call is of that very instant. None: continue.

        Raises:
            RunError: the switch cannot, or that time is past.
        """
        raise RunError(f"{self.profile.name} runs in real time")

    def rate_steps(self) -> Mapping[str, AppliedSteps]:
        """What became of the steps of links that vary, by name, as run.json has it; empty where they are exact."""
        return {}

    def queue_updates(self) -> Mapping[str, AppliedUpdates]:
        """What became of the updates of queues that the control plane keeps, by link; empty where the program does."""
        return {}

    async def now_ns(self) -> int | None:
        """The switch's clock, the one that stamps reports, in nanoseconds; None where it cannot be read."""
        return None

    @abstractmethod
    async def queues(self) -> list[QueueStats]:
        """All queues that the target knows."""

    async def flow_drops(self, port: int, queue: int) -> list[FlowDrops]:
        """The traffic manager's drops at a queue, per flow index; empty where it has no such counter."""
        return []

    async def read_queues(self, places: Collection[tuple[int, int]], at_ns: int | None = None) -> QueueReading:
        """`queues`, and `flow_drops` at some of them, by port and queue.

        Args:
            places: those whose drops are asked for.
            at_ns: halt there first, as `pause` does.

        Raises:
            RunError: see `pause`.
        """
        if at_ns is not None:
            await self.pause(at_ns)
        return QueueReading(await self.queues(), {place: await self.flow_drops(*place) for place in places})

    @abstractmethod
    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """The program's counters of some flow indices."""

    async def subscribe_new_flows(self, at_once: bool = False) -> None:
        """Have the switch report each new flow from now on, where it must be asked; called before there is traffic.

        Args:
            at_once: with its first packet, where the switch would gather several for a moment.

        Raises:
            RunError: the switch refuses.
        """
        return

    @abstractmethod
    async def new_flows(self) -> list[NewFlow]:
        """Records of the program's digest of new flows that have arrived since the last call.

        Raises:
            RunError: the switch does not answer.
        """

    async def read_watched(self) -> list[int]:
        """Values of the cells that users' programs have watched (`Plan.watched_cells`), in their order.

        Raises:
            RunError: the switch does not answer.
        """
        return []

    def controller_environment(self, program: OwnProgram) -> dict[str, str]:
        """Variables that lead the controller of a user's program (`OwnProgram.controller`) to the switch."""
        return {}

    async def wait_for_controller(self, program: OwnProgram) -> None:
        """Wait until that controller is the switch's primary client.

        Raises:
            RunError: the switch does not answer.
        """
        raise RunError("the target has no controller")

    @abstractmethod
    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """L2 bytes of some flow indices that have left the bottleneck's queue.

        Raises:
            RunError: the switch does not answer.
        """

    @abstractmethod
    async def ports(self) -> list[PortStats]:
        """All ports."""

    async def discards(self) -> Discards | None:
        """Packets that ended at no queue and no port; None where the switch does not count them."""
        return None

    @abstractmethod
    async def unexpected_losses(self, plan: Plan) -> list[str]:
        """Packets lost where the experiment does not say so, one line for each place.

        Not counted are the bottleneck's queue, loss emulation, and lost reports, which their sequence numbers show.
        """

    async def queue_facts(self, plan: Plan) -> QueueFacts:
        """The bottleneck's queue as it was since it was configured.

        Raises:
            RunError: the switch does not answer, or cannot tell how deep the queue has been.
        """
        place = (plan.bottleneck.port, plan.bottleneck.queue)
        queue = next(one for one in await self.queues() if (one.port, one.queue) == place)
        if queue.peak_depth_bytes is None or self.profile.depth_unit != "bytes":
            raise RunError(f"{self.profile.name} does not report how deep its queue has been")
        return QueueFacts(float(queue.rate_bps), 0, queue.limit_bytes, queue.peak_depth_bytes)

    async def rate_step_ns(self, plan: Plan) -> int | None:
        """How long a new rate for the bottleneck takes at most; None where rates change by themselves."""
        return None

    async def packet_conservation(self, plan: Plan) -> list[PacketConservation]:
        """Packets counted on both sides of every place that may lose some without counting them.

        Counted since the target was configured; read when nothing moves any more.
        """
        return []

    async def lost_reports(self, plan: Plan) -> dict[str, int]:
        """Reports that the switch itself counts as dropped on their way to the collector, by place.

        Counted since the target was configured; their sequence numbers tell how many are missing in all.
        """
        return {}

    @abstractmethod
    async def stop(self) -> None:
        """Stop the switch, or give it back as it was found. Safe to call at any time, and twice."""
