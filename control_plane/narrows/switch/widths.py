# SPDX-License-Identifier: Apache-2.0
"""What reports can say of a queue: a plan whose queue can hold more is refused, since figures would be cut or wrap.

docs/report-format.md has all widths.
"""

from __future__ import annotations

from narrows_formats.units import NANOSECONDS, format_rate, format_size

from narrows.experiment.plan import Plan

# Of a depth, in the target's unit.
DEPTH_BITS = 32


def unreported_waits(plan: Plan, delay_bits: int, unit_ns: int) -> list[str]:
    """Why the longest wait in a link's queue does not fit into ``delay_bits`` bits of ``unit_ns`` ns; empty if all do.

    The packet in service is waited for, too.
    """
    longest_ns = unit_ns << delay_bits
    found = []
    for link in plan.links:
        most_bytes = -(-longest_ns * link.rate_bps // (8 * NANOSECONDS)) - 1 - plan.frame_bytes
        if link.most_limit_bytes <= most_bytes:
            waits_s = link.longest_s(link.most_limit_bytes + plan.frame_bytes)
            if link.aggregation is not None and waits_s * NANOSECONDS >= longest_ns:
                found.append(
                    f"{link.field}.aggregation.overhead: a full buffer may be a wait of {waits_s:.6g} s in small "
                    f"bursts, and reports hold less than {longest_ns / NANOSECONDS:.6g} s; allowed: a smaller buffer "
                    "or overhead"
                )
            continue
        wait_s = (link.most_limit_bytes + plan.frame_bytes) * 8 / link.rate_bps
        found.append(
            f"{link.field}.buffer: {format_size(link.most_limit_bytes)} is a wait of {wait_s:.6g} s at "
            f"{format_rate(link.rate_bps)}, and reports hold less than {longest_ns / NANOSECONDS:.6g} s; "
            f"allowed: up to {format_size(most_bytes)}"
        )
    return found


def unreported_depths(plan: Plan) -> list[str]:
    """The same of the greatest depth in bytes."""
    return [
        f"{link.field}.buffer: is {format_size(link.most_limit_bytes)}; allowed: up to {(1 << DEPTH_BITS) - 1} B, as "
        "reports hold"
        for link in plan.links
        if link.most_limit_bytes >= 1 << DEPTH_BITS
    ]
