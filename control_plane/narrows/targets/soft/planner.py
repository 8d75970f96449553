# SPDX-License-Identifier: Apache-2.0
"""Everything that running an experiment sets on a softswitch and the machines around it, in order, for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format

from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.hosts.lab.machines import SshTestbed, machines_of
from narrows.switch.entries import Prefix, ProgramEntry, Range
from narrows.switch.p4runtime_entries import plan_entries
from narrows.targets.soft.binding import bind
from narrows.targets.soft.inventory import Inventory
from narrows.targets.soft.settings import port_delays, queue_requests
from narrows.targets.soft.target import PROFILE


@dataclass(frozen=True)
class PlannedSetting:
    """One thing that is set: ``table`` is where, ``words`` what, and ``why`` is for people."""

    operation: str
    table: str
    words: str
    why: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.operation} {self.table} {self.words}"


def plan(experiment: Experiment, inventory: Inventory) -> list[PlannedSetting]:
    """Every setting of an experiment in a lab; nothing is connected to.

    Args:
        experiment: one run; sweep and repeats already resolved.
        inventory: the lab.

    Raises:
        InputError: the experiment does not fit the lab; the message names what would.
    """
    bound = bind(make_plan(experiment), inventory)
    testbed = SshTestbed(bound, inventory, Path(), experiment.mtu)
    names = {number: name for name, number in inventory.numbers.items()}
    found = [
        PlannedSetting("set", f"{nic.name}, {nic.interface}:", " ".join(testbed.settings(host)), _why_host(host))
        for host, nic in machines_of(bound, inventory).items()
    ]
    for request in queue_requests(bound, bound.seed):
        link = next(one for one in bound.links if (one.port, one.queue) == (request.port, request.queue))
        words = text_format.MessageToString(request, as_one_line=True)
        where = f"queue of {f'port {names[link.port]}' if link.port in names else f'loopback port {link.port}'}"
        found.append(PlannedSetting("configure", where, f"{{{words}}}", f"the queue of {link.name}"))
    for number, delay_ns in port_delays(bound).items():
        host = ", ".join(port.host for port in bound.ports if port.number == number)
        where = f"delay of port {names.get(number, number)}"
        found.append(PlannedSetting("configure", where, f"{{delay_ns: {delay_ns}}}", f"base RTT of {host}"))
    return [*found, *(_entry(entry) for entry in plan_entries(bound, PROFILE))]


def _why_host(host: str) -> str:
    return f"{host}: put back when the run ends, in whatever way"


def _entry(entry: ProgramEntry) -> PlannedSetting:
    key = ", ".join(f"{name}={_key(part)}" for name, part in entry.key.items())
    data = ", ".join(_words(entry, name, value) for name, value in entry.data.items())
    return PlannedSetting("insert", entry.table, f"[{key}] {entry.action} {{{data}}}", entry.why)


def _words(entry: ProgramEntry, name: str, value: int) -> str:
    return f"{name}={value} ({entry.units[name]})" if name in entry.units else f"{name}={value}"


def _key(part: int | Prefix | Range) -> str:
    if isinstance(part, Prefix):
        return f"{part.value}/{part.length}"
    return f"{part.first}..{part.last}" if isinstance(part, Range) else str(part)
