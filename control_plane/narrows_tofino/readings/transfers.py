# SPDX-License-Identifier: Apache-2.0
"""Whether ports lose packets outside the queues: what went into each cable against what came out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.hosts.lab.machines import SshTestbed, machines_of
from narrows.switch.readings import PacketConservation

from narrows_tofino.bfrt.client import Client
from narrows_tofino.readings.statistics import port_stats
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.base_delay import looped_ports


@dataclass(frozen=True)
class PortTransfer:
    """Frames that a port has sent, that were received at its other end and handed on, and those known to be lost there.

    ``place`` is what is between the two.
    """

    place: str
    sent: int
    received: int
    lost: dict[str, int]


def transfers(client: Client, inventory: Inventory, testbed: Testbed | None, plan: Plan) -> dict[str, PortTransfer]:
    """Both ends of each receiver's cable, where the hosts are machines, and both sides of each loopback port.

    Nothing of a model, whose ports count nothing.
    """
    found: dict[str, PortTransfer] = {}
    if inventory.switch.model:
        return found
    if isinstance(testbed, SshTestbed):
        machines = machines_of(plan, inventory)
        for receiver in plan.receivers:
            name = machines[receiver.name].name
            sent = port_stats(client, receiver.port).tx_packets
            place = f"between the switch and {name}'s NIC"
            found[name] = PortTransfer(place, sent, *testbed.received(receiver.name))
    for loopback in looped_ports(inventory, plan):
        port, name = port_stats(client, loopback), f"port {inventory.port(loopback).name}"
        found[name] = PortTransfer(f"in loopback {name}", port.tx_packets, port.rx_packets, {})
    return found


def balances(before: Mapping[str, PortTransfer], after: Mapping[str, PortTransfer]) -> list[PacketConservation]:
    """What went in and came out between two readings, and what NIC and kernel say they lost."""
    found: list[PacketConservation] = []
    for name, now in after.items():
        received = now.received - before[name].received
        found.append(PacketConservation(now.place, now.sent - before[name].sent, received))
        for counter, lost in now.lost.items():
            if more := lost - before[name].lost.get(counter, 0):
                found.append(PacketConservation(f"in {name}'s {counter}", received + more, received))
    return found
