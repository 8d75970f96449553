# SPDX-License-Identifier: Apache-2.0
"""BMv2 as a target: simple_switch_grpc in the run's switch namespace, with a delay line towards the senders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from narrows_formats.target_profile import TargetProfile

from narrows.experiment.model import Experiment
from narrows.experiment.plan import COLLECTOR_PORT, Plan
from narrows.hosts.base import Testbed
from narrows.paths import compiled_program
from narrows.switch.p4runtime_entries import entities, program_digests, read_packet_sum, register_name
from narrows.switch.readings import PacketConservation, PortStats, QueueStats
from narrows.targets.base import AppliedSettings, Target, TargetOptions
from narrows.targets.bmv2 import packets, simple_switch
from narrows.targets.bmv2.base import PROFILE, Bmv2
from narrows.targets.bmv2.delay_line import Bmv2DelayLine
from narrows.targets.bmv2.own_program import Bmv2OwnProgram
from narrows.targets.soft.softswitch import PROGRAM, program_files
from narrows.targets.soft.virtual_time import in_batches, settings


class Bmv2Target(Bmv2):
    """BMv2 with our program, which reports what it does."""

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets of one executable, for our program and for users'."""
        ours, own = super().factory(options), Bmv2OwnProgram.factory(options)
        return lambda experiment: (own if experiment.programs else ours)(experiment)

    @property
    def profile(self) -> TargetProfile:
        """Microseconds and packets; rates in packets/s, no delay of its own."""
        return PROFILE

    def unsupported(self, plan: Plan) -> list[str]:
        """What of this plan BMv2 cannot do as written."""
        return packets.unsupported(plan, self._virtual)

    def programs(self, plan: Plan) -> dict[str, Path]:
        """BMv2, the P4 program, and the softswitch as its delay line."""
        found = simple_switch.find(self._path)
        return program_files(PROGRAM) | ({} if found is None else {simple_switch.EXECUTABLE: found})

    def prepare_for_guest(self, plan: Plan) -> Plan:
        """BMv2 sees each frame at its instant: the delay line does not look ahead."""
        plan = in_batches(plan)
        self._delay_line = Bmv2DelayLine(self._seed, settings(plan))
        return plan

    async def start(self, testbed: Testbed, piped: bool = False) -> None:
        """Start the delay line and the switch, and connect to both.

        Raises:
            RunError: one of them does not come up; the message has its last output.
        """
        self._namespace = testbed.attachments[0].namespace
        senders = [attachment for attachment in testbed.attachments if attachment.port > COLLECTOR_PORT]
        self._interfaces = {attachment.port: attachment.interface for attachment in testbed.attachments}
        self._interfaces |= await self._delay_line.start(testbed, senders)
        await self._start_switch(testbed, compiled_program(PROGRAM))

    async def configure(self, plan: Plan) -> AppliedSettings:
        """Load the program, install the plan's entries, set queues and delays.

        Raises:
            RunError: the switch or the delay line refuses something.
        """
        session = self._connected()
        # The process is new and gets one program only. Were it given another, clone sessions of the first would stay
        # and double every report.
        await session.push_pipeline()
        links = await self._set_queues(plan, (plan.collector.port, *(sender.port for sender in plan.senders)))
        self._before = self._links()
        # Paths are connected last: no packet passes a switch that is half set up.
        await session.insert(entities(plan, PROFILE, session.schema))
        await self._delay_line.configure(plan)
        self._plan = plan
        return AppliedSettings(
            links=links,
            notes=packets.notes(plan),
            program={**program_digests(), "simple_switch_grpc": simple_switch.version(self._path)},
        )

    async def now_ns(self) -> int:
        """Time since the switch started, by the clock that stamps reports."""
        return await self._call(lambda thrift: thrift.clock_us()) * 1000

    async def queues(self) -> list[QueueStats]:
        """The bottleneck's queue. BMv2 tells neither depth nor drops; that nothing waits shows when nothing leaves."""
        self._delay_line.check()
        bottleneck = self._planned().bottleneck
        name = register_name(self._connected().schema, "bottleneck_departures")
        departures = await self._call(lambda thrift: thrift.read_register(name, bottleneck.index))
        return [self._queue(bottleneck, departures)]

    async def packet_conservation(self, plan: Plan) -> list[PacketConservation]:
        """Interfaces against the program: libpcap loses bursts before the program sees them, and counts nothing."""
        session = self._connected()
        ports = {port.port: port for port in await self.ports()}
        senders = [ports[sender.port] for sender in plan.senders]
        receiver = ports[plan.receivers[0].port]
        arrivals = await read_packet_sum(session, "arrival_counter")
        emulated = await read_packet_sum(session, "loss_counter")
        departures = await read_packet_sum(session, "departure_counter")
        back = sum(port.tx_packets for port in senders)
        if plan.unlimited:
            return two_way_conservation(plan, senders, receiver, arrivals + emulated, departures)
        found = [
            PacketConservation(
                "between the senders' interfaces and the program",
                sum(port.rx_packets for port in senders),
                arrivals + emulated,
            ),
            PacketConservation("between the program and the receiver's interface", departures, receiver.tx_packets),
        ]
        if plan.ip_version == 4:
            # An IPv6 receiver also says things of its own (multicast listener reports), which go nowhere.
            found.append(PacketConservation("on the reverse path from the receiver", receiver.rx_packets, back))
        return found


def two_way_conservation(
    plan: Plan, senders: Sequence[PortStats], receiver: PortStats, arrivals: int, departures: int
) -> list[PacketConservation]:
    """Both directions together, where the program counts both."""
    sent, taken = sum(port.tx_packets for port in senders), sum(port.rx_packets for port in senders)
    found = [
        PacketConservation("between the program and the hosts' interfaces", departures, sent + receiver.tx_packets)
    ]
    if plan.ip_version == 4:
        found.insert(
            0,
            PacketConservation("between the hosts' interfaces and the program", taken + receiver.rx_packets, arrivals),
        )
    return found
