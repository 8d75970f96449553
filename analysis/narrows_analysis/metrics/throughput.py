# SPDX-License-Identifier: Apache-2.0
"""Rates: throughput, goodput and utilization in any interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Size = TypeVar("Size", float, npt.NDArray[np.float64])

# Ethernet 14, IPv4 20, TCP 20 and its timestamp option 12 bytes.
HEADER_BYTES = 66


def rate(size_bytes: Size, duration_s: float) -> Size:
    """Bits per second of `size_bytes`, of one flow or an array of them, in `duration_s` seconds.

    L2 bytes give throughput, payload bytes that are delivered for the first time give goodput (RFC 2647, section 3.17).
    Source: definition. A duration that is not positive raises ValueError.
    """
    if not duration_s > 0:
        raise ValueError(f"a duration of {duration_s} s is not positive")
    return size_bytes * 8 / duration_s


def mean_rate(time_s: npt.ArrayLike, size_bytes: npt.ArrayLike, start_s: float, end_s: float) -> float:
    """Bits per second of the packets with start_s <= time < end_s, over that interval.

    `size_bytes` decides the layer, as for `rate`. An empty interval raises ValueError.
    """
    if not end_s > start_s:
        raise ValueError(f"the interval {start_s}..{end_s} s is empty")
    time, size = np.asarray(time_s, dtype=np.float64), np.asarray(size_bytes, dtype=np.float64)
    return rate(float(size[(time >= start_s) & (time < end_s)].sum()), end_s - start_s)


def rate_series(
    time_s: npt.ArrayLike, size_bytes: npt.ArrayLike, interval_s: float, start_s: float, end_s: float
) -> tuple[FloatArray, FloatArray]:
    """Start (s) and rate (bit/s) of each whole interval of `interval_s` from `start_s` up to `end_s`; see mean_rate."""
    if not interval_s > 0:
        raise ValueError(f"an interval of {interval_s} s is not positive")
    count = max(0, int(np.floor((end_s - start_s) / interval_s + 1e-9)))
    starts = start_s + np.arange(count, dtype=np.float64) * interval_s
    index = np.floor((np.asarray(time_s, dtype=np.float64) - start_s) / interval_s + 1e-9).astype(np.int64)
    inside = (index >= 0) & (index < count)
    sizes = np.asarray(size_bytes, dtype=np.float64)[inside]
    return starts, np.bincount(index[inside], weights=sizes, minlength=count)[:count] * 8 / interval_s


def group_rates(rates_bps: npt.ArrayLike, groups: Sequence[str]) -> dict[str, FloatArray]:
    """Sum of the flows' rates (bit/s) of each group: `rates_bps` has flows as rows; NaN (not active) counts as 0.

    Source: definition.
    """
    rates = np.nan_to_num(np.asarray(rates_bps, dtype=np.float64))
    names = np.asarray(groups)
    return {name: rates[names == name].sum(axis=0) for name in dict.fromkeys(groups)}


def utilization(size_bytes: float, rate_bps: float, duration_s: float) -> float:
    """Fraction (0..1) of a link's capacity (`rate_bps` over `duration_s`) that `size_bytes` took; same layer for both.

    Source: definition (RFC 5136, link utilization, taken at L2).
    """
    if not (rate_bps > 0 and duration_s > 0):
        raise ValueError("rate and duration must be positive")
    return size_bytes * 8 / (rate_bps * duration_s)


def goodput_limit(rate_bps: float, frame_bytes: int = 1514, header_bytes: int = HEADER_BYTES) -> float:
    """Largest goodput (bit/s) of full-size segments on a link of `rate_bps` L2: 95.6 % for 1448 bytes in 1514.

    Source: definition, with the header sizes of IPv4 (RFC 791) and of TCP with timestamps (RFC 9293, RFC 7323).
    """
    return rate_bps * (frame_bytes - header_bytes) / frame_bytes


def fair_goodput(rate_bps: float, frame_bytes: int, flows: int) -> float:
    """Goodput (bit/s) of each of `flows` flows that share a link of `rate_bps` L2 equally, their frames full.

    Source: definition of max-min fairness at one link, see `goodput_limit`.
    """
    return goodput_limit(rate_bps, frame_bytes) / flows
