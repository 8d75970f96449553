# SPDX-License-Identifier: Apache-2.0
"""Tofino as a target: an experiment's bottleneck on a real switch, given back as it was found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from narrows_formats.target_profile import TargetProfile

from narrows.errors import InputError, NarrowsError, RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import REPORT_LENGTH_BYTES, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.state import RunState
from narrows.switch.readings import FlowTotals, PortStats, QueueStats
from narrows.targets.base import Realised, Target, TargetOptions
from narrows.targets.tofino.bfrt.client import Client, Operation, describe_key
from narrows.targets.tofino.bfrt.connect import connect
from narrows.targets.tofino.bfrt.errors import BfrtError
from narrows.targets.tofino.bfrt.values import DigestMessage
from narrows.targets.tofino.binding import bind
from narrows.targets.tofino.delay_line import DelayLine
from narrows.targets.tofino.planner import SwitchPlan, layer_of, plan_switch, realised, used_ports
from narrows.targets.tofino.programming.audit import AuditLog
from narrows.targets.tofino.programming.programmer import Programmer, restore_all
from narrows.targets.tofino.readings.checks import COUNTER_AGE_S, DropGuard
from narrows.targets.tofino.readings.counters import Counters, clear_writes
from narrows.targets.tofino.readings.statistics import port_stats, queue_stats
from narrows.targets.tofino.testbed.inventory import Inventory, load_inventory
from narrows.targets.tofino.testbed.machines import SshTestbed
from narrows.targets.tofino.testbed.preflight import Preflight
from narrows.targets.tofino.testbed.tunnel import Tunnel
from narrows.targets.tofino.writes.entries import loss_write, observe_write
from narrows.targets.tofino.writes.planned import number
from narrows.targets.tofino.writes.ports import port_writes
from narrows.targets.tofino.writes.reader import AssumedReader, LiveReader
from narrows.targets.tofino.writes.traffic_manager import Bottleneck, TrafficManager

LINK_WAIT_S = 20.0
LINK_POLL_S = 0.2
EPOCHS = 1 << 16
# Flows whose counters are read one by one in every reading of a queue.
MOST_FLOWS = 64
# A port that is reset again and again is given up.
MOST_MENDED = 100
_Answer = TypeVar("_Answer")


class TofinoTarget(Target):
    """One switch, for one run.

    Calls to the switch block a thread, one at a time; the event loop stays free.
    """

    has_own_machines = True

    def __init__(
        self,
        inventory: Inventory,
        audit_path: Path,
        clear_counters: bool = True,
        connect_to: Callable[..., Client] = connect,
        preflight: Preflight | None = None,
    ) -> None:
        """Nothing is connected to before `start`.

        Args:
            inventory: the testbed.
            audit_path: where every change to the switch is logged.
            clear_counters: zero the program's registers and counters before the run.
            connect_to: what opens a session.
            preflight: what asks the machines, and remembers their answers from run to run.
        """
        self._inventory = inventory
        self._chip = inventory.switch.generation
        self._audit_path = audit_path
        self._clear_counters = clear_counters
        self._connect_to = connect_to
        self._preflight = preflight or Preflight(inventory)
        self._delay_line = DelayLine()
        self._testbed: Testbed | None = None
        self._tunnel: Tunnel | None = None
        self._audit: AuditLog | None = None
        self._programmer: Programmer | None = None
        self._counters: Counters | None = None
        self._guard: DropGuard | None = None
        self._switch_plan: SwitchPlan | None = None
        self._digests: list[DigestMessage] = []
        self._told = 0
        self._departed: dict[int, int] = {}
        self._epoch = 0
        self._earlier_losses: list[str] = []
        self._lock = asyncio.Lock()

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets of one testbed, whose machines are asked once; the log of changes is beside the results."""
        assert options.inventory is not None
        inventory = load_inventory(options.inventory)
        audit = options.results.parent / f"{options.results.absolute().name}.audit.jsonl"
        preflight = Preflight(inventory)
        return lambda experiment: cls(inventory, audit, preflight=preflight)

    @property
    def profile(self) -> TargetProfile:
        """Times in ns; depths in cells, of which each packet takes whole ones."""
        return TargetProfile(
            name=self._chip.name,
            time_unit_s=1e-9,
            timestamp_bits=48,
            depth_unit="cells",
            depth_unit_bytes=self._chip.cell_bytes,
            rate_unit="bit/s",
            rate_layer="l2",
            delay_line=False,
            flow_drop_counters=False,
        )

    def adapt(self, plan: Plan) -> Plan:
        """The plan on the testbed's ports and machines.

        Raises:
            InputError: the testbed has too few machines, or not the addresses.
        """
        return bind(plan, self._inventory)

    def machine_problems(self, plan: Plan) -> list[str]:
        """What the machines lack: access, tools, the interface, congestion controls."""
        return self._preflight.problems(plan)

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """The machines of an adapted plan, by SSH."""
        return SshTestbed(plan, self._inventory, state.directory, mtu, state)

    def missing(self) -> list[str]:
        """What a delay line lacks; our own client needs only what Narrows itself needs."""
        return [] if self._inventory.delay_line is None else self._delay_line.missing()

    def refusals(self, plan: Plan) -> list[str]:
        """What of a bound plan no switch of this generation can do."""
        try:
            plan_switch(self._inventory, [plan], layer_of(plan), AssumedReader(self._chip))
        except InputError as error:
            return str(error).splitlines()
        return []

    async def start(self, testbed: Testbed | None = None) -> None:
        """Connect to the switch.

        Raises:
            RunError: it cannot be reached, runs another program or another chip, or belongs to somebody else.
        """
        self._testbed = testbed
        await self._call(self._open)

    async def configure(self, plan: Plan) -> Realised:
        """Set up one bottleneck; see `configure_all`.

        Raises:
            RunError: the switch refuses something, or what it made reads back differently; nothing is left behind.
        """
        return (await self.configure_all([plan]))[0]

    async def configure_all(self, plans: Sequence[Plan]) -> list[Realised]:
        """Set up one bottleneck a bound plan: ports, links, traffic manager, mirror session, the program's entries.

        Raises:
            RunError: as `configure`.
        """
        made = await self._call(lambda: self._configure(plans))
        line = self._inventory.delay_line
        if line is not None:
            assert self._testbed is not None
            await self._delay_line.start(self._testbed, line.interface, plans[0])
        return made

    async def change(self, plan: Plan) -> Realised:
        """Change rate, depth, marking or loss of a bottleneck under way.

        The steps are single writes a few milliseconds apart: depth, rate, loss, and last the settings generation
        (epoch) that reports carry. A packet may meet the new depth at the old rate.

        Args:
            plan: the bound plan with its new settings (`planner.with_settings`); its index says which bottleneck.

        Raises:
            RunError: as `configure`; the settings before the change are back then.
        """
        return await self._call(lambda: self._change(plan))

    async def queues(self) -> list[QueueStats]:
        """The bottlenecks' queues. Packets and bytes are the program's, depth is read from the chip.

        Bytes are those of flows whose digest has come. A reading costs five table reads a bottleneck and two a flow.
        With more than `MOST_FLOWS` bytes are None while packets leave: they come when nothing moves any more.
        """
        self._delay_line.check()
        return await self._call(self._queues)

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """The program's arrivals and departures of some flow indices."""
        return await self._call(lambda: self._ready_counters().totals(flows))

    async def new_flows(self) -> list[dict[str, Any]]:
        """New-flow messages since the last call, field by field."""

        def take() -> list[dict[str, Any]]:
            told, self._told = self._told, len(self._take_digests())
            return [dict(digest.data) for digest in self._digests[told:]]

        return await self._call(take)

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """Bytes of some flow indices that have left their queue."""
        return await self._call(lambda: self._ready_counters().departed_bytes(flows))

    async def ports(self) -> list[PortStats]:
        """MAC counters of the ports in use."""
        return await self._call(lambda: [port_stats(self._ready().client, port) for port in used_ports(self._plans())])

    async def losses_elsewhere(self, plan: Plan) -> list[str]:
        """Drops that are not the bottleneck's, and settings that somebody has changed meanwhile.

        Waits until the driver's copies of the drop counters are no older than the end of traffic.
        """
        await asyncio.sleep(COUNTER_AGE_S)
        return [*await self._delay_line.losses(), *await self._call(self._losses)]

    async def stop(self) -> None:
        """Restore what was found, and close the session.

        Raises:
            RunError: something could not be restored; the message says what, and how to.
        """
        try:
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

    # In the thread

    def _open(self) -> None:
        client = self._session()
        try:
            if not any(name.startswith(f"{self._chip.prefix}.tm.") for name in client.schema.tables):
                raise BfrtError(f"the switch is no {self._chip.name}: its tables are another generation's")
            self._counters = Counters(client)
            self._audit = AuditLog(self._audit_path)
        except NarrowsError:
            client.close()
            raise
        self._programmer = Programmer(client, self._audit)

    def _session(self) -> Client:
        switch = self._inventory.switch
        address = None
        if switch.tunnel is not None:
            if self._tunnel is None:
                self._tunnel = Tunnel(switch.tunnel, switch.address)
            address = self._tunnel.open()
        prefer = ("sde", "own") if switch.client == "auto" else (switch.client,)
        return self._connect_to(self._inventory.endpoint(address), prefer)

    def _configure(self, plans: Sequence[Plan]) -> list[Realised]:
        programmer = self._ready()
        reader = LiveReader(programmer.client)
        # Once with what is known before ports are there: refusals come before anything is written.
        total = reader.entry(f"{self._chip.prefix}.tm.cfg", None)
        assert total is not None
        plan_switch(self._inventory, plans, layer_of(plans[0]), AssumedReader(self._chip, number(total, "total_cells")))
        mark = len(programmer.journal)
        ports = used_ports(plans)
        programmer.apply(port_writes(self._inventory, ports, reader))
        try:
            self._wait_for_links(ports)
            self._switch_plan = plan_switch(self._inventory, plans, layer_of(plans[0]), reader, self._epoch)
            if self._clear_counters:
                programmer.clear(clear_writes())
            programmer.apply(self._switch_plan.writes)
            manager = self._switch_plan.manager
            self._guard = self._new_guard(self._switch_plan)
        except BaseException as error:
            self._switch_plan = None
            # Without a session nothing can be undone now: stop does it over a new one.
            problems = programmer.undo(mark) if programmer.client.alive() else []
            if isinstance(error, NarrowsError) and problems:
                raise RunError("\n".join([str(error), *problems])) from error
            raise
        return [self._realised(one) for one in manager.bottlenecks]

    def _change(self, plan: Plan) -> Realised:
        programmer, manager = self._ready(), self._planned()
        index = plan.bottleneck.index
        plans = [plan if one.plan.bottleneck.index == index else one.plan for one in manager.bottlenecks]
        before = next(one.plan for one in manager.bottlenecks if one.plan.bottleneck.index == index)
        changed = plan_switch(self._inventory, plans, layer_of(plan), LiveReader(programmer.client), self._epoch)
        epoch = (self._epoch + 1) % EPOCHS
        wanted = next(one for one in changed.manager.bottlenecks if one.plan.bottleneck.index == index)
        # Others' limits grow before the queue does.
        writes = [*changed.manager.shared_writes(), *changed.manager.queue_writes(wanted)]
        if plan.bottleneck.loss != before.bottleneck.loss:
            operation = Operation.MODIFY if before.bottleneck.loss else Operation.INSERT
            writes.append(loss_write(plan, operation))
        writes.append(observe_write(plan, self._chip.cell_bytes, epoch, Operation.MODIFY))
        earlier = [] if self._guard is None else self._guard.misplaced()
        programmer.apply(writes)
        self._epoch = epoch
        self._switch_plan = changed
        # From here on the queue is measured against its new depth.
        self._earlier_losses += earlier
        self._guard = self._new_guard(changed, self._guard)
        return self._realised(wanted)

    def _wait_for_links(self, ports: Sequence[int]) -> None:
        """Wait until all links are up.

        Raises:
            RunError: one is not after `LINK_WAIT_S` seconds.
        """
        client = self._ready().client
        table = client.schema.table("$PORT")
        deadline = time.monotonic() + LINK_WAIT_S
        waiting = list(ports)
        while True:
            waiting = [port for port in waiting if not client.read(table, {"$DEV_PORT": port}).data.get("$PORT_UP")]
            if not waiting:
                return
            if time.monotonic() > deadline:
                names = ", ".join(self._inventory.port(port).name for port in waiting)
                raise RunError(
                    f"no link on port {names} after {LINK_WAIT_S:g} s; fix: check cable, and that speed, FEC and "
                    "auto-negotiation in the inventory are those of the NIC ('ethtool INTERFACE' on the host)"
                )
            time.sleep(LINK_POLL_S)

    def _realised(self, one: Bottleneck) -> Realised:
        notes = [*one.depth.warnings, f"rate: {one.shaping.overhead.note}"]
        if one.shaping.overhead.uncertainty:
            notes.append(
                f"rate: up to {one.shaping.overhead.uncertainty:.2%} less than stated if the shaper counts the FCS, "
                "which is not documented; measure it and set switch.shaper_counts_fcs"
            )
        notes.append(
            "depth: the read-back of tm.queue.buffer is the driver's copy; only a watermark under load proves it"
        )
        return Realised(
            rate_bps=round(one.shaping.realised_bps),
            limit_bytes=one.depth.bytes,
            limit_packets=one.depth.packets if one.plan.bottleneck.limit_packets is not None else None,
            epoch=self._epoch,
            notes=tuple(notes),
            program={
                "name": self._inventory.switch.program,
                "client": self._ready().client.kind,
                "audit": str(self._audit_path),
                "tofino": realised(one),
                "report_length": REPORT_LENGTH_BYTES,
            },
        )

    def _queues(self) -> list[QueueStats]:
        self._mend()
        return [self._queue(one) for one in self._planned().bottlenecks]

    def _mend(self) -> None:
        """Make settings again that a change of a port's speed has undone; the run has failed all the same."""
        manager, programmer = self._planned(), self._ready()
        reset = [self._inventory.port(one.queue.dev_port).name for one in manager.bottlenecks if manager.was_reset(one)]
        if not reset:
            return
        undone: list[str] = []
        # Giving a port its speed back resets its queues once more.
        while (found := programmer.reapply()) and len(undone) < MOST_MENDED:
            undone += found
        words = f"port {', '.join(reset)} was reset during the run; made again: {'; '.join(dict.fromkeys(undone))}"
        self._earlier_losses.append(words)

    def _queue(self, one: Bottleneck) -> QueueStats:
        assert self._guard is not None
        index = one.plan.bottleneck.index
        flows = {digest.data["index"] for digest in self._take_digests() if digest.data["bottleneck"] == index}
        client, prefix, counters = self._ready().client, self._chip.prefix, self._ready_counters()
        departed = counters.bottleneck_departures(index)
        moving = self._departed.get(index) != departed
        self._departed[index] = departed
        bytes_of = None if moving and len(flows) > MOST_FLOWS else flows
        return queue_stats(client, counters, self._guard, prefix, one, departed, bytes_of, self._epoch)

    def _losses(self) -> list[str]:
        assert self._guard is not None
        changed = [f"a setting was changed during the run: {words}" for words in self._ready().drift()]
        return [*self._earlier_losses, *self._guard.misplaced(), *changed]

    def _new_guard(self, planned: SwitchPlan, before: DropGuard | None = None) -> DropGuard:
        self._ready().clear(planned.watermarks)
        switch, manager = self._inventory.switch, planned.manager
        pools = (switch.egress_pool, switch.ingress_pool)
        client = self._ready().client
        return DropGuard(client, self._chip.prefix, manager.bottlenecks, manager.input_ports, pools, before)

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
            if self._tunnel is not None:
                self._tunnel.close()
                self._tunnel = None
        if problems:
            lines = "\n".join(f"  {problem}" for problem in problems)
            raise RunError(
                f"the switch could not be given back as it was found:\n{lines}\n"
                f"restore the rest with: python -m narrows.targets.tofino.restore INVENTORY {self._audit_path}"
            )

    def _give_back(self, programmer: Programmer) -> list[str]:
        """Undo everything; over a new session if the old one is gone. Returns what could not be undone."""
        client = programmer.client
        try:
            if client.alive():
                return programmer.undo()
            client.close()
            assert self._audit is not None
            if not programmer.journal:
                return []
            client = self._session()
            return restore_all(client, programmer.journal, self._audit)[0]
        except BfrtError as error:
            return [str(error), *(f"{change.table} [{describe_key(change.key)}]" for change in programmer.journal)]
        finally:
            client.close()

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
            raise RunError("the switch has no bottleneck yet")
        return self._switch_plan.manager

    def _plans(self) -> list[Plan]:
        return [one.plan for one in self._planned().bottlenecks]
