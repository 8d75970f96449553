# SPDX-License-Identifier: Apache-2.0
"""How many reports a second an experiment makes, what of them its collector holds, and the sampling that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from narrows_formats.units import format_rate

from narrows.errors import InputError
from narrows.experiment.plan import (
    ETHERNET_HEADER_BYTES,
    L1_OVERHEAD_BYTES,
    REPORT_ENCAPSULATION_BYTES,
    Flow,
    Plan,
)
from narrows.targets.tofino.testbed.inventory import Inventory

IP_HEADER_BYTES = {4: 20, 6: 40}
# With timestamps, as Linux sends them.
TCP_HEADER_BYTES = 32
# A connection's packets to the receiver beside its data: SYN, the handshake's ACK, FIN.
CONTROL_PACKETS = 3


@dataclass(frozen=True)
class Load:
    """Reports of one bottleneck, and of its way back, while a plan's packets fill it.

    Packets of ``packet_bytes`` on average pass it ``packets_s`` times a second; reports are ``reports_s`` a second,
    ``report_bytes`` each with what a frame takes on the wire.
    """

    packet_bytes: float
    packets_s: float
    reports_s: float
    report_bytes: float

    @property
    def bps(self) -> float:
        """L1 rate of the reports."""
        return self.reports_s * self.report_bytes * 8


def report_load(plan: Plan) -> Load:
    """What a plan's bottleneck gives the collector to do at its rate."""
    packet = mean_packet_bytes(plan)
    packets = plan.bottleneck.rate_bps / 8 / packet
    # A receiver sends at most one acknowledgement a packet.
    back = packets if plan.ack_bottleneck is not None else 0.0
    report = min(plan.collector.report_length, packet + REPORT_ENCAPSULATION_BYTES) + L1_OVERHEAD_BYTES
    return Load(packet, packets, packets / (1 << plan.bottleneck.sample_shift) + back, report)


def mean_packet_bytes(plan: Plan) -> float:
    """Mean frame on the way to the receiver, of the flow of which it is least: that flow may have the link for itself.

    Bulk flows send full-size frames; short connections end with a frame that is not full, and have a handshake.
    """
    return min((_mean_packet_bytes(plan, flow) for flow in plan.flows), default=float(plan.frame_bytes))


def _mean_packet_bytes(plan: Plan, flow: Flow) -> float:
    sizes = [arrival.size for arrival in flow.arrivals] or ([] if flow.size is None else [flow.size])
    if not sizes:
        return float(plan.frame_bytes)
    headers = ETHERNET_HEADER_BYTES + IP_HEADER_BYTES[plan.receiver.ip_version] + TCP_HEADER_BYTES
    packets = sum(-(-size // (plan.frame_bytes - headers)) + CONTROL_PACKETS for size in sizes)
    return sum(sizes) / packets + headers


def with_sample_that_fits(plan: Plan, inventory: Inventory) -> Plan:
    """A bound plan with the least sampling of which the collector's port and the collector hold the reports.

    Nothing is changed where the experiment says the sampling itself.
    """
    if not plan.bottleneck.sample_auto:
        return plan
    return replace(plan, bottleneck=replace(plan.bottleneck, sample_shift=_fitting_shift(plan, inventory)))


def refuse_more_reports_than_fit(plan: Plan, inventory: Inventory) -> None:
    """Raises InputError if reports need more than the collector's port carries, or than the collector holds.

    What it holds is known only where it was measured.
    """
    load, port, collector = report_load(plan), inventory.port(plan.collector.port), inventory.collector
    if load.reports_s <= _held_s(load, plan, inventory):
        return
    both = plan.ack_bottleneck is not None
    where, allowed = ("acks", "false") if both else ("sample", f"{1 << _fitting_shift(plan, inventory)} or more, auto")
    if load.bps > port.speed_bps:
        raise InputError(
            f"telemetry.{where}: the reports{' of both directions' if both else ''} need "
            f"{format_rate(int(load.bps) // 10**6 * 10**6)} and the collector's port {port.name} has {port.speed}; "
            f"allowed: {allowed}"
        )
    raise InputError(
        f"telemetry.{where}: {load.packets_s:,.0f} packets/s of {load.packet_bytes:.0f} B make {load.reports_s:,.0f} "
        f"reports/s, and {collector.name} holds {collector.reports_s:,} (collector.reports_s in the inventory); "
        f"allowed: {allowed}"
    )


def _held_s(load: Load, plan: Plan, inventory: Inventory) -> float:
    """Reports a second that the collector's port carries, and the collector holds where that is known."""
    carried = inventory.port(plan.collector.port).speed_bps / 8 / load.report_bytes
    measured = inventory.collector.reports_s
    return carried if measured is None else min(carried, measured)


def _fitting_shift(plan: Plan, inventory: Inventory) -> int:
    """The least shift of which the reports fit; the way back, which is not sampled, left out."""
    load = report_load(plan)
    held = _held_s(load, plan, inventory)
    shift = 0
    while load.packets_s / (1 << shift) > held:
        shift += 1
    return shift
