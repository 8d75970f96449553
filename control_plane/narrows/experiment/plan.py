# SPDX-License-Identifier: Apache-2.0
"""What a run will build, worked out from the experiment before anything is touched.

The same plan serves every target: hosts and their addresses, the switch's ports and paths, the bottleneck's settings
in bytes and nanoseconds, and every flow with the 5-tuple it will have.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from narrows_formats.flow_names import flow_name
from narrows_formats.units import bdp_bytes

from narrows.errors import InputError

if TYPE_CHECKING:
    # A run that takes place somewhere else takes only the plan with it.
    from narrows.experiment.model import Experiment, FlowGroup
    from narrows.experiment.workload import Arrival

ETHERNET_HEADER_BYTES = 14
# Preamble 8, frame check sequence 4 and inter-frame gap 12: what an L1 rate counts beside the L2 frame.
L1_OVERHEAD_BYTES = 24
REPORT_ENCAPSULATION_BYTES = 90
# Encapsulation and the original frame's Ethernet, IPv6 and TCP headers with timestamps.
REPORT_LENGTH_BYTES = 176
REPORT_UDP_PORT = 5500
REPORT_SOURCE_PORT = 5499
# Of the 64 bottlenecks of the program, the upper half is for the ways back of the lower one.
ACK_BOTTLENECKS = 32

RECEIVER_PORT = 1
COLLECTOR_PORT = 2
FIRST_SENDER_PORT = 3
MIN_TCP_BUFFER = 64 << 20
MAX_SENDERS = 500  # v1model ports are 9 bits wide and 511 means "drop"

FIRST_SERVER_PORT = 5201
DATA_PORTS = range(10_000, 40_000)
# The control connections of the traffic tool; disjoint from DATA_PORTS, so that they can be told from data.
EPHEMERAL_PORTS = (40_000, 60_999)


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
    """A port of the switch; ``delay_ns`` holds every frame that leaves it, after its queue."""

    number: int
    host: str
    delay_ns: int


@dataclass(frozen=True)
class Path:
    """Frames for ``dst_mac`` from ``ingress_port`` leave at ``egress_port``, through a bottleneck if one is named."""

    ingress_port: int
    dst_mac: str
    egress_port: int
    bottleneck: int | None


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck's settings in base units.

    ``rate_bps`` is L2; ``l1_rate_bps`` is set only for a rate written as L1, ``limit_packets`` only for a depth in
    packets. With ``sample_auto`` a target whose collector holds less may raise ``sample_shift``.
    """

    index: int
    port: int
    queue: int
    rate_bps: int
    limit_bytes: int
    limit_packets: int | None
    ecn_threshold_bytes: int | None
    loss: float
    sample_shift: int
    l1_rate_bps: int | None = None
    sample_auto: bool = False


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
    """A sequence of ``repeat`` TCP connections, one after the other; a bulk flow is a sequence of one.

    Connection ``i`` uses source port ``src_port + i``. Times are nanoseconds since the experiment's start. With
    ``until``, no connection starts after the flows of that group have ended. A flow with ``arrivals`` is a workload:
    its ``repeat`` connections have a start (from ``start_ns``) and a size each and do not wait for each other.
    """

    name: str
    group: str
    cca: str
    sender: str
    src: str
    dst: str
    src_port: int
    dst_port: int
    start_ns: int
    duration_ns: int | None
    size: int | None
    repeat: int
    gap_ns: int
    rtt_ns: int
    until: str | None = None
    arrivals: tuple[Arrival, ...] = ()


@dataclass(frozen=True)
class Moderation:
    """Interrupt moderation of a host's network card, as `ethtool -C` calls it; ``frames`` None: time alone decides."""

    usecs: int
    frames: int | None


