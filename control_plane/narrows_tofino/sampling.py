# SPDX-License-Identifier: Apache-2.0
"""How many reports a second an experiment makes, what of them its collector holds, and the sampling that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from narrows.errors import InputError
from narrows.experiment.plan import (
    ETHERNET_HEADER_BYTES,
    L1_OVERHEAD_BYTES,
    REPORT_ENCAPSULATION_BYTES,
    Flow,
    Link,
    Plan,
    ReportedLink,
)
from narrows.experiment.tcp_settings import IP_HEADER_BYTES, TCP_HEADER_BYTES
from narrows.flows.datagrams import frame_bytes
from narrows.onhost.payload import Datagrams
from narrows_formats.units import NANOSECONDS, format_rate

from narrows_tofino.testbed.inventory import Inventory

# A connection's packets to the receiver beside its data: SYN, the handshake's ACK, FIN.
CONTROL_PACKETS = 3


@dataclass(frozen=True)
class Load:
    """Reports of all links, reverse directions included, while a plan's packets fill them.

    Packets of ``packet_bytes`` on average pass those with a rate ``packets_s`` times a second; reports are
    ``reports_s`` a second, ``report_bytes`` each with what a frame takes on the wire.
    """

    packet_bytes: float
    packets_s: float
    reports_s: float
    report_bytes: float

    @property
    def bps(self) -> float:
        """L1 rate of the reports."""
        return self.reports_s * self.report_bytes * 8


@dataclass(frozen=True)
class _Frames:
    """So many frames a second, and their bytes."""

    frames_s: float
    bytes_s: float


def report_load(plan: Plan) -> Load:
    """The most that a plan's links make the collector receive."""
    packet = mean_packet_bytes(plan)
    packets = sum(_packets_s(plan, link, packet) for link in plan.links)
    back = sum(_acks_s(plan, link, packet) for link in plan.unlimited)
    # Those to the receivers, whose acknowledgements are left out.
    sent = [frames for link in plan.links for frames in (_datagrams(plan, link), _segments(plan, link, packet))]
    frames_s = sum(one.frames_s for one in sent)
    mean = sum(one.bytes_s for one in sent) / frames_s if frames_s else packet
    report = min(plan.collector.report_length, mean + REPORT_ENCAPSULATION_BYTES) + L1_OVERHEAD_BYTES
    return Load(mean, packets, packets / (1 << plan.links[0].sample_shift) + back, report)


def _packets_s(plan: Plan, link: Link, packet_bytes: float) -> float:
    """Packets a second across a link at its rate: data fill it, acknowledgements as far as there are any."""
    ack_bytes = ETHERNET_HEADER_BYTES + IP_HEADER_BYTES[plan.ip_version] + TCP_HEADER_BYTES
    datagrams = _datagrams(plan, link)
    sizes = [
        ack_bytes,
        packet_bytes,
        *(frame_bytes(one.payload, plan.ip_version) for one in _datagram_flows(plan, link)),
    ]
    found = datagrams.frames_s + _segments(plan, link, packet_bytes).frames_s + _acks_s(plan, link, packet_bytes)
    return min(found, link.rates_bps.most / 8 / min(sizes))


def _datagram_flows(plan: Plan, link: Link) -> list[Datagrams]:
    found = [flow.payload.datagrams for flow in plan.flows if link.name in flow.links]
    return [one for one in found if one is not None]


def _datagrams(plan: Plan, link: Link) -> _Frames:
    """Datagrams that come to a link, of which their flows say how many, as far as it carries them."""
    flows = [
        (NANOSECONDS / one.gap_ns, frame_bytes(one.payload, plan.ip_version)) for one in _datagram_flows(plan, link)
    ]
    bytes_s = sum(frames_s * size for frames_s, size in flows)
    carried = min(1.0, link.rates_bps.most / 8 / bytes_s) if bytes_s else 0.0
    return _Frames(sum(frames_s for frames_s, _ in flows) * carried, bytes_s * carried)


def _segments(plan: Plan, link: Link, packet_bytes: float) -> _Frames:
    """Data of connections, which fill what datagrams leave of a link."""
    filled = any(flow.payload.datagrams is None and link.name in flow.links for flow in plan.flows)
    bytes_s = link.rates_bps.most / 8 - _datagrams(plan, link).bytes_s if filled else 0.0
    return _Frames(bytes_s / packet_bytes, bytes_s)


def _acks_s(plan: Plan, link: ReportedLink, packet_bytes: float) -> float:
    """Acknowledgements a second across a link: at most one for each packet that data's slowest link lets through."""
    rates: dict[str, int] = {}
    echoes = 0.0
    for flow in plan.flows:
        if link.name not in flow.ack_links:
            continue
        if (datagrams := flow.payload.datagrams) is not None:
            echoes += NANOSECONDS / datagrams.gap_ns
            continue
        slowest = min((one for one in plan.links if one.name in flow.links), key=lambda one: one.rates_bps.most)
        rates[slowest.name] = slowest.rates_bps.most
    return echoes + sum(rate / 8 / packet_bytes for rate in rates.values())


def mean_packet_bytes(plan: Plan) -> float:
    """Mean frame on the way to the receiver, of the connection of which it is least: it may have a link for itself.

    Bulk flows send full-size frames; short connections end with a frame that is not full, and have a handshake.
    """
    flows = [flow for flow in plan.flows if flow.payload.datagrams is None]
    return min((_mean_packet_bytes(plan, flow) for flow in flows), default=float(plan.frame_bytes))


def _mean_packet_bytes(plan: Plan, flow: Flow) -> float:
    sizes = flow.payload.sizes
    if not sizes:
        return float(plan.frame_bytes)
    headers = ETHERNET_HEADER_BYTES + IP_HEADER_BYTES[plan.ip_version] + TCP_HEADER_BYTES
    packets = sum(-(-size // (plan.frame_bytes - headers)) + CONTROL_PACKETS for size in sizes)
    return sum(sizes) / packets + headers


def with_sample_that_fits(plan: Plan, inventory: Inventory) -> Plan:
    """A bound plan with the least sampling of which the collector's port and the collector hold the reports.

    Nothing is changed where the experiment says the sampling itself.
    """
    # One setting for all links.
    if not plan.links[0].sample_auto:
        return plan
    shift = _fitting_shift(plan, inventory)
    return replace(plan, links=tuple(replace(link, sample_shift=shift) for link in plan.links))


def refuse_more_reports_than_fit(plan: Plan, inventory: Inventory) -> None:
    """Raises InputError if reports need more than the collector's port carries, or than the collector holds.

    What it holds is known only where it was measured.
    """
    load, port, collector = report_load(plan), inventory.port(plan.collector.port), inventory.collector
    if load.reports_s <= _held_s(load, plan, inventory):
        return
    both = bool(plan.unlimited)
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
    """The least shift of which the reports fit; the reverse path, which is not sampled, left out."""
    load = report_load(plan)
    held = _held_s(load, plan, inventory)
    shift = 0
    while load.packets_s / (1 << shift) > held:
        shift += 1
    return shift
