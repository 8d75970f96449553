# SPDX-License-Identifier: Apache-2.0
"""Looks at every piece of a lab whose bottleneck is a Linux machine, and says how to mend what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary, missing_binary

from narrows.hosts.diagnosis import Diagnosis
from narrows.hosts.lab import examination
from narrows.hosts.lab.examination import Link
from narrows.hosts.lab.inventory import Nic
from narrows.targets.soft.inventory import Inventory, Port
from narrows.targets.soft.softswitch import missing_parts


def examine(inventory: Inventory, ccas: Sequence[str] = ()) -> list[Diagnosis]:
    """Everything a run in this lab depends on.

    Args:
        inventory: the lab.
        ccas: congestion controls that senders must have.
    """
    servers = [one for one in inventory.machines if one != inventory.collecting or inventory.collector is not None]
    ports = inventory.switch.ports
    with ThreadPoolExecutor(len(servers) + len(ports)) as pool:
        links = [Link(f"port {one.port}") for one in servers]
        found = list(pool.map(lambda one, link: list(examination.machine(inventory, one, link, ccas)), servers, links))
        # A port without a machine needs no cable.
        cabled = {one.port for one in servers}
        found += pool.map(lambda port: list(_port(inventory, port, port.name in cabled)), ports)
    programs = [
        Diagnosis("collector program", COLLECTOR, "" if find_binary(COLLECTOR) else missing_binary(COLLECTOR)),
        Diagnosis("switch program", SOFTSWITCH, "; ".join(missing_parts())),
    ]
    return [*(one for group in found for one in group), *programs]


def _port(inventory: Inventory, port: Port, is_cabled: bool) -> Iterator[Diagnosis]:
    """A NIC of the switch's machine, and with the first of them that machine."""
    switch = inventory.switch
    nic = Nic(name=f"switch ({port.name})", ssh=switch.ssh, interface=port.interface)
    facts = yield from examination.found_at(nic)
    if facts is None:
        return
    yield from examination.nic(
        nic, facts, Link("the inventory", "" if is_cabled else "no machine is there"), port.speed_bps
    )
    used = facts.get("used", "")
    yield Diagnosis(
        f"{nic.name}: use",
        "by nothing else",
        f"{port.interface} {used}; fix: a NIC that nothing else uses" if used else "",
    )
    queues = facts.get("queues", "unknown")
    yield Diagnosis(f"{nic.name}: receive queues", f"{queues}; a run sets {switch.queues}")
    yield examination.earlier_run(nic, facts)
    if port is switch.ports[0]:
        yield from _processors(inventory, facts.get("cpus", "unknown"), facts.get("isolated", ""))


def _processors(inventory: Inventory, cpus: str, isolated: str) -> Iterator[Diagnosis]:
    cores = inventory.switch.cores
    if cores is None:
        yield Diagnosis("switch: processors", f"any of {cpus}; cores in the inventory would give it some of its own")
    elif cores == isolated:
        yield Diagnosis("switch: processors", f"{cores}, isolated")
    else:
        others = f"isolated are {isolated}" if isolated else "not isolated"
        yield Diagnosis("switch: processors", f"{cores}, {others}: other processes may run there (docs/testbed.md)")