@dataclass(frozen=True)
class Plan:
    """Everything a run builds and sets.

    ``ack_bottleneck`` is the index under which the way back is reported, without any limit; None if it is not. With
    ``receive_batch_bytes`` receivers read so much at a time, out of buffers that are as large as can be from the start;
    0: whatever there is, out of buffers that grow, as usual. ``access_rate_bps`` is that of the links from the hosts to
    the switch where they are modelled; None: they are what they are. ``jitter_ns`` is the most that a sender takes
    for a frame, None: what suits the bottleneck. ``moderation`` is that of every host's network
    card, None: a frame is delivered when it arrives. ``offloads`` are those that hosts have on (``gro``, or
    ``lro``, which is their cards').
    """

    senders: tuple[Host, ...]
    receiver: Host
    collector_host: Host
    ports: tuple[SwitchPort, ...]
    paths: tuple[Path, ...]
    bottleneck: Bottleneck
    collector: Collector
    flows: tuple[Flow, ...]
    frame_bytes: int
    bdp_bytes: Fraction
    end_ns: int | None
    tcp_buffer_bytes: int
    ack_bottleneck: int | None = None
    receive_batch_bytes: int = 0
    access_rate_bps: int | None = None
    jitter_ns: int | None = None
    moderation: Moderation | None = None
    offloads: tuple[str, ...] = ()

    @property
    def in_guest(self) -> bool:
        """Whether its hosts are in a guest: processors take no time there, and processes take long to start."""
        return self.receive_batch_bytes > 0

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts: senders, receiver, collector."""
        return (*self.senders, self.receiver, self.collector_host)


def make_plan(experiment: Experiment) -> Plan:
    """Work out the plan of one run (an experiment whose sweep and repeats are already resolved).

    Raises:
        InputError: the experiment needs more senders or ports than a switch has.
    """
    from narrows.experiment.model import Hosts

    if len(experiment.flows) > MAX_SENDERS:
        raise InputError(f"flows: {len(experiment.flows)} groups; allowed: up to {MAX_SENDERS}, one switch port each")
    version = experiment.ip_version
    hosts = experiment.hosts or Hosts()
    receiver = _host("receiver", RECEIVER_PORT, version)
    collector = Host("collector", COLLECTOR_PORT, _mac(COLLECTOR_PORT), "", 0, version)
    senders = tuple(_host(f"sender{i}", FIRST_SENDER_PORT + i, version) for i in range(len(experiment.flows)))
    bottleneck = _bottleneck(experiment)
    ack_bottleneck = ACK_BOTTLENECKS + bottleneck.index if experiment.telemetry.acks else None
    rtts = [_rtt_ns(experiment, group) for group in experiment.flows]
    flows = _flows(experiment, senders, receiver, rtts)
    return Plan(
        senders=senders,
        receiver=receiver,
        collector_host=collector,
        ports=(
            SwitchPort(RECEIVER_PORT, receiver.name, 0),
            SwitchPort(COLLECTOR_PORT, collector.name, 0),
            # The base RTT is made on the way back to the sender, behind the bottleneck's queue.
            *(SwitchPort(sender.port, sender.name, rtt) for sender, rtt in zip(senders, rtts, strict=True)),
        ),
        paths=tuple(
            path
            for sender in senders
            for path in (
                Path(sender.port, receiver.mac, RECEIVER_PORT, bottleneck.index),
                Path(RECEIVER_PORT, sender.mac, sender.port, ack_bottleneck),
            )
        ),
        bottleneck=bottleneck,
        collector=Collector(
            port=COLLECTOR_PORT,
            src_mac=_mac(0),
            dst_mac=collector.mac,
            src_address="198.19.255.254",
            dst_address="198.19.255.1",
            src_port=REPORT_SOURCE_PORT,
            dst_port=REPORT_UDP_PORT,
            report_length=REPORT_LENGTH_BYTES,
        ),
        flows=flows,
        frame_bytes=experiment.mtu + ETHERNET_HEADER_BYTES,
        bdp_bytes=bdp_bytes(bottleneck.rate_bps, experiment.bottleneck.rtt),
        end_ns=_end_ns(flows),
        tcp_buffer_bytes=experiment.tcp_buffer or _tcp_buffer(bottleneck, max(rtts)),
        ack_bottleneck=ack_bottleneck,
        access_rate_bps=hosts.rate,
        jitter_ns=hosts.jitter,
        moderation=None if hosts.rx_usecs is None else Moderation(hosts.rx_usecs, hosts.rx_frames),
        offloads=hosts.offloads,
    )


def _tcp_buffer(bottleneck: Bottleneck, longest_rtt_ns: int) -> int:
    """Upper bound of a socket's buffers with which they limit nothing: four times what path and queue can hold."""
    from narrows.experiment.model import MAX_TCP_BUFFER

    in_flight = bottleneck.rate_bps * longest_rtt_ns // 8_000_000_000 + bottleneck.limit_bytes
    return min(max(MIN_TCP_BUFFER, 4 * in_flight), MAX_TCP_BUFFER)


