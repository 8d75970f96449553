# SPDX-License-Identifier: Apache-2.0
"""How long the traffic of a run takes, and how many packets it is."""

from __future__ import annotations

from narrows_formats.units import NANOSECONDS

from narrows.experiment.plan import Plan
from narrows.flows.datagrams import frame_bytes
from narrows.onhost.program import Program

SHARED_LINK = 1.5  # by how much a finite flow takes longer than alone on the link, roughly


def traffic_time_s(plan: Plan) -> float:
    """Seconds of traffic of a run; an estimate where flows end by their size."""
    if plan.end_ns is not None:
        return plan.end_ns / NANOSECONDS
    ends = []
    for flow in plan.flows:
        if not flow.payload.is_finite:
            ends.append((flow.end_ns or flow.start_ns) / NANOSECONDS)
        elif flow.payload.until is None:
            arriving = (flow.payload.arrivals_ns or (0,))[-1] / NANOSECONDS
            ends.append(max(arriving, SHARED_LINK * flow.payload.total_bytes * 8 / plan.rate_bps(flow)))
    return max(ends, default=0.0)


def packets(plan: Plan) -> float:
    """Packets through all links of a run, roughly: datagrams as they are sent, and full-size frames in the rest."""
    return sum(_packets(plan))


def packets_of_programs(plan: Plan) -> float:
    """Part of them that programs send, if their flows have equal shares of that rest."""
    return _packets(plan)[1]


def _packets(plan: Plan) -> tuple[float, float]:
    """Those of others, and those of programs."""
    time_s = traffic_time_s(plan)
    total = of_programs = 0.0
    for link in plan.links:
        crossing = [flow for flow in plan.flows if link.name in (*flow.links, *flow.ack_links)]
        datagrams = [flow.payload.datagrams for flow in crossing]
        rest = time_s * link.rate_bps / 8 if None in datagrams else 0.0
        for sent in (one for one in datagrams if one is not None):
            total += sent.count
            rest -= sent.count * frame_bytes(sent.payload, plan.ip_version)
        filling = [flow for flow in crossing if flow.payload.datagrams is None]
        made = sum(isinstance(flow.payload, Program) for flow in filling) / max(len(filling), 1)
        full_size = max(0.0, rest) / plan.frame_bytes
        total += (1 - made) * full_size
        of_programs += made * full_size
    return total, of_programs
