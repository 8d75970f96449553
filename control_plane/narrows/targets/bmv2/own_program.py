# SPDX-License-Identifier: Apache-2.0
"""BMv2 with a P4 program of a user's in place of ours, and what it cannot do then."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from narrows_formats.digest import NewFlow
from narrows_formats.file_digest import file_digest
from narrows_formats.programs import SOFTSWITCH
from narrows_formats.target_profile import TargetProfile

from narrows.errors import RunError
from narrows.experiment.plan import Host, OwnProgram, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.state import RunState
from narrows.hosts.users import in_user_namespace, invoking_user
from narrows.paths import binary
from narrows.switch import own_program
from narrows.switch.readings import FlowTotals, PacketConservation, QueueStats
from narrows.targets.base import AppliedSettings
from narrows.targets.bmv2 import packets, simple_switch
from narrows.targets.bmv2.base import PROFILE, Bmv2
from narrows.targets.bmv2.delay_line import OFFSET
from narrows.targets.bmv2.recorder import Recorder
from narrows.targets.soft.virtual_time import in_batches, settings

# BMv2 knows no roles: who has the higher election id takes Narrows' place, once Narrows has written all that it writes.
CONTROLLER_ELECTION_ID = 2
# Of a register's cell, which Thrift has as a signed number.
CELL_MASK = (1 << 64) - 1
UNKNOWN = (
    "BMv2 does not say what a program of your own, its queues and its input did to a packet: queue delay, depth, drops "
    "and marks are not known, and reports are of what has left it"
)


class Bmv2OwnProgram(Bmv2):
    """One simple_switch_grpc with the user's program, and a softswitch around it that reports what leaves it."""

    runs_programs = True

    def __init__(self, path: Path | None = None, seed: int = 1, virtual: bool = False) -> None:
        """See `Bmv2`."""
        super().__init__(path, seed, virtual)
        self._recorder = Recorder(seed)
        self._delay_line = self._recorder
        self._own: OwnProgram | None = None
        self._collector: Host | None = None
        self._reports: str | None = None
        self._registers: list[tuple[str, int]] = []
        self._socket: Path | None = None

    @property
    def profile(self) -> TargetProfile:
        """BMv2's queues, and reports with nanoseconds of the softswitch behind them, which know nothing of queues."""
        return replace(PROFILE, time_unit_s=1e-9, queue_reported=False)

    def unsupported(self, plan: Plan) -> list[str]:
        """What of this plan BMv2 cannot do as written."""
        if not plan.programs:
            return []
        if plan.ours is not None or len(plan.programs) > 1:
            return [
                f"{plan.programs[0].field}: BMv2 is one device, which runs one program for all links; allowed: the "
                "same program for each link, or --target soft"
            ]
        (program,) = plan.programs
        found = packets.unsupported_kinds(plan)
        for link in plan.links:
            found += packets.unsupported_rate(link, plan.frame_bytes, self._virtual)
            found += packets.unsupported_depth(link, plan.frame_bytes)
        if not (found or self._virtual):
            found = _too_fast_together(plan)
        found += [*_beyond(plan, program), *packets.unsupported_card(plan, self._virtual)]
        return found or own_program.problems(plan, on_softswitch=False) or list(_in_files(program))

    def notes(self, plan: Plan) -> list[str]:
        """Ports in the program's entries at which nothing may be."""
        return list(own_program.port_notes(plan))

    def programs(self, plan: Plan) -> dict[str, Path]:
        """BMv2, the files of the program, and the softswitch around it."""
        ours = {SOFTSWITCH: binary(SOFTSWITCH)}
        files = {str(path): path for program in plan.programs for path in program.files.values()}
        found = simple_switch.find(self._path)
        return ours | files | ({} if found is None else {simple_switch.EXECUTABLE: found})

    def prepare_for_guest(self, plan: Plan) -> Plan:
        """BMv2 sees each frame at its instant: the softswitch does not look ahead."""
        plan = in_batches(plan)
        self._recorder = Recorder(self._seed, settings(plan))
        self._delay_line = self._recorder
        return plan

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """Namespaces."""
        (self._own,), self._collector = plan.programs, plan.collector_host
        return super().testbed(plan, state, mtu)

    async def start(self, testbed: Testbed, piped: bool = False) -> None:
        """Start the softswitch and the switch, and connect to both.

        Raises:
            RunError: one of them does not come up; the message has its last output.
        """
        own, collector = self._own, self._collector
        if own is None or collector is None:
            raise RunError("BMv2 has no plan")
        self._namespace = testbed.attachments[0].namespace
        self._reports = await testbed.pipe(collector.name, "reports.pipe") if piped else None
        self._interfaces = await self._recorder.surround(testbed, collector.port, self._reports)
        cpu_port = own.cpu_port if own.controller else None
        await self._start_switch(testbed, (own.json, own.p4info), cpu_port)
        self._socket = simple_switch.grpc_socket(testbed.state_dir)
        if own.controller and os.geteuid() == 0 and not in_user_namespace():
            os.chown(self._socket, *invoking_user())

    def reports_pipe(self) -> str | None:
        """See `Target.reports_pipe`."""
        return self._reports

    async def configure(self, plan: Plan) -> AppliedSettings:
        """Load the program, set queues and delays, and make the program's entries.

        Raises:
            RunError: the switch or the softswitch refuses something.
        """
        (program,), session = plan.programs, self._connected()
        await session.push_pipeline()
        limited = {link.port for link in plan.links}
        links = await self._set_queues(plan, [host.port for host in plan.end_hosts if host.port not in limited])
        self._before = self._links()
        self._registers = own_program.cell_names(program)
        await self._recorder.configure(plan)
        # Entries are made last: no packet passes a switch that is half set up.
        if made := own_program.updates(program):
            await session.update(made)
        self._plan = plan
        digests = {path.name: file_digest(path) for path in program.files.values()}
        version = await asyncio.to_thread(simple_switch.version, self._path)
        return AppliedSettings(
            links,
            (*packets.notes(plan), UNKNOWN, *own_program.port_notes(plan)),
            {**digests, simple_switch.EXECUTABLE: version},
        )

    async def now_ns(self) -> int:
        """The softswitch's clock, which stamps reports: CLOCK_MONOTONIC of this host."""
        return await self._recorder.now_ns()

    async def queues(self) -> list[QueueStats]:
        """Those of the links, by what has left them; BMv2 tells neither depth nor drops."""
        self._connected()
        departures = await self._recorder.departures()
        return [self._queue(link, departures.get(link.port, 0)) for link in self._planned().links]

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """None: what was offered to BMv2's queue of a flow is not known."""
        return []

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """See `Target.departed_bytes`."""
        return await self._recorder.observed.departed_bytes(flows)

    async def subscribe_new_flows(self, at_once: bool = False) -> None:
        """Nothing: the softswitch is asked."""

    async def new_flows(self) -> list[NewFlow]:
        """See `Target.new_flows`."""
        return await self._recorder.observed.new_flows()

    async def read_watched(self) -> list[int]:
        """See `Target.read_watched`; by Thrift, since BMv2's P4Runtime has no registers."""
        cells = self._registers
        found = await self._call(lambda thrift: [thrift.read_register(name, index) for name, index in cells])
        return [value & CELL_MASK for value in found]

    def controller_environment(self, program: OwnProgram) -> dict[str, str]:
        """See `Target.controller_environment`."""
        return {
            "P4RUNTIME_ADDRESS": f"unix:{self._socket}",
            "P4RUNTIME_DEVICE_ID": str(program.device_id),
            "P4RUNTIME_ELECTION_ID": str(CONTROLLER_ELECTION_ID),
        }

    async def wait_for_controller(self, program: OwnProgram) -> None:
        """See `Target.wait_for_controller`."""
        await self._connected().wait_until_replaced()

    async def packet_conservation(self, plan: Plan) -> list[PacketConservation]:
        """None: nothing separates what BMv2's input loses from what the program and its queues drop."""
        return []