def _mac(port: int) -> str:
    """Locally administered address that names its port."""
    return f"02:4e:57:00:{port >> 8:02x}:{port & 0xFF:02x}"


def _host(name: str, port: int, version: int) -> Host:
    if version == 6:
        return Host(name, port, _mac(port), str(IPv6Address("2001:2::") + port), 64, 6)
    return Host(name, port, _mac(port), str(IPv4Address("198.18.0.0") + port), 15, 4)


def _rtt_ns(experiment: Experiment, group: FlowGroup) -> int:
    return experiment.bottleneck.rtt if group.rtt is None else group.rtt


def _bottleneck(experiment: Experiment) -> Bottleneck:
    settings = experiment.bottleneck
    frame = experiment.mtu + ETHERNET_HEADER_BYTES
    rate = settings.rate
    if settings.rate_layer == "l1":
        # Exact for full-size frames, the ones that fill a bottleneck; run.json states the L2 rate that was set.
        rate = round(Fraction(rate * frame, frame + L1_OVERHEAD_BYTES))
    limit = settings.buffer.in_bytes(rate, settings.rtt, frame)
    if limit < frame:
        raise InputError(
            f"bottleneck.buffer: {settings.buffer} is {limit} B, which no full-size frame of {frame} B fits into; "
            f"allowed: {frame} B or more"
        )
    threshold, sample = settings.ecn_threshold, experiment.telemetry.sample
    return Bottleneck(
        index=0,
        port=RECEIVER_PORT,
        queue=0,
        rate_bps=rate,
        limit_bytes=limit,
        limit_packets=int(settings.buffer.value) if settings.buffer.unit == "packets" else None,
        ecn_threshold_bytes=None if threshold is None else threshold.in_bytes(rate, settings.rtt, frame),
        loss=settings.loss,
        sample_shift=0 if isinstance(sample, str) else sample.bit_length() - 1,
        sample_auto=isinstance(sample, str),
        l1_rate_bps=settings.rate if settings.rate_layer == "l1" else None,
    )


def _flows(experiment: Experiment, senders: tuple[Host, ...], receiver: Host, rtts: list[int]) -> tuple[Flow, ...]:
    flows: list[Flow] = []
    for position, (group, sender, rtt) in enumerate(zip(experiment.flows, senders, rtts, strict=True)):
        arrivals = () if group.workload is None else group.workload.arrivals(experiment.seed + position)
        repeat = len(arrivals) or group.repeat
        connections = group.count * repeat
        if connections > len(DATA_PORTS):
            raise InputError(
                f"flows.{group.name}: count x repeat is {connections} connections; allowed: up to {len(DATA_PORTS)}"
            )
        for number in range(group.count):
            flows.append(
                Flow(
                    name=flow_name(group.name, number + 1),
                    group=group.name,
                    cca=group.cca,
                    sender=sender.name,
                    src=sender.address,
                    dst=receiver.address,
                    src_port=DATA_PORTS.start + number * repeat,
                    dst_port=FIRST_SERVER_PORT + len(flows),
                    start_ns=group.start + number * group.stagger,
                    duration_ns=group.duration,
                    size=group.size,
                    repeat=repeat,
                    gap_ns=group.gap,
                    rtt_ns=rtt,
                    until=group.until,
                    arrivals=arrivals,
                )
            )
    last_port = FIRST_SERVER_PORT + len(flows) - 1
    if last_port >= DATA_PORTS.start:
        most = DATA_PORTS.start - FIRST_SERVER_PORT
        raise InputError(f"flows: {len(flows)} flows in all; allowed: up to {most}")
    return tuple(flows)


def _end_ns(flows: tuple[Flow, ...]) -> int | None:
    """When the last flow ends, or None if a sized flow decides that itself."""
    ends = [flow.start_ns + flow.duration_ns for flow in flows if flow.duration_ns is not None]
    return max(ends) if len(ends) == len(flows) else None
