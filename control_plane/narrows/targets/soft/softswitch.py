# SPDX-License-Identifier: Apache-2.0
"""A narrows-softswitch process and the connections to it: the embedded target, or a delay line beside another one."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from narrows_formats.programs import SOFTSWITCH, find_binary, missing_binary

from narrows.errors import RunError
from narrows.experiment.plan import FIRST_DEVICE
from narrows.hosts.base import SWITCH, Testbed
from narrows.hosts.process import Process
from narrows.paths import binary, compiled_program
from narrows.switch.readings import Discards, PortStats
from narrows.targets.soft.virtual_time import VirtualTimeSettings

# Imported when there is a switch to speak to, see `narrows.targets.p4runtime`.
if TYPE_CHECKING:
    from narrows.switch import traffic_manager_pb2 as pb
    from narrows.switch.p4runtime import P4RuntimeSession
    from narrows.switch.traffic_manager import TrafficManagerClient

READY_S = 20.0
STOP_S = 10.0
# In real time a busy machine holds some packets up now and then. Where it does so to more of a port than this, senders
# see delays that no queue had: it cannot carry the experiment.
MOST_LATE = 0.1
# Fewer may be those of one pause, which any machine makes: they are not overload.
LATE_IN_A_PAUSE = 100
# Starts a program on processors of its own; a control group may allow others only, and the kernel does not say so.
PINNED = """
taskset -cp "$1" $$ >/dev/null || exit 1
found=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
[ "$found" = "$1" ] || { echo "it may run on processors $found, not $1 (cores in the inventory)" >&2; exit 1; }
shift
exec "$@"
"""

# Where a controller of a user's finds P4Runtime, in the network namespace of the switch alone: P4Runtime's own port.
CONTROLLER_ADDRESS = "127.0.0.1:9559"
# Narrows' role where it is not the only client: each role has a primary. The switch sends this one no packets.
ROLE = "narrows"

# The compiled programs: that of queues that drop what they have no room for, and that which manages queues.
PROGRAM, MANAGED_PROGRAM = "v1model", "v1model-managed"


def missing_parts() -> list[str]:
    """What this machine lacks to run a softswitch, each with how to get it."""
    lacks = [] if find_binary(SOFTSWITCH) else [missing_binary(SOFTSWITCH)]
    lacks += [
        f"{path} is missing; fix: take it from the repository again, or 'make p4' with p4c"
        for path in (*compiled_program(PROGRAM), *compiled_program(MANAGED_PROGRAM))
        if not path.exists()
    ]
    return lacks


def program_files(compiled: str) -> dict[str, Path]:
    """The switch and a compiled program of ours, by the names that messages have."""
    return {SOFTSWITCH: binary(SOFTSWITCH)} | {f"{compiled}/{path.name}": path for path in compiled_program(compiled)}


def _counters(port: pb.Port) -> PortStats:
    return PortStats(
        port=port.port,
        rx_packets=port.rx_packets,
        rx_bytes=port.rx_bytes,
        tx_packets=port.tx_packets,
        tx_bytes=port.tx_bytes,
        rx_ring_drops=port.rx_ring_drops,
        rx_errors=port.rx_errors,
        tx_drops=port.tx_drops + port.tx_errors,
        link_up=port.link_up,
        tx_late=port.tx_late,
        rx_held=port.rx_held,
        rx_longest_held_ns=port.rx_longest_held_ns,
    )


def prioritize(pid: int) -> None:
    """Give all threads of a process real-time priority."""
    lowest = os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO))
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, lowest)


@dataclass(frozen=True)
class Device:
    """A part of a softswitch that has a program and ports of its own.

    ``compiled`` is BMv2 JSON and its P4Info, None: our program without AQMs. ``ports`` matter where there are several
    devices; the first one has all that no other one has. ``cpu_port`` is the port of a controller, which has P4Runtime
    at `CONTROLLER_ADDRESS`; None: there is none. ``watched`` are fields of the program's metadata that are recorded of
    each reported packet.
    """

    device_id: int = FIRST_DEVICE
    compiled: tuple[Path, Path] | None = None
    ports: tuple[int, ...] = ()
    cpu_port: int | None = None
    watched: tuple[str, ...] = ()

    @property
    def role(self) -> str:
        """The role in which Narrows is a client of it."""
        return "" if self.cpu_port is None else ROLE

    def arguments(self, first: bool) -> list[str]:
        """What the softswitch is started with for it, as the ``first`` device or a further one."""
        own = [] if self.cpu_port is None else [self.cpu_port]
        ports = ",".join(map(str, (*self.ports, *own)))
        words = ["--device-id", str(self.device_id)] if first else ["--device", f"{self.device_id}@{ports}"]
        for name in self.watched:
            words += ["--watch", f"{self.device_id}@{name}"]
        return words if self.cpu_port is None else [*words, "--cpu-port", str(self.cpu_port)]


class Softswitch:
    """A process in the switch namespace; its gRPC is a Unix socket in the run's own directory, out of others' reach."""

    def __init__(self, name: str, virtual_time: VirtualTimeSettings | None = None) -> None:
        """``name`` is what it is in error messages and the names of its files; ``virtual_time`` is for a guest."""
        self._name = name
        self._virtual_time = virtual_time
        self._process: Process | None = None
        self._sessions: dict[int, P4RuntimeSession] = {}
        self._manager: TrafficManagerClient | None = None

    async def start(
        self,
        testbed: Testbed,
        interfaces: Mapping[int, str],
        seed: int,
        loopbacks: Sequence[int] = (),
        cores: str | None = None,
        devices: Sequence[Device] = (Device(),),
        cables: Sequence[tuple[int, int]] = (),
        prompt: bool = False,
        pipes: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Start it and connect to it; it has no programs yet.

        Args:
            testbed: whose switch namespace it runs in.
            interfaces: interface of each port.
            seed: of its random numbers.
            loopbacks: ports whose output comes in again.
            cores: processors that it is to run on, as the kernel writes a list of them; any if None.
            devices: what it is to run, one or more.
            cables: pairs of ports between devices: what leaves by one comes in by the other.
            prompt: no call to it is to wait for the clock.
            pipes: named pipes that it writes what leaves by some ports into, and does not send it.

        Raises:
            RunError: it does not come up; the message has its last output.
        """
        from narrows.switch.p4runtime import P4RuntimeSession
        from narrows.switch.traffic_manager import TrafficManagerClient

        files = testbed.state_dir / self._name.replace(" ", "-")
        socket = testbed.listening(SWITCH, f"{files.name}.sock")
        executable = await testbed.program(SWITCH, binary(SOFTSWITCH))
        pinned = [] if cores is None else ["sh", "-c", PINNED, "sh", cores]
        command = [*pinned, executable, "serve", "--grpc", f"unix:{socket.path}", "--seed", str(seed)]
        for port, interface in sorted(interfaces.items()):
            command += ["--port", f"{port}@{interface}"]
        for port in loopbacks:
            command += ["--loopback", str(port)]
        for ends in cables:
            command += ["--cable", "@".join(map(str, ends))]
        if self._virtual_time is not None:
            hosts = [attachment.port for attachment in testbed.attachments if attachment.port in interfaces]
            command += self._virtual_time.arguments(hosts)
        for port, pipe in pipes.items():
            command += ["--pipe", f"{port}@{pipe}"]
        for number, device in enumerate(devices):
            command += device.arguments(first=number == 0)
        if any(device.cpu_port is not None for device in devices):
            command += ["--p4runtime", CONTROLLER_ADDRESS]
        self._process = await testbed.spawn(SWITCH, command, stderr=files.with_suffix(".err"))
        await self._process.wait_for_line("ready", READY_S)
        if self._virtual_time is not None and self._virtual_time.prioritized:
            prioritize(self._process.pid)
        for device in devices:
            device_config, p4info = device.compiled or compiled_program(PROGRAM)
            session = P4RuntimeSession(
                socket.address, p4info, device_config, prompt, device.role, device_id=device.device_id
            )
            self._sessions[device.device_id] = session
            await session.open()
        self._manager = TrafficManagerClient(self._sessions[devices[0].device_id].channel, devices[0].role)

    @property
    def pid(self) -> int:
        """Process id.

        Raises:
            RunError: it is not running.
        """
        return self._running[0].pid

    def check(self) -> None:
        """Notice early that it has died.

        Raises:
            RunError: it is not running.
        """
        _ = self._running

    @property
    def _running(self) -> tuple[Process, TrafficManagerClient]:
        """Its process and its service; raises RunError if it is not running."""
        if self._manager is None or self._process is None:
            raise RunError(f"the {self._name} is not running")
        if self._process.returncode is not None:
            code = self._process.returncode
            raise RunError(f"the {self._name} ended with exit code {code}{self._process.stderr_tail()}")
        return self._process, self._manager

    @property
    def session(self) -> P4RuntimeSession:
        """The P4Runtime session with the first device.

        Raises:
            RunError: it is not running.
        """
        return self.sessions[FIRST_DEVICE]

    @property
    def sessions(self) -> Mapping[int, P4RuntimeSession]:
        """The P4Runtime sessions by the ids of their devices.

        Raises:
            RunError: it is not running.
        """
        self.check()
        return self._sessions

    @property
    def manager(self) -> TrafficManagerClient:
        """The traffic manager's service.

        Raises:
            RunError: it is not running.
        """
        return self._running[1]

    async def set_delay(self, port: int, delay_ns: int) -> None:
        """Hold every frame that leaves a port for a constant time.

        Raises:
            RunError: the switch refuses, or the delay reads back differently.
        """
        from narrows.switch import traffic_manager_pb2 as pb

        await self.manager.configure(pb.ConfigureRequest(port=port, queue=0, delay_ns=delay_ns))
        delays = {queue.port: queue.delay_ns for queue in (await self.manager.list()).queues}
        if delays.get(port, 0) != delay_ns:
            raise RunError(f"port {port} of the {self._name}: the delay reads back as {delays.get(port)} ns")

    async def ports(self) -> list[PortStats]:
        """Interface counters of all ports."""
        return [_counters(port) for port in (await self.manager.port_stats()).ports]

    async def discards(self) -> Discards:
        """Packets that ended at no queue."""
        found = (await self.manager.port_stats()).discards
        return Discards(found.ingress, found.egress, found.absent_port, found.packet_ins)

    async def losses(self, queues_except: Collection[int] = (), ports_except: Collection[int] = ()) -> list[str]:
        """Packets it lost, one line for each place.

        Args:
            queues_except: ports whose queues may drop.
            ports_except: ports whose interfaces may lose packets.
        """
        answer = await self.manager.list()
        found = [
            f"port {queue.port}: {queue.dropped_packets} packets dropped at a queue that is not the bottleneck"
            for queue in answer.queues
            if queue.dropped_packets and queue.port not in queues_except
        ]
        pool = sum(queue.pool_dropped_packets for queue in answer.queues)
        if pool:
            found.append(f"{pool} packets dropped because the switch's pool of {answer.pool_limit_packets} was full")
        stats = await self.manager.port_stats()
        if looped := stats.discards.loopback:
            found.append(f"{looped} packets dropped because a loopback port had no room for them")
        ports = [port for port in stats.ports if port.port not in ports_except]
        found += self._late(ports)
        for port in map(_counters, ports):
            for count, what in (
                (port.rx_ring_drops, "not received by the switch: its receive ring was full"),
                (port.rx_errors, "not received by the switch: longer than it accepts"),
                (port.tx_drops, "not sent by the switch: the interface refused them"),
            ):
                if count:
                    found.append(f"port {port.port}: {count} packets {what}")
        return found

    def _late(self, ports: Sequence[pb.Port]) -> list[str]:
        """Packets that left after their time: in virtual time any, in real time too many that were very late."""
        if self._virtual_time is None:
            return [
                f"port {port.port}: {port.tx_late} of {port.tx_packets} packets left more than 10 ms after their time"
                for port in ports
                if port.tx_late > max(MOST_LATE * port.tx_packets, LATE_IN_A_PAUSE)
            ]
        late = sum(port.tx_late for port in ports)
        if not late or not self._virtual_time.window_ns:
            return []
        return [
            f"{late} packets sent after their time: processes of the guest kept the switch from waking up in time "
            "(`narrows kernel list` says whether the kernel's calls take time)"
        ]

    async def stop(self) -> None:
        """End it; safe to call at any time, and twice."""
        self._manager = None
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()
        if self._process is not None:
            process, self._process = self._process, None
            await process.stop(STOP_S, signal.SIGTERM)
