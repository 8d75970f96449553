# SPDX-License-Identifier: Apache-2.0
"""All writes of an experiment, in the order in which they must be made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.queues.red import Red

from narrows_tofino.binding import bind
from narrows_tofino.chip.depth import depth_units
from narrows_tofino.chip.red import wred
from narrows_tofino.readings.checks import watermark_writes
from narrows_tofino.readings.counters import clear_writes
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.base_delay import looped_ports
from narrows_tofino.writes.entries import program_writes
from narrows_tofino.writes.mirror import mirror_writes
from narrows_tofino.writes.planned import PlannedWrite, Reader
from narrows_tofino.writes.ports import port_writes
from narrows_tofino.writes.reader import AssumedReader
from narrows_tofino.writes.traffic_manager import BottleneckQueue, TrafficManager


@dataclass(frozen=True)
class SwitchPlan:
    """The writes behind the ports, and what the links will be; ``watermarks`` are zeroed last."""

    writes: tuple[PlannedWrite, ...]
    watermarks: tuple[PlannedWrite, ...]
    manager: TrafficManager


def plan(experiment: Experiment, inventory: Inventory, reader: Reader | None = None) -> list[PlannedWrite]:
    """Every write that running an experiment on a testbed makes, in order.

    Without a ``reader`` the switch is taken to be as its driver leaves it after start; what is looked up at run time
    (port groups, present limits) may then differ, and writes that only raise a limit may turn out not to be needed.

    Args:
        experiment: one run; sweep and repeats already resolved.
        inventory: the testbed.
        reader: the switch's present state.

    Raises:
        InputError: the experiment does not fit the switch or the testbed; the message names what would.
    """
    source = AssumedReader(inventory.switch.generation) if reader is None else reader
    bound = bind(make_plan(experiment), inventory)
    found = port_writes(inventory, used_ports(inventory, bound), source)
    planned = plan_switch(inventory, bound, source)
    return [*found, *clear_writes(inventory.switch.manages_queues), *planned.writes, *planned.watermarks]


def used_ports(inventory: Inventory, plan: Plan) -> list[int]:
    """All ports of a bound plan: `cabled_ports`, then those in loopback."""
    return [*cabled_ports(plan), *looped_ports(inventory, plan)]


def cabled_ports(plan: Plan) -> list[int]:
    """Ports with a machine at the other end, ascending."""
    return sorted({port.number for port in plan.ports}.difference(plan.loopbacks))


def plan_switch(inventory: Inventory, plan: Plan, reader: Reader) -> SwitchPlan:
    """What is written once the ports are there.

    Args:
        inventory: the testbed.
        plan: a bound plan.
        reader: the switch's present state, after its ports were added.

    Raises:
        InputError: it does not fit the switch.
    """
    manager = TrafficManager(inventory, reader, plan)
    writes = [*manager.writes(), *mirror_writes(inventory, plan, reader)]
    writes += program_writes(inventory, plan, reader)
    switch = inventory.switch
    pools = (switch.egress_pool, switch.ingress_pool)
    watermarks = watermark_writes(switch.generation.prefix, manager.bottlenecks, pools)
    return SwitchPlan(tuple(writes), tuple(watermarks), manager)


def realised(bottleneck: BottleneckQueue) -> dict[str, Any]:
    """What run.json says of a link: asked for and made, in the units of the experiment and of the chip."""
    depth, shaping = bottleneck.depth, bottleneck.shaping
    threshold = bottleneck.link.ecn_threshold
    return {
        "rate": {
            "asked_bps": shaping.asked_bps,
            "made_bps": round(shaping.realised_bps),
            "shaper_kbps": shaping.rate_kbps,
            "burst_bytes": shaping.burst_bytes,
            "layer": shaping.overhead.note,
            "error": shaping.error,
            "uncertainty": shaping.overhead.uncertainty,
        },
        "depth": {
            "asked_bytes": depth.asked_bytes,
            "cells": depth.cells,
            "guaranteed_cells": depth.guaranteed_cells,
            "cell_bytes": depth.cell_bytes,
            "cells_per_frame": depth.cells_per_frame,
            "frame_bytes": depth.frame_bytes,
            "made_bytes": depth.bytes,
            "made_packets": depth.packets,
            "hysteresis_cells": depth.hysteresis_cells,
            "hysteresis_bytes": depth.hysteresis_bytes,
        },
        "ecn_threshold_cells": None
        if threshold is None
        else depth_units(threshold.amount, depth.frame_bytes, depth.cell_bytes),
        "queue": asdict(bottleneck.queue),
        **_red(bottleneck),
        **_two_queues(bottleneck),
    }


def _two_queues(bottleneck: BottleneckQueue) -> dict[str, object]:
    """The second queue of a link that has one, and how the two share its rate and its depth."""
    if bottleneck.low is None or bottleneck.weights is None:
        return {}
    classic, low = bottleneck.weights
    return {
        "low_latency_queue": asdict(bottleneck.low),
        "shared_by": {
            "scheduler": "DWRR",
            "classic_weight": classic,
            "low_latency_weight": low,
            "classic_share": classic / (classic + low),
            "rate_and_depth": "of the port, for both queues together",
        },
    }


def _red(bottleneck: BottleneckQueue) -> dict[str, object]:
    """What the driver makes of RED's settings, where a queue has it."""
    depth, red = bottleneck.depth, bottleneck.link.aqm
    if not isinstance(red, Red):
        return {}
    settings = wred(red, depth.frame_bytes, depth.cell_bytes)
    return {"red": {"time_constant_ns": round(settings.time_constant_ns), **asdict(settings.made)}}
