# SPDX-License-Identifier: Apache-2.0
"""The model by Ware et al. (IMC 2019) of BBRv1 beside loss-based flows."""

from __future__ import annotations

import math
from dataclasses import dataclass

PROBE_RTT_S = 0.2  # how long BBR holds its window at four packets ...
PROBE_EVERY_S = 10.0  # ... and how often
PROBE_PACKETS = 4


@dataclass(frozen=True)
class Expected:
    """The model's predictions: the share of the link of all BBR flows together, and the min RTT (s) that they see."""

    share: float
    least_rtt_s: float


def expect(flows: int, rate_bps: float, rtt_s: float, buffer_bytes: float, frame_bytes: int) -> Expected:
    """The share of ``flows`` BBRv1 flows together, however many loss-based flows there are.

    NaN for buffers of one BDP or less, which the model does not cover.
    Source: R. Ware, M. Mukerjee, S. Seshan, J. Sherry, "Modeling BBR's Interactions with Loss-Based Congestion
    Control", IMC 2019.
    """
    bdp = rate_bps * rtt_s / 8
    in_bdp = buffer_bytes / bdp
    packets = buffer_bytes / frame_bytes
    rate_packets = rate_bps / (8 * frame_bytes)
    if in_bdp <= 1:
        return Expected(math.nan, math.nan)
    loss_based = max(0.0, 0.5 - 1 / (2 * in_bdp) - PROBE_PACKETS * flows / packets)
    # A probe takes the time to drain a full queue, a wait, and a round trip to recover.
    probing = (packets / rate_packets + PROBE_RTT_S + rtt_s) / PROBE_EVERY_S
    # A probe finds the packets that the loss-based flows keep in the queue, and a few of BBR's own.
    found = loss_based * packets + PROBE_PACKETS * flows
    return Expected(share=min(1.0, 1 - loss_based) * max(0.0, 1 - probing), least_rtt_s=rtt_s + found / rate_packets)
