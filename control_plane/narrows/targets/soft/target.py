# SPDX-License-Identifier: Apache-2.0
"""The embedded target: narrows-softswitch in the run's switch namespace."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from narrows_formats.digest import NewFlow
from narrows_formats.file_digest import file_digest
from narrows_formats.programs import SOFTSWITCH
from narrows_formats.target_profile import TargetProfile
from narrows_formats.units import NANOSECONDS, format_rate, format_time

from narrows.errors import RunError
from narrows.experiment.plan import FIRST_DEVICE, Host, Link, OwnProgram, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.netns import NIC_CHECKSUM_OFFLOADS, NIC_SEGMENTATION, NetnsTestbed
from narrows.hosts.state import RunState
from narrows.paths import binary, compiled_program
from narrows.switch.entries import DELAY_BITS
from narrows.switch.readings import Discards, FlowDrops, FlowTotals, PortStats, QueueReading, QueueStats, by_queue
from narrows.switch.widths import unreported_depths, unreported_waits
from narrows.targets.base import AppliedLink, AppliedSettings, Target, TargetOptions
from narrows.targets.p4runtime import P4RuntimeTarget
from narrows.targets.soft.observed import Observed, observe_request
from narrows.targets.soft.softswitch import (
    CONTROLLER_ADDRESS,
    MANAGED_PROGRAM,
    PROGRAM,
    Device,
    Softswitch,
    missing_parts,
    program_files,
)
from narrows.targets.soft.virtual_time import adapted, settings

# Imported when there is a switch to speak to, see `narrows.targets.p4runtime`.
if TYPE_CHECKING:
    from finsy.proto import p4r

    from narrows.experiment.model import Experiment
    from narrows.switch import traffic_manager_pb2 as pb
    from narrows.switch.p4runtime import P4RuntimeSession

# What it has been seen to carry in real time between namespaces, hosts included: 3.6 Gbit/s of full-size packets with
# a report on each, on two processors (benchmarks/results/2026-11-21-2cpu-x86_64.md, "Forwarding").
CARRIED_PACKETS_S = 300_000
# Limits of narrows-softswitch: MAX_RATE_BPS and MAX_DELAY_NS of its traffic manager, MAX_JITTER_NS of --access-rate.
MAX_RATE_BPS = 10_000_000_000_000
MAX_DELAY_NS = 100 * NANOSECONDS
MAX_JITTER_NS = 100 * NANOSECONDS
# Narrows is the primary of a role of its own, so that the controller may take any number.
CONTROLLER_ELECTION_ID = 1

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
    random_samples=True,
)


def _program(plan: Plan) -> str:
    return MANAGED_PROGRAM if plan.manages_queues else PROGRAM


def _devices(plan: Plan) -> tuple[Device, ...]:
    """The parts of the switch: that of our program is the first one, if a link has it."""
    ours = [] if plan.ours is None else [Device(FIRST_DEVICE, compiled_program(_program(plan)))]
    theirs = [
        Device(
            program.device_id,
            (program.json, program.p4info),
            tuple(plan.ports_of(program)),
            program.cpu_port if program.controller else None,
            program.fields,
        )
        for program in plan.programs
    ]
    return (*ours, *theirs)


class SoftTarget(P4RuntimeTarget):
    """The embedded target: one softswitch is all of it."""

    changes_links = True
    runs_programs = True

    def __init__(self, seed: int = 1) -> None:
        """Take the seed of the switch's random numbers (loss emulation)."""
        self._seed = seed
        self._switch = Softswitch("softswitch")
        self._nic: tuple[str, ...] = NIC_CHECKSUM_OFFLOADS
        self._loopbacks: tuple[int, ...] = ()
        self._cables: tuple[tuple[int, int], ...] = ()
        self._frame_bytes = 0
        self._program = PROGRAM
        self._devices: tuple[Device, ...] = ()
        self._runs_ours = True
        self._observed: Observed | None = None
        # By device, cells of registers.
        self._watched: dict[int, list[p4r.RegisterEntry]] = {}
        self._collector: Host | None = None
        self._reports: str | None = None
        # Links of users' programs, by index, and links before whose queues a program drops.
        self._theirs: dict[int, Link] = {}
        self._dropping: dict[int, Link] = {}
        # Ports and queues of links with a policer, and of those with an ACK filter.
        self._policed: set[tuple[int, int]] = set()
        self._filtered: set[tuple[int, int]] = set()
        # Flow indices that have been seen where our program drops.
        self._indices: dict[int, set[int]] = defaultdict(set)

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets with the experiments' seeds."""
        return lambda experiment: cls(experiment.seed)

    @property
    def profile(self) -> TargetProfile:
        """Nanoseconds and bytes; bit/s rates, a delay line on every port; drops are recorded where there is a pipe."""
        return replace(PROFILE, drop_records=self._reports is not None)

    @property
    def session(self) -> P4RuntimeSession:
        """The P4Runtime session of Narrows' own program, while the switch runs."""
        return self._switch.session

    @property
    def pid(self) -> int:
        """The switch's process id, while it runs."""
        return self._switch.pid

    def missing(self) -> list[str]:
        """What this machine lacks to run the softswitch."""
        return missing_parts()

    def unsupported(self, plan: Plan) -> list[str]:
        """What its traffic manager, its models of hosts and its reports do not go up to."""
        delays = {port.host: port.delay_ns for port in plan.ports}
        most_rate, most_rtt, most_jitter = (
            format_rate(MAX_RATE_BPS), format_time(MAX_DELAY_NS), format_time(MAX_JITTER_NS)
        )  # fmt: skip
        given = [
            *((f"{link.field}.rate", link.rates_bps.most, MAX_RATE_BPS, most_rate) for link in plan.links),
            *((f"{link.field}.delay", link.longest_delay_ns, MAX_DELAY_NS, most_rtt) for link in plan.links),
            ("hosts.rate", plan.access_rate_bps or 0, MAX_RATE_BPS, most_rate),
            ("hosts.jitter", plan.jitter_ns or 0, MAX_JITTER_NS, most_jitter),
            *(
                (f"flows.{number}.rtt", delays[sender.name], MAX_DELAY_NS, most_rtt)
                for number, sender in enumerate(plan.senders)
            ),
        ]
        beyond = [
            f"{field}: is more than the softswitch does; allowed: up to {allowed}"
            for field, value, most, allowed in given
            if value > most
        ]
        early = [
            f"{link.field}.policer: is behind the decision of {link.aqm.kind}, which is made when a packet "
            "comes in; allowed: with an AQM that decides later (codel, fq_codel), or tail-drop or head-drop"
            for link in plan.links
            if link.policer is not None and link.aqm is not None and link.aqm.drops_on_arrival
        ]
        found = [*beyond, *early, *unreported_depths(plan), *unreported_waits(plan, DELAY_BITS, 1)]
        if not plan.programs or found:
            return found
        from narrows.switch import own_program

        return own_program.problems(plan)

    def programs(self, plan: Plan) -> dict[str, Path]:
        """The softswitch, and the P4 programs that it runs for a plan."""
        ours = {} if plan.ours is None else program_files(_program(plan))
        theirs = {str(path): path for program in plan.programs for path in program.files.values()}
        return {SOFTSWITCH: binary(SOFTSWITCH)} | ours | theirs

    def notes(self, plan: Plan) -> list[str]:
        """Users' programs that are slow, and why; ports in their entries at which nothing may be."""
        from narrows.switch.own_program import notes, port_notes

        return [*(note for program in plan.programs for note in notes(program)), *port_notes(plan)]

    def real_time_notes(self, plan: Plan) -> list[str]:
        """A rate in packets above what was measured."""
        packets_s = sum(link.rates_bps.most for link in plan.links) // (8 * plan.frame_bytes)
        if packets_s <= CARRIED_PACKETS_S:
            return []
        fields = ", ".join(f"{link.field}.rate" for link in plan.links)
        together = " together" if len(plan.links) > 1 else ""
        return [
            f"{fields}: {packets_s:,} full-size packets/s{together}; in real time about {CARRIED_PACKETS_S:,} "
            "were measured (two processors, benchmarks/README.md), and a run fails if this machine loses packets; "
            "--virtual is exact at any rate"
        ]

    def prepare_for_guest(self, plan: Plan) -> Plan:
        """The switch looks ahead for half of the delays, and does the work of the hosts' NICs."""
        plan = adapted(plan)
        virtual = settings(plan)
        self._switch = Softswitch("softswitch", virtual)
        if virtual.tso:
            self._nic = NIC_SEGMENTATION
        self.pausable = True
        return plan

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """Namespaces."""
        self._take(plan)
        return NetnsTestbed(plan, state, mtu, self._nic)

    def _take(self, plan: Plan) -> None:
        """Keep what the switch of a plan is started with, and where its program drops."""
        self._loopbacks, self._cables = plan.loopbacks, plan.cables
        self._collector = plan.collector_host
        self._frame_bytes = plan.frame_bytes
        self._program = _program(plan)
        self._runs_ours = plan.ours is not None
        self._devices = _devices(plan)
        self._theirs = {link.index: link for link in plan.links if plan.program_of(link) is not None}
        managed = {link.index: link for link in plan.links if link.aqm is not None and link.aqm.drops_on_arrival}
        self._dropping = self._theirs | managed
        self._policed = {(link.port, link.queue) for link in plan.links if link.policer is not None}
        self._filtered = {(link.port, link.queue) for link in plan.links if link.ack_filter is not None}

    async def start(self, testbed: Testbed, piped: bool = False) -> None:
        """Start the switch on the testbed's ports and connect to it.

        Raises:
            RunError: it does not come up; the message has its last output.
        """
        interfaces = {attachment.port: attachment.interface for attachment in testbed.attachments}
        pipes = await self._pipes(testbed, piped)
        await self._switch.start(
            testbed,
            interfaces,
            self._seed,
            self._loopbacks,
            devices=self._devices,
            cables=self._cables,
            prompt=self.will_pause,
            pipes=pipes,
        )

    async def _pipes(self, testbed: Testbed, piped: bool) -> dict[int, str]:
        """Make the pipe to a collector on the switch's machine, if there is to be one; returns it by its port."""
        assert self._collector is not None
        self._reports = await testbed.pipe(self._collector.name, "reports.pipe") if piped else None
        return {} if self._reports is None else {self._collector.port: self._reports}

    def reports_pipe(self) -> str | None:
        """See `Target.reports_pipe`: the kernel's way to a collector on the same machine costs as much as all else."""
        return self._reports

    async def configure(self, plan: Plan) -> AppliedSettings:
        """Load the programs, install the plan's entries and set queues and delays.

        Raises:
            RunError: the switch refuses something, or a setting reads back differently.
        """
        from narrows.switch.p4runtime_entries import entities
        from narrows.targets.soft.settings import port_delays, queue_requests

        session, manager = self._switch.session, self._switch.manager
        for one in self._switch.sessions.values():
            await one.push_pipeline()
        for request in queue_requests(plan, self._seed):
            await manager.configure(request)
        for port, delay_ns in port_delays(plan).items():
            await self._switch.set_delay(port, delay_ns)
        # Paths are connected last: no packet passes a switch that is half set up.
        if plan.programs:
            await manager.observe(observe_request(plan))
            self._observed = Observed(manager)
        for program in plan.programs:
            await self._enter(program)
        if (ours := plan.ours) is not None:
            entries = entities(ours, PROFILE, session.schema)
            await session.insert(entries)
            await session.require(entries)
        return await self._read_back(plan)

    async def _enter(self, program: OwnProgram) -> None:
        """Make the entries of a user's program.

        Raises:
            RunError: the switch refuses something, or an entry reads back differently.
        """
        from narrows.switch.left_entries import left_by
        from narrows.switch.own_program import cells, updates

        session = self._switch.sessions[program.device_id]
        self._watched[program.device_id] = cells(program)
        made = updates(program)
        if made:
            await session.update(made)
        await session.require_encoded(left_by(made))

    async def start_schedules(self, epoch_ns: int) -> None:
        """See `Target.start_schedules`; read back."""
        await self._switch.manager.start_schedules(epoch_ns)
        for queue in (await self._switch.manager.list()).queues:
            for status in (queue.rate_schedule, queue.delay_schedule):
                if status.entries and status.epoch_ns != epoch_ns:
                    raise RunError(f"port {queue.port} of the softswitch: a schedule begins at {status.epoch_ns} ns")

    async def change(self, before: Link, after: Link) -> int:
        """See `Target.change`."""
        from narrows.switch.p4runtime_entries import change_link
        from narrows.targets.soft.settings import change_request

        if before.delay_ns != after.delay_ns and not after.loopback:
            raise RunError(f"{after.name}: has no delay of its own that could change; fix: a delay from the start on")
        await change_link(self._switch.session, before, after, self._frame_bytes)
        # Asked for nothing it tells the time.
        request = change_request(before, after)
        answer = await self._switch.manager.configure(request)
        queue = answer.queue
        if any(getattr(queue, field.name) != value for field, value in request.ListFields()):
            raise RunError(f"the softswitch's queue for {after.name} reads back as {queue}, not {after}")
        return answer.timestamp_ns

    async def pause(self, at_ns: int | None) -> None:
        """See `Target.pause`."""
        await self._switch.manager.pause(at_ns)

    async def now_ns(self) -> int:
        """CLOCK_MONOTONIC of this host, as the switch tells it."""
        return (await self._switch.manager.list()).timestamp_ns

    async def queues(self) -> list[QueueStats]:
        """All queues that were set or have seen a packet; drops in front of them by queue management are theirs."""
        return (await self.read_queues(())).queues

    async def flow_drops(self, port: int, queue: int) -> list[FlowDrops]:
        """Drops at a queue by flow index: by a policer, an ACK filter or queue management, or for want of room."""
        return (await self.read_queues([(port, queue)])).drops[port, queue]

    async def read_queues(self, places: Collection[tuple[int, int]], at_ns: int | None = None) -> QueueReading:
        """See `Target.read_queues`: one call, but for what a program drops in front of a queue."""
        from narrows.switch import traffic_manager_pb2 as pb

        manager = self._switch.manager
        asked = [
            pb.FlowDropsRequest(port=port, queue=queue, cause=cause)
            for port, queue in places
            for cause in self._causes(port, queue)
        ]
        listed = await (manager.list(asked) if at_ns is None else manager.pause_and_list(at_ns, asked))
        queues = [_queue_stats(queue) for queue in listed.queues]
        drops = {place: list[FlowDrops]() for place in places}
        for request, found in zip(asked, listed.flow_drops, strict=True):
            drops[request.port, request.queue] += [FlowDrops(one.flow, one.packets, one.bytes) for one in found.flows]
        for index, link in self._dropping.items():
            place, early = (link.port, link.queue), await self._early_drops(index)
            packets, octets = sum(drop.packets for drop in early), sum(drop.bytes for drop in early)
            queues = [
                _with_aqm_drops(queue, packets, octets) if (queue.port, queue.queue) == place else queue
                for queue in queues
            ]
            if place in drops:
                drops[place] += early
        return QueueReading(queues, {place: _summed(found) for place, found in drops.items()})

    def _causes(self, port: int, queue: int) -> list[pb.Cause]:
        """Why the traffic manager may drop a packet at a queue."""
        from narrows.switch import traffic_manager_pb2 as pb

        # Of ours, only the program with AQMs drops at departure.
        is_theirs = any((link.port, link.queue) == (port, queue) for link in self._theirs.values())
        managed = [] if self._program == PROGRAM and not is_theirs else [pb.MANAGED]
        policed = [pb.POLICED] if (port, queue) in self._policed else []
        filtered = [pb.REDUNDANT] if (port, queue) in self._filtered else []
        return [pb.TAIL, *policed, *filtered, *managed]

    async def new_flows(self) -> list[NewFlow]:
        """See `Target.new_flows`; whose they are is kept where our program drops in front of a queue."""
        of_ours = await super().new_flows() if self._runs_ours else []
        for new in of_ours:
            if new.bottleneck in self._dropping:
                self._indices[new.bottleneck].add(new.flow)
        return of_ours if self._observed is None else [*of_ours, *await self._observed.new_flows()]

    async def subscribe_new_flows(self, at_once: bool = False) -> None:
        """See `Target.subscribe_new_flows`; the traffic manager is asked for those of users' programs."""
        if self._runs_ours:
            await super().subscribe_new_flows(at_once)

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """See `Target.flow_totals`: of links of all programs together, as of those of one."""
        of_ours = await super().flow_totals(flows) if self._runs_ours else []
        if self._observed is None:
            return of_ours
        found = {total.flow: total for total in await self._observed.flow_totals(flows)}
        for total in of_ours:
            other = found.get(total.flow, FlowTotals(total.flow, 0, 0))
            found[total.flow] = FlowTotals(
                total.flow, total.arrivals + other.arrivals, total.departures + other.departures
            )
        return [found[flow] for flow in sorted(found)]

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """See `Target.departed_bytes`."""
        of_ours = await super().departed_bytes(flows) if self._runs_ours else {}
        theirs = {} if self._observed is None else await self._observed.departed_bytes(flows)
        return {flow: of_ours.get(flow, 0) + theirs.get(flow, 0) for flow in flows}

    async def read_watched(self) -> list[int]:
        """See `Target.read_watched`."""
        sessions = self._switch.sessions
        found = [await sessions[device].read_registers(cells) for device, cells in self._watched.items() if cells]
        return list(itertools.chain.from_iterable(found))

    def controller_environment(self, program: OwnProgram) -> dict[str, str]:
        """See `Target.controller_environment`."""
        return {
            "P4RUNTIME_ADDRESS": CONTROLLER_ADDRESS,
            "P4RUNTIME_DEVICE_ID": str(program.device_id),
            "P4RUNTIME_ELECTION_ID": str(CONTROLLER_ELECTION_ID),
        }

    async def wait_for_controller(self, program: OwnProgram) -> None:
        """See `Target.wait_for_controller`."""
        await self._switch.sessions[program.device_id].wait_for_other_primary()

    async def _early_drops(self, index: int) -> list[FlowDrops]:
        """What the program of a link dropped in front of its queue, by flow index."""
        if self._observed is not None and index in self._theirs:
            return await self._observed.early_drops(index)
        from narrows.switch.p4runtime_entries import read_counter

        found = await read_counter(self.session, "enqueue_drop_counter", self._indices[index])
        return [
            FlowDrops(flow, data.packet_count, data.byte_count) for flow, data in found.items() if data.packet_count
        ]

    async def ports(self) -> list[PortStats]:
        """Interface counters of all ports."""
        return await self._switch.ports()

    async def discards(self) -> Discards:
        """See `Target.discards`."""
        return await self._switch.discards()

    async def unexpected_losses(self, plan: Plan) -> list[str]:
        """Packets lost anywhere but at a link's queue or by loss emulation."""
        collector = plan.collector.port
        queues = {link.port for link in plan.links}
        return await self._switch.losses(queues_except={*queues, collector}, ports_except=(collector,))

    async def stop(self) -> None:
        """End the switch; safe to call at any time, and twice."""
        await self._switch.stop()

    async def _read_back(self, plan: Plan) -> AppliedSettings:
        from narrows.switch.p4runtime_entries import program_digests

        queues = by_queue(await self.queues())
        applied = {}
        for link in plan.links:
            queue = queues.get((link.port, link.queue))
            asked = (link.rate_bps, link.byte_limit, link.limit_packets or 0)
            if queue is None or (queue.rate_bps, queue.limit_bytes, queue.limit_packets) != asked:
                raise RunError(f"the softswitch's queue for {link.name} reads back as {queue}, not {link}")
            await self._check_messages(link, plan)
            applied[link.name] = AppliedLink(queue.rate_bps, link.limit_bytes, link.limit_packets)
        digests = program_digests(self._program) if self._runs_ours else {}
        if not plan.programs:
            return AppliedSettings(applied, program=digests)
        for program in plan.programs:
            # Several may have files of the same names.
            of = "" if len(self._devices) == 1 else f"{program.links[0]}/"
            digests |= {f"{of}{path.name}": file_digest(path) for path in program.files.values()}
        return AppliedSettings(applied, tuple(self.notes(plan)), digests)

    async def _check_messages(self, link: Link, plan: Plan) -> None:
        """What is not a number of a queue's: how it is managed, and what varies."""
        from narrows.switch.link_models import schedule_status, variation
        from narrows.targets.soft.settings import (
            ack_filter_message,
            aggregation_message,
            drops_from_head,
            framing_message,
            management_message,
            policer_message,
        )

        queues = by_queue((await self._switch.manager.list()).queues)
        queue = queues[link.port, link.queue]
        rate = None if link.schedule is None else schedule_status(link.schedule)
        delay = None if link.delay_steps is None else schedule_status(link.delay_steps)
        for what, asked, read in (
            ("schedule of the rate", rate, _status(queue.rate_schedule)),
            ("schedule of the delay", delay, _status(queue.delay_schedule)),
            ("variation", variation(link, self._seed) if link.varies_behind else None, queue.variation),
            ("burst", link.burst_bytes, queue.burst_bytes),
            ("drop from the head", drops_from_head(link), queue.head_drop),
            ("policer", None if link.policer is None else policer_message(link), queue.policer),
            ("aggregation", None if link.aggregation is None else aggregation_message(link), queue.aggregation),
            ("framing", framing_message(link), queue.framing),
            ("ACK filter", None if link.ack_filter is None else ack_filter_message(link), queue.ack_filter),
            ("queue management", management_message(link, plan), queue.management),
        ):
            if asked is not None and read != asked:
                raise RunError(f"the softswitch's {what} for {link.name} reads back as {read}")


