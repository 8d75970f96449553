# SPDX-License-Identifier: Apache-2.0
"""What a run will build: the nouns of a plan, which `narrows.experiment.planning` makes from an experiment.

The same plan serves every target: hosts and their addresses, the switch's ports and paths, the links' settings in bytes
and nanoseconds, and every flow with the 5-tuple it will have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

from narrows_formats.flow_names import connection_name
from narrows_formats.link_names import ONLY_LINK
from narrows_formats.schedules import DelaySteps, RateSchedule
from narrows_formats.span import Span
from narrows_formats.units import ETHERNET_HEADER_BYTES as ETHERNET_HEADER_BYTES
from narrows_formats.units import NANOSECONDS, bdp_bytes

from narrows.experiment.comparison import Condition
from narrows.experiment.impairments import Bursts, Framing, GilbertElliott, Jitter, LossPattern, Policer
from narrows.onhost.application import Change as ApplicationChange
from narrows.onhost.payload import DATA_PORTS as DATA_PORTS
from narrows.onhost.payload import Payload, Tcp
from narrows.queues.aqm import Aqm

# Preamble 8, frame check sequence 4 and inter-frame gap 12: what an L1 rate counts beside the L2 frame.
L1_OVERHEAD_BYTES = 24
REPORT_ENCAPSULATION_BYTES = 98
# Encapsulation and the original frame's Ethernet, IPv6 and TCP headers with timestamps.
REPORT_LENGTH_BYTES = 184
REPORT_UDP_PORT = 5500
REPORT_SOURCE_PORT = 5499
COLLECTOR_PORT = 2
MIN_TCP_BUFFER = 64 << 20
# Seeds of experiments and their repetitions are below 2 to the power of this.
SEED_BITS = 40
# Random bits that loss emulation compares: the smallest loss ratio is 2^-32, and so is what the greatest lacks of 1.
LOSS_BITS = 32
MAX_SENDERS = 500
DEFAULT_CPU_PORT = 255  # as in the P4 tutorials
FIRST_DEVICE = 1  # of P4Runtime's devices that a switch is
MAX_PORT = 510  # v1model ports are 9 bits wide, and 511 means "drop"

FIRST_SERVER_PORT = 5201
# The control connections of the traffic tool; disjoint from DATA_PORTS, so that they can be distinguished from data.
EPHEMERAL_PORTS = (40_000, 60_999)


Direction = Literal["forward", "reverse"]
# What happens to flows while others run.
Verb = Literal["start", "stop"]


def derive_seed(seed: int, number: int) -> int:
    """Seed of one of the random streams of a run: distinct from that of every other stream, also in the repetitions,
    whose run seeds are consecutive."""
    return seed + (number << SEED_BITS)


@dataclass(frozen=True)
class Threshold:
    """A depth from which on packets are marked: in bytes, or in packets of any size."""

    amount: int
    in_packets: bool = False


@dataclass(frozen=True)
class Host:
    """One end of a veth pair (or of a real link): where flows start or end, or where reports arrive.

    ``address`` is empty for the collector, which takes frames off the wire without an IP stack.
    """

    name: str
    port: int
    mac: str
    address: str
    prefix: int
    ip_version: int


@dataclass(frozen=True)
class SwitchPort:
    """A port of the switch; ``delay_ns`` holds every frame that leaves it, after its queue.

    ``host`` is at its other end; it is empty for a loopback port, whose frames come in again.
    """

    number: int
    host: str
    delay_ns: int


@dataclass(frozen=True)
class ForwardingRule:
    """Frames for ``dst_mac`` from ``ingress_port`` leave at ``egress_port``, across a link if its index is given.

    ``vlan``: those of that VLAN alone, where several hosts are at the port.
    """

    ingress_port: int
    dst_mac: str
    egress_port: int
    link: int | None
    vlan: int | None = None


@dataclass(frozen=True)
class Cable:
    """Where frames of a link come in at the program of the next one: the link's name, and the port there.

    What that program sends to the port comes in by the first link's own.
    """

    link: str
    port: int


@dataclass(frozen=True)
class ReportedLink:
    """One direction of a link, reported packet by packet under an index of its own; this one limits nothing.

    ``name`` is the link's, with ``.reverse`` behind it for the opposite direction. ``index`` is the bottleneck of the
    P4 program. ``port`` is the port whose queue it is; with ``loopback`` frames come in again there, to cross another
    link or to be given to one of several hosts. It is None where nothing limits the direction and it leads to hosts
    only. With a ``cable`` they come in at another program instead. ``rtt_ns`` is what the link adds to base RTTs,
    ``delay_ns`` its one-way delay behind the queue, which ``delay_steps`` and ``jitter`` may vary. ``loss`` is the loss
    ratio in the long run, of packets that are lost independently unless there is a ``loss_model``.
    """

    name: str
    direction: Direction
    index: int
    port: int | None
    loopback: bool
    rtt_ns: int
    delay_ns: int = 0
    queue: int = 0
    sample_shift: int = 0
    loss: float = 0.0
    ecn_threshold: Threshold | None = None
    loss_model: GilbertElliott | LossPattern | None = None
    delay_steps: DelaySteps | None = None
    jitter: Jitter | None = None
    duplication: float = 0.0
    cable: Cable | None = None

    @property
    def varies_behind(self) -> bool:
        """Whether packets that leave its queue are not all delayed alike."""
        return self.delay_steps is not None or self.jitter is not None or self.duplication > 0

    @property
    def longest_delay_ns(self) -> int:
        """The longest delay behind the queue, but for very few packets of a jitter without bounds."""
        steps = self.delay_ns if self.delay_steps is None else self.delay_steps.span_ns.most
        return steps + (0 if self.jitter is None else self.jitter.most_ns)

    @property
    def shortest_delay_ns(self) -> int:
        """The shortest delay behind the queue, but for one packet in 30,000 of a jitter without bounds."""
        return max(0, self._least_step_ns + (0 if self.jitter is None else self.jitter.least_ns))

    @property
    def lowest_delay_ns(self) -> int:
        """The delay that no packet is below, if it is not negative, but for one in 10^9 of a normal jitter."""
        return self._least_step_ns + (0 if self.jitter is None else self.jitter.lowest_ns)

    @property
    def _least_step_ns(self) -> int:
        return self.delay_ns if self.delay_steps is None else self.delay_steps.span_ns.least


@dataclass(frozen=True, kw_only=True)
class Link(ReportedLink):
    """One direction of a link that has a rate: a queue of the switch, in base units.

    ``rate_bps`` is L2; ``l1_rate_bps`` is set only for a rate written as L1, ``limit_packets`` only for a depth in
    packets: ``limit_bytes`` is then that of full-size frames. A rate that varies is ``schedule``, from the experiment's
    start on, and ``rate_bps`` what its BDP is of (`narrows_formats.schedules`). ``later_limits`` are what
    `Plan.changes` make of its limit, in bytes and packets as well. ``field`` is where an experiment file has it. With
    ``sample_auto`` a target whose collector holds less may raise ``sample_shift``.
    ``burst_bytes`` are what its token bucket holds, 0: it has none.
    ``aggregation`` are the bursts in which it carries packets, None: one by one, or those of a time (``delay_steps``).
    ``framing`` is what frames take on its medium, whose bytes ``rate_bps`` counts; None: what they have.
    ``ack_filter`` drops acknowledgements that others make redundant: ``conservative`` or ``aggressive``.
    ``policer`` is in front of its queue. ``aqm`` is how that is managed, None: it drops what it has no room for.
    """

    port: int
    field: str
    rate_bps: int
    limit_bytes: int
    limit_packets: int | None
    l1_rate_bps: int | None = None
    sample_auto: bool = False
    schedule: RateSchedule | None = None
    burst_bytes: int = 0
    policer: Policer | None = None
    aggregation: Bursts | None = None
    ack_filter: str | None = None
    framing: Framing | None = None
    aqm: Aqm | None = None
    later_limits: tuple[tuple[int, int | None], ...] = ()

    @property
    def byte_limit(self) -> int:
        """The queue's limit in bytes, 0 with one in packets, since it would count a short packet for less."""
        return self.limit_bytes if self.limit_packets is None else 0

    @property
    def marks(self) -> bool:
        """Whether it marks packets."""
        by_queue = self.ecn_threshold is not None or (self.aqm is not None and self.aqm.marks)
        return by_queue or (self.policer is not None and self.policer.marks)

    @property
    def aggregates(self) -> bool:
        """Whether packets leave it in bursts."""
        return self.aggregation is not None or (self.delay_steps is not None and self.delay_steps.gathers)

    @property
    def most_limit_bytes(self) -> int:
        """The most that may ever wait."""
        return max(self.limit_bytes, *(limit_bytes for limit_bytes, _ in self.later_limits), 0)

    @property
    def rates_bps(self) -> Span:
        """Between which its rate stays."""
        return Span(self.rate_bps, self.rate_bps) if self.schedule is None else self.schedule.span_bps

    def longest_s(self, size_bytes: int) -> float:
        """Seconds that these bytes of Ethernet frames take at most."""
        if self.framing is not None:
            size_bytes = self.framing.most(size_bytes)
        if self.schedule is None:
            overheads_ns = 0 if self.aggregation is None else self.aggregation.overheads_ns(size_bytes)
            return size_bytes * 8 / self.rate_bps + overheads_ns / NANOSECONDS
        return self.schedule.longest_ns(size_bytes) / NANOSECONDS

    @property
    def bdp_bytes(self) -> Fraction:
        """Bandwidth-delay product of the link alone."""
        return bdp_bytes(self.rate_bps, self.rtt_ns)


