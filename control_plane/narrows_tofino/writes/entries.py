# SPDX-License-Identifier: Apache-2.0
"""The entries of our own program as they are written by BF Runtime."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.experiment.plan import Plan, ReportedLink
from narrows.experiment.port_choice import FlowTable
from narrows.hosts.lab.machines import end_machines
from narrows.switch.entries import ECN_OFF, Observation, Prefix, ProgramEntry, Range, mac_number, program_entries
from narrows_formats.units import format_size

from narrows_tofino.bfrt.client import Operation
from narrows_tofino.bfrt.values import KeyValue, Lpm, Ternary
from narrows_tofino.chip.depth import depth_units
from narrows_tofino.chip.model import pipe_of
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.base_delay import base_delay, base_delay_entries
from narrows_tofino.writes.losses import loss_entries
from narrows_tofino.writes.planned import PlannedWrite, Reader
from narrows_tofino.writes.queue_aqms import aqms, meter_writes, queue_entries

# Shares of the flow indices, in the upper bits of a byte, as p4src/common/flow_share.p4 numbers them: quarters from 4.
SHARE_SHIFT = 5
FIRST_QUARTER = 4
# FLOW_INDEX_WIDTH of p4src/tofino/narrows.p4
INDEX_BITS = 15
# Of a queue delay, in ns: what a mirrored copy has room for in p4src/tofino/narrows.p4. Longer waits are refused.
DELAY_BITS = 32
# Ternary fields by table, and their bits that entries match.
MASKS = {"cross_connect": {"ingress_port": 0x1FF, "dst_mac": (1 << 48) - 1, "is_tagged": 1, "vlan": 0xFFF}}
# Tables whose entries of an earlier run would misdirect packets or reports.
TABLES = (
    *("cross_connect", "host_vlan", "base_delay", "$PORT_METADATA"),
    *("loss", "loss_states", "bottleneck", "collector", "delay_bins"),
)
# The same of the program that manages queues (p4src/tofino/queue_management).
AQM_TABLES = ("enqueue_aqm", "dequeue_aqm", "arrival_queue", "departure_queue")


def tables(managed: bool) -> tuple[str, ...]:
    """The tables of the switch's program that have entries of a plan; ``managed``: it manages queues."""
    return (*TABLES, *AQM_TABLES) if managed else TABLES


def program_writes(inventory: Inventory, plan: Plan, reader: Reader) -> list[PlannedWrite]:
    """Removes what earlier runs left in the program's tables, then installs the plan's entries."""
    left = [
        PlannedWrite(Operation.DELETE, table, entry.key, {}, "left by an earlier run")
        for table in tables(inventory.switch.manages_queues)
        for entry in reader.entries(table)
    ]

    def observation(link: ReportedLink) -> Observation:
        if (asked := link.ecn_threshold) is None:
            return Observation(ECN_OFF, "")
        cells = depth_units(asked.amount, plan.frame_bytes, inventory.switch.generation.cell_bytes)
        return Observation(min(cells, ECN_OFF - 1), f"cells, {format_size(asked.amount)} of frames")

    shares = index_shares(plan)
    entries = program_entries(
        plan,
        observation,
        lambda port: shares[pipe_of(port)],
        DELAY_BITS,
        lambda link, _: aqms(link, inventory.latency_ns),
        loss_entries,
    )
    meters = meter_writes(plan, inventory.switch.generation.cell_bytes)
    delay = base_delay(plan, inventory)
    held = () if delay is None else base_delay_entries(delay)
    before = (*queue_entries(plan), *held, *_vlans(inventory, plan))
    return [*left, *meters, *(entry_write(entry) for entry in (*before, *entries))]


def _vlans(inventory: Inventory, plan: Plan) -> Iterator[ProgramEntry]:
    """With which VLAN frames for a host leave, where hosts have one."""
    machines = end_machines(plan, inventory)
    for host in plan.end_hosts:
        if (vlan := inventory.vlans.get(machines[host.name].name)) is not None:
            key = {"is_tagged": 1, "dst_mac": mac_number(host.mac)}
            yield ProgramEntry("host_vlan", key, "retag", {"vlan": vlan}, f"{host.mac} is in VLAN {vlan}")


def entry_write(entry: ProgramEntry) -> PlannedWrite:
    """An entry as it is written."""
    key: dict[str, KeyValue] = {}
    masks = MASKS.get(entry.table, {})
    for name, part in entry.key.items():
        # Of tables that Tofino's program does not have (`narrows_tofino.binding` refuses what needs them).
        assert not isinstance(part, Range)
        if isinstance(part, Prefix):
            key[name] = Lpm(part.value, part.length)
        else:
            key[name] = Ternary(part, masks[name]) if name in masks else part
    if entry.priority is not None:
        key["$MATCH_PRIORITY"] = entry.priority
    return PlannedWrite(
        Operation.INSERT, entry.table, key, dict(entry.data), entry.why, action=entry.action or None, units=entry.units
    )


def index_shares(plan: Plan) -> dict[int, int]:
    """Share of the flow indices of each pipe that packets come to a bottleneck through; of a single one 0, all."""
    pipes = sorted({pipe_of(path.ingress_port) for path in plan.paths if path.link is not None})
    if len(pipes) == 1:
        return {pipes[0]: 0}
    return {pipe: (FIRST_QUARTER + number) << SHARE_SHIFT for number, pipe in enumerate(pipes)}


def flow_table(plan: Plan) -> FlowTable:
    """The cells of a bound plan's flows: of several pipes each has a quarter of them."""
    partitions = {pipe: (share >> SHARE_SHIFT) - FIRST_QUARTER for pipe, share in index_shares(plan).items() if share}
    ports = {path.ingress_port for path in plan.paths}
    return FlowTable(INDEX_BITS, {port: partitions[pipe_of(port)] for port in ports if pipe_of(port) in partitions})
