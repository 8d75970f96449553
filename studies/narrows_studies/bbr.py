# SPDX-License-Identifier: Apache-2.0
"""The models and windows of all BBR flows together, split into the terms that Linux computes them from.

A flow's window is ``cwnd_gain`` x bandwidth x min RTT, plus (since Linux 5.1) a term for ACK aggregation, plus a budget
for what the sender hands over at once (net/ipv4/tcp_bbr.c: ``bbr_set_cwnd``, ``bbr_ack_aggregation_cwnd``,
``bbr_quantization_budget``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from narrows_analysis.metrics.throughput import HEADER_BYTES
from narrows_formats.run_record import LinkRecord

from narrows_studies.probes import PROBE_WINDOW_BYTES

FloatArray = npt.NDArray[np.float64]

PACING_SHIFT = 10  # sk_pacing_shift: a batch lasts about a millisecond
GSO_BYTES = 65_535
SLOW_BPS = 1_200_000  # below this a single segment is handed over at once
MAX_SEGMENTS = 0x7F
ESTIMATE_S = 0.5
TOO_LONG = 1.2  # times the base RTT: more than a few packets were in the queue when BBR last looked
# Rounding up to a segment and to an even number, and two segments in one of the eight phases of a cycle.
ROUNDING_SEGMENTS = 0.5 + 0.5 + 2 / 8


def bbr_state(sockets: pd.DataFrame, link: LinkRecord) -> dict[str, float]:
    """Sums over all BBR flows, in L2 bytes, over BDP and link rate; outside RTT probes.

    A flow that is read less often than others, because it lived shorter, counts less. Empty without BBR flows.
    """
    bbr = sockets[sockets["bbr_bandwidth_bps"] > 0]
    mine = bbr[bbr["cwnd_bytes"] > PROBE_WINDOW_BYTES]
    if not len(mine) or not link.bdp_bytes or not link.rate_bps:
        return {}
    payload = link.mtu_frame_bytes - HEADER_BYTES
    on_the_wire = link.mtu_frame_bytes / payload
    readings = bbr.groupby("flow").size()
    weight = readings / readings.max()

    def total(values: FloatArray) -> float:
        means = pd.Series(values, index=mine["flow"].to_numpy()).groupby(level=0).mean()
        return float((means * weight.reindex(means.index)).sum()) * on_the_wire

    bandwidth = mine["bbr_bandwidth_bps"].to_numpy(dtype=np.float64)
    least_rtt = mine["bbr_min_rtt_s"].to_numpy(dtype=np.float64)
    window = mine["cwnd_bytes"].to_numpy(dtype=np.float64)
    pacing = mine["pacing_rate_bps"].to_numpy(dtype=np.float64)
    model = mine["bbr_cwnd_gain"].to_numpy(dtype=np.float64) * bandwidth / 8 * least_rtt
    budget = send_budget_bytes(pacing, payload)
    return {
        "bbr_bandwidth_sum": total(bandwidth) / link.rate_bps,
        "bbr_pacing_sum": total(pacing) / link.rate_bps,
        "bbr_window_sum_bdp": total(window) / link.bdp_bytes,
        "bbr_model_window_bdp": total(model) / link.bdp_bytes,
        "bbr_budget_bdp": total(budget) / link.bdp_bytes,
        "bbr_aggregation_bdp": total(window - model - budget) / link.bdp_bytes,
        "bbr_inflight_sum_bdp": total(mine["inflight_bytes"].to_numpy(dtype=np.float64)) / link.bdp_bytes,
        "bbr_min_rtt_s": float(least_rtt.mean()),
    }


def loss_by_estimate(sockets: pd.DataFrame, flows: pd.DataFrame, rtt_s: float | None) -> dict[str, float]:
    """Loss at the queue while BBR's flows overestimate the min RTT, and while they do not.

    In windows of 0.5 s, by the mean of their estimates; empty unless there are windows of both kinds.

    Args:
        sockets: readings in the measured time.
        flows: intervals of all flows in that time, with arrivals and drops.
        rtt_s: the base RTT.
    """
    bbr = sockets[sockets["bbr_bandwidth_bps"] > 0]
    if not len(bbr) or not rtt_s:
        return {}
    estimates = bbr.groupby((bbr["time_s"] / ESTIMATE_S).astype(int))["bbr_min_rtt_s"].mean()
    counts = flows.groupby((flows["time_s"] / ESTIMATE_S).astype(int))[["arrivals", "drops"]].sum()
    both = counts.join(estimates, how="inner")
    wrong = both["bbr_min_rtt_s"] > TOO_LONG * rtt_s
    parts = {"loss_after_wrong_probe": both[wrong], "loss_after_right_probe": both[~wrong]}
    if any(part["arrivals"].sum() == 0 for part in parts.values()):
        return {}
    return {name: float(part["drops"].sum() / part["arrivals"].sum()) for name, part in parts.items()}


def send_budget_bytes(pacing_rate_bps: FloatArray, payload_bytes: int) -> FloatArray:
    """The window's allowance for the sender's batches: three of them, and what rounding adds on average.

    Source: Linux, net/ipv4/tcp_bbr.c, ``bbr_tso_segs_goal`` and ``bbr_quantization_budget``.
    """
    at_once = np.minimum(pacing_rate_bps / 8 / (1 << PACING_SHIFT), GSO_BYTES)
    least = np.where(pacing_rate_bps < SLOW_BPS, 1, 2)
    segments = np.minimum(np.maximum(np.floor(at_once / payload_bytes), least), MAX_SEGMENTS)
    return np.asarray((3 * segments + ROUNDING_SEGMENTS) * payload_bytes, dtype=np.float64)
