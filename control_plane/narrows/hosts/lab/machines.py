# SPDX-License-Identifier: Apache-2.0
"""Real machines as the hosts of a run: set up over SSH by deploy/host.sh, and restored afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from narrows_formats import storage

from narrows import python
from narrows.errors import InputError, RunError
from narrows.experiment.plan import EPHEMERAL_PORTS, Host, Plan
from narrows.hosts.base import Listening, SwitchAttachment
from narrows.hosts.lab import copies, relay, remote_clock
from narrows.hosts.lab.guard import Guard
from narrows.hosts.lab.inventory import Lab, Machine, Nic
from narrows.hosts.lab.socket_bridge import SocketBridge
from narrows.hosts.lab.ssh import HOST_SCRIPT, REMOTE_SCRIPT, machine_command, run
from narrows.hosts.process import Process, spawn
from narrows.hosts.read_back import require
from narrows.hosts.run_lock import RunLock
from narrows.hosts.state import RunState

MAX_PARALLEL = 16
LEAD_S = 2.0
# From this speed on packets come faster than a processor that sleeps or pauses can take them.
FAST_BPS = 25_000_000_000
# Segmentation and its inverse, which host.sh turns off.
OFFLOADS = ("tso", "gso", "gro", "lro")
# What host.sh says of a switch's NIC as it was asked to set it.
DESCRIBED = ("quiet", "queues")
# Where a machine loses frames, by how counters of them begin in its description.
LOSSES = {"nic.": "NIC", "kernel.": "kernel"}
# A kernel may take a minute to forget the connections of the run before.
SET_UP_S = 120.0


def relayed(command: Sequence[str]) -> list[str]:
    """What to start from this process so that signals go to a program that ``command`` starts elsewhere."""
    return python.module(relay.__name__, str(os.getpid()), *command)


class SshTestbed:
    """The machines of one run. See `narrows.hosts.base.Testbed`; names are those of the plan's hosts."""

    def __init__(self, plan: Plan, inventory: Lab, state_dir: Path, mtu: int, record: RunState | None = None) -> None:
        """Take the bound plan; nothing is changed before `create`. Local ends of processes are put on ``record``."""
        self._plan = plan
        self._inventory = inventory
        self._state_dir = state_dir
        self._mtu = mtu
        self._record = record
        self._machines = machines_of(plan, inventory)
        self._described: dict[str, dict[str, str]] = {}
        self._files: dict[str, str] = {}
        self._changed: list[str] = []
        self._token = secrets.token_hex(8)
        self._guards: list[Guard] = []
        self._bridges: list[SocketBridge] = []
        # Measured once a run: two measurements differ, and flows and their sockets' readings would too.
        self._clock_offsets: dict[str, asyncio.Task[float]] = {}
        self._locks = RunLock(state_dir if record is None else record.root)

    @property
    def state_dir(self) -> Path:
        """Directory for sockets and logs that goes away with the run."""
        return self._state_dir

    @property
    def lead_s(self) -> float:
        """See `narrows.hosts.base.Testbed.lead_s`: a command by ssh."""
        return LEAD_S

    @property
    def attachments(self) -> tuple[SwitchAttachment, ...]:
        """None: the switch is a machine of its own."""
        return ()

    def interface(self, host: str) -> str:
        """Name of the interface of a host that faces the switch."""
        return self._machines[host].interface

    def create(self) -> None:
        """Set all machines up, or none.

        Raises:
            RunError: another run has a machine, or one cannot be reached or set up; the others are as they were.
        """
        self._locks.take(
            f"{machine.name} ({machine.ssh.host if machine.ssh else 'this machine'}, {machine.interface})"
            for machine in self._machines.values()
        )
        try:
            # From here on machines are restored whatever happens to us. None that another run uses is changed.
            self._everywhere(list(self._machines), self._hold)
            self._changed = list(self._machines)
            self._everywhere(self._changed, self._apply)
            found = self._everywhere(self._changed, self._describe)
            self._files = {host: facts.pop("files", "") for host, facts in zip(self._changed, found, strict=True)}
        except RunError:
            with contextlib.suppress(RunError):
                self.remove()
            raise
        self._described = dict(zip(self._changed, found, strict=True))
        try:
            for host, facts in self._described.items():
                # What a NIC cannot do at all reads "off [fixed]".
                found_there = {name: value.removesuffix(" [fixed]") for name, value in facts.items()}
                require(self._machines[host].name, self._asked(host), found_there)
        except RunError:
            with contextlib.suppress(RunError):
                self.remove()
            raise

    def remove(self) -> None:
        """Put all machines back; safe to call twice.

        Raises:
            RunError: a machine could not be restored, the others are; or one has not been as it was set up to the end.
        """
        hosts, self._changed = self._changed, []
        guards, self._guards = self._guards, []
        given_up = [guard.machine for guard in guards if guard.has_ended]
        bridges, self._bridges = self._bridges, []
        try:
            for bridge in bridges:
                bridge.close()
            self._everywhere(hosts, lambda host: self._script(host, "restore"))
        finally:
            for guard in guards:
                guard.close()
            self._locks.give_back()
        if given_up:
            raise RunError(
                f"{', '.join(given_up)}: what the run had set was put back before its end, as the connection that held "
                "it ended"
            )

    async def spawn(
        self,
        host: str,
        arguments: Sequence[str],
        *,
        stdout: Path | None = None,
        stderr: Path | None = None,
        nobody: bool = False,
    ) -> Process:
        """Start a process on a machine. It ends with the run: signals are passed on, and a lost connection ends it."""
        machine = self._machines[host]
        name = f"{Path(arguments[0]).name} on {machine.name}"
        there = machine_command(machine, ["sh", "-c", REMOTE_SCRIPT.read_text(), "remote.sh", *arguments])
        process = await spawn(relayed(there), name, stdout=stdout, stderr=stderr)
        if self._record is not None:
            self._record.add_process(process.pid)
        return process

    async def python(self, host: str, script: Path) -> list[str]:
        """See `narrows.hosts.base.Testbed.python`: the script goes to the machine, which needs Python and nothing else.

        Raises:
            RunError: the machine cannot be reached.
        """
        if self._machines[host].ssh is None:
            return python.script(script)
        return python.elsewhere(await self.put(host, script.name, script.read_text(encoding="utf-8")))

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """See `narrows.hosts.base.Testbed.open_socket`."""
        raise RunError(f"{host} is another machine, whose sockets only its processes can open")

    async def put(self, host: str, name: str, text: str, private: bool = False) -> str:
        """See `narrows.hosts.base.Testbed.put`: a file among what host.sh keeps, and removes at the end.

        Raises:
            RunError: the machine cannot be reached, or the file not be made.
        """
        machine = self._machines[host]
        if machine.ssh is None:
            local = self.state_dir / name
            storage.write_text(local, text, storage.PRIVATE if private else 0o644)
            return str(local)
        path = f"{self._files[host]}/{name}"
        write = f'umask {"077" if private else "022"}; cat >"$1"'
        await asyncio.to_thread(run, machine, ["sh", "-c", write, "sh", path], text=text)
        return path

    async def program(self, host: str, program: Path) -> str:
        """See `narrows.hosts.base.Testbed.program`."""
        return await asyncio.to_thread(copies.install, self._machines[host], program, self._files[host])

    def listening(self, host: str, name: str) -> Listening:
        """See `narrows.hosts.base.Testbed.listening`: on another machine among what host.sh keeps."""
        nic, here = self._machines[host], self.state_dir / name
        there = str(here) if nic.ssh is None else f"{self._files[host]}/{name}"
        if nic.ssh is not None:
            self._bridges.append(SocketBridge(nic, there, here))
        return Listening(there, f"unix:{here}")

    async def pipe(self, host: str, name: str) -> str:
        """See `narrows.hosts.base.Testbed.pipe`: among what host.sh keeps.

        Raises:
            RunError: the machine cannot be reached, or the pipe not be made.
        """
        path = f"{self._files[host]}/{name}"
        await asyncio.to_thread(run, self._machines[host], ["mkfifo", "-m", "600", path])
        return path

    def directory(self, host: str, local: Path) -> str:
        """See `narrows.hosts.base.Testbed.directory`: on another machine one on its disk, which host.sh removes."""
        return str(local) if self._machines[host].ssh is None else f"{self._disk}/{local.name}"

    async def fetch(self, host: str, local: Path) -> None:
        """See `narrows.hosts.base.Testbed.fetch`."""
        await asyncio.to_thread(copies.fetch, self._machines[host], self.directory(host, local), local)

    async def clock_offset_s(self, host: str) -> float:
        """See `narrows.hosts.base.Testbed.clock_offset_s`.

        Raises:
            RunError: the machine cannot be reached.
        """
        if host not in self._clock_offsets:
            measuring = asyncio.to_thread(remote_clock.offset_s, self._machines[host])
            self._clock_offsets[host] = asyncio.create_task(measuring)
        return await self._clock_offsets[host]

    def ended(self, process: Process) -> None:
        """Take a process that has ended off the record."""
        if self._record is not None:
            self._record.remove_process(process.pid)

    def received(self, host: str) -> tuple[int, dict[str, int]]:
        """Frames that a host's NIC has handed on so far, and those lost in it and between it and sockets, by counter.

        Raises:
            RunError: the machine cannot be reached.
        """
        facts = self._facts(host)
        lost = {
            f"{place} ({name.removeprefix(prefix)})": int(value)
            for name, value in facts.items()
            for prefix, place in LOSSES.items()
            if name.startswith(prefix)
        }
        return int(facts.get("rx_packets", 0)), lost

    def take_senders_down(self) -> None:
        """Take the senders' links down.

        Raises:
            RunError: a sender cannot be reached.
        """
        self._everywhere([host.name for host in self._plan.senders], lambda host: self._script(host, "silence"))

    def losses(self) -> list[str]:
        """None that no NIC counts: the target reads those."""
        return []

    def kernel_counters(self) -> dict[str, dict[str, int]]:
        """None: a machine's kernel counts what else it does, too."""
        return {}

    def describe(self) -> dict[str, object]:
        """Offloads and kernel settings as read back, for run.json. Nothing of how the machines are reached."""
        return {
            "kind": "machines",
            "mtu": self._mtu,
            "neighbours": "static",
            "machines": {host: {"name": self._machines[host].name, **found} for host, found in self._described.items()},
        }

    def _hold(self, host: str) -> None:
        guard = Guard(self._machines[host], self._token)
        self._guards.append(guard)
        guard.open()

    def _apply(self, host: str) -> str:
        return self._script(host, "apply", *self.settings(host), f"run={self._token}")

    def _describe(self, host: str) -> dict[str, str]:
        """Settings, without counts."""
        facts = self._facts(host)
        return {name: value for name, value in facts.items() if not name.startswith((*LOSSES, "rx_packets"))}

    def _facts(self, host: str) -> dict[str, str]:
        lines = self._script(host, "describe").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def settings(self, host: str) -> list[str]:
        """What host.sh is asked to set on a host's machine."""
        plan = self._plan
        if not self._is_end(host):
            # They only take frames off the wire, and put them there.
            beside = (f"{name}={value}" for name, value in self._inventory.nic_settings(host).items())
            disk = host == plan.collector_host.name and self._machines[host].ssh is not None
            return [f"mtu={self._mtu}", *self._nic(host), *beside, *([f"directory={self._disk}"] if disk else [])]
        own = plan.host(host)
        peers = plan.peers(own)
        settings = [
            f"address={own.address}/{own.prefix}",
            f"mtu={self._mtu}",
            f"buffer={plan.tcp_buffer_bytes}",
            f"ecn={int(plan.marks_ecn)}",
            f"cca={' '.join(ccas_of(plan, host))}",
            f"neighbour={' '.join(f'{peer.address}/{peer.mac}' for peer in peers)}",
            f"ports={EPHEMERAL_PORTS[0]} {EPHEMERAL_PORTS[1]}",
            *self._nic(host),
        ]
        if delays_at(plan, host, self._inventory):
            settings += [f"delay={self._delays(own)}", f"limit={self._inventory.delay.limit_packets}"]
        return settings

    def _asked(self, host: str) -> dict[str, str]:
        """What a machine that was set up is to say of itself, by the names of host.sh's description."""
        asked = {"mtu": str(self._mtu), **{f"offload.{short}": "off" for short in OFFLOADS}}
        if not self._is_end(host):
            settings = self._inventory.nic_settings(host)
            asked |= {name: settings[name] for name in DESCRIBED if name in settings}
        else:
            buffer = self._plan.tcp_buffer_bytes
            asked |= {
                "sysctl.tcp_rmem": f"4096 131072 {buffer}",
                "sysctl.tcp_wmem": f"4096 65536 {buffer}",
                "sysctl.tcp_no_metrics_save": "1",
                "sysctl.tcp_ecn": str(int(self._plan.marks_ecn)),
                "sysctl.tcp_ecn_fallback": "0",
            }
        return asked

    @property
    def _disk(self) -> str:
        """What a collector on another machine writes into."""
        return f"/var/tmp/narrows-{self._token}"

    def _is_end(self, host: str) -> bool:
        return any(end.name == host for end in self._plan.end_hosts)

    def _nic(self, host: str) -> list[str]:
        """What NICs at the switch's higher rates need beside."""
        speed_bps = self._inventory.speed_bps(self._machines[host])
        return ["nic=fast"] if speed_bps >= FAST_BPS else []

    def _delays(self, own: Host) -> str:
        """The part of the base RTTs that each peer's port would hold, made where what is for the peer comes from."""
        delays = delays_of(self._plan)
        return " ".join(f"{peer.address}/{delays[peer.name]}" for peer in self._plan.peers(own) if delays[peer.name])

    def _script(self, host: str, action: str, *settings: str) -> str:
        machine = self._machines[host]
        words = ["sh", "-s", "--", action, machine.interface, *settings]
        return run(machine, words, text=HOST_SCRIPT.read_text(), timeout_s=SET_UP_S)

    def _everywhere(self, hosts: Sequence[str], act: Callable[[str], Any]) -> list[Any]:
        """Do the same on several machines at once; all are tried, even if one fails."""
        problems: list[str] = []
        found: list[Any] = []
        with ThreadPoolExecutor(MAX_PARALLEL) as pool:
            for future in [pool.submit(act, host) for host in hosts]:
                try:
                    found.append(future.result())
                except RunError as error:
                    problems.append(str(error))
        if problems:
            raise RunError("\n".join(problems))
        return found


