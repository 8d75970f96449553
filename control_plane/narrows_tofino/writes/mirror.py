# SPDX-License-Identifier: Apache-2.0
"""The path of reports: a mirror session with truncation, and memory for bursts of them."""

from __future__ import annotations

from narrows.errors import InputError
from narrows.experiment.plan import REPORT_ENCAPSULATION_BYTES, Plan
from narrows.switch.entries import COLLECTOR_SESSION

from narrows_tofino.bfrt.client import Operation
from narrows_tofino.chip.depth import about_size
from narrows_tofino.chip.model import Chip, pipe_of
from narrows_tofino.sampling import refuse_more_reports_than_fit
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.planned import PlannedWrite, Reader, number, text

# mirror_t of p4src/tofino/narrows.p4: it replaces nothing of the frame and counts into the session's length.
MIRROR_HEADER_BYTES = 32
FCS_BYTES = 4
# Cells that a pipe's mirrored packets may hold: some hundred reports on their way, where the default is 16 kB.
MIRROR_CELLS = 4096


def session_length(chip: Chip, report_length: int, model: bool = False) -> int:
    """``$max_pkt_len`` for reports of ``report_length`` bytes, encapsulation included; never a byte less.

    The session counts the mirror header; Tofino 2 counts the FCS as well and rounds down to its step. What is a few
    bytes more than asked for lies behind the length that the report's IP header states. A chip of Tofino 1 adds an FCS
    to what was cut; its ``model`` takes the last bytes for one.

    Raises:
        InputError: longer than a session can carry.
    """
    wanted = report_length - REPORT_ENCAPSULATION_BYTES + MIRROR_HEADER_BYTES
    step = chip.mirror_length_step
    length = -(-wanted // step) * step + (FCS_BYTES if chip.mirror_length_counts_fcs or model else 0)
    if length > chip.max_mirror_length:
        raise InputError(f"reports of {report_length} B are too long for a mirror session of {chip.name}")
    return length


def mirror_writes(inventory: Inventory, plan: Plan, reader: Reader) -> list[PlannedWrite]:
    """The session to the collector, and the memory of every pipe that mirrors.

    Raises:
        InputError: the reports of full-size frames need more than the collector's port carries, or the collector holds.
    """
    chip = inventory.switch.generation
    collector = plan.collector
    port = inventory.port(collector.port)
    refuse_more_reports_than_fit(plan, inventory)
    writes = _memory(inventory, plan, reader)
    key = {"$sid": COLLECTOR_SESSION}
    found = reader.entry("$mirror.cfg", key)
    length = session_length(chip, plan.collector.report_length, inventory.switch.model)
    writes.append(
        PlannedWrite(
            Operation.INSERT if found is None else Operation.MODIFY,
            "$mirror.cfg",
            key,
            {
                "$session_enable": True,
                "$direction": "EGRESS",
                "$ucast_egress_port": collector.port,
                "$ucast_egress_port_valid": True,
                "$egress_port_queue": 0,
                "$max_pkt_len": length,
            },
            f"reports leave by port {port.name}, cut to their headers",
            action="$normal",
            units={"$max_pkt_len": f"B, {MIRROR_HEADER_BYTES} of them the mirror header"},
        )
    )
    return writes


def _reported_ports(plan: Plan) -> set[int]:
    return {path.egress_port for path in plan.paths if path.link is not None}


def _memory(inventory: Inventory, plan: Plan, reader: Reader) -> list[PlannedWrite]:
    chip = inventory.switch.generation
    table = f"{chip.prefix}.tm.mirror.dpg"
    writes: list[PlannedWrite] = []
    for pipe in sorted({pipe_of(port) for port in _reported_ports(plan)}):
        found = reader.entry(table, None, pipe)
        if found is None:
            raise InputError(f"the switch has no {table} for pipe {pipe}")
        if text(found, "dynamic_baf") != "DISABLE" or number(found, "pool_max_cells") >= MIRROR_CELLS:
            continue
        writes.append(
            PlannedWrite(
                Operation.MODIFY,
                table,
                None,
                {
                    "guaranteed_cells": number(found, "guaranteed_cells"),
                    "hysteresis_cells": chip.hysteresis_floor_cells,
                    "pool_id": text(found, "pool_id"),
                    "pool_max_cells": MIRROR_CELLS,
                    "dynamic_baf": "DISABLE",
                },
                "the default loses bursts of reports, silently",
                pipe=pipe,
                units={"pool_max_cells": f"cells, {about_size(MIRROR_CELLS * chip.cell_bytes)}"},
            )
        )
    return writes
