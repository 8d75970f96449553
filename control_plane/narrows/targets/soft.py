# SPDX-License-Identifier: Apache-2.0
"""The embedded target: narrows-softswitch in the run's switch namespace."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Collection

from narrows.errors import RunError
from narrows.hosts.base import SWITCH, Testbed
from narrows.p4runtime import P4RuntimeSession
from narrows.paths import SOFTSWITCH, binary, compiled_program, find_binary, missing_binary
from narrows.plan import Plan
from narrows.process import Process
from narrows.program import entities, read_flow_totals
from narrows.targets.base import FlowDrops, FlowTotals, PortStats, QueueStats, Realised, TargetProfile
from narrows.traffic_manager import TrafficManagerClient
from narrows.v1 import traffic_manager_pb2 as pb

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
)
READY_S = 20.0
STOP_S = 10.0


class SoftTarget:
    """One softswitch process; its gRPC is a Unix socket in the run's state directory, out of others' reach."""

    def __init__(self, seed: int = 1) -> None:
        """Take the seed of the switch's random numbers (loss emulation)."""
        self._seed = seed
        self._process: Process | None = None
        self._session: P4RuntimeSession | None = None
        self._traffic_manager: TrafficManagerClient | None = None
        self._address = ""

    @property
    def profile(self) -> TargetProfile:
        """Nanoseconds and bytes; bit/s rates, a delay line on every port."""
        return PROFILE

    def missing(self) -> list[str]:
        """What this machine lacks to run the softswitch."""
        lacks = [] if find_binary(SOFTSWITCH) else [missing_binary(SOFTSWITCH)]
        for path in compiled_program("v1model"):
            if not path.exists():
                lacks.append(f"{path} is missing; fix: take it from the repository again, or 'make p4' with p4c")
        return lacks

    def refusals(self, plan: Plan) -> list[str]:
        """The softswitch does every plan that can be written down."""
        return []

    async def start(self, testbed: Testbed) -> None:
        """Start the switch on the testbed's ports and connect to it.

        Raises:
            RunError: it does not come up; the message has its last output.
        """
        self._address = f"unix:{testbed.state_dir / 'switch.sock'}"
        command = [str(binary(SOFTSWITCH)), "serve", "--grpc", self._address, "--seed", str(self._seed)]
        for attachment in testbed.attachments:
            command += ["--port", f"{attachment.port}@{attachment.interface}"]
        self._process = await testbed.spawn(SWITCH, command, stderr=testbed.state_dir / "switch.err")
        await self._process.wait_for_line("ready", READY_S)
        device_config, p4info = compiled_program("v1model")
        self._session = P4RuntimeSession(self._address, p4info, device_config)
        await self._session.open()
        self._traffic_manager = TrafficManagerClient(self._session.channel)

    async def configure(self, plan: Plan) -> Realised:
        """Load the program, install the plan's entries and set queues and delays.

        Raises:
            RunError: the switch refuses something, or a setting reads back differently.
        """
        session, manager = self._connected()
        await session.push_pipeline()
        bottleneck = plan.bottleneck
        await manager.configure(
            pb.ConfigureRequest(
                port=bottleneck.port,
                queue=bottleneck.queue,
                rate_bps=bottleneck.rate_bps,
                # A depth in packets is kept as one: the byte limit would count a short packet for less.
                limit_bytes=bottleneck.limit_bytes if bottleneck.limit_packets is None else 0,
                limit_packets=bottleneck.limit_packets or 0,
            )
        )
        for port in plan.ports:
            if port.delay_ns:
                await manager.configure(pb.ConfigureRequest(port=port.number, queue=0, delay_ns=port.delay_ns))
        # Paths are connected last: no packet passes a switch that is half set up.
        await session.insert(entities(plan, PROFILE, session.schema))
        return await self._read_back(plan)

    async def now_ns(self) -> int:
        """CLOCK_MONOTONIC of this host, as the switch tells it."""
        _, manager = self._connected()
        return (await manager.list()).timestamp_ns

    async def queues(self) -> list[QueueStats]:
        """All queues that were set or have seen a packet."""
        _, manager = self._connected()
        return [_queue_stats(queue) for queue in (await manager.list()).queues]

    async def flow_drops(self, port: int, queue: int) -> list[FlowDrops]:
        """Tail drops at a queue by flow index."""
        _, manager = self._connected()
        answer = await manager.flow_drops(port, queue)
        return [FlowDrops(drop.flow, drop.packets, drop.bytes) for drop in answer.flows]

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """The program's arrival and departure counters of some flow indices."""
        session, _ = self._connected()
        return await read_flow_totals(session, flows)

    async def ports(self) -> list[PortStats]:
        """Interface counters of all ports."""
        _, manager = self._connected()
        return [
            PortStats(
                port=port.port,
                rx_packets=port.rx_packets,
                rx_bytes=port.rx_bytes,
                tx_packets=port.tx_packets,
                tx_bytes=port.tx_bytes,
                rx_ring_drops=port.rx_ring_drops,
                rx_errors=port.rx_errors,
                tx_drops=port.tx_drops + port.tx_errors,
                link_up=port.link_up,
            )
            for port in (await manager.port_stats()).ports
        ]

    async def losses_elsewhere(self, plan: Plan) -> list[str]:
        """Packets lost anywhere but at the bottleneck's queue or by loss emulation."""
        _, manager = self._connected()
        answer = await manager.list()
        found = [
            f"port {queue.port}: {queue.dropped_packets} packets dropped at a queue that is not the bottleneck"
            for queue in answer.queues
            if queue.dropped_packets and queue.port not in (plan.bottleneck.port, plan.collector.port)
        ]
        pool = sum(queue.pool_dropped_packets for queue in answer.queues)
        if pool:
            found.append(f"{pool} packets dropped because the switch's pool of {answer.pool_limit_packets} was full")
        for port in await self.ports():
            if port.port == plan.collector.port:
                continue
            for count, what in (
                (port.rx_ring_drops, "not taken in by the switch: its receive ring was full"),
                (port.rx_errors, "not taken in by the switch: longer than it takes"),
                (port.tx_drops, "not sent by the switch: the interface refused them"),
            ):
                if count:
                    found.append(f"port {port.port}: {count} packets {what}")
        return found

    async def stop(self) -> None:
        """End the switch; safe to call at any time, and twice."""
        if self._session is not None:
            await self._session.close()
            self._session = None
            self._traffic_manager = None
        if self._process is not None:
            process, self._process = self._process, None
            await process.stop(STOP_S, signal.SIGTERM)

    def _connected(self) -> tuple[P4RuntimeSession, TrafficManagerClient]:
        if self._session is None or self._traffic_manager is None:
            raise RunError("the softswitch is not running")
        if self._process is not None and self._process.returncode is not None:
            raise RunError(
                f"the softswitch ended with exit code {self._process.returncode}{self._process.last_words()}"
            )
        return self._session, self._traffic_manager

    async def _read_back(self, plan: Plan) -> Realised:
        asked = plan.bottleneck
        queue = next(q for q in await self.queues() if (q.port, q.queue) == (asked.port, asked.queue))
        limit = asked.limit_bytes if asked.limit_packets is None else 0
        if (queue.rate_bps, queue.limit_bytes, queue.limit_packets) != (
            asked.rate_bps,
            limit,
            asked.limit_packets or 0,
        ):
            raise RunError(f"the softswitch's queue reads back as {queue}, not {asked}")
        delays = {q.port: q.delay_ns for q in await self.queues()}
        for port in plan.ports:
            if delays.get(port.number, 0) != port.delay_ns:
                raise RunError(f"port {port.number}: the delay reads back as {delays.get(port.number)} ns")
        return Realised(queue.rate_bps, asked.limit_bytes, asked.limit_packets, queue.epoch, program=_program())


def _program() -> dict[str, str]:
    """What ran, so that a result can be traced to its program."""
    device_config, p4info = compiled_program("v1model")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (device_config, p4info)}


def _queue_stats(queue: pb.Queue) -> QueueStats:
    return QueueStats(
        port=queue.port,
        queue=queue.queue,
        rate_bps=queue.rate_bps,
        limit_bytes=queue.limit_bytes,
        limit_packets=queue.limit_packets,
        delay_ns=queue.delay_ns,
        epoch=queue.epoch,
        enqueued_packets=queue.enqueued_packets,
        enqueued_bytes=queue.enqueued_bytes,
        dequeued_packets=queue.dequeued_packets,
        dequeued_bytes=queue.dequeued_bytes,
        dropped_packets=queue.dropped_packets,
        dropped_bytes=queue.dropped_bytes,
        depth_packets=queue.depth_packets,
        depth_bytes=queue.depth_bytes,
        peak_depth_bytes=queue.peak_depth_bytes,
    )
