# SPDX-License-Identifier: Apache-2.0
"""Tofino as a target: an experiment's links on a real switch, given back as it was found."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from narrows.errors import InputError, NarrowsError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import REPORT_LENGTH_BYTES, Link, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.diagnosis import Diagnosis
from narrows.hosts.lab.machines import SshTestbed, machines_of
from narrows.hosts.lab.preflight import Preflight
from narrows.hosts.state import RunState
from narrows.paths import data
from narrows.queues.law import Call
from narrows.queues.pi2 import DualPi2
from narrows.queues.red import Red
from narrows.switch.calibration import Findings, QueueFacts
from narrows.switch.entries import law_entry
from narrows.switch.readings import Balance, FlowTotals, PortStats, QueueStats
from narrows.targets.base import AppliedLink, AppliedSettings, Target, TargetOptions
from narrows.targets.lab import LabTarget, Planner
from narrows_formats.target_profile import TargetProfile

from narrows_tofino import doctor
from narrows_tofino.bfrt.client import describe_key
from narrows_tofino.bfrt.connect import connect
from narrows_tofino.bfrt.errors import BfrtError
from narrows_tofino.bfrt.values import DigestMessage
from narrows_tofino.binding import bind
from narrows_tofino.chip.depth import IN_MEMORY_OVERHEAD_BYTES
from narrows_tofino.delay_line import TofinoDelayLine
from narrows_tofino.link_tasks import tasks_of, updated_links
from narrows_tofino.planner import SwitchPlan, cabled_ports, plan_switch, realised, used_ports
from narrows_tofino.planner import plan as plan_writes
from narrows_tofino.programming.audit import AuditLog
from narrows_tofino.programming.programmer import Programmer, restore_all
from narrows_tofino.queue_updates import QueueUpdater
from narrows_tofino.rate_steps import RateStepper
from narrows_tofino.readings.checks import COUNTER_AGE_S, DropGuard
from narrows_tofino.readings.counters import BULK_FROM, Counters, clear_writes
from narrows_tofino.readings.links import ANY, likeliest_cause
from narrows_tofino.readings.modelled import MODEL_NOTE, check_kind, uncounted
from narrows_tofino.readings.statistics import port_stats, queue_stats
from narrows_tofino.sampling import report_load
from narrows_tofino.testbed.calibration import Calibration, calibration_path
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.testbed.session import Connect, SwitchSession
from narrows_tofino.writes.entries import entry_write
from narrows_tofino.writes.planned import number, text
from narrows_tofino.writes.ports import port_writes
from narrows_tofino.writes.queue_laws import low_latency_queue
from narrows_tofino.writes.reader import AssumedReader, LiveReader
from narrows_tofino.writes.traffic_manager import BottleneckQueue, TrafficManager

LINK_WAIT_S = 20.0
LINK_POLL_S = 0.2
# Flows whose counters are read one by one in every reading of a queue.
MAX_FLOWS = 64
# A port that is reset again and again is given up.
MAX_MENDED = 100
# Rates that a calibration sets one after the other, an even number.
TRIED_STEPS = 100
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class PortTransfer:
    """Frames that a port has sent, that were received at its other end and handed on, and those known to be lost there.

    ``place`` is what is between the two.
    """

    place: str
    sent: int
    received: int
    lost: dict[str, int]


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
        self._updater = QueueUpdater(self._delay_ns, self._set_law)
        self._testbed: Testbed | None = None
        self._audit: AuditLog | None = None
        self._programmer: Programmer | None = None
        self._counters: Counters | None = None
        self._guard: DropGuard | None = None
        self._switch_plan: SwitchPlan | None = None
        self._digests: list[DigestMessage] = []
        self._handed_out = 0
        self._departed: dict[int, int] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._crossed: dict[str, PortTransfer] = {}
        self._earlier_losses: list[str] = []
        self._lock = asyncio.Lock()

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets of one testbed, whose machines are asked once; the log of changes is beside the results."""
        assert options.inventory is not None
        inventory = Inventory.load(options.inventory)
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
        switch = f"{testbed.switch.chip} as its driver leaves it"
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
        made = await self._call(lambda: self._configure(plan))
        self._crossed = await self._call(lambda: self._crossing(plan))
        line = self._inventory.delay_line
        if line is not None:
            assert self._testbed is not None
            await self._delay_line.start(self._testbed, line.interface, plan)
        self._updater.start(updated_links(plan))
        return made

    async def start_schedules(self, epoch_ns: int) -> None:
        """See `Target.start_schedules`; the epoch is of this machine's clock, which the steps are timed by."""
        calibration = self._inventory.calibration
        assert calibration is not None and calibration.rate_step_ns is not None
        self._stepper.start(self._planned().plan, epoch_ns, calibration.rate_step_ns)

    def rate_steps(self) -> dict[str, dict[str, Any]]:
        """See `Target.rate_steps`."""
        return {name: steps.as_json() for name, steps in self._stepper.applied.items()}

    def queue_updates(self) -> dict[str, dict[str, Any]]:
        """See `Target.queue_updates`."""
        return {name: updates.as_json() for name, updates in self._updater.applied.items()}

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
        known = await self._call(self._known_flows)
        return [await self._queue(link.index, known[link.index]) for link in self._planned().plan.links]

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """The program's arrivals and departures of some flow indices."""
        return await self._call(lambda: self._ready_counters().totals(flows))

    async def new_flows(self) -> list[dict[str, Any]]:
        """New-flow messages since the last call, field by field."""

        def take() -> list[dict[str, Any]]:
            known, self._handed_out = self._handed_out, len(self._take_digests())
            return [dict(digest.data) for digest in self._digests[known:]]

        return await self._call(take)

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """Bytes of some flow indices that have left their queue."""
        return await self._call(lambda: self._ready_counters().departed_bytes(flows))

    async def ports(self) -> list[PortStats]:
        """MAC counters of the ports in use; none of a model, which has no MACs."""
        ports = () if self._inventory.switch.model else used_ports(self._planned().plan)
        return await self._call(lambda: [port_stats(self._ready().client, port) for port in ports])

    async def unexpected_losses(self, plan: Plan) -> list[str]:
        """Drops that are not the links', and settings that were changed meanwhile.

        Waits until the driver's copies of the drop counters are no older than the end of traffic.
        """
        # The queues have drained: what is read from here on takes longer than a step may.
        await self._stepper.stop()
        await self._updater.stop()
        await asyncio.sleep(COUNTER_AGE_S)
        return [*self._updater.problems(), *await self._delay_line.losses(), *await self._call(self._losses)]

    async def queue_facts(self, plan: Plan) -> QueueFacts:
        """Rate and compensation as they were written; depth and drop counters as the chip has them."""
        await asyncio.sleep(COUNTER_AGE_S)
        return await self._call(self._facts)

    async def packet_conservation(self, plan: Plan) -> list[Balance]:
        """What left each receiver's port against what its NIC handed on, and what NIC and kernel say they lost.

        And what left each loopback port against what came in again.
        """
        before, crossed = self._crossed, await self._call(lambda: self._crossing(plan))
        found: list[Balance] = []
        for name, now in crossed.items():
            received = now.received - before[name].received
            found.append(Balance(now.place, now.sent - before[name].sent, received))
            for counter, lost in now.lost.items():
                if more := lost - before[name].lost.get(counter, 0):
                    found.append(Balance(f"in {name}'s {counter}", received + more, received))
        return found

    async def lost_reports(self, plan: Plan) -> dict[str, int]:
        """Reports lost in mirror buffers and at the collector's port; what else is missing left the switch."""
        return await self._call(lambda: {} if self._guard is None else self._guard.lost_reports())

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

    async def _queue(self, bottleneck: int, flows: Collection[int]) -> QueueStats:
        counters = self._ready_counters()
        departed, moving = await self._call(lambda: self._departures(bottleneck))
        flow_bytes: tuple[int, int] | None = None
        if len(flows) <= MAX_FLOWS or not moving:
            # What is due meanwhile waits for a flow, but not for a transfer of whole tables.
            bulk = len(flows) >= BULK_FROM and not tasks_of(self._planned().plan)
            parts = [flows] if bulk else [[flow] for flow in flows]
            read = [await self._call(partial(counters.bytes, part)) for part in parts]
            flow_bytes = (sum(arrived for arrived, _ in read), sum(left for _, left in read))
        return await self._call(lambda: self._queue_stats(bottleneck, departed, moving, flow_bytes))

    async def _step(self, link: Link, rate_bps: int) -> tuple[int, int, int]:
        return await self._call(lambda: self._write_step(link, rate_bps))

    async def _delay_ns(self, link: Link) -> int:
        return await self._call(lambda: self._read_delay(link))

    async def _set_law(self, link: Link, law: Call) -> None:
        await self._call(lambda: self._ready().rewrite(entry_write(law_entry(link, "enqueue_law", *law))))

    # In the thread

    def _read_delay(self, link: Link) -> int:
        """How long the packet waited that left a link's queue last; 0 if none has since the last reading.

        Of two queues the longer wait, as the head that has waited longest is of the softswitch's.
        """
        queues = 1 if low_latency_queue(link) is None else 2
        return max(self._read_queue_delay(link.index, queue) for queue in range(queues))

    def _read_queue_delay(self, bottleneck: int, queue: int) -> int:
        waited_ns, departed = self._ready_counters().latest_departure(bottleneck, queue)
        moved = self._seen.get((bottleneck, queue), 0) != departed
        self._seen[bottleneck, queue] = departed
        return max(0, waited_ns - self._inventory.latency_ns) if moved else 0

    def _write_step(self, link: Link, rate_bps: int) -> tuple[int, int, int]:
        """Give a link another rate; returns when that began and when it was read back, and the rate made."""
        manager = self._planned()
        begun_ns = time.monotonic_ns()
        writes, queue = manager.step(link, rate_bps)
        for write in writes:
            self._ready().rewrite(write)
        achieved_ns = time.monotonic_ns()
        manager.stepped(queue)
        return begun_ns, achieved_ns, queue.rate_bps

    def _open(self) -> None:
        client = self._session.open()
        self._counters = Counters(client, self._inventory.switch.manages_queues)
        self._audit = AuditLog(self._audit_path)
        self._programmer = Programmer(client, self._audit)

    def _configure(self, plan: Plan) -> AppliedSettings:
        programmer = self._ready()
        reader = LiveReader(programmer.client)
        # Once with what is known before ports are there: what is unsupported comes before anything is written.
        check_kind(programmer.client, self._inventory)
        total = reader.entry(f"{self._chip.prefix}.tm.cfg", None)
        assert total is not None
        plan_switch(self._inventory, plan, AssumedReader(self._chip, number(total, "total_cells")))
        mark = len(programmer.journal)
        programmer.apply(port_writes(self._inventory, cabled_ports(plan), reader))
        if self._inventory.switch.keep_ports:
            # Also where the link is late: it is trained by the next run. Not loopback ports: whatever came to one that
            # was left would come back.
            programmer.keep(mark, len(programmer.journal))
        try:
            programmer.apply(port_writes(self._inventory, plan.loopbacks, reader))
            self._wait_for_links(used_ports(plan))
            self._switch_plan = plan_switch(self._inventory, plan, reader)
            programmer.clear(clear_writes(self._inventory.switch.manages_queues))
            programmer.apply(self._switch_plan.writes)
            self._guard = None if self._inventory.switch.model else self._new_guard(self._switch_plan)
        except BaseException as error:
            self._switch_plan = None
            # Without a session nothing can be undone now: stop does it over a new one.
            problems = programmer.undo(mark) if programmer.client.alive() else []
            if isinstance(error, NarrowsError) and problems:
                raise RunError("\n".join([str(error), *problems])) from error
            raise
        return self._applied(self._switch_plan.manager)

    def _facts(self) -> QueueFacts:
        if self._guard is None:
            raise RunError("a model shapes nothing, so that there is nothing to measure; fix: a chip")
        (one,) = self._planned().bottlenecks
        shaping, mark = one.shaping, self._guard.mark(one)
        compensation = shaping.overhead.ifg_compensation
        return QueueFacts(
            shaping.shaper_bps, compensation, mark.limit_cells, mark.cells, self._guard.moved(), "cells", self._device()
        )

    def _crossing(self, plan: Plan) -> dict[str, PortTransfer]:
        """Both ends of each receiver's cable, where the hosts are machines, and both sides of each loopback port.

        Nothing of a model, whose ports count nothing.
        """
        client, found = self._ready().client, dict[str, PortTransfer]()
        if self._inventory.switch.model:
            return found
        if isinstance(self._testbed, SshTestbed):
            machines = machines_of(plan, self._inventory)
            for receiver in plan.receivers:
                name = machines[receiver.name].name
                sent = port_stats(client, receiver.port).tx_packets
                found[name] = PortTransfer(
                    f"between the switch and {name}'s NIC", sent, *self._testbed.received(receiver.name)
                )
        for loopback in plan.loopbacks:
            port, name = port_stats(client, loopback), f"port {self._inventory.port(loopback).name}"
            found[name] = PortTransfer(f"in loopback {name}", port.tx_packets, port.rx_packets, {})
        return found

    def _device(self) -> dict[str, str | int]:
        """The chip, as a calibration names it."""
        client = self._ready().client
        table = client.schema.table(f"{self._chip.prefix}.dev.device_configuration")
        entry = client.read_default(table)
        return {"sku": text(entry, "sku"), "pipes": number(entry, "num_pipes")}

    def _wait_for_links(self, ports: Sequence[int]) -> None:
        """Wait until all links are up.

        Raises:
            RunError: one is not after `LINK_WAIT_S` seconds, or a model's after its multiple of that.
        """
        client = self._ready().client
        table = client.schema.table("$PORT")
        longest_s = LINK_WAIT_S * self._inventory.switch.patience
        deadline = time.monotonic() + longest_s
        waiting = list(ports)
        while True:
            waiting = [port for port in waiting if not client.read(table, {"$DEV_PORT": port}).data.get("$PORT_UP")]
            if not waiting:
                return
            if time.monotonic() > deadline:
                names = ", ".join(self._inventory.port(port).name for port in waiting)
                stay = (
                    "; the ports stay, and go on training for the next run" if self._inventory.switch.keep_ports else ""
                )
                raise RunError(
                    f"no link on port {names} after {longest_s:g} s{stay}; fix: check {ANY}{self._causes(waiting)}"
                )
            time.sleep(LINK_POLL_S)

    def _causes(self, dev_ports: Sequence[int]) -> str:
        """What most likely keeps the links of ports down, a line for each that has such a cause."""
        reader, lines = LiveReader(self._ready().client), list[str]()
        for dev_port in dev_ports:
            found = reader.entry("$PORT", {"$DEV_PORT": dev_port})
            cause = None if found is None else likeliest_cause(found.data)
            if cause is not None:
                lines.append(f"\nport {self._inventory.port(dev_port).name}, likeliest: {cause}")
        return "".join(lines)

    def _applied(self, manager: TrafficManager) -> AppliedSettings:
        plan, queues = manager.plan, manager.bottlenecks
        calibration = self._inventory.calibration
        notes = [MODEL_NOTE] if self._inventory.switch.model else list[str]()
        for one in queues:
            whose = "" if len(queues) == 1 else f"{one.link.name}: "
            notes += [f"{whose}{words}" for words in (*one.depth.warnings, f"rate: {one.shaping.overhead.note}")]
        if calibration is None:
            uncertainty = max(one.shaping.overhead.uncertainty for one in queues)
            notes.append(
                "warning: this switch was never measured: its rate may be up to "
                f"{uncertainty:.2%} less than stated, and reports count the empty switch's delay as queue "
                "delay; fix: narrows calibrate"
            )
        if self._inventory.delay.at == "none" and any(port.delay_ns for port in plan.ports):
            notes.append(
                "warning: nothing makes the experiment's rtt (delay.at: none in the inventory): flows have the RTT of "
                "the cables, while depths in bdp are of the one that was written"
            )
        notes += [
            f"{link.field}.rate: its steps are timed by software; run.json has when each was made (rate_steps_applied)"
            for link in plan.links
            if link.schedule is not None
        ]
        notes += [
            f"{link.field}.queue: {law.kind}'s probability is updated by software; run.json has how late "
            "(queue_updates_applied)"
            for link, law in updated_links(plan)
        ]
        notes += [
            f"{link.field}.queue: what red drops has had its time on the link, and its average goes by time"
            for link in plan.links
            if isinstance(link.management, Red) and not link.management.nodrop
        ]
        notes += [
            f"{link.field}.queue: dualpi2's two queues take turns by weights (DWRR), and it drops and marks on arrival"
            for link in plan.links
            if isinstance(link.management, DualPi2)
        ]
        collector, load = self._inventory.collector, report_load(plan)
        if plan.links[0].sample_auto:
            notes.append(
                f"telemetry.sample: {1 << plan.links[0].sample_shift}, for {load.packets_s:,.0f} packets/s of "
                f"{load.packet_bytes:.0f} B"
            )
        if collector.reports_s is None:
            notes.append(
                f"warning: how many reports a second {collector.name} holds was never measured, and this run makes up "
                f"to {load.reports_s:,.0f}; fix: benchmarks/run.py collecting, and collector.reports_s in the inventory"
            )
        notes.append(
            "depth: the read-back of tm.queue.buffer is the driver's copy; only a watermark under load proves it"
        )
        return AppliedSettings(
            links={one.link.name: _applied_link(one) for one in queues},
            notes=tuple(notes),
            program={
                "name": self._inventory.switch.program,
                "client": self._ready().client.kind,
                "audit": str(self._audit_path),
                "tofino": {one.link.name: realised(one) for one in queues},
                "calibration": None if calibration is None else calibration.model_dump(mode="json"),
                "report_length": REPORT_LENGTH_BYTES,
            },
        )

    def _known_flows(self) -> defaultdict[object, set[int]]:
        """Flow indices whose digests have come, by bottleneck."""
        self._mend()
        flows: defaultdict[object, set[int]] = defaultdict(set)
        for digest in self._take_digests():
            flows[digest.data["bottleneck"]].add(digest.data["index"])
        return flows

    def _departures(self, bottleneck: int) -> tuple[int, bool]:
        """Packets that have left a link's queue, and whether some have since the last reading."""
        departed = self._ready_counters().bottleneck_departures(bottleneck)
        moving = self._departed.get(bottleneck) != departed
        self._departed[bottleneck] = departed
        return departed, moving

    def _queue_stats(
        self, bottleneck: int, departed: int, moving: bool, flow_bytes: tuple[int, int] | None
    ) -> QueueStats:
        # As it is by now: its rate may have changed since the reading began.
        one = next(one for one in self._planned().bottlenecks if one.link.index == bottleneck)
        if self._guard is None:
            return uncounted(self._ready_counters(), one, departed, moving, flow_bytes)
        client, prefix = self._ready().client, self._chip.prefix
        return queue_stats(client, self._ready_counters(), self._guard, prefix, one, departed, flow_bytes)

    def _mend(self) -> None:
        """Make settings again that a change of a port's speed has undone; the run has failed all the same."""
        manager, programmer = self._planned(), self._ready()
        reset = manager.reset_ports()
        if not reset:
            return
        undone: list[str] = []
        # Giving a port its speed back resets its queues once more.
        while (found := programmer.reapply()) and len(undone) < MAX_MENDED:
            undone += found
        names = ", ".join(self._inventory.port(port).name for port in reset)
        words = f"port {names} was reset during the run; made again: {'; '.join(dict.fromkeys(undone))}"
        self._earlier_losses.append(words)

    def _losses(self) -> list[str]:
        misplaced = [] if self._guard is None else self._guard.misplaced()
        changed = [f"a setting was changed during the run: {words}" for words in self._ready().drift()]
        return [*self._earlier_losses, *misplaced, *self._shared_indices(), *changed]

    def _shared_indices(self) -> list[str]:
        """Flows that met at one index in two pipes, which their shares of the indices rule out."""
        met: dict[tuple[object, object], set[object]] = {}
        for digest in self._take_digests():
            met.setdefault((digest.data["bottleneck"], digest.data["index"]), set()).add(digest.data["signature"])
        return [
            f"{len(signatures)} flows of different pipes share flow index {index} of bottleneck {bottleneck}, so that "
            "their counts are mixed; fix: the program of this version of Narrows (deploy/install-switch.sh)"
            for (bottleneck, index), signatures in met.items()
            if len(signatures) > 1
        ]

    def _new_guard(self, planned: SwitchPlan) -> DropGuard:
        self._ready().clear(planned.watermarks)
        switch = self._inventory.switch
        pools = (switch.egress_pool, switch.ingress_pool)
        client, calibration = self._ready().client, self._inventory.calibration
        return DropGuard(client, self._chip.prefix, planned.manager, pools, calibration)

    def _take_digests(self) -> list[DigestMessage]:
        self._digests += self._ready().client.digests(0)
        return list(self._digests)

    def _close(self) -> None:
        programmer, self._programmer = self._programmer, None
        problems: list[str] = []
        try:
            if programmer is not None:
                problems = self._give_back(programmer)
        finally:
            if self._audit is not None:
                self._audit.close()
                self._audit = None
            self._session.close()
        if problems:
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise RunError(
                f"the switch could not be given back as it was found:\n{lines}\n"
                f"restore the rest with: python -I -m narrows_tofino.restore INVENTORY {self._audit_path}"
            )

    def _give_back(self, programmer: Programmer) -> list[str]:
        """Undo everything; over a new session if the old one is gone. Returns what could not be undone."""
        client = programmer.client
        try:
            if client.alive():
                return programmer.undo()
            assert self._audit is not None
            if not programmer.journal:
                return []
            return restore_all(self._session.open(), programmer.journal, self._audit)[0]
        except BfrtError as error:
            return [str(error), *(f"{change.table} [{describe_key(change.key)}]" for change in programmer.journal)]

    def _ready(self) -> Programmer:
        if self._programmer is None:
            raise RunError("the switch is not connected")
        return self._programmer

    def _ready_counters(self) -> Counters:
        if self._counters is None:
            raise RunError("the switch is not connected")
        return self._counters

    def _planned(self) -> TrafficManager:
        if self._switch_plan is None:
            raise RunError("the switch has no links yet")
        return self._switch_plan.manager


def _applied_link(one: BottleneckQueue) -> AppliedLink:
    packets = one.depth.packets if one.link.limit_packets is not None else None
    # Of a rate that varies, what its BDP is of.
    rate_bps = one.rate_bps if one.link.schedule is None else one.link.rate_bps
    return AppliedLink(rate_bps, one.depth.bytes, packets)