def _too_fast_together(plan: Plan) -> list[str]:
    """Why BMv2 may be too slow for all links of a plan in real time."""
    total, most = sum(packets.packet_rate(link, plan.frame_bytes) for link in plan.links), packets.MAX_PACKETS_S
    if total <= most:
        return []
    return [f"links: {total} frames/s together, at which BMv2 may lose some outside queues; allowed: up to {most}"]


def _beyond(plan: Plan, program: OwnProgram) -> Iterator[str]:
    """What of a plan with a user's program BMv2 has nothing like."""
    for link in plan.links:
        if link.varies_behind or link.delay_steps is not None:
            yield (
                f"{link.field}: its delay varies, which BMv2's does not; allowed: no jitter, no duplication and a "
                "constant delay, or --target soft"
            )
    if program.quanta:
        yield f"{program.field}.quanta: BMv2's queues do not take turns; allowed: none, or --target soft"
    for name in program.fields:
        yield (
            f"{program.field}.watch: {name}: BMv2 does not say what fields packets have; allowed: cells of registers, "
            "or --target soft"
        )
    if program.controller and program.cpu_port == 0:
        yield f"{program.field}.cpu_port: BMv2 cannot have 0; allowed: 1 and more"
    for host in plan.end_hosts:
        if host.port >= OFFSET:
            yield f"{program.field}.ports: {host.name} is at port {host.port}; allowed: 0 to {OFFSET - 1} with BMv2"


def _in_files(program: OwnProgram) -> Iterator[str]:
    """What of a program's files, which are right, BMv2 does otherwise."""
    if "standard_metadata.priority" in own_program.assigned_fields(program):
        yield (
            f"{program.field}.json: {program.json}: gives packets a priority, and BMv2's queues of a port each have a "
            "rate and a buffer of their own; allowed: a program that does not, or --target soft"
        )
    for update in own_program.updates(program):
        session = update.entity.packet_replication_engine_entry.clone_session_entry
        if session.packet_length_bytes:
            yield (
                f"{program.field}.entries: {program.entries}: clone session {session.session_id} has a "
                "packet_length_bytes, which BMv2 refuses; allowed: truncate() in the program, or --target soft"
            )