@dataclass(frozen=True)
class Change:
    """New settings of a link at a time, in nanoseconds since the experiment's start; None: as they are.

    ``limit`` is in bytes, and in packets for a depth in packets. ``loss`` is a ratio. ``rate_bps`` and ``delay_ns`` are
    changed by the driver of a run: those of the experiment's events are in schedules.
    """

    at_ns: int
    link: str
    limit: tuple[int, int | None] | None = None
    loss: float | None = None
    rate_bps: int | None = None
    delay_ns: int | None = None

    def of(self, link: Link) -> Link:
        """The link as it is from then on."""
        limit_bytes, limit_packets = self.limit or (link.limit_bytes, link.limit_packets)
        return replace(
            link,
            limit_bytes=limit_bytes,
            limit_packets=limit_packets,
            loss=link.loss if self.loss is None else self.loss,
            rate_bps=link.rate_bps if self.rate_bps is None else self.rate_bps,
            delay_ns=link.delay_ns if self.delay_ns is None else self.delay_ns,
        )


@dataclass(frozen=True)
class Reaction:
    """What an event of that number does when its condition holds: one of the others, about a link or about a group.

    ``change`` is a link's, ``application`` is that of the flows of ``group``, ``verb`` what these do. Times are those
    at which the condition holds.
    """

    event: int
    condition: Condition
    change: Change | None = None
    group: str = ""
    application: ApplicationChange | None = None
    verb: Verb | None = None


