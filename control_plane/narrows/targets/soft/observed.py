# SPDX-License-Identifier: Apache-2.0
"""Flows of a program that does not count them itself, as the traffic manager counts them."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING

from narrows_formats.digest import NewFlow

from narrows.experiment.plan import Plan
from narrows.switch.readings import FlowDrops, FlowTotals

if TYPE_CHECKING:
    from narrows.switch import traffic_manager_pb2 as pb
    from narrows.switch.traffic_manager import TrafficManagerClient


def observe_request(plan: Plan) -> pb.ObserveRequest:
    """What the traffic manager is asked for: reports of each link that has a user's program.

    What comes in where only packets for one link do, and is dropped before it has a queue, counts as that link's.
    """
    from narrows.switch import traffic_manager_pb2 as pb
    from narrows.switch.entries import mac_number
    from narrows.switch.p4runtime_entries import sample_seed

    collector = plan.collector
    request = pb.ObserveRequest(
        collector=pb.ReportCollector(
            port=collector.port,
            source_mac=mac_number(collector.src_mac),
            destination_mac=mac_number(collector.dst_mac),
            source_address=int(IPv4Address(collector.src_address)),
            destination_address=int(IPv4Address(collector.dst_address)),
            source_port=collector.src_port,
            destination_port=collector.dst_port,
            length=collector.report_length,
        )
    )
    links_of: dict[int, set[int | None]] = {}
    for path in plan.paths:
        links_of.setdefault(path.ingress_port, set()).add(path.link)
    for link in (one for one in plan.links if plan.program_of(one) is not None):
        request.ports.add(
            port=link.port,
            bottleneck=link.index,
            ingress_ports=sorted(port for port, found in links_of.items() if found == {link.index}),
            sample_shift=link.sample_shift,
            sample_seed=sample_seed(plan.seed, link),
        )
    return request


class Observed:
    """The flows that the traffic manager has seen since it was asked to report them."""

    def __init__(self, manager: TrafficManagerClient) -> None:
        """Read from a manager, which stays the caller's."""
        self._manager = manager
        self._announced = 0

    async def flow_totals(self, flows: Collection[int]) -> list[FlowTotals]:
        """See `Target.flow_totals`."""
        found = {flow.flow: flow for flow in await self._manager.observed_flows()}
        return [
            FlowTotals(number, found[number].arrivals.packets, found[number].departures.packets)
            for number in sorted(flows)
            if number in found
        ]

    async def departed_bytes(self, flows: Collection[int]) -> dict[int, int]:
        """See `Target.departed_bytes`."""
        found = {flow.flow: flow.departures.bytes for flow in await self._manager.observed_flows()}
        return {number: found.get(number, 0) for number in flows}

    async def early_drops(self, index: int) -> list[FlowDrops]:
        """What the program has dropped in front of a link's queue, by flow index."""
        found = [flow for flow in await self._manager.observed_flows() if flow.bottleneck == index]
        return [
            FlowDrops(flow.flow, flow.ingress_drops.packets, flow.ingress_drops.bytes)
            for flow in found
            if flow.ingress_drops.packets
        ]

    async def new_flows(self) -> list[NewFlow]:
        """Flows that were not there at the last call, as our program's digest has them."""
        found = await self._manager.observed_flows(self._announced)
        self._announced += len(found)
        return [_new_flow(flow) for flow in found]


def _new_flow(flow: pb.ObservedFlow) -> NewFlow:
    # What is not IP has no addresses.
    source, destination = (ip_address(text or "0.0.0.0") for text in (flow.source, flow.destination))
    return NewFlow(
        bottleneck=flow.bottleneck,
        flow=flow.flow,
        signature=flow.signature,
        ip_version=source.version,
        src=str(source),
        dst=str(destination),
        protocol=flow.protocol,
        src_port=flow.source_port,
        dst_port=flow.destination_port,
    )
