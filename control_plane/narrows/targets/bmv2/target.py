# SPDX-License-Identifier: Apache-2.0
"""BMv2 as a target: simple_switch_grpc in the run's switch namespace, with a delay line towards the senders."""

from __future__ import annotations

import asyncio
import functools
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from narrows_formats.target_profile import TargetProfile
from thrift.transport.TTransport import TTransportException

from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import COLLECTOR_PORT, Plan
from narrows.hosts.base import SWITCH, Testbed
from narrows.hosts.links import Link, call_inside, links, run
from narrows.hosts.process import Process
from narrows.paths import compiled_program
from narrows.switch.p4runtime import P4RuntimeSession
from narrows.switch.p4runtime_entries import entities, program_digests, read_packet_sum, register_name
from narrows.switch.readings import PacketConservation, PortStats, QueueStats
from narrows.targets.base import AppliedLink, AppliedSettings, Target, TargetOptions
from narrows.targets.bmv2 import packets, simple_switch
from narrows.targets.bmv2.delay_line import Bmv2DelayLine
from narrows.targets.bmv2.simple_switch import Thrift
from narrows.targets.p4runtime import P4RuntimeTarget
from narrows.targets.soft.softswitch import PROGRAM, program_files
from narrows.targets.soft.virtual_time import in_batches, settings

PROFILE = TargetProfile(
    name="bmv2",
    time_unit_s=1e-6,
    timestamp_bits=48,
    depth_unit="packets",
    depth_unit_bytes=None,
    rate_unit="packets/s",
    rate_layer="l2",
    delay_line=False,
    flow_drop_counters=False,
    random_samples=True,
)
# Packets that may wait at every port but the bottleneck's. The default, 64, loses reports.
OTHER_DEPTH = 100_000
STOP_S = 10.0
# A queue is empty when nothing has left it for this time and this many times what one packet takes.
STILL_S = 0.3
STILL_PACKETS = 3

_Answer = TypeVar("_Answer")


