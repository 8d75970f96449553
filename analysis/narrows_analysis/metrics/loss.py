# SPDX-License-Identifier: Apache-2.0
"""Loss: ratios, sliding windows, runs of drops, bursts, retransmissions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


def loss_ratio(drops: float, arrivals: float) -> float | None:
    """Dropped packets over packets offered to the queue, 0..1; None if none was offered.

    Source: RFC 7680 (one-way loss), counted at the queue.
    """
    if drops < 0 or drops > arrivals:
        raise ValueError(f"{drops} drops of {arrivals} arrivals")
    return drops / arrivals if arrivals else None


def sliding_loss_ratio(
    time_s: npt.ArrayLike,
    arrivals: npt.ArrayLike,
    drops: npt.ArrayLike,
    at_s: npt.ArrayLike,
    window_s: float = 0.5,
) -> FloatArray:
    """Loss ratio (0..1) over the `window_s` before and up to each moment of `at_s`; NaN where nothing arrived.

    Args:
        time_s: times in ascending order, shape (n,): of packets, or starts of intervals.
        arrivals: packets offered at (or from) each time, shape (n,).
        drops: those of them that were dropped, shape (n,).
        at_s: ends of the windows; a window is (at - window, at].
        window_s: length of the windows in seconds.

    Source: RFC 7680, over a moving window.
    """
    time, at = np.asarray(time_s, dtype=np.float64), np.asarray(at_s, dtype=np.float64)
    if (np.diff(time) < 0).any():
        raise ValueError("times must be in ascending order")
    offered = np.concatenate(([0.0], np.cumsum(np.asarray(arrivals, dtype=np.float64))))
    lost = np.concatenate(([0.0], np.cumsum(np.asarray(drops, dtype=np.float64))))
    low, high = np.searchsorted(time, at - window_s, side="right"), np.searchsorted(time, at, side="right")
    total = offered[high] - offered[low]
    result = np.full(len(at), np.nan)
    np.divide(lost[high] - lost[low], total, out=result, where=total > 0)
    return result


def drop_runs(drops_before: npt.ArrayLike) -> Int64Array:
    """Lengths (packets) of the runs of consecutive drops of a flow.

    `drops_before` holds, for each departing packet of the flow, how many of its packets were dropped since the one
    before: arrivals and departures of two neighbouring reports give it exactly, with every packet reported.
    Source: the loss periods of RFC 3357.
    """
    drops = np.asarray(drops_before, dtype=np.int64)
    return drops[drops > 0]


def loss_episodes(time_s: npt.ArrayLike, gap_s: float) -> list[tuple[float, float, int]]:
    """Episodes of loss at the queue: (first, last, number of entries), apart by more than `gap_s` seconds.

    `time_s` holds the time of each drop, ascending; one RTT is the usual gap, since a sender reacts once an RTT.
    Source: RFC 3357 (loss periods), in time instead of sequence.
    """
    return [(float(part[0]), float(part[-1]), len(part)) for part in _split(time_s, gap_s)]


def bursts(time_s: npt.ArrayLike, gap_s: float) -> Int64Array:
    """Lengths (packets) of the trains of a flow: packets that follow each other within `gap_s` seconds.

    Source: R. Jain, S. Routhier, "Packet Trains: Measurements and a New Model for Computer Network Traffic", IEEE JSAC
    4(6), 1986.
    """
    return np.array([len(part) for part in _split(time_s, gap_s)], dtype=np.int64)


def _split(time_s: npt.ArrayLike, gap_s: float) -> list[FloatArray]:
    time = np.asarray(time_s, dtype=np.float64)
    if not len(time):
        return []
    return list(np.split(time, np.flatnonzero(np.diff(time) > gap_s) + 1))


def interleaving(flows: npt.ArrayLike) -> Int64Array:
    """Lengths (packets) of the runs of consecutive departures of one flow; `flows` names the flow of each departure.

    Source: definition; 1 everywhere where two flows alternate.
    """
    flow = np.asarray(flows)
    if not len(flow):
        return np.zeros(0, np.int64)
    return np.diff(np.concatenate(([0], np.flatnonzero(flow[1:] != flow[:-1]) + 1, [len(flow)]))).astype(np.int64)


def retransmitted(sequence: npt.ArrayLike, length: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which segments start below the highest byte seen before them: retransmissions, on a path that does not reorder.

    `sequence` is the 32-bit TCP sequence number of each data segment of one flow in time order, `length` its payload
    bytes. Source: S. Jaiswal et al., "Measurement and Classification of Out-of-Sequence Packets in a Tier-1 IP
    Backbone", INFOCOM 2003.
    """
    raw, size = np.asarray(sequence, dtype=np.int64), np.asarray(length, dtype=np.int64)
    if not len(raw):
        return np.zeros(0, np.bool_)
    position = np.concatenate(([0], np.cumsum((np.diff(raw) + (1 << 31)) % (1 << 32) - (1 << 31))))
    before = np.concatenate(([position[0]], np.maximum.accumulate(position + size)[:-1]))
    return np.asarray(position < before)


def retransmission_ratio(sequence: npt.ArrayLike, length: npt.ArrayLike) -> float | None:
    """Retransmitted segments over all data segments of a flow, 0..1; None without segments. See retransmitted."""
    marks = retransmitted(sequence, length)
    return float(marks.mean()) if len(marks) else None
