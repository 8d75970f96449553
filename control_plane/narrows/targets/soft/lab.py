# SPDX-License-Identifier: Apache-2.0
"""The softswitch between the machines of a lab, on a Linux machine's NICs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.errors import RunError
from narrows.experiment.plan import L1_OVERHEAD_BYTES, Plan
from narrows.hosts.base import Testbed
from narrows.hosts.diagnosis import Diagnosis
from narrows.hosts.lab.machines import LOSSES, SshTestbed
from narrows.hosts.lab.preflight import Preflight
from narrows.hosts.state import RunState
from narrows.paths import data
from narrows.switch.readings import PacketConservation
from narrows.targets.base import AppliedSettings, Target, TargetOptions
from narrows.targets.lab import LabTarget, Planner
from narrows.targets.soft import lab_doctor
from narrows.targets.soft.binding import bind
from narrows.targets.soft.inventory import Inventory
from narrows.targets.soft.planner import plan as plan_settings
from narrows.targets.soft.target import SoftTarget

if TYPE_CHECKING:
    from narrows.experiment.model import Experiment

# Counters of a NIC, not of its machine's kernel, which counts what else comes in as well.
OF_THE_NIC = LOSSES["nic."]


class LabSoftTarget(LabTarget, SoftTarget):
    """One softswitch between machines."""

    runs_programs = False

    def __init__(self, seed: int, inventory: Inventory, preflight: Preflight | None = None) -> None:
        """``preflight`` asks the machines, and remembers their answers from run to run."""
        super().__init__(seed)
        self._inventory = inventory
        self._preflight = preflight or Preflight(inventory)
        self._made: tuple[Plan, SshTestbed] | None = None
        self._lost_before: dict[str, int] = {}
        self._received_before: dict[int, tuple[int, int]] = {}

    @classmethod
    def factory(cls, options: TargetOptions) -> Callable[[Experiment], Target]:
        """Targets of one lab, whose machines are asked once, with the experiments' seeds."""
        inventory = Inventory.load(options.lab)
        preflight = Preflight(inventory)
        return lambda experiment: cls(experiment.seed, inventory, preflight)

    @classmethod
    def example_inventory(cls) -> Path:
        """See `LabTarget.example_inventory`."""
        return data("deploy") / "soft-inventory.example.yaml"

    @classmethod
    def examine(cls, inventory: Path) -> list[Diagnosis]:
        """See `LabTarget.examine`."""
        return lab_doctor.examine(Inventory.load(inventory))

    @classmethod
    def planner(cls, inventory: Path) -> Planner:
        """See `LabTarget.planner`."""
        lab = Inventory.load(inventory)
        return Planner(lambda experiment: plan_settings(experiment, lab), "softswitch and the machines around it")

    def bind_to_target(self, plan: Plan) -> Plan:
        """The plan on the lab's NICs and machines.

        Raises:
            InputError: the lab has too few machines, or not the addresses.
        """
        return bind(plan, self._inventory)

    def unsupported(self, plan: Plan) -> list[str]:
        """What the softswitch does not go up to, and rates that a NIC does not carry."""
        speeds = {self._inventory.numbers[port.name]: port for port in self._inventory.switch.ports}
        beyond = []
        for link in plan.links:
            on_the_wire = link.rates_bps.most * (plan.frame_bytes + L1_OVERHEAD_BYTES) // plan.frame_bytes
            if link.port in speeds and on_the_wire > speeds[link.port].speed_bps:
                port = speeds[link.port]
                most = port.speed_bps * plan.frame_bytes // (plan.frame_bytes + L1_OVERHEAD_BYTES)
                beyond.append(
                    f"{link.field}.rate: is more than port {port.name} carries ({port.speed}, with preamble, FCS and "
                    f"gap); allowed: up to {most} bit/s"
                )
        return [*super().unsupported(plan), *beyond]

    def testbed(self, plan: Plan, state: RunState, mtu: int) -> Testbed:
        """The machines of an adapted plan, by SSH."""
        self._take(plan)
        machines = SshTestbed(plan, self._inventory, state.directory, mtu, state)
        self._made = plan, machines
        return machines

    @property
    def _lab(self) -> tuple[Plan, SshTestbed]:
        if self._made is None:
            raise RunError("the softswitch has no machines yet")
        return self._made

    async def start(self, testbed: Testbed, piped: bool = False) -> None:
        """Start the switch on its machine's NICs and connect to it.

        Raises:
            RunError: it does not come up; the message has its last output.
        """
        interfaces = self._inventory.interfaces(self._lab[0])
        cores = self._inventory.switch.cores
        pipes = await self._pipes(testbed, piped and self._inventory.collector is None)
        await self._switch.start(testbed, interfaces, self._seed, self._loopbacks, cores, self._devices, pipes=pipes)

    async def configure(self, plan: Plan) -> AppliedSettings:
        """See `SoftTarget.configure`; what NICs have counted until then is not this run's."""
        applied = await super().configure(plan)
        self._lost_before = self._lost(plan)
        self._received_before = await self._received(plan)
        return applied

    async def unexpected_losses(self, plan: Plan) -> list[str]:
        """Packets lost anywhere but at a link's queue or by loss emulation, in the switch's NICs too."""
        found = await super().unexpected_losses(plan)
        for counter, lost in self._lost(plan).items():
            if more := lost - self._lost_before.get(counter, 0):
                found.append(f"{counter}: {more} packets not received by the switch's machine")
        return found

    async def packet_conservation(self, plan: Plan) -> list[PacketConservation]:
        """What left each port for end hosts against what their NICs handed on."""
        names = {number: name for name, number in self._inventory.numbers.items()}
        found = []
        for number, (sent, received) in (await self._received(plan)).items():
            sent_before, received_before = self._received_before[number]
            place = f"between the switch's port {names[number]} and the NICs there"
            found.append(PacketConservation(place, sent - sent_before, received - received_before))
        return found

    def _lost(self, plan: Plan) -> dict[str, int]:
        """What the switch's NICs have lost so far, by NIC and counter."""
        _, machines = self._lab
        lost: dict[str, int] = {}
        for host, nic in self._inventory.switch_nics(plan).items():
            counters = machines.received(host)[1]
            lost |= {f"{nic.name}: {name}": n for name, n in counters.items() if name.startswith(OF_THE_NIC)}
        return lost

    async def _received(self, plan: Plan) -> dict[int, tuple[int, int]]:
        """Frames that have left each port for end hosts, and those that the hosts' NICs have handed on, by port."""
        _, machines = self._lab
        sent = {port.port: port.tx_packets for port in await self.ports()}
        received: dict[int, int] = defaultdict(int)
        for host in plan.end_hosts:
            received[host.port] += machines.received(host.name)[0]
        return {number: (sent[number], count) for number, count in received.items()}
