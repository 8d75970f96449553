# SPDX-License-Identifier: Apache-2.0
"""Source ports with which no two flows of a plan count in one cell of the switch.

The links of a switch share its cells, and a flow counts in one cell at each link that its packets or their answers
cross. Of n such pairs two have the same one with a probability of up to about n^2 / 131,072, and then the drops of
neither can be told. The cell is a hash of what a plan says, and source ports are the plan's own choice: so are cells.

Programs choose ports themselves: what they send may still meet other flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from narrows.experiment.flow_index import INDEX_BITS, begin, finish, packed
from narrows.experiment.plan import DATA_PORTS, Flow, Plan

# Ports tried for a connection. In a switch that is nearly half full, what crosses many links fits nowhere.
TRIES = 200


@dataclass(frozen=True)
class FlowTable:
    """The cells of a switch: 2^``bits``, of which the low bits of a flow's hash choose one.

    What comes in at a port of ``partitions`` has only that quarter of them (p4src/common/flow_share.p4).
    """

    bits: int = INDEX_BITS
    partitions: Mapping[int, int] = field(default_factory=dict)

    def part(self, port: int | None) -> tuple[int, int]:
        """What comes in at a port of the switch: the first of its cells, and the mask of its hashes."""
        if port is None or port not in self.partitions:
            return 0, (1 << self.bits) - 1
        return self.partitions[port] << self.bits - 2, (1 << self.bits - 2) - 1


IN_SOFTWARE = FlowTable()


@dataclass(frozen=True)
class _Crossing:
    """Packets of a flow at a link: their hash but for the ports, the first of their cells, and the mask of hashes."""

    begun: int
    first: int
    mask: int

    def cell(self, ports: bytes) -> int:
        return self.first | finish(self.begun, ports) & self.mask


@dataclass(frozen=True)
class _Counted:
    """Where a flow's connections are counted: what is sent to the server's port, and what comes from there."""

    sent: tuple[_Crossing, ...]
    received: tuple[_Crossing, ...]
    server_port: int
    crossings: int

    def take(self, port: int, taken: set[int]) -> bool:
        """Take the cells of a connection from a port, if all of them are free and differ."""
        out, back = packed(port, self.server_port), packed(self.server_port, port)
        cells = {crossing.cell(out) for crossing in self.sent}
        cells.update([crossing.cell(back) for crossing in self.received])
        if len(cells) < self.crossings or not taken.isdisjoint(cells):
            return False
        taken |= cells
        return True


class _Network:
    """The links of a plan, and what they are to its flows."""

    def __init__(self, plan: Plan, cells: FlowTable) -> None:
        self._cells = cells
        self._ports = {host.name: host.port for host in plan.end_hosts}
        self._links = {link.name: link for link in plan.reported}
        # Flows of a group have them in common.
        self._known: dict[tuple[object, ...], tuple[_Crossing, ...]] = {}

    def counted(self, flow: Flow, protocol: int) -> _Counted:
        data = self._crossings(flow.sender, flow.links, flow.src, flow.dst, protocol)
        acks = self._crossings(flow.receiver, flow.ack_links, flow.dst, flow.src, protocol)
        sent, received = (data, acks) if flow.initiator == flow.sender else (acks, data)
        return _Counted(sent, received, flow.dst_port, len(data) + len(acks))

    def _crossings(self, host: str, links: tuple[str, ...], src: str, dst: str, protocol: int) -> tuple[_Crossing, ...]:
        """Packets from a host at each of some links."""
        key = host, links, src, dst, protocol
        if key not in self._known:
            crossed = [self._links[name] for name in links]
            # Packets that go on to another link come in again at the port of the one before.
            ports = [self._ports[host], *(link.port for link in crossed[:-1])]
            self._known[key] = tuple(
                _Crossing(begin(link.index, src, dst, protocol), *self._cells.part(port))
                for link, port in zip(crossed, ports, strict=False)
            )
        return self._known[key]


def avoid_index_collisions(plan: Plan, cells: FlowTable = IN_SOFTWARE) -> Plan:
    """The plan with other source ports for connections that would count in a cell with one before them.

    They get the next ports that their hosts have free, all others keep the first choice. From the connection on with
    which half of the cells would be taken, and where no port is found, it stays as it is. The same plan always gets the
    same ports, also one that was kept apart on other addresses before.

    Args:
        plan: with the addresses that its hosts have in the run, and the ports of the switch.
        cells: those of the switch.
    """
    network = _Network(plan, cells)
    counted = {
        number: network.counted(flow, flow.protocol)
        for number, flow in enumerate(plan.flows)
        if flow.protocol is not None
    }
    taken: set[int] = set()
    colliding = []
    for number, connection in _that_fit(plan, counted, 1 << cells.bits - 1):
        if not counted[number].take(plan.flows[number].src_port + connection, taken):
            colliding.append((number, connection))
    free = _free_ports(plan)
    moved: dict[int, dict[int, int]] = {number: {} for number, flow in enumerate(plan.flows) if flow.port_overrides}
    for number, connection in colliding:
        for port in islice(free[plan.flows[number].initiator], TRIES):
            if counted[number].take(port, taken):
                moved.setdefault(number, {})[connection] = port
                break
    flows = list(plan.flows)
    for number, ports in moved.items():
        flows[number] = replace(flows[number], port_overrides=ports)
    return replace(plan, flows=tuple(flows)) if moved else plan


def _that_fit(plan: Plan, counted: Mapping[int, _Counted], room: int) -> Iterator[tuple[int, int]]:
    """Flows and their connections by number, in order, until their cells would be more than there is room for."""
    for number, where in counted.items():
        for connection in range(plan.flows[number].payload.connections):
            room -= where.crossings
            if room < 0:
                return
            yield number, connection


def _free_ports(plan: Plan) -> dict[str, Iterator[int]]:
    """Of each host the ports that no connection has, but for those that users have given to servers of programs."""
    servers = {port for flow in plan.flows for port in flow.payload.server_ports}
    used = dict.fromkeys((flow.initiator for flow in plan.flows), DATA_PORTS.start)
    for flow in plan.flows:
        used[flow.initiator] = max(used[flow.initiator], flow.src_port + flow.payload.connections)
    return {
        host: (port for port in range(first, DATA_PORTS.stop) if port not in servers) for host, first in used.items()
    }
