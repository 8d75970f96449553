# SPDX-License-Identifier: Apache-2.0
"""What a run's settings came to on a switch, and what its user should know of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from narrows.experiment.plan import REPORT_LENGTH_BYTES, Plan
from narrows.queues.pi2 import DualPi2
from narrows.queues.red import Red
from narrows.targets.base import AppliedLink, AppliedSettings

from narrows_tofino.link_tasks import updated_links
from narrows_tofino.planner import realised
from narrows_tofino.readings.modelled import MODEL_NOTE
from narrows_tofino.sampling import report_load
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.traffic_manager import BottleneckQueue, TrafficManager

DEPTH = "depth: the read-back of tm.queue.buffer is the driver's copy; only a watermark under load proves it"


def applied_settings(
    inventory: Inventory, manager: TrafficManager, client_kind: str, audit_path: Path
) -> AppliedSettings:
    """What was set, by a client of that kind that logs to ``audit_path``."""
    plan, queues, calibration = manager.plan, manager.bottlenecks, inventory.calibration
    return AppliedSettings(
        links={one.link.name: _applied_link(one) for one in queues},
        notes=(
            *_of_switch(inventory, plan, queues),
            *(() if manager.base_delay is None else (manager.base_delay.note,)),
            *_of_links(plan),
            *_of_reports(inventory, plan),
            DEPTH,
        ),
        program={
            "name": inventory.switch.program,
            "client": client_kind,
            "audit": str(audit_path),
            "tofino": {one.link.name: realised(one) for one in queues},
            "calibration": None if calibration is None else calibration.model_dump(mode="json"),
            "report_length": REPORT_LENGTH_BYTES,
        },
    )


def _applied_link(one: BottleneckQueue) -> AppliedLink:
    packets = one.depth.packets if one.link.limit_packets is not None else None
    # Of a rate that varies, what its BDP is of.
    rate_bps = one.rate_bps if one.link.schedule is None else one.link.rate_bps
    return AppliedLink(rate_bps, one.depth.bytes, packets)


def _of_switch(inventory: Inventory, plan: Plan, queues: Sequence[BottleneckQueue]) -> Iterator[str]:
    """Notes about queues and shapers, and about a switch that was never measured."""
    if inventory.switch.model:
        yield MODEL_NOTE
    for one in queues:
        whose = "" if len(queues) == 1 else f"{one.link.name}: "
        yield from (f"{whose}{words}" for words in (*one.depth.warnings, f"rate: {one.shaping.overhead.note}"))
        if inventory.calibration is not None and one.shaping.overhead.uncertainty:
            yield (
                f"warning: {whose}rate: made by the shaper of a port, and a calibration does not measure what that "
                f"counts in addition to frames: it may be up to {one.shaping.overhead.uncertainty:.2%} less than stated"
            )
    if inventory.calibration is None:
        uncertainty = max(one.shaping.overhead.uncertainty for one in queues)
        yield (
            "warning: this switch was never measured: its rate may be up to "
            f"{uncertainty:.2%} less than stated, and reports count the empty switch's delay as queue "
            "delay; fix: narrows calibrate"
        )
    if inventory.delay.at == "none" and any(port.delay_ns for port in plan.ports):
        yield (
            "warning: nothing makes the experiment's rtt (delay.at: none in the inventory): flows have the RTT of "
            "the cables, while depths in bdp are of the one that was written"
        )


def _of_links(plan: Plan) -> Iterator[str]:
    """Notes about what software does on time, and where a queue differs from the softswitch's."""
    for link in plan.links:
        if link.schedule is not None:
            yield (
                f"{link.field}.rate: its steps are timed by software; run.json has when each was made "
                "(rate_steps_applied)"
            )
    for link, aqm in updated_links(plan):
        yield (
            f"{link.field}.queue: {aqm.kind}'s probability is updated by software; run.json has how late "
            "(queue_updates_applied)"
        )
    for link in plan.links:
        if isinstance(link.aqm, Red) and not link.aqm.nodrop:
            yield f"{link.field}.queue: what red drops has had its time on the link, and its average goes by time"
    for link in plan.links:
        if isinstance(link.aqm, DualPi2):
            yield (
                f"{link.field}.queue: dualpi2's two queues take turns by weights (DWRR), and it drops and marks on "
                "arrival"
            )


def _of_reports(inventory: Inventory, plan: Plan) -> Iterator[str]:
    """Notes about how many reports there will be, and how many the collector holds."""
    collector, load = inventory.collector, report_load(plan)
    if plan.links[0].sample_auto:
        yield (
            f"telemetry.sample: {1 << plan.links[0].sample_shift}, for {load.packets_s:,.0f} packets/s of "
            f"{load.packet_bytes:.0f} B"
        )
    if collector.reports_s is None:
        yield (
            f"warning: how many reports a second {collector.name} holds was never measured, and this run makes up "
            f"to {load.reports_s:,.0f}; fix: benchmarks/run.py collecting, and collector.reports_s in the inventory"
        )