class Bmv2Target(P4RuntimeTarget):
    """One simple_switch_grpc, for one run: P4Runtime over a Unix socket, Thrift inside the switch's namespace."""

    def __init__(self, path: Path | None = None, seed: int = 1, virtual: bool = False) -> None:
        """Nothing is started before `start`.

        Args:
            path: the executable or the directory it is in; by default `simple_switch.find` looks for it.
            seed: of what senders take for a frame in virtual time.
            virtual: whether it is for a guest.
        """
        self._path = path
        self._seed = seed
        self._virtual = virtual
        self._process: Process | None = None
        self._session: P4RuntimeSession | None = None
        self._thrift: Thrift | None = None
        self._delay_line = Bmv2DelayLine(seed)
        self._namespace = ""
        self._interfaces: dict[int, str] = {}
        self._before: dict[int, Link] = {}
        self._plan: Plan | None = None
        self._departures = 0
        self._moved_at = 0.0
        self._lock = asyncio.Lock()

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets of one executable; BMv2's random numbers take no seed."""
        found = simple_switch.find(options.bmv2_path)
        # A guest has a PATH and a working directory of its own.
        path = options.bmv2_path if found is None else found.absolute()
        return lambda experiment: cls(path, experiment.seed, options.virtual)

    @property
    def profile(self) -> TargetProfile:
        """Microseconds and packets; rates in packets/s, no delay of its own."""
        return PROFILE

    @property
    def session(self) -> P4RuntimeSession:
        """The P4Runtime session, while the switch runs."""
        return self._connected()

    def missing(self) -> list[str]:
        """What this machine lacks to run BMv2 and the delay line."""
        problem = simple_switch.missing(self._path)
        return [*([problem] if problem else []), *self._delay_line.missing()]

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
        # Thrift listens on every address there is: here that is the namespace's own.
        run(["ip", "-n", self._namespace, "link", "set", "lo", "up"])
        senders = [attachment for attachment in testbed.attachments if attachment.port > COLLECTOR_PORT]
        self._interfaces = {attachment.port: attachment.interface for attachment in testbed.attachments}
        self._interfaces |= await self._delay_line.start(testbed, senders)
        directory = testbed.state_dir
        command = simple_switch.command(self._interfaces, directory, simple_switch.find(self._path))
        # What ends it before it has a log goes to stderr; the log, all warnings, to stdout.
        log = directory / "bmv2.log"
        self._process = await testbed.spawn(SWITCH, command, stdout=log, stderr=directory / "bmv2.err")
        await self._wait_for_socket(simple_switch.grpc_socket(directory), log)
        device_config, p4info = compiled_program("v1model")
        self._session = P4RuntimeSession(simple_switch.grpc_address(directory), p4info, device_config)
        await self._session.open()
        # In a thread, as it may take a while; the socket stays in the namespace that it was opened in.
        self._thrift = await asyncio.to_thread(call_inside, self._namespace, simple_switch.connect)

    async def configure(self, plan: Plan) -> AppliedSettings:
        """Load the program, install the plan's entries, set queues and delays.

        Raises:
            RunError: the switch or the delay line refuses something.
        """
        session = self._connected()
        # The process is new and gets one program only. Were it given another, clone sessions of the first would stay
        # and double every report.
        await session.push_pipeline()
        bottleneck, collector = plan.bottleneck, plan.collector
        rate, depth = packets.packet_rate(plan), packets.depth(plan)
        # Always by port and queue: without them, the collector's port would be throttled as well.
        await self._call(lambda thrift: thrift.set_queue_rate(bottleneck.port, bottleneck.queue, rate))
        await self._call(lambda thrift: thrift.set_queue_depth(bottleneck.port, bottleneck.queue, depth))
        # Bursts of reports and of acknowledgements must pass; nothing limits their rate.
        for port in (collector.port, *(sender.port for sender in plan.senders)):
            raise_depth = functools.partial(Thrift.set_queue_depth, port=port, priority=0, packets=OTHER_DEPTH)
            await self._call(raise_depth)
        self._before = self._links()
        # Paths are connected last: no packet passes a switch that is half set up.
        await session.insert(entities(plan, PROFILE, session.schema))
        await self._delay_line.configure(plan)
        self._plan = plan
        applied = AppliedLink(packets.bit_rate(rate, plan.frame_bytes), depth * plan.frame_bytes, depth, rate)
        return AppliedSettings(
            links={bottleneck.name: applied},
            notes=packets.notes(plan),
            program={**program_digests(), "simple_switch_grpc": simple_switch.version(self._path)},
        )

    async def now_ns(self) -> int:
        """Time since the switch started, by the clock that stamps reports."""
        return await self._call(lambda thrift: thrift.clock_us()) * 1000

    async def queues(self) -> list[QueueStats]:
        """The bottleneck's queue. BMv2 tells neither depth nor drops; that nothing waits shows when nothing leaves."""
        self._delay_line.check()
        plan = self._planned()
        bottleneck = plan.bottleneck
        rate, depth = packets.packet_rate(plan), packets.depth(plan)
        name = register_name(self._connected().schema, "bottleneck_departures")
        departures = await self._call(lambda thrift: thrift.read_register(name, bottleneck.index))
        now = time.monotonic()
        if departures != self._departures:
            self._departures, self._moved_at = departures, now
        still = now - self._moved_at > STILL_S + STILL_PACKETS / rate
        return [
            QueueStats(
                port=bottleneck.port,
                queue=bottleneck.queue,
                rate_bps=packets.bit_rate(rate, plan.frame_bytes),
                limit_bytes=0,
                limit_packets=depth,
                delay_ns=0,
                epoch=0,
                enqueued_packets=departures if still else None,
                enqueued_bytes=None,
                dequeued_packets=departures,
                dequeued_bytes=None,
                dropped_packets=None,
                dropped_bytes=None,
                depth_packets=0 if still else None,
                depth_bytes=0 if still else None,
                peak_depth_bytes=None,
            )
        ]

    async def ports(self) -> list[PortStats]:
        """What the kernel counted at BMv2's interfaces since `configure`; what libpcap lost behind is not counted."""
        return [
            PortStats(
                port=port,
                rx_packets=link.rx_packets - self._before[port].rx_packets,
                rx_bytes=link.rx_bytes - self._before[port].rx_bytes,
                tx_packets=link.tx_packets - self._before[port].tx_packets,
                tx_bytes=link.tx_bytes - self._before[port].tx_bytes,
                rx_ring_drops=None,
                rx_errors=link.rx_lost - self._before[port].rx_lost,
                tx_drops=link.tx_lost - self._before[port].tx_lost,
                link_up=link.up,
            )
            for port, link in sorted(self._links().items())
        ]

    async def unexpected_losses(self, plan: Plan) -> list[str]:
        """Packets lost by the delay line or at BMv2's interfaces; `packet_conservation` has what BMv2 itself loses."""
        found = await self._delay_line.losses()
        for port in await self.ports():
            if port.port == plan.collector.port:
                continue
            for count, what in ((port.rx_errors, "in front of"), (port.tx_drops, "behind")):
                if count:
                    found.append(f"port {port.port}: {count} packets dropped by the interface {what} BMv2")
        return found

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

    async def stop(self) -> None:
        """End the switch and the delay line; safe to call at any time, and twice."""
        if self._thrift is not None:
            self._thrift.close()
            self._thrift = None
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._process is not None:
            process, self._process = self._process, None
            await process.stop(STOP_S, signal.SIGTERM)
        await self._delay_line.stop()

    async def _wait_for_socket(self, socket: Path, log: Path) -> None:
        """Wait until the switch accepts calls.

        Raises:
            RunError: it ends first, or takes too long.
        """
        process = self._process
        assert process is not None
        deadline = time.monotonic() + simple_switch.READY_S
        while not socket.exists():
            if process.returncode is not None or time.monotonic() > deadline:
                state = "does not answer" if process.returncode is None else f"ended with {process.returncode}"
                said = log.read_text(errors="replace")[-1000:].strip()
                raise RunError(f"BMv2 {state}{process.stderr_tail()}\n{said}".rstrip())
            await asyncio.sleep(simple_switch.POLL_S)

    def _links(self) -> dict[int, Link]:
        by_name = links(self._namespace)
        return {port: by_name[interface] for port, interface in self._interfaces.items()}

    def _connected(self) -> P4RuntimeSession:
        if self._session is None or self._process is None:
            raise RunError("BMv2 is not running")
        if self._process.returncode is not None:
            raise RunError(f"BMv2 ended with exit code {self._process.returncode}{self._process.stderr_tail()}")
        return self._session

    def _planned(self) -> Plan:
        if self._plan is None:
            raise RunError("BMv2 is not configured")
        return self._plan

    async def _call(self, function: Callable[[Thrift], _Answer]) -> _Answer:
        """A Thrift call in a thread of its own, one at a time; the event loop stays free."""
        self._connected()
        thrift = self._thrift
        if thrift is None:
            raise RunError("BMv2's Thrift service is not connected")
        async with self._lock:
            try:
                return await asyncio.to_thread(function, thrift)
            except (OSError, EOFError, TTransportException) as error:
                self._connected()
                raise RunError(f"BMv2's Thrift service: {error}") from error


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
