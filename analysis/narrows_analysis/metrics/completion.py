# SPDX-License-Identifier: Apache-2.0
"""Flow completion time and slowdown."""

from __future__ import annotations

from narrows_analysis.metrics.throughput import HEADER_BYTES


def completion_time(first_arrival_s: float, last_data_departure_s: float) -> float:
    """Seconds from a flow's first packet at the switch to its last data packet leaving it.

    Half an RTT on either side, which the switch does not see, is not in it.
    Source: N. Dukkipati, N. McKeown, "Why Flow-Completion Time is the Right Metric for Congestion Control", ACM CCR
    36(1), 2006, at the switch.
    """
    if last_data_departure_s < first_arrival_s:
        raise ValueError("a flow cannot end before it starts")
    return last_data_departure_s - first_arrival_s


def ideal_completion_time(
    size_bytes: int, rate_bps: float, rtt_s: float, frame_bytes: int = 1514, header_bytes: int = HEADER_BYTES
) -> float:
    """Seconds that a flow of `size_bytes` payload needs on an empty link of `rate_bps` (L2), as completion_time counts.

    One RTT for the handshake, then its frames back to back. Source: the normalisation of M. Alizadeh et al., "pFabric:
    Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013.
    """
    if not (size_bytes > 0 and rate_bps > 0 and rtt_s >= 0):
        raise ValueError("size and rate must be positive, the RTT not negative")
    payload = frame_bytes - header_bytes
    frames = -(-size_bytes // payload)
    return rtt_s + (size_bytes + frames * header_bytes) * 8 / rate_bps


def slowdown(completion_s: float, ideal_s: float) -> float:
    """Completion time over the ideal one, 1 at best. Source: pFabric, as ideal_completion_time."""
    if not ideal_s > 0:
        raise ValueError("the ideal completion time must be positive")
    return completion_s / ideal_s
