# SPDX-License-Identifier: Apache-2.0
"""From bits and bytes to packets, the only unit that BMv2's queues know, and what cannot be put into it."""

from __future__ import annotations

from fractions import Fraction

from narrows_formats.units import format_rate

from narrows.experiment.plan import MAX_SENDERS, Link, Plan
from narrows.switch.widths import unreported_waits
from narrows.targets.bmv2.delay_line import MAX_PORTS

# One report a packet included, BMv2 forwards three times as many full-size frames before its input loses some.
MAX_PACKETS_S = 10_000
RATE_TOLERANCE = Fraction(1, 100)
# The depth that a packet finds has 19 bits in v1model, and BMv2 cuts off those above.
MAX_DEPTH_PACKETS = 2**19 - 1
# Waits have 32 bits of microseconds there.
DELAY_BITS, DELAY_UNIT_NS = 32, 1000


def packet_rate(link: Link, frame_bytes: int) -> int:
    """Whole packets a second that are nearest to a link's rate for full-size frames."""
    return round(_exact(link, frame_bytes))


def bit_rate(packets_s: int, frame_bytes: int) -> int:
    """L2 bits a second of full-size frames at a rate in packets."""
    return packets_s * 8 * frame_bytes


def depth(link: Link, frame_bytes: int) -> int:
    """Packets that may wait: as written, or the full-size frames that a depth in bytes has room for."""
    return link.limit_bytes // frame_bytes if link.limit_packets is None else link.limit_packets


def unsupported(plan: Plan, virtual: bool = False) -> list[str]:
    """What of a plan BMv2 cannot do as written, in real time or in virtual time; empty when it can do all of it."""
    if refused := unsupported_kinds(plan):
        return refused
    if plan.loopbacks:
        # Its ports are interfaces, and none leads back into it.
        return [
            f"links: {', '.join(link.name for link in plan.links)} take loopback ports, which BMv2 does not have; "
            "allowed: one link to one receiver, or --target soft"
        ]
    return [
        *unsupported_rate(plan.bottleneck, plan.frame_bytes, virtual),
        *(unsupported_depth(plan.bottleneck, plan.frame_bytes) or unreported_waits(plan, DELAY_BITS, DELAY_UNIT_NS)),
        *_unsupported_port(plan),
        *unsupported_card(plan, virtual),
    ]


def unsupported_kinds(plan: Plan) -> list[str]:
    """The same of what its queues have nothing like, whatever its values."""
    if managed := [(link.field, link.aqm) for link in plan.links if link.aqm is not None]:
        # Egress drops there what has had its time, knows delays in microseconds only, and ingress nothing of queues.
        return [
            f"{field}.queue: {aqm.kind} needs {aqm.needs}, which BMv2 does not have; allowed: tail-drop, with or "
            "without ecn_threshold, or --target soft"
            for field, aqm in managed
        ]
    if policed := [link.field for link in plan.links if link.policer is not None]:
        # Its drops by cause and by flow would have to be told by the program, whose reports have no room for them.
        return [f"{field}.policer: BMv2's program has none; allowed: none, or --target soft" for field in policed]
    if framed := [link.field for link in plan.links if link.framing is not None]:
        # Its rate is of packets.
        return [f"{field}.framing: BMv2's queues count packets; allowed: none, or --target soft" for field in framed]
    if filtered := [link.field for link in plan.links if link.ack_filter is not None]:
        # Nothing leaves the middle of its queues.
        return [f"{field}.ack_filter: BMv2's queues have none; allowed: none, or --target soft" for field in filtered]
    if shaped := [link.field for link in plan.links if link.burst_bytes]:
        # A packet's time there follows from the one before it.
        return [f"{field}.burst: BMv2's queues keep no tokens; allowed: none, or --target soft" for field in shaped]
    if gathering := [link.field for link in plan.links if link.aggregates]:
        # What its delay line holds is what it holds of everything.
        return [f"{field}.aggregation: BMv2 has none; allowed: none, or --target soft" for field in gathering]
    # bm_sim/queueing.h: a new rate would not reach what waits.
    return [
        f"{link.field}.rate: varies, and BMv2 sets a packet's time when it is queued; allowed: a constant rate, or "
        "--target soft"
        for link in plan.links
        if link.schedule is not None
    ]


def notes(plan: Plan) -> tuple[str, ...]:
    """What a user must know about the settings that a plan gets."""
    frame, found = plan.frame_bytes, []
    for link in plan.links:
        # A link that is alone needs no name.
        at = f"{link.name}: " if len(plan.links) > 1 else ""
        packets_s, packets = packet_rate(link, frame), depth(link, frame)
        error = float(packets_s / _exact(link, frame) - 1)
        found += [
            f"{at}BMv2 shapes packets, not bits: {packets_s} packets/s are {bit_rate(packets_s, frame) / 1e6:.6g} "
            f"Mbit/s of full-size frames of {frame} B ({error:+.2%}), and less of shorter ones",
            f"{at}BMv2 queues packets, not bytes: the buffer is {packets} packets of any size, {packets * frame} B "
            "of full-size frames",
        ]
        if link.loss:
            found.append("BMv2's random numbers take no seed: which packets loss emulation takes is not repeatable")
    return tuple(found)


def _exact(link: Link, frame_bytes: int) -> Fraction:
    return Fraction(link.rate_bps, 8 * frame_bytes)


def unsupported_rate(link: Link, frame: int, virtual: bool) -> list[str]:
    """Why a link's rate is none of BMv2's, for full-size frames of so many bytes."""
    exact, whole = _exact(link, frame), packet_rate(link, frame)
    asked = f"{link.field}.rate: {format_rate(link.rate_bps)} is {float(exact):.6g} frames/s of {frame} B"
    if exact > MAX_PACKETS_S and not virtual:
        most = format_rate(bit_rate(MAX_PACKETS_S, frame))
        return [
            f"{asked}, at which BMv2 may lose some outside the queue; allowed: up to {MAX_PACKETS_S} frames/s, {most}"
        ]
    if abs(whole - exact) > RATE_TOLERANCE * exact:
        near = " or ".join(format_rate(bit_rate(rate, frame)) for rate in (int(exact), int(exact) + 1) if rate)
        return [f"{asked}, and BMv2 shapes in whole ones; allowed: within 1 % of a whole number, such as {near}"]
    return []


def unsupported_depth(link: Link, frame_bytes: int) -> list[str]:
    """Why a link's buffer is none of BMv2's, for full-size frames of so many bytes."""
    packets = depth(link, frame_bytes)
    if 1 <= packets <= MAX_DEPTH_PACKETS:
        return []
    return [f"{link.field}.buffer: is {packets} packets; allowed: 1 to {MAX_DEPTH_PACKETS} with BMv2"]


def _unsupported_port(plan: Plan) -> list[str]:
    if len(plan.senders) <= MAX_PORTS:
        return []
    return [f"flows: {len(plan.senders)} groups; allowed: up to {MAX_PORTS} with BMv2 (up to {MAX_SENDERS} with soft)"]


def unsupported_card(plan: Plan, virtual: bool) -> list[str]:
    """Why hosts' NICs are none of BMv2's."""
    # In real time NICs are what they are; none is modelled.
    if plan.coalescing is None or not virtual:
        return []
    return ["hosts.rx_usecs: the receiver's frames come from BMv2 itself; allowed: with --target soft"]
