# SPDX-License-Identifier: Apache-2.0
"""What the machines of a testbed lack for a run, found before anything is changed on one of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.hosts.lab.inventory import Lab, Machine, Nic
from narrows.hosts.lab.machines import MAX_PARALLEL, ccas_of, delays_at, machines_of
from narrows.hosts.lab.ssh import HOST_SCRIPT, run

# What our own senders and readers of sockets need on a machine.
PYTHON = "3.8"


class Preflight:
    """Asks each machine once for each set of requirements, however many runs a sweep has."""

    def __init__(self, inventory: Lab) -> None:
        """Nothing is asked before `problems`."""
        self._inventory = inventory
        self._found: dict[tuple[str, tuple[str, ...]], str] = {}

    def problems(self, plan: Plan) -> list[str]:
        """One line for every machine of an adapted plan that cannot be used for it as it is."""
        wanted: list[tuple[Nic, tuple[str, ...]]] = []
        ends = {host.name for host in plan.end_hosts}
        for host, machine in machines_of(plan, self._inventory).items():
            # The traffic tools are not needed where reports are collected.
            tools = [f"python={PYTHON}"] if host in ends else self._inventory.needs(host)
            delays = ["netem=yes"] if delays_at(plan, host, self._inventory) else []
            # A cable within the switch's machine is made by the run.
            is_made = any(need.startswith("pair=") for need in tools)
            mac = [f"mac={machine.mac}"] if isinstance(machine, Machine) and not is_made else []
            wanted.append((machine, (*tools, *delays, *mac, f"cca={' '.join(ccas_of(plan, host))}")))
        new = [(machine, needs) for machine, needs in wanted if (machine.name, needs) not in self._found]
        with ThreadPoolExecutor(MAX_PARALLEL) as pool:
            for (machine, needs), problem in zip(new, pool.map(lambda one: _ask(*one), new), strict=True):
                self._found[machine.name, needs] = problem
        return [problem for machine, needs in wanted if (problem := self._found[machine.name, needs])]


def _ask(machine: Nic, needs: tuple[str, ...]) -> str:
    try:
        run(machine, ["sh", "-s", "--", "check", machine.interface, *needs], text=HOST_SCRIPT.read_text())
    except RunError as error:
        return str(error)
    return ""
