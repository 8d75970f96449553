# SPDX-License-Identifier: Apache-2.0
"""What there is of BMv2 whatever program it runs: simple_switch_grpc, its queues, and a softswitch towards hosts."""

from __future__ import annotations

import asyncio
import functools
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from narrows_formats.target_profile import TargetProfile
from thrift.transport.TTransport import TTransportException

from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Link as PlannedLink
from narrows.experiment.plan import Plan
from narrows.hosts.base import SWITCH, Testbed
from narrows.hosts.links import Link, call_inside, links, run
from narrows.hosts.process import Process
from narrows.switch.p4runtime import P4RuntimeSession
from narrows.switch.readings import PortStats, QueueStats
from narrows.targets.base import AppliedLink, Target, TargetOptions
from narrows.targets.bmv2 import packets, simple_switch
from narrows.targets.bmv2.delay_line import Bmv2DelayLine
from narrows.targets.bmv2.simple_switch import Thrift
from narrows.targets.p4runtime import P4RuntimeTarget

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


class Bmv2(P4RuntimeTarget):
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
        # Of each link, by its name: departures, and the time at which the last one was seen.
        self._departures: dict[str, tuple[int, float]] = {}
        self._lock = asyncio.Lock()

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets of one executable; BMv2's random numbers take no seed."""
        found = simple_switch.find(options.bmv2_path)
        # A guest has a PATH and a working directory of its own.
        path = options.bmv2_path if found is None else found.absolute()
        return lambda experiment: cls(path, experiment.seed, options.virtual)

    @property
    def session(self) -> P4RuntimeSession:
        """The P4Runtime session, while the switch runs."""
        return self._connected()

    def missing(self) -> list[str]:
        """What this machine lacks to run BMv2 and the delay line."""
        problem = simple_switch.missing(self._path)
        return [*([problem] if problem else []), *self._delay_line.missing()]

    async def _start_switch(self, testbed: Testbed, program: tuple[Path, Path], cpu_port: int | None = None) -> None:
        """Start the switch on its interfaces and connect to it.

        Args:
            testbed: whose switch namespace it runs in.
            program: what it is to run, as BMv2 JSON, and the P4Info of it.
            cpu_port: the port of a controller; None: there is none.

        Raises:
            RunError: it does not come up; the message has its last output.
        """
        # Thrift listens on every address there is: here that is the namespace's own.
        run(["ip", "-n", self._namespace, "link", "set", "lo", "up"])
        directory = testbed.state_dir
        command = simple_switch.command(self._interfaces, directory, simple_switch.find(self._path), cpu_port)
        # What ends it before it has a log goes to stderr; the log, all warnings, to stdout.
        log = directory / "bmv2.log"
        self._process = await testbed.spawn(SWITCH, command, stdout=log, stderr=directory / "bmv2.err")
        await self._wait_for_socket(self._process, simple_switch.grpc_socket(directory), log)
        device_config, p4info = program
        self._session = P4RuntimeSession(simple_switch.grpc_address(directory), p4info, device_config)
        await self._session.open()
        # In a thread, as it may take a while; the socket stays in the namespace that it was opened in.
        self._thrift = await asyncio.to_thread(call_inside, self._namespace, simple_switch.connect)

    async def _set_queues(self, plan: Plan, others: Iterable[int]) -> dict[str, AppliedLink]:
        """Give links their rates and depths, and all other ports room; returns what links have got, by their names."""
        applied = {}
        for link in plan.links:
            rate, depth = packets.packet_rate(link, plan.frame_bytes), packets.depth(link, plan.frame_bytes)
            # Always by port and queue: without them, all ports would be throttled as well.
            port, queue = link.port, link.queue
            shape = functools.partial(Thrift.set_queue_rate, port=port, priority=queue, packets_per_second=rate)
            await self._call(shape)
            await self._call(functools.partial(Thrift.set_queue_depth, port=port, priority=queue, packets=depth))
            bits = packets.bit_rate(rate, plan.frame_bytes)
            applied[link.name] = AppliedLink(bits, depth * plan.frame_bytes, depth, rate)
        # Bursts of reports and of acknowledgements must pass; nothing limits their rate.
        for port in others:
            raise_depth = functools.partial(Thrift.set_queue_depth, port=port, priority=0, packets=OTHER_DEPTH)
            await self._call(raise_depth)
        return applied

    def _queue(self, link: PlannedLink, departures: int) -> QueueStats:
        """A link's queue, after so many departures."""
        frame = self._planned().frame_bytes
        rate, now = packets.packet_rate(link, frame), time.monotonic()
        before, moved_at = self._departures.get(link.name, (0, 0.0))
        if departures != before:
            moved_at = now
        self._departures[link.name] = departures, moved_at
        still = now - moved_at > STILL_S + STILL_PACKETS / rate
        return QueueStats(
            port=link.port,
            queue=link.queue,
            rate_bps=packets.bit_rate(rate, frame),
            limit_bytes=0,
            limit_packets=packets.depth(link, frame),
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

    async def _wait_for_socket(self, process: Process, socket: Path, log: Path) -> None:
        """Wait until the switch accepts calls.

        Raises:
            RunError: it ends first, or takes too long.
        """
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
