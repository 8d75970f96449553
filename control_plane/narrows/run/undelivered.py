# SPDX-License-Identifier: Apache-2.0
"""Flows through users' programs of which nothing was delivered, and where their packets went, as counters have it."""

from __future__ import annotations

import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from narrows_formats.digest import NewFlow
from narrows_formats.flow_names import ANYWHERE

from narrows.experiment.plan import Host, Plan
from narrows.run.drop_accounting import BY_PROGRAM, RecordedDrops
from narrows.run.measured import Counters
from narrows.switch.readings import PortStats
from narrows.traffic.connection import Connection

# What a host's TCP and UDP have got; segments with errors are counted as well (RFC 4022).
TAKEN = ("TcpInSegs", "UdpInDatagrams", "Udp6InDatagrams")
SEGMENTS_WITH_ERRORS = "TcpInErrs"
# Counters of packets that a host's kernel took no further (linux/if_link.h, RFC 4293), and why. Of those for another
# address Linux counts some as without a route.
NOT_TAKEN: Mapping[tuple[str, ...], Callable[[Host], str]] = {
    ("rx_otherhost_dropped",): lambda host: f"for another Ethernet address than its own, {host.mac}",
    ("rx_nohandler",): lambda _: "of an EtherType that it does not speak",
    ("IpInAddrErrors", "IpExtInNoRoutes", "Ip6InAddrErrors", "Ip6InNoRoutes"): lambda host: (
        f"for another IP address than its own, {host.address}"
    ),
    ("IpInHdrErrors", "Ip6InHdrErrors"): lambda _: "with a wrong IP header or a wrong checksum of it",
    (SEGMENTS_WITH_ERRORS, "UdpInCsumErrors", "Udp6InCsumErrors"): lambda _: (
        "with a wrong TCP or UDP header or checksum"
    ),
    ("UdpNoPorts", "Udp6NoPorts"): lambda _: "for a UDP port at which nothing listens",
}
# Hosts that are named which packets of others reached.
MAX_OTHERS = 3