@dataclass(frozen=True)
class Collector:
    """Where reports go; ``report_length`` is the length in bytes they are truncated to, encapsulation included.

    ``rings``: how many rings, each with a thread, share the frames of the collector's interface.
    """

    port: int
    src_mac: str
    dst_mac: str
    src_address: str
    dst_address: str
    src_port: int
    dst_port: int
    report_length: int
    rings: int = 1


@dataclass(frozen=True)
class Flow:
    """A flow: who it is, which way it takes, and as its ``payload`` what it sends, which its kind alone knows.

    ``links`` are the names of those that its data cross, in order, and ``ack_links`` of those that its acknowledgements
    cross, if it has any. Connection ``i`` is made from port ``src_port + i``, or from the one that ``port_overrides``
    has for it (`narrows.experiment.port_choice`). Times are nanoseconds since the experiment's start. Times of one that
    is ``held`` count from when its driver starts it. One without a ``cca`` is not TCP.
    """

    name: str
    group: str
    cca: str | None
    sender: str
    receiver: str
    links: tuple[str, ...]
    ack_links: tuple[str, ...]
    src: str
    dst: str
    src_port: int
    dst_port: int
    start_ns: int
    duration_ns: int | None
    rtt_ns: int
    payload: Payload
    tcp: Tcp = field(default_factory=Tcp)
    held: bool = False
    port_overrides: Mapping[int, int] = field(default_factory=dict, hash=False)

    @property
    def kind(self) -> str:
        """Its kind, as results and messages call it."""
        return self.payload.kind

    @property
    def end_ns(self) -> int | None:
        """When its duration is over; None: it ends by itself."""
        return None if self.duration_ns is None else self.start_ns + self.duration_ns

    @property
    def initiator(self) -> str:
        """The host that its connections are made from."""
        return self.receiver if self.payload.receiver_initiates else self.sender

    def port_of(self, number: int) -> int:
        """The port that connection ``number``, from 0, is made from."""
        return self.port_overrides.get(number, self.src_port + number)

    @property
    def client_ports(self) -> Sequence[int]:
        """The ports that its connections are made from, by their numbers."""
        connections = self.payload.connections
        ports = range(self.src_port, self.src_port + connections)
        return [self.port_of(number) for number in range(connections)] if self.port_overrides else ports

    @property
    def match_by_host_pair(self) -> bool:
        """Whether it is all packets between its two addresses."""
        return self.payload.match_by_host_pair is not None

    @property
    def protocol(self) -> int | None:
        """Its IP protocol; None if it may be any."""
        return self.payload.protocol

    @property
    def has_tcp(self) -> bool:
        """Whether it is TCP, or may be."""
        return self.payload.has_tcp()

    @property
    def ends(self) -> tuple[str, str]:
        """Source and destination as results have them."""
        return self.payload.ends(self.src, self.dst)

    def connection_name(self, number: int) -> str:
        """What its connection ``number``, from 0, is called in all results."""
        return connection_name(self.name, number, self.payload.repeat)


