# SPDX-License-Identifier: Apache-2.0
"""A lab whose bottleneck is a Linux machine: the softswitch on its NICs, and machines there (docs/testbed.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from narrows_formats.validation import refuse
from pydantic import AfterValidator, Field, StrictInt, model_validator

from narrows import python
from narrows.experiment.plan import Plan
from narrows.field_types import Model, Name
from narrows.hosts.base import SWITCH
from narrows.hosts.lab.inventory import CollectorMachine, Delay, Lab, Machine, Nic, Ssh

# The cable within the switch's machine by which reports reach a collector there: the switch's end, the collector's.
REPORTS_OUT, REPORTS_IN = "narrows-tx", "narrows-rx"
_AT_THE_SWITCH = "collector-at-the-switch"
_ANY_MAC = "02:4e:57:00:ff:fe"
_REPORTS_BPS = 10_000_000_000


# As many as Linux supports (NR_CPUS).
MOST_PROCESSORS = 8192


def _processors(value: str) -> str:
    """As the kernel writes a list of processors."""
    numbers: set[int] = set()
    for part in value.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
            raise refuse(f"'{value}' is not a list of processors", "numbers and ranges, such as 2,4-7")
        if len(last or first) > 4 or int(last or first) >= MOST_PROCESSORS:
            raise refuse(f"'{value}' has a processor that no machine has", f"numbers below {MOST_PROCESSORS}")
        numbers.update(range(int(first), int(last or first) + 1))
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


Processors = Annotated[str, AfterValidator(_processors)]


class Port(Model):
    """A NIC of the switch's machine, by the name that machines' ``port`` has; ``speed`` is that of its link."""

    name: Name
    interface: str
    speed: Literal["1G", "2.5G", "5G", "10G", "25G", "40G", "50G", "100G"]

    @property
    def speed_bps(self) -> int:
        """Speed in bit/s, L1."""
        return int(float(self.speed.removesuffix("G")) * 1e9)


class Switch(Model):
    """The machine that the softswitch runs on; no ``ssh``: this one.

    ``cores``: processors that it runs on, and nothing else should (`deploy/systemd/narrows-cores.conf`); None: any.
    ``interrupts``: processors that its NICs' interrupts go to; None: those of the NIC's NUMA node. ``queues``: receive
    queues of each NIC; with one, packets are in the order in which they came, with more only those of a flow.
    """

    ssh: Ssh | None = None
    ports: Annotated[tuple[Port, ...], Field(min_length=1)]
    cores: Processors | None = None
    interrupts: Processors | None = None
    queues: Annotated[StrictInt, Field(ge=1, le=64)] = 1


class Inventory(Lab):
    """One lab. Without a ``collector`` reports stay on the switch's machine, and are fetched when the run ends."""

    switch: Switch
    delay: Delay = Delay(at="none")

    @model_validator(mode="after")
    def _cabled(self) -> Self:
        if "delay" in self.model_fields_set:
            raise refuse("delay: the softswitch itself makes base RTTs", "an inventory without delay")
        for attribute in ("name", "interface"):
            values = [getattr(port, attribute) for port in self.switch.ports]
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice is not None:
                raise refuse(f"two ports of the switch have the {attribute} '{twice}'", "each NIC once")
        names = [port.name for port in self.switch.ports]
        for machine in self.machines:
            if machine.port not in names and machine.port != REPORTS_OUT:
                raise refuse(f"{machine.name} is on the unknown port '{machine.port}'", ", ".join(names))
        return self

    @property
    def collecting(self) -> CollectorMachine:
        """See `Lab.collecting`: on the switch's machine where the inventory names none."""
        return self.collector or CollectorMachine(
            name=_AT_THE_SWITCH, ssh=self.switch.ssh, port=REPORTS_OUT, interface=REPORTS_IN, mac=_ANY_MAC
        )

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers of the switch's ports by name, the collector's cable among them where that is on its machine."""
        names = [port.name for port in self.switch.ports] + ([REPORTS_OUT] if self.collector is None else [])
        return {name: number for number, name in enumerate(names, start=1)}

    def interfaces(self, plan: Plan) -> dict[int, str]:
        """Interfaces of the ports that a bound plan uses, by number."""
        by_name = {port.name: port.interface for port in self.switch.ports} | {REPORTS_OUT: REPORTS_OUT}
        used = {port.number for port in plan.ports}
        return {number: by_name[name] for name, number in self.numbers.items() if number in used}

    def switch_nics(self, plan: Plan) -> dict[str, Nic]:
        """See `Lab.switch_nics`: the NICs of the ports that a plan uses."""
        used = set(self.interfaces(plan).values())
        ports = [port for port in self.switch.ports if port.interface in used]
        names = [SWITCH, *(f"{SWITCH}-{port.name}" for port in ports[1:])]
        return {
            name: Nic(name=f"switch ({port.name})", ssh=self.switch.ssh, interface=port.interface)
            for name, port in zip(names, ports, strict=True)
        }

    def nic_settings(self, host: str) -> Mapping[str, str]:
        """See `Lab.nic_settings`."""
        if not _is_of_the_switch(host):
            return {"pair": REPORTS_OUT} if self.collector is None else {}
        interrupts = {} if self.switch.interrupts is None else {"interrupts": self.switch.interrupts}
        return {"nic": "fast", "quiet": "yes", "queues": str(self.switch.queues), **interrupts}

    def needs(self, host: str) -> tuple[str, ...]:
        """See `Lab.needs`."""
        if not _is_of_the_switch(host):
            return (f"pair={REPORTS_OUT}",) if self.collector is None else ()
        tools = ["tar"] + (["taskset"] if self.switch.cores else [])
        tools += [] if self.switch.ssh is None else [python.ELSEWHERE, "sha256sum"]
        return ("dedicated=yes", f"tools={' '.join(tools)}")

    def speed_bps(self, machine: Nic) -> int:
        """See `Lab.speed_bps`."""
        for port in self.switch.ports:
            is_its_cable = isinstance(machine, Machine) and machine.port == port.name
            if is_its_cable or (machine.interface == port.interface and machine.ssh == self.switch.ssh):
                return port.speed_bps
        # The cable within the switch's machine.
        return _REPORTS_BPS


def _is_of_the_switch(host: str) -> bool:
    return host == SWITCH or host.startswith(f"{SWITCH}-")