@dataclass(frozen=True)
class Undelivered:
    """Flows between two hosts; ``found`` says in words what became of their packets, in the order of their way."""

    flows: tuple[str, ...]
    found: tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """What is counted in a run, of hosts' packets and of flows' drops.

    ``kernel`` are the counters of each host's kernel, ``learned`` the flows that the switch has announced, and
    ``recorded`` drops with a record, by the link's index.
    """

    plan: Plan
    kernel: Mapping[str, Mapping[str, int]]
    counters: Counters
    learned: Sequence[NewFlow]
    recorded: Mapping[int, RecordedDrops]

    def undelivered(self, connections: Iterable[Connection]) -> list[Undelivered]:
        """Those through a user's program of which nothing was delivered, by the pairs of their hosts; none where hosts'
        kernels have not been asked."""
        by_pair: defaultdict[tuple[str, str], list[Connection]] = defaultdict(list)
        for one in connections if self.kernel else ():
            if self._crosses_a_program(one) and self._may_be_undelivered(one):
                flow = one.flow
                by_pair[flow.initiator, flow.sender if flow.initiator == flow.receiver else flow.receiver].append(one)
        return [
            Undelivered(tuple(one.flow.connection_name(one.number) for one in those), found)
            for (initiator, peer), those in by_pair.items()
            if (found := tuple(self._found(self.plan.host(initiator), self.plan.host(peer), those)))
        ]

    def _crosses_a_program(self, connection: Connection) -> bool:
        return any(link in program.links for program in self.plan.programs for link in connection.flow.links)

    def _may_be_undelivered(self, connection: Connection) -> bool:
        """Whether TCP has not connected, or UDP not arrived; of what may be both, whether an end has got nothing."""
        flow = connection.flow
        if flow.match_by_host_pair:
            ends = (flow.sender, flow.receiver)
            # A shell need not send anything.
            silent = self.plan.shell is not None and not any(self._port(host).rx_packets for host in ends)
            return not silent and not all(map(self._taken, ends))
        if flow.protocol == socket.IPPROTO_TCP and connection.bytes_sent is not None:
            return connection.bytes_sent == 0
        return not self._taken(flow.receiver)

    def _port(self, host: str) -> PortStats:
        return next(port for port in self.counters.ports if port.port == self.plan.host(host).port)

    def _taken(self, host: str) -> int:
        """Packets that a host's TCP and UDP have got; of one that passes them on, how many it has brought back."""
        if host == self.plan.gateway:
            return self._port(host).rx_packets
        counted = self.kernel.get(host, {})
        return sum(counted.get(name, 0) for name in TAKEN) - counted.get(SEGMENTS_WITH_ERRORS, 0)

    def _found(self, one: Host, other: Host, connections: Sequence[Connection]) -> Iterator[str]:
        """What became of packets of flows that ``one`` host has begun; nothing where all is as it should be."""
        of_one, of_other = self._port(one.name), self._port(other.name)
        if of_other.rx_packets and not of_one.rx_packets:
            # Which of two programs begins only they know.
            (one, of_one), (other, of_other) = (other, of_other), (one, of_one)
        in_switch = [*self._dropped(connections), *self._in_switch()]
        at_hosts = [*self._not_taken(other), *self._not_taken(one), *self._elsewhere((one, other), connections)]
        if not in_switch and not at_hosts and self._taken(one.name) and self._taken(other.name):
            return
        yield f"{_packets(of_one.rx_packets)} came from {one.name} (port {one.port})"
        yield from in_switch
        yield f"{_packets(of_other.tx_packets)} left for {other.name} (port {other.port})"
        if self._taken(other.name):
            yield f"{_packets(of_other.rx_packets)} came from {other.name}"
            yield f"{_packets(of_one.tx_packets)} left for {one.name}"
        yield from at_hosts

    def _dropped(self, connections: Sequence[Connection]) -> Iterator[str]:
        """What programs have dropped of flows' own packets."""
        found = Counter[str]()
        keys = {(new.bottleneck, new.flow) for new in self.learned if any(_is_of(new, one) for one in connections)}
        for index, flow in keys:
            drops = self.recorded.get(index, RecordedDrops()).by_program
            found.update({where: drops[flow, where] for where in BY_PROGRAM.values()})
        for where, count in found.items():
            if count:
                yield f"the program dropped {_packets(count)} of theirs in {where}"

    def _in_switch(self) -> Iterator[str]:
        """What ended in the switch of any flow, but for drops that are known to be of one."""
        discards = self.counters.discards
        if discards is None:
            return
        if discards.absent_port:
            yield f"the program sent {_packets(discards.absent_port)} to a port at which nothing is"
        if discards.packet_ins:
            yield f"{_packets(discards.packet_ins)} for the controller did not reach it"
        known = Counter[str]()
        for link in self.recorded.values():
            for (_, where), count in link.by_program.items():
                known[where] += count
        for where, count in (("ingress", discards.ingress), ("egress", discards.egress)):
            if count > known[where]:
                # Narrows' own program drops in both: losses that are emulated, and to manage its queue.
                who = "the program" if self.plan.ours is None else "programs, Narrows' own included,"
                yield f"{who} dropped {_packets(count - known[where])} in {where} whose flows are not recorded"

    def _not_taken(self, host: Host) -> Iterator[str]:
        """What has reached a host, and its kernel has dropped."""
        counted = self.kernel.get(host.name, {})
        for names, why in NOT_TAKEN.items():
            if count := sum(counted.get(name, 0) for name in names):
                yield f"{host.name} dropped {_packets(count)} {why(host)}"

    def _elsewhere(self, ends: tuple[Host, Host], connections: Sequence[Connection]) -> Iterator[str]:
        """The same at other hosts of these flows' programs."""
        links = {link for one in connections for link in one.flow.links}
        names = {
            name
            for program in self.plan.programs
            if not links.isdisjoint(program.links)
            for name in self.plan.ports_of(program).values()
        }
        others = [host for host in self.plan.end_hosts if host.name in names and host not in ends]
        yield from [said for host in others for said in self._not_taken(host)][:MAX_OTHERS]


def _is_of(new: NewFlow, connection: Connection) -> bool:
    flow = connection.flow
    if any(end not in (address, ANYWHERE) for address, end in zip((new.src, new.dst), flow.ends, strict=True)):
        return False
    return flow.match_by_host_pair or (new.src_port, new.dst_port) == (connection.src_port, flow.dst_port)


def _packets(count: int) -> str:
    return "no packet" if not count else f"{count:,} packet{'' if count == 1 else 's'}"
