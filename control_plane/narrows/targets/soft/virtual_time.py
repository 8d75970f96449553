# SPDX-License-Identifier: Apache-2.0
"""How a softswitch runs in virtual time: where a plan's delays lie, and how far the switch may look ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from narrows_formats.span import Span
from narrows_formats.units import NANOSECONDS

from narrows.experiment.delays import spread
from narrows.experiment.plan import COLLECTOR_PORT, InterruptCoalescing, Plan

# Frames that are worked on in one go: enough that waking up costs nothing beside them, few enough for the caches.
BATCH_FRAMES = 300
# A window shorter than this saves nothing, and the switch takes none that is longer than a second.
MIN_WINDOW_NS, MAX_WINDOW_NS = 20_000, NANOSECONDS
MIN_RING_BYTES, SMALL_RING_BYTES, ALL_RINGS_BYTES = 2 << 20, 12 << 20, 1 << 30
# What the switch holds of a frame: all headers of TCP, and more than a report shows of them. The payload is zeros,
# whatever its sender (narrows.traffic): they need not be copied. Programs of users need all of their frames. In a
# ring a frame takes a slot with the kernel's headers, and there is room for a tenth more: some frames are shorter.
HELD_BYTES, SLOT_BYTES = 128, 272
WHOLE_SLOT_BYTES, KERNEL_BYTES = 2048, 160
BURST_FLIGHTS, BURST_WINDOWS = 4, 8
# Rings that hold the greatest burst are made where all of them are so small a part of what the experiment carries.
WHOLE_FLIGHTS, WHOLE_SHARE = 2, 48
# Segments that a flow begins with (RFC 6928).
INITIAL_WINDOW = 10
# How often receivers wake up in a second, about, all flows together; a batch fits into the processor's caches.
WAKEUPS_S = 200
MIN_BATCH_BYTES, MAX_BATCH_BYTES = 1 << 16, 1 << 20
# Ethernet's (IEEE 802.3), from 1 Gbit/s on.
LINK_RATES_BPS = tuple(rate * 1_000_000_000 for rate in (1, 10, 25, 40, 100, 200, 400, 800))
MIN_POOL = 262_144
# Of what a kernel sends by its timers 99 % leave within so long of their time: `tc tbf` with processors of its own
# (benchmarks/README.md: 29 us at 100 Mbit/s, 32 us at 500 Mbit/s).
MAX_HOST_JITTER_NS = 30_000


@dataclass(frozen=True)
class VirtualTimeSettings:
    """Settings of a switch in virtual time.

    ``window_ns``: how long it sleeps at a time (0: until the next event). ``ring_bytes``: receive ring of each port.
    ``pool_frames``: frames that queues and delay lines may hold in all. ``access_rate_bps``: rate of the links from the
    hosts, ``jitter_ns`` what the sender at a port takes for a frame at most, ``moderation`` the interrupt moderation of
    their NICs, which join segments then (``lro``) or not. ``held_bytes`` of a frame are held, None: all.
    ``tso``: NICs cut what hosts send into segments. ``prioritized``: it runs before programs, whose system calls take
    time.
    """

    window_ns: int
    ring_bytes: int
    pool_frames: int
    access_rate_bps: int
    jitter_ns: Mapping[int, int]
    coalescing: InterruptCoalescing | None = None
    lro: bool = False
    held_bytes: int | None = HELD_BYTES
    tso: bool = False
    prioritized: bool = False
    collector_port: int = COLLECTOR_PORT

    def arguments(self, ports: Iterable[int]) -> list[str]:
        """Words of narrows-softswitch's command line, with the ports that hosts are at."""
        words = ["--virtual-time", "--lookahead-us", str(self.window_ns // 1000)]
        words += ["--ring-mib", str(self.ring_bytes >> 20)]
        words += [] if self.held_bytes is None else ["--snaplen", str(self.held_bytes)]
        words += ["--pool", str(self.pool_frames)]
        words += ["--tso"] if self.tso else []
        for port in sorted(ports):
            # Acknowledgements leave a receiver when its NIC and its kernel have taken the data in.
            jitter = f",{self.jitter_ns[port]}" if self.jitter_ns.get(port) else ""
            words += ["--access-rate", f"{port}@{self.access_rate_bps}{jitter}"]
            if self.coalescing is not None and port != self.collector_port:
                frames = "" if self.coalescing.frames is None else f",{self.coalescing.frames}"
                words += ["--rx-moderation", f"{port}@{self.coalescing.usecs}{frames}"]
                words += ["--lro", str(port)] if self.lro else []
        return words


def adapted(plan: Plan) -> Plan:
    """The same plan as it is carried out in virtual time by a softswitch.

    Half of the shortest RTT is on the way to the receivers, so that both directions have a delay; what is on the
    reverse path is shorter by as much, and every flow has the RTT that it had. `settings` makes a window of them.
    """
    pairs = {(flow.sender, flow.receiver): None for flow in plan.flows}
    above = _above_lowest_ns(plan)
    # What no packet is below can be elsewhere; what is above it is the link's.
    delays = spread({port.host: port.delay_ns - above[port.number] for port in plan.ports if port.host}, pairs)
    ports = tuple(
        replace(port, delay_ns=delays[port.host] + above[port.number] if port.host in delays else port.delay_ns)
        for port in plan.ports
    )
    return in_batches(replace(plan, ports=ports))


def in_batches(plan: Plan) -> Plan:
    """The same plan with hosts of a guest: receivers wake up when a batch has arrived, at the least rate as well."""
    batch = min(max(_rates_bps(plan).least // (8 * WAKEUPS_S), MIN_BATCH_BYTES), MAX_BATCH_BYTES)
    return replace(plan, in_guest=True, receive_batch_bytes=min(batch, plan.tcp_buffer_bytes // 8))


def settings(plan: Plan) -> VirtualTimeSettings:
    """What suits a plan as `adapted` made it; the switch looks ahead where the plan has delays both ways."""
    # What has to be large enough suits the most, what must not be too large the least.
    rates = _rates_bps(plan)
    rate = rates.most
    hosts = [port for port in plan.ports if port.host not in ("", plan.collector_host.name)]
    above = _above_lowest_ns(plan)
    shortest = min(port.delay_ns - above[port.number] for port in hosts)
    batch = BATCH_FRAMES * plan.frame_bytes * 8 * NANOSECONDS // rate
    window = min(shortest // 2, batch, MAX_WINDOW_NS)
    longest = max(flow.rtt_ns for flow in plan.flows) + plan.extra_delay_ns
    flight = rate * longest // (8 * NANOSECONDS) + sum(link.most_limit_bytes for link in plan.links)
    # A host may send much of what it may have in flight in one instant, and twice what was acknowledged in a window
    # while it starts; flows that begin together, and the users of one, send their first windows in one instant, and
    # twice as much when those are acknowledged; a host that awaits no answer (UDP) sends what its link carries. What
    # does not fit is counted. Not much more than that, but where a small ring holds twice of all that is in flight: a
    # page of a ring costs two faults in a guest, and those of four rings of 12 MiB almost half a second.
    beginning = sum(flow.payload.at_once for flow in plan.flows)
    start = 2 * INITIAL_WINDOW * plan.frame_bytes * beginning
    access = plan.access_rate_bps or access_rate_bps(rate)
    carried = access * window // (8 * NANOSECONDS)
    burst = max(flight // BURST_FLIGHTS, BURST_WINDOWS * rate * window // (8 * NANOSECONDS), start, carried)
    slots = _slot_bytes(plan) / plan.frame_bytes
    ring = max(MIN_RING_BYTES, int(burst * slots), min(int(2 * flight * slots), SMALL_RING_BYTES))
    # A flow that fills the queue in slow start has twice as much in flight, and may send most of it in one instant when
    # a gap is closed after a timeout (RFC 5681, section 3.1, without a limit of bursts), but no more than sockets hold.
    sockets = max(Counter(flow.sender for flow in plan.flows).values()) * plan.tcp_buffer_bytes
    whole = int(min(WHOLE_FLIGHTS * flight, sockets) * slots)
    if (
        plan.end_ns is not None
        and whole * len(plan.hosts) <= rates.least * plan.end_ns // (8 * NANOSECONDS) // WHOLE_SHARE
    ):
        ring = max(ring, whole)
    return VirtualTimeSettings(
        window_ns=window if window >= MIN_WINDOW_NS else 0,
        ring_bytes=min(ring, ALL_RINGS_BYTES // len(plan.hosts)),
        pool_frames=max(MIN_POOL, 8 * flight // plan.frame_bytes),
        access_rate_bps=access,
        jitter_ns=_jitter_ns(plan, access),
        coalescing=plan.coalescing,
        lro="lro" in plan.offloads,
        held_bytes=_held_bytes(plan),
        # A slot would have to hold a whole burst's payload.
        tso=not plan.has_payload,
        prioritized=plan.has_applications,
        collector_port=plan.collector.port,
    )


def _held_bytes(plan: Plan) -> int | None:
    """What of a frame is held. Users' programs may parse as much of it as they like, in loops without a known end."""
    if plan.programs:
        return None
    return plan.frame_bytes if plan.has_payload else HELD_BYTES


def _above_lowest_ns(plan: Plan) -> Counter[int]:
    """How much less than its delay is the least that a packet has at a port, by port, where a host's link varies."""
    at_hosts = [link for link in plan.links if link.varies_behind and not link.loopback]
    return Counter({link.port: link.delay_ns - link.lowest_delay_ns for link in at_hosts})


def _slot_bytes(plan: Plan) -> int:
    """What a frame takes of a ring."""
    if not plan.has_payload:
        return SLOT_BYTES
    slot = WHOLE_SLOT_BYTES
    while slot < plan.frame_bytes + KERNEL_BYTES:
        slot *= 2
    return slot


def access_rate_bps(bottleneck_bps: int) -> int:
    """Rate of the hosts' links where the experiment names none: the least usual one of four times the bottleneck's."""
    return next((rate for rate in LINK_RATES_BPS if rate >= 4 * bottleneck_bps), 4 * bottleneck_bps)


def _rates_bps(plan: Plan) -> Span:
    """The rate of the fastest link, and that of the slowest moment of those that vary."""
    fastest = max(link.rates_bps.most for link in plan.links)
    varying = [link.rates_bps.least for link in plan.links if link.schedule is not None]
    return Span(min(varying, default=fastest), fastest)


def _jitter_ns(plan: Plan, access_bps: int) -> dict[int, int]:
    """What the host at each port takes for a frame at most: as the experiment says, or a full-size frame's time on the
    host's link, but no more than real hosts take.

    It does not depend on the bottleneck, as no host's does. To be rid of phase effects at a slow one takes a frame's
    time there, which `hosts.jitter` sets (Floyd and Jacobson 1992: On traffic phase effects in packet-switched
    gateways).
    """
    frame_ns = plan.frame_bytes * 8 * NANOSECONDS // access_bps
    most = min(frame_ns, MAX_HOST_JITTER_NS) if plan.jitter_ns is None else plan.jitter_ns
    return {plan.host(flow.sender).port: most for flow in plan.flows}