def machines_of(plan: Plan, inventory: Lab) -> dict[str, Nic]:
    """NICs of the machines that a bound plan uses, by the names of its hosts, and those of a software switch."""
    return {
        **inventory.switch_nics(plan),
        **end_machines(plan, inventory),
        plan.collector_host.name: inventory.collecting,
    }


def end_machines(plan: Plan, lab: Lab) -> dict[str, Machine]:
    """The machines of a plan's end hosts: those of their names, of all others the next of the inventory.

    Raises:
        InputError: the lab has too few.
    """
    named = {machine.name: machine for machine in (*lab.senders, *lab.all_receivers)}
    found = {host.name: named[host.name] for host in plan.end_hosts if host.name in named}
    senders, receivers = (
        [machine for machine in machines if machine.name not in found] for machines in (lab.senders, lab.all_receivers)
    )
    unnamed = [host for host in plan.senders if host.name not in found]
    if len(unnamed) > len(senders):
        raise InputError(
            f"flows: {len(plan.senders)} groups need as many senders, the inventory has {len(lab.senders)}; "
            f"allowed: one group for each sender, or several at one sender: 'from: {lab.senders[0].name}' in each"
        )
    found |= {host.name: machine for host, machine in zip(unnamed, senders, strict=False)}
    unnamed = [host for host in only_receivers(plan) if host.name not in found]
    if len(unnamed) > len(receivers):
        raise InputError(
            f"flows: {', '.join(host.name for host in only_receivers(plan))} are {len(only_receivers(plan))} "
            f"receivers, the inventory has {len(lab.all_receivers)}; allowed: up to {len(lab.all_receivers)}"
        )
    found |= {host.name: machine for host, machine in zip(unnamed, receivers, strict=False)}
    return {host.name: found[host.name] for host in plan.end_hosts}


def only_receivers(plan: Plan) -> list[Host]:
    """Hosts that flows end at and none starts at: those that do both are senders' machines."""
    return [host for host in plan.receivers if host not in plan.senders]


def delays_of(plan: Plan) -> dict[str, int]:
    """Nanoseconds that what is for each host is to be held, by host."""
    return {port.host: port.delay_ns for port in plan.ports if port.host}


def delays_at(plan: Plan, host: str, inventory: Lab) -> bool:
    """Whether a machine is to hold what it sends: a receiver is, and a sender to a host with a delay."""
    if inventory.delay.at != "receiver" or host not in {one.name for one in plan.end_hosts}:
        return False
    delays, own = delays_of(plan), plan.host(host)
    return own in plan.receivers or any(delays[peer.name] for peer in plan.peers(own))


def ccas_of(plan: Plan, host: str) -> list[str]:
    """Congestion controls of the flows that a host sends or receives: both ends have it."""
    flows = [flow for flow in plan.flows if flow.payload.has_tcp() and host in (flow.sender, flow.receiver)]
    return sorted({flow.cca for flow in flows if flow.cca})