@dataclass(frozen=True)
class InterruptCoalescing:
    """Interrupt moderation of a host's NIC, as `ethtool -C` calls it; ``frames`` None: time alone decides."""

    usecs: int
    frames: int | None


@dataclass(frozen=True)
class WatchedCell:
    """A cell of a register whose value is read again and again."""

    register: str
    index: int

    def __str__(self) -> str:
        """As an experiment file has it."""
        return f"{self.register}[{self.index}]"


@dataclass(frozen=True)
class OwnProgram:
    """A user's program in place of ours: its compiled form, its P4Info, and its entries, if it has any.

    ``field`` is where an experiment file has it, ``links`` are the names of those that are its ports, ``device_id`` is
    what P4Runtime calls the part of the switch that runs it. ``watch`` is read while traffic flows, ``fields`` of its
    metadata are recorded of each reported packet. ``quanta`` are the bytes that
    the queue of each priority may send in its turn, from 0 up; none: they are served by strict priority. ``controller``
    is a command that runs in ``cwd`` next to the experiment; it sends and gets packets by ``cpu_port``.
    ``unused`` are ports with the names of hosts that no flow has: nothing is there.
    """

    field: str
    json: Path
    p4info: Path
    entries: Path | None
    links: tuple[str, ...] = (ONLY_LINK,)
    device_id: int = FIRST_DEVICE
    watch: tuple[WatchedCell, ...] = ()
    fields: tuple[str, ...] = ()
    quanta: tuple[int, ...] = ()
    controller: tuple[str, ...] = ()
    cwd: Path = Path("/")
    cpu_port: int = DEFAULT_CPU_PORT
    unused: tuple[tuple[int, str], ...] = ()

    @property
    def files(self) -> dict[str, Path]:
        """All of its files, by the fields that name them."""
        found = {"json": self.json, "p4info": self.p4info}
        return found if self.entries is None else found | {"entries": self.entries}


