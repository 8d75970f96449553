# SPDX-License-Identifier: Apache-2.0
"""Tofino as a target: an experiment's links on a real switch, given back as it was found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from narrows.errors import InputError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Link, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.diagnosis import Diagnosis
from narrows.hosts.lab.machines import SshTestbed
from narrows.hosts.lab.preflight import Preflight
from narrows.hosts.state import RunState
from narrows.paths import data
from narrows.queues.aqm import Call
from narrows.switch.calibration import Findings, QueueFacts
from narrows.switch.readings import FlowTotals, PacketConservation, PortStats, QueueStats
from narrows.targets.base import AppliedSettings, Target, TargetOptions
from narrows.targets.lab import LabTarget, Planner
from narrows_formats.digest import NewFlow
from narrows_formats.software_timing import AppliedSteps, AppliedUpdates
from narrows_formats.target_profile import TargetProfile

from narrows_tofino import doctor
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.binding import bind
from narrows_tofino.chip.depth import IN_MEMORY_OVERHEAD_BYTES
from narrows_tofino.delay_line import TofinoDelayLine
from narrows_tofino.link_tasks import tasks_of, updated_links
from narrows_tofino.phases.configured import ConfiguredSwitch, configure
from narrows_tofino.phases.live import LiveSwitch
from narrows_tofino.phases.opened import OpenedSwitch
from narrows_tofino.planner import plan as plan_writes
from narrows_tofino.planner import plan_switch
from narrows_tofino.queue_updates import QueueUpdater
from narrows_tofino.rate_steps import RateStepper
from narrows_tofino.readings.checks import COUNTER_AGE_S
from narrows_tofino.readings.counters import BULK_FROM
from narrows_tofino.readings.transfers import PortTransfer, balances, transfers
from narrows_tofino.testbed.calibration import Calibration, calibration_path
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.testbed.session import Connect, SwitchSession
from narrows_tofino.writes.reader import AssumedReader

# Flows whose counters are read one by one in every reading of a queue.
MAX_FLOWS = 64
# Rates that a calibration sets one after the other, an even number.
TRIED_STEPS = 100
_Answer = TypeVar("_Answer")


class TofinoTarget(LabTarget):
    """One switch, for one run.

    Calls to the switch block a thread, one at a time; the event loop stays free.
    """

    times_schedules_here = True
    switch_is_running = True

    def __init__(
        self,
        inventory: Inventory,
        audit_path: Path,
        connect_to: Connect = connect,
        preflight: Preflight | None = None,
    ) -> None:
        """Nothing is connected to before `start`.

        Args:
            inventory: the testbed.
            audit_path: where every change to the switch is logged.
            connect_to: what opens a session.
            preflight: what asks the machines, and remembers their answers from run to run.
        """
        self._inventory = inventory
        self._chip = inventory.switch.generation
        self._audit_path = audit_path
        self._session = SwitchSession(inventory, connect_to)
        self._preflight = preflight or Preflight(inventory)
        self._delay_line = TofinoDelayLine()
        self._stepper = RateStepper(self._step)
        self._updater = QueueUpdater(self._delay_ns, self._set_aqm)
        self._testbed: Testbed | None = None
        # The phases of the run that have begun.
        self._opened: OpenedSwitch | None = None
        self._live: LiveSwitch | None = None
        self._transfers: dict[str, PortTransfer] = {}
        self._lock = asyncio.Lock()

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets of one testbed, whose machines are asked once; the log of changes is beside the results."""
        inventory = Inventory.load(options.lab)
        audit = options.results.parent / f"{options.results.absolute().name}.audit.jsonl"
        preflight = Preflight(inventory)
        return lambda _experiment: cls(inventory, audit, preflight=preflight)

    @classmethod
    def example_inventory(cls) -> Path:
        """See `LabTarget.example_inventory`."""
        return data("deploy") / "inventory.example.yaml"

    @classmethod
    def examine(cls, inventory: Path) -> list[Diagnosis]:
        """See `LabTarget.examine`."""
        return doctor.examine(Inventory.load(inventory))

    @classmethod
    def planner(cls, inventory: Path) -> Planner:
        """See `LabTarget.planner`."""
        testbed = Inventory.load(inventory)
        switch = f"{testbed.switch.chip} in the state in which its driver starts it"
        return Planner(lambda experiment: plan_writes(experiment, testbed), switch)

    @classmethod
    def keep_calibration(cls, inventory: Path, found: Findings) -> Path | None:
        """Beside the inventory, where every later run finds it."""
        path, switch = calibration_path(inventory), Inventory.load(inventory).switch
        Calibration.of(found, switch.chip, switch.sde).write(path)
        return path

    @property
    def profile(self) -> TargetProfile:
        """Times in ns, an empty queue's as it was measured; depths in cells, of which each packet takes whole ones."""
        return TargetProfile(
            name=self._chip.name,
            time_unit_s=1e-9,
            timestamp_bits=48,
            depth_unit="cells",
            depth_unit_bytes=self._chip.cell_bytes,
            depth_overhead_bytes=IN_MEMORY_OVERHEAD_BYTES,
            empty_queue_delay=self._inventory.latency_ns,
            rate_unit="bit/s",
            rate_layer="l2",
            delay_line=False,
            flow_drop_counters=False,
            random_samples=False,
        )

    def bind_to_target(self, plan: Plan) -> Plan:
        """The plan on the testbed's ports and machines.

        Raises:
            InputError: the testbed has too few machines, or not the addresses.
        """
        return bind(plan, self._inventory)

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """The machines of an adapted plan, by SSH."""
        return SshTestbed(plan, self._inventory, state.directory, mtu, state)

    def missing(self) -> list[str]:
        """What a delay line lacks; our own client needs only what Narrows itself needs."""
        return [] if self._inventory.delay_line is None else self._delay_line.missing()

    def unsupported(self, plan: Plan) -> list[str]:
        """What of a bound plan no switch of this generation can do."""
        try:
            plan_switch(self._inventory, plan, AssumedReader(self._chip))
        except InputError as error:
            return str(error).splitlines()
        return []

    async def start(self, testbed: Testbed | None = None, piped: bool = False) -> None:
        """Connect to the switch.

        Raises:
            RunError: it cannot be reached, runs another program or another chip, or belongs to another client.
        """
        self._testbed = testbed
        await self._call(self._open)

    async def configure(self, plan: Plan) -> AppliedSettings:
        """Set up the links: ports, links, traffic manager, mirror session, the program's entries.

        Raises:
            RunError: the switch refuses something, or what it made reads back differently; nothing is left behind.
        """
        configured = await self._call(lambda: self._configure(plan))
        self._transfers = await self._call(lambda: self._transferred(plan))
        line = self._inventory.delay_line
        if line is not None:
            if self._testbed is None:
                raise RunError(f"the delay line on {line.interface} needs the machines of a testbed")
            await self._delay_line.start(self._testbed, line.interface, plan)
        self._updater.start(updated_links(plan))
        return configured.applied

    async def start_schedules(self, epoch_ns: int) -> None:
        """See `Target.start_schedules`; the epoch is of this machine's clock, which the steps are timed by."""
        calibration = self._inventory.calibration
        if calibration is None or calibration.rate_step_ns is None:
            raise RunError("rates vary, and how fast this switch takes a new one was never measured")
        self._stepper.start(self._flowing().plan, epoch_ns, calibration.rate_step_ns)

    def rate_steps(self) -> Mapping[str, AppliedSteps]:
        """See `Target.rate_steps`."""
        return self._stepper.applied

    def queue_updates(self) -> Mapping[str, AppliedUpdates]:
        """See `Target.queue_updates`."""
        return self._updater.applied

    async def rate_step_ns(self, plan: Plan) -> int:
        """The longest time that a reading of the queues and a new rate took: a run's readings delay its steps."""
        (link,) = plan.links
        longest_ns = 0
        # Ends with the rate that it began with.
        for rate_bps in (link.rate_bps // 2, link.rate_bps) * (TRIED_STEPS // 2):
            begun_ns = time.monotonic_ns()
            await self.queues()
            _, achieved_ns, _ = await self._step(link, rate_bps)
            longest_ns = max(longest_ns, achieved_ns - begun_ns)
        return longest_ns

    async def queues(self) -> list[QueueStats]:
        """The links' queues. Packets and bytes are the program's, depth is read from the chip.

        Bytes are those of flows whose digest has come. A reading costs five table reads a link, two more where the
        program manages queues, and two a flow. With more than `MAX_FLOWS` bytes are None while packets leave: they
        come when nothing moves any more. Between links and flows the switch is free for what is due meanwhile: new
        rates, and updates of probabilities.
        """
        self._delay_line.check()
        self._stepper.check()
        self._updater.check()
        live = self._flowing()
        known = await self._call(live.known_flows)
        return [await self._queue(live, link.index, known[link.index]) for link in live.plan.links]

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """The program's arrivals and departures of some flow indices."""
        return await self._call(lambda: self._ready().counters.totals(flows))

    async def new_flows(self) -> list[NewFlow]:
        """New-flow messages since the last call."""
        return await self._call(lambda: self._ready().digests.new())

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """Bytes of some flow indices that have left their queue."""
        return await self._call(lambda: self._ready().counters.departed_bytes(flows))

    async def ports(self) -> list[PortStats]:
        """MAC counters of the ports in use; none of a model, which has no MACs."""
        return await self._call(lambda: self._flowing().ports())

    async def unexpected_losses(self, plan: Plan) -> list[str]:
        """Drops that are not the links', and settings that were changed meanwhile.

        Waits until the driver's copies of the drop counters are no older than the end of traffic.
        """
        # The queues have drained: what is read from here on takes longer than a step may.
        await self._stepper.stop()
        await self._updater.stop()
        await asyncio.sleep(COUNTER_AGE_S)
        return [*self._updater.problems(), *await self._delay_line.losses(), *await self._call(self._flowing().losses)]

    async def queue_facts(self, plan: Plan) -> QueueFacts:
        """Rate and compensation as they were written; depth and drop counters as the chip has them."""
        await asyncio.sleep(COUNTER_AGE_S)
        return await self._call(self._flowing().facts)

    async def packet_conservation(self, plan: Plan) -> list[PacketConservation]:
        """What left each receiver's port against what its NIC handed on, and what NIC and kernel say they lost.

        And what left each loopback port against what came in again.
        """
        return balances(self._transfers, await self._call(lambda: self._transferred(plan)))

    async def lost_reports(self, plan: Plan) -> dict[str, int]:
        """Reports lost in mirror buffers and at the collector's port; what else is missing left the switch."""
        return await self._call(self._flowing().lost_reports)

    async def stop(self) -> None:
        """Restore what was found, and close the session.

        Raises:
            RunError: something could not be restored; the message says what, and how to.
        """
        try:
            await self._stepper.stop()
            await self._updater.stop()
            await self._delay_line.stop()
        finally:
            await self._call(self._close)

    async def _call(self, function: Callable[[], _Answer]) -> _Answer:
        async with self._lock:
            work = asyncio.ensure_future(asyncio.to_thread(function))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # A thread cannot be stopped, and nothing else may touch the switch before it has ended.
                await asyncio.wait((work,))
                if not work.cancelled():
                    work.exception()
                raise

    async def _queue(self, live: LiveSwitch, bottleneck: int, flows: Collection[int]) -> QueueStats:
        counters = self._ready().counters
        departed, moving = await self._call(lambda: live.departures(bottleneck))
        flow_bytes: tuple[int, int] | None = None
        if len(flows) <= MAX_FLOWS or not moving:
            # What is due meanwhile waits for a flow, but not for a transfer of whole tables.
            bulk = len(flows) >= BULK_FROM and not tasks_of(live.plan)
            parts = [flows] if bulk else [[flow] for flow in flows]
            read = [await self._call(partial(counters.bytes, part)) for part in parts]
            flow_bytes = (sum(arrived for arrived, _ in read), sum(left for _, left in read))
        return await self._call(lambda: live.queue_stats(bottleneck, departed, moving, flow_bytes))

    async def _step(self, link: Link, rate_bps: int) -> tuple[int, int, int]:
        return await self._call(lambda: self._flowing().set_rate(link, rate_bps))

    async def _delay_ns(self, link: Link) -> int:
        return await self._call(lambda: self._flowing().delay_ns(link))

    async def _set_aqm(self, link: Link, aqm: Call) -> None:
        await self._call(lambda: self._flowing().set_aqm(link, aqm))

    # In the thread

    def _open(self) -> None:
        self._opened = OpenedSwitch.open(self._session, self._audit_path, self._inventory.switch.manages_queues)

    def _configure(self, plan: Plan) -> ConfiguredSwitch:
        self._live, opened = None, self._ready()
        configured = configure(opened, self._inventory, plan)
        self._live = LiveSwitch(opened, configured, self._inventory)
        return configured

    def _transferred(self, plan: Plan) -> dict[str, PortTransfer]:
        return transfers(self._ready().client, self._inventory, self._testbed, plan)

    def _close(self) -> None:
        opened, self._opened, self._live = self._opened, None, None
        if opened is None:
            self._session.close()
        else:
            opened.close()

    def _ready(self) -> OpenedSwitch:
        if self._opened is None:
            raise RunError("the switch is not connected")
        return self._opened

    def _flowing(self) -> LiveSwitch:
        self._ready()
        if self._live is None:
            raise RunError("the switch has no links yet")
        return self._live
