# SPDX-License-Identifier: Apache-2.0
"""What a plan asks of the softswitch's traffic manager."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.json_format import ParseDict

from narrows.experiment.plan import Link, Plan
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.link_models import delay_message, rate_message, variation

# Of tc-cake's documentation: two redundant ones always stay, or none.
REDUNDANT_ACKS_KEPT = {"conservative": 2, "aggressive": 0}


def queue_requests(plan: Plan, seed: int) -> Iterator[pb.ConfigureRequest]:
    """What the traffic manager is asked for each link's queue."""
    behind = {port.number: port.delay_ns for port in plan.ports}
    for link in plan.links:
        # A port that is a host's also has what the host adds to RTTs.
        more_ns = behind[link.port] - link.delay_ns
        steps = None if link.delay_steps is None else link.delay_steps.later_by(more_ns)
        yield pb.ConfigureRequest(
            port=link.port,
            queue=link.queue,
            rate_bps=link.rate_bps,
            burst_bytes=link.burst_bytes,
            limit_bytes=link.byte_limit,
            limit_packets=link.limit_packets or 0,
            # Until the experiment starts, its nominal rate holds.
            rate_schedule=None if link.schedule is None else rate_message(link.schedule),
            # Set alone, a constant delay would end the schedule.
            delay_ns=None if steps is None else behind[link.port],
            delay_schedule=None if steps is None else delay_message(steps),
            variation=variation(link, seed),
            head_drop=drops_from_head(link),
            policer=policer_message(link),
            aggregation=aggregation_message(link),
            ack_filter=ack_filter_message(link),
            framing=framing_message(link),
            management=management_message(link, plan),
        )


def drops_from_head(link: Link) -> bool:
    """Whether a full queue drops its oldest packets."""
    return link.aqm is not None and link.aqm.head_drop


def policer_message(link: Link) -> pb.Policer:
    """The policer in front of a link's queue."""
    policer = link.policer
    if policer is None:
        return pb.Policer(enabled=False)
    committed = _bucket(policer.rate_bps, policer.burst_bytes)
    message = pb.Policer(enabled=True, committed=committed, marks=policer.marks)
    if policer.peak_rate_bps is not None and policer.peak_burst_bytes is not None:
        message.peak.CopyFrom(_bucket(policer.peak_rate_bps, policer.peak_burst_bytes))
    return message


def aggregation_message(link: Link) -> pb.Aggregation:
    """The bursts in which a link carries packets."""
    bursts = link.aggregation
    if bursts is None:
        return pb.Aggregation(enabled=False)
    return pb.Aggregation(
        enabled=True, packets=bursts.packets or 0, bytes=bursts.bytes or 0, overhead_ns=bursts.overhead_ns
    )


def framing_message(link: Link) -> pb.Framing:
    """What frames take on a link's medium."""
    framing = link.framing
    if framing is None:
        return pb.Framing()
    return pb.Framing(overhead=framing.overhead, mpu=framing.mpu, link_layer=framing.linklayer.upper())


def ack_filter_message(link: Link) -> pb.AckFilter:
    """Which acknowledgements go that others make redundant."""
    if link.ack_filter is None:
        return pb.AckFilter(enabled=False)
    return pb.AckFilter(enabled=True, keep=REDUNDANT_ACKS_KEPT[link.ack_filter])


def _bucket(rate_bps: int, burst_bytes: int) -> pb.Bucket:
    return pb.Bucket(rate_bps=rate_bps, burst_bytes=burst_bytes)


def management_message(link: Link, plan: Plan) -> pb.Management:
    """How the program manages a link's queue, and how several queues share the link.

    What a program of the user's drops at departure costs the link no time, and the priorities that it gives are served
    strictly, or in turns.
    """
    program = plan.program_of(link)
    if program is not None:
        if program.quanta:
            return pb.Management(enabled=True, index=link.index, deficit=pb.Deficit(quanta=program.quanta))
        return pb.Management(enabled=True, index=link.index, strict=pb.Strict())
    aqm, frame_bytes = link.aqm, plan.frame_bytes
    if aqm is None or not aqm.by_program:
        return pb.Management(enabled=False)
    message = pb.Management(enabled=True, index=link.index, period_ns=aqm.period_ns)
    return ParseDict(dict(aqm.scheduling(frame_bytes)), message)


def change_request(before: Link, after: Link) -> pb.ConfigureRequest:
    """What the traffic manager is asked for to make one constant link another."""
    new_limit = (before.limit_bytes, before.limit_packets) != (after.limit_bytes, after.limit_packets)
    return pb.ConfigureRequest(
        port=after.port,
        queue=after.queue,
        rate_bps=after.rate_bps if before.rate_bps != after.rate_bps else None,
        limit_bytes=after.byte_limit if new_limit else None,
        limit_packets=(after.limit_packets or 0) if new_limit else None,
        delay_ns=after.delay_ns if before.delay_ns != after.delay_ns else None,
    )


def port_delays(plan: Plan) -> dict[int, int]:
    """Nanoseconds that what leaves a port is held; ports whose delay is a schedule of their link's have none."""
    scheduled = {link.port for link in plan.links if link.delay_steps is not None}
    return {port.number: port.delay_ns for port in plan.ports if port.delay_ns and port.number not in scheduled}