@dataclass(frozen=True)
class Plan:
    """Everything a run builds and sets.

    ``end_hosts`` are those of flows, ``collector_host`` takes the reports. ``links`` have a rate, ``unlimited`` are
    reverse directions that are reported all the same (``telemetry.acks``). With ``receive_batch_bytes`` receivers read
    that much at a time, out of buffers that are as large as can be from the start; 0: whatever there is, out of buffers
    that grow, as usual. ``access_rate_bps`` is that of the links from the hosts to the switch where they are modelled;
    None: they are what they are. ``jitter_ns`` is the most that a sender takes for a frame, None: what suits the links.
    ``coalescing`` is that of every host's NIC, None: a frame is delivered when it arrives. ``offloads`` are those that
    hosts have on (``gro``, or ``lro``, which is their NICs'). ``changes`` are made while traffic flows, in order of
    time, ``reactions`` when a condition holds, which is evaluated every ``conditions_every_ns``. ``seed`` is that of
    the run. ``in_guest``: processors take no time there, and processes take long to start. ``sysctls`` are kernel
    settings of all end hosts. ``bpf`` are congestion controls, each with the object file that registers it. Its peers
    reach this machine's network through the host ``gateway``, None: hosts reach each other only. The driver of a
    ``driven`` run starts and stops flows, and with ``shows_reports`` sees every report meanwhile. ``programs`` are
    users', which take the place of ours at their links.
    """

    end_hosts: tuple[Host, ...]
    collector_host: Host
    ports: tuple[SwitchPort, ...]
    paths: tuple[ForwardingRule, ...]
    links: tuple[Link, ...]
    unlimited: tuple[ReportedLink, ...]
    collector: Collector
    flows: tuple[Flow, ...]
    ip_version: int
    frame_bytes: int
    end_ns: int | None
    tcp_buffer_bytes: int
    in_guest: bool = False
    receive_batch_bytes: int = 0
    access_rate_bps: int | None = None
    jitter_ns: int | None = None
    coalescing: InterruptCoalescing | None = None
    offloads: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    seed: int = 1
    sysctls: tuple[tuple[str, str], ...] = ()
    gateway: str | None = None
    driven: bool = False
    shows_reports: bool = False
    reactions: tuple[Reaction, ...] = ()
    conditions_every_ns: int = 1_000_000
    bpf: tuple[tuple[str, str], ...] = ()
    programs: tuple[OwnProgram, ...] = ()

    def program_of(self, link: ReportedLink) -> OwnProgram | None:
        """The user's program that a link is a port of; None: it is one of ours."""
        return next((program for program in self.programs if link.name in program.links), None)

    def ports_of(self, program: OwnProgram) -> Mapping[int, str]:
        """The ports of a user's program in order, and what is at them: the name of a host, or of the link at the other
        end of a cable."""
        senders = {flow.sender for flow in self.flows if flow.links and flow.links[0] in program.links}
        receivers = {flow.receiver for flow in self.flows if flow.links and flow.links[-1] in program.links}
        found = {host.port: host.name for host in self._those(senders | receivers)}
        for link in self.links:
            if link.cable is not None and link.name in program.links:
                found[link.port] = link.cable.link
            if link.cable is not None and link.cable.link in program.links:
                found[link.cable.port] = link.name
        return dict(sorted(found.items()))

    def destinations_of(self, program: OwnProgram) -> Mapping[int, str]:
        """Where a user's program may send packets: to its ports, with or without a host, and by `cpu_port` to its
        controller, if it has one."""
        found = {**self.ports_of(program), **dict(program.unused)}
        return {**found, program.cpu_port: "the controller"} if program.controller else found

    @property
    def ours(self) -> Plan | None:
        """The part of it that Narrows' own program is for; None: there is none."""
        links = tuple(link for link in self.links if self.program_of(link) is None)
        if not links or not self.programs:
            return self if links else None
        theirs = {port for program in self.programs for port in self.ports_of(program)}
        paths = tuple(path for path in self.paths if path.ingress_port not in theirs)
        return replace(self, links=links, paths=paths, programs=())

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts, the collector last."""
        return (*self.end_hosts, self.collector_host)

    @property
    def has_applications(self) -> bool:
        """Whether programs of users run on its hosts, or as the controller of its switch."""
        return self.has_controller or any(flow.payload.is_program for flow in self.flows)

    @property
    def has_controller(self) -> bool:
        """Whether users' programs have controllers that run next to the experiment."""
        return any(program.controller for program in self.programs)

    @property
    def takes_commands(self) -> bool:
        """Whether flows get commands while they run."""
        return self.driven or any(one.change is None for one in self.reactions)

    @property
    def watches(self) -> bool:
        """Whether registers of users' programs are read while traffic flows."""
        return any(program.watch for program in self.programs)

    @property
    def watched_cells(self) -> tuple[str, ...]:
        """Those registers, in the order in which they are read: with a link's name where there are several programs."""
        return tuple(
            str(cell) if len(self.programs) == 1 else f"{program.links[0]}: {cell}"
            for program in self.programs
            for cell in program.watch
        )

    @property
    def watched_fields(self) -> tuple[str, ...]:
        """Fields of metadata that are recorded of each packet that a program which has them reports."""
        return next((program.fields for program in self.programs if program.fields), ())

    @property
    def has_payload(self) -> bool:
        """Whether what packets carry matters to those who receive them, or to the program."""
        return bool(self.programs) or any(flow.match_by_host_pair for flow in self.flows)

    @property
    def shell(self) -> Flow | None:
        """The flow whose client is what a shell was opened for: the run lasts as long as it."""
        return next((flow for flow in self.flows if flow.payload.ends_the_run), None)

    @property
    def senders(self) -> tuple[Host, ...]:
        """Hosts that flows start at."""
        return self._those({flow.sender for flow in self.flows})

    @property
    def receivers(self) -> tuple[Host, ...]:
        """Hosts that flows end at."""
        return self._those({flow.receiver for flow in self.flows})

    @property
    def sources(self) -> tuple[Host, ...]:
        """Hosts whose packets cross a link with a rate: senders, and receivers whose acknowledgements do."""
        limiting = {link.name for link in self.links}
        return self._those(
            {flow.sender for flow in self.flows}
            | {flow.receiver for flow in self.flows if limiting.intersection(flow.ack_links)}
        )

    @property
    def marks_ecn(self) -> bool:
        """Whether a link marks packets, so that hosts are to use ECN."""
        return any(link.marks for link in self.links)

    @property
    def manages_queues(self) -> bool:
        """Whether the P4 program has a part in the management of a queue, so that it is to be the one that can."""
        return any(link.aqm is not None and link.aqm.by_program for link in self.links)

    def uses_ecn(self, flow: Flow) -> bool:
        """Whether the connections of a TCP flow are to use ECN."""
        return self.marks_ecn if flow.tcp.ecn is None else flow.tcp.ecn

    @property
    def hystart(self) -> bool | None:
        """Whether CUBIC leaves slow start before a loss; None: as the kernel has it."""
        return next((flow.tcp.hystart for flow in self.flows if flow.tcp.hystart is not None), None)

    @property
    def reported(self) -> tuple[ReportedLink, ...]:
        """All that is reported, with a rate or without."""
        return (*self.links, *self.unlimited)

    @property
    def bottleneck(self) -> Link:
        """The only link with a rate, of a plan for a target that has one queue."""
        (link,) = self.links
        return link

    @property
    def loopbacks(self) -> tuple[int, ...]:
        """Ports whose frames come in again on the same port."""
        looped = [link for link in self.reported if link.loopback and link.cable is None]
        return tuple(link.port for link in looped if link.port is not None)

    @property
    def cables(self) -> tuple[tuple[int, int], ...]:
        """Pairs of ports of which what leaves by one comes in by the other."""
        return tuple((link.port, link.cable.port) for link in self.links if link.cable is not None)

    @property
    def extra_delay_ns(self) -> int:
        """What packets may be on their way for beyond base RTT and queues, where delays vary."""
        return sum(link.longest_delay_ns - link.delay_ns for link in self.links)

    def queueing_s(self, flow: Flow) -> float:
        """Seconds that a flow's data wait where all queues on its path are full."""
        crossed = [link for link in self.links if link.name in flow.links]
        return sum(link.longest_s(link.most_limit_bytes) for link in crossed)

    def rate_bps(self, flow: Flow) -> int:
        """L2 rate of the slowest link that a flow's data cross."""
        return min(link.rate_bps for link in self.links if link.name in flow.links)

    def host(self, name: str) -> Host:
        """A host by its name."""
        return next(host for host in self.hosts if host.name == name)

    def peers(self, host: Host) -> tuple[Host, ...]:
        """Hosts that a host exchanges packets with."""
        pairs = {(flow.sender, flow.receiver) for flow in self.flows}
        pairs |= {(receiver, sender) for sender, receiver in pairs}
        return self._those({other for own, other in pairs if own == host.name})

    def _those(self, names: set[str]) -> tuple[Host, ...]:
        return tuple(host for host in self.end_hosts if host.name in names)
