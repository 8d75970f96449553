# SPDX-License-Identifier: Apache-2.0
"""The model of BBRv1 beside loss-based flows of Ware et al. (IMC 2019)."""

from __future__ import annotations

PROBE_RTT_S = 0.2  # for so long BBR holds its window at four packets ...
PROBE_EVERY_S = 10.0  # ... every so often
PROBE_PACKETS = 4


def expected_bbr_share(flows: int, rate_bps: float, rtt_s: float, buffer_bytes: float, frame_bytes: int) -> float:
    """Fraction of the link that ``flows`` BBRv1 flows take together, however many loss-based flows there are.

    NaN for buffers that hold one BDP or less, of which the model says nothing.
    Source: R. Ware, M. Mukerjee, S. Seshan, J. Sherry, "Modeling BBR's Interactions with Loss-Based Congestion
    Control", IMC 2019.
    """
    bdp = rate_bps * rtt_s / 8
    in_bdp = buffer_bytes / bdp
    packets = buffer_bytes / frame_bytes
    rate_packets = rate_bps / (8 * frame_bytes)
    if in_bdp <= 1:
        return float("nan")
    loss_based = 0.5 - 1 / (2 * in_bdp) - PROBE_PACKETS * flows / packets
    # While it probes, BBR must first drain a full queue, then waits, then needs a round trip to be back.
    probing = (packets / rate_packets + PROBE_RTT_S + rtt_s) / PROBE_EVERY_S
    return min(1.0, 1 - max(0.0, loss_based)) * max(0.0, 1 - probing)