def _status(status: pb.ScheduleStatus) -> tuple[int, int | None]:
    return status.entries, status.period_ns if status.HasField("period_ns") else None


def _queue_stats(queue: pb.Queue) -> QueueStats:
    same = {
        field.name: getattr(queue, field.name) for field in fields(QueueStats) if field.name != "aqm_dropped_packets"
    }
    stats = QueueStats(**same, aqm_dropped_packets=0)
    return _with_aqm_drops(stats, queue.managed_drop_packets, queue.managed_drop_bytes)


def _summed(drops: list[FlowDrops]) -> list[FlowDrops]:
    """One of each flow index, of all causes."""
    summed: dict[int, FlowDrops] = {}
    for drop in drops:
        before = summed.get(drop.flow, FlowDrops(drop.flow, 0, 0))
        summed[drop.flow] = FlowDrops(drop.flow, before.packets + drop.packets, before.bytes + drop.bytes)
    return list(summed.values())


def _with_aqm_drops(queue: QueueStats, packets: int, octets: int) -> QueueStats:
    """The queue, with further packets and bytes that its management dropped."""
    return replace(
        queue,
        dropped_packets=(queue.dropped_packets or 0) + packets,
        dropped_bytes=(queue.dropped_bytes or 0) + octets,
        aqm_dropped_packets=(queue.aqm_dropped_packets or 0) + packets,
    )
