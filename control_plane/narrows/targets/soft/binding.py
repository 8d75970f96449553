# SPDX-License-Identifier: Apache-2.0
"""From a plan to the same plan on a Linux machine's NICs and the machines of its lab."""

from __future__ import annotations

from collections import defaultdict

from narrows.errors import InputError
from narrows.experiment.plan import Plan
from narrows.experiment.port_choice import avoid_index_collisions
from narrows.hosts.lab.binding import Ports, place
from narrows.targets.soft.inventory import Inventory

MAX_LOOPBACKS = 64


def bind(plan: Plan, inventory: Inventory) -> Plan:
    """The plan with the inventory's NICs as ports, MAC and IP addresses, and source ports that suit them.

    Raises:
        InputError: see `narrows.hosts.lab.binding.place`; or hosts that share a port are to have several delays.
    """
    numbers = inventory.numbers
    names = {number: name for name, number in numbers.items()}
    free = range(len(numbers) + 1, len(numbers) + 1 + MAX_LOOPBACKS)
    bound = place(plan, inventory, Ports(lambda machine: numbers[machine.port], lambda number: names[number], free))
    delays: dict[int, dict[int, str]] = defaultdict(dict)
    for port in bound.ports:
        delays[port.number].setdefault(port.delay_ns, port.host)
    for number, hosts in delays.items():
        if len(hosts) > 1:
            raise InputError(
                f"flows: {' and '.join(hosts.values())} share port {names[number]} of the switch, which holds what "
                "leaves there for one time; allowed: the same RTT for both, or a port for each"
            )
    return avoid_index_collisions(bound)
