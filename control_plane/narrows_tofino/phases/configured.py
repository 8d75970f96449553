# SPDX-License-Identifier: Apache-2.0
"""A switch with the links of a plan: its ports, traffic manager, mirror session and entries are set."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from narrows.errors import NarrowsError, RunError
from narrows.experiment.plan import Plan
from narrows.targets.base import AppliedSettings

from narrows_tofino.bfrt.client import Client
from narrows_tofino.phases.applied import applied_settings
from narrows_tofino.phases.opened import OpenedSwitch
from narrows_tofino.planner import SwitchPlan, cabled_ports, plan_switch, used_ports
from narrows_tofino.readings.checks import DropGuard
from narrows_tofino.readings.counters import clear_writes
from narrows_tofino.readings.links import ANY, likeliest_cause
from narrows_tofino.readings.modelled import check_kind
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.base_delay import looped_ports
from narrows_tofino.writes.planned import number
from narrows_tofino.writes.ports import port_writes
from narrows_tofino.writes.reader import AssumedReader, LiveReader
from narrows_tofino.writes.traffic_manager import TrafficManager

LINK_WAIT_S = 20.0
LINK_POLL_S = 0.2


@dataclass(frozen=True)
class ConfiguredSwitch:
    """Its traffic manager as it was planned, the guard of its drop counters, and what the settings came to.

    A model counts no drops: there is no guard.
    """

    manager: TrafficManager
    guard: DropGuard | None
    applied: AppliedSettings


def configure(opened: OpenedSwitch, inventory: Inventory, plan: Plan) -> ConfiguredSwitch:
    """Set up the links of a bound plan.

    Raises:
        RunError: the switch refuses something, or what it made reads back differently; nothing is left behind.
    """
    programmer, chip = opened.programmer, inventory.switch.generation
    reader = LiveReader(opened.client)
    # Once with what is known before ports are there: what is unsupported comes before anything is written.
    check_kind(opened.client, inventory)
    total = opened.client.read_default(opened.client.schema.table(f"{chip.prefix}.tm.cfg"))
    plan_switch(inventory, plan, AssumedReader(chip, number(total, "total_cells")))
    mark = len(programmer.journal)
    programmer.apply(port_writes(inventory, cabled_ports(plan), reader))
    if inventory.switch.keep_ports:
        # Also where the link is late: it is trained by the next run. Not loopback ports: whatever came to one that
        # was left would come back.
        programmer.keep(mark, len(programmer.journal))
    try:
        programmer.apply(port_writes(inventory, looped_ports(inventory, plan), reader))
        _wait_for_links(opened.client, inventory, used_ports(inventory, plan))
        planned = plan_switch(inventory, plan, reader)
        programmer.clear(clear_writes(inventory.switch.manages_queues))
        programmer.apply(planned.writes)
        guard = None if inventory.switch.model else _new_guard(opened, inventory, planned)
    except BaseException as error:
        # Without a session nothing can be undone now: closing does it over a new one.
        problems = programmer.undo(mark) if opened.client.alive() else []
        if isinstance(error, NarrowsError) and problems:
            raise RunError("\n".join([str(error), *problems])) from error
        raise
    applied = applied_settings(inventory, planned.manager, opened.client.kind, opened.audit_path)
    return ConfiguredSwitch(planned.manager, guard, applied)


def _new_guard(opened: OpenedSwitch, inventory: Inventory, planned: SwitchPlan) -> DropGuard:
    opened.programmer.clear(planned.watermarks)
    switch = inventory.switch
    pools = (switch.egress_pool, switch.ingress_pool)
    return DropGuard(opened.client, switch.generation.prefix, planned.manager, pools, inventory.calibration)


def _wait_for_links(client: Client, inventory: Inventory, ports: Sequence[int]) -> None:
    """Wait until all links are up.

    Raises:
        RunError: one is not after `LINK_WAIT_S` seconds, or a model's after its multiple of that.
    """
    longest_s = LINK_WAIT_S * inventory.switch.patience
    table = client.schema.table("$PORT")
    deadline = time.monotonic() + longest_s
    waiting = list(ports)
    while True:
        waiting = [port for port in waiting if not client.read(table, {"$DEV_PORT": port}).data.get("$PORT_UP")]
        if not waiting:
            return
        if time.monotonic() > deadline:
            names = ", ".join(inventory.port(port).name for port in waiting)
            stay = "; the ports stay, and go on training for the next run" if inventory.switch.keep_ports else ""
            raise RunError(
                f"no link on port {names} after {longest_s:g} s{stay}; fix: check {ANY}"
                f"{_causes(client, inventory, waiting)}"
            )
        time.sleep(LINK_POLL_S)


def _causes(client: Client, inventory: Inventory, dev_ports: Sequence[int]) -> str:
    """What most likely keeps the links of ports down, a line for each that has such a cause."""
    reader, lines = LiveReader(client), list[str]()
    for dev_port in dev_ports:
        found = reader.entry("$PORT", {"$DEV_PORT": dev_port})
        cause = None if found is None else likeliest_cause(found.data)
        if cause is not None:
            lines.append(f"\nport {inventory.port(dev_port).name}, likeliest: {cause}")
    return "".join(lines)
