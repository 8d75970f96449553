# SPDX-License-Identifier: Apache-2.0
"""Which payload bytes of each flow have already left the bottleneck, so that a byte counts as goodput only once.

All flows share one axis of 64-bit integers, 2^44 positions a flow, so that one sorted array serves every flow and a
batch of a million reports is a few vector operations.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

_FLOW_BITS = 44
_ORIGIN = 1 << 33
MAX_FLOWS = 1 << (62 - _FLOW_BITS)


def _intersect(
    a_start: Int64Array, a_end: Int64Array, b_start: Int64Array, b_end: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Intersection of two sets of disjoint half-open intervals, sorted."""
    points = np.concatenate((a_start, b_start, a_end, b_end))
    steps = np.concatenate((np.ones(len(a_start) + len(b_start)), -np.ones(len(a_end) + len(b_end)))).astype(np.int64)
    order = np.argsort(points, kind="stable")
    points = points[order]
    covered = np.cumsum(steps[order]) == 2
    keep = covered[:-1] & (points[1:] > points[:-1])
    return points[:-1][keep], points[1:][keep]


class SequenceSpace:
    """Bytes not yet seen of every flow's sequence space."""

    def __init__(self) -> None:
        """Start with no flow."""
        self._start = np.zeros(0, dtype=np.int64)
        self._end = np.zeros(0, dtype=np.int64)
        self._flows = 0
        self._last_sequence = np.zeros(0, dtype=np.int64)
        self._last_position = np.zeros(0, dtype=np.int64)
        self._frontier = np.zeros(0, dtype=np.int64)

    def _grow(self, flows: int) -> None:
        if flows > MAX_FLOWS:
            raise ValueError(f"{flows} flows: at most {MAX_FLOWS} can be followed")
        new = np.arange(self._flows, flows, dtype=np.int64) << _FLOW_BITS
        self._start = np.concatenate((self._start, new))
        self._end = np.concatenate((self._end, new + (1 << _FLOW_BITS)))
        self._last_sequence = np.concatenate((self._last_sequence, np.full(len(new), -1)))
        self._last_position = np.concatenate((self._last_position, new + _ORIGIN))
        self._frontier = np.concatenate((self._frontier, new))
        self._flows = flows

    def _positions(self, flow: Int64Array, sequence: Int64Array) -> Int64Array:
        """Unwrap 32-bit sequence numbers; rows grouped by flow, in time order inside a flow."""
        first = np.concatenate(([True], flow[1:] != flow[:-1]))
        heads = flow[first]
        previous = np.concatenate(([0], sequence[:-1]))
        known = self._last_sequence[heads]
        previous[first] = np.where(known < 0, sequence[first], known)
        step = ((sequence - previous + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
        total = np.cumsum(step)
        starts = np.flatnonzero(first)
        base = self._last_position[heads] - (total[starts] - step[starts])
        position = total + np.repeat(base, np.diff(np.append(starts, len(flow))))
        last = np.append(starts[1:], len(flow)) - 1
        self._last_sequence[heads] = sequence[last]
        self._last_position[heads] = position[last]
        return np.asarray(position, dtype=np.int64)

    def _seen_below(self, position: Int64Array, missing_before: Int64Array) -> Int64Array:
        """Number of missing bytes below each position."""
        index = np.searchsorted(self._start, position, side="right") - 1
        inside = np.clip(position - self._start[index], 0, self._end[index] - self._start[index])
        return np.asarray(np.where(index < 0, 0, missing_before[index] + inside), dtype=np.int64)

    def add(
        self, flow: Int64Array, sequence: Int64Array, length: Int64Array
    ) -> tuple[Int64Array, npt.NDArray[np.bool_], Int64Array]:
        """Account segments, rows grouped by flow and in time order inside a flow.

        Args:
            flow: dense flow number of each segment.
            sequence: TCP sequence number (32 bit) of its first payload byte.
            length: payload bytes, each at least 1.

        Returns:
            Bytes of each segment that were not seen before; whether it starts below the highest byte seen of its flow
            before it (a retransmission, where the path does not reorder); by how many bytes it raised that highest.
        """
        if not len(flow):
            return np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0, np.int64)
        if int(flow.max()) >= self._flows:
            self._grow(int(flow.max()) + 1)
        start = self._positions(flow, sequence)
        end = start + length

        # Flows occupy increasing ranges, so one running maximum over all rows never leaks from a flow into the next.
        known = self._frontier[flow]
        first_ever = known == flow << _FLOW_BITS
        running = np.maximum.accumulate(np.maximum(end, known))
        before = np.concatenate(([0], running[:-1]))
        before = np.maximum(before, known)
        fresh = first_ever & np.concatenate(([True], flow[1:] != flow[:-1]))
        retransmitted = (start < before) & ~fresh
        advance = np.where(fresh, length, np.maximum(end - before, 0))
        last = np.append(flow[1:] != flow[:-1], True)
        self._frontier[flow[last]] = running[last]

        order = np.argsort(start, kind="stable")
        sorted_start, sorted_end = start[order], end[order]
        reach = np.maximum.accumulate(sorted_end)
        low = np.maximum(sorted_start, np.concatenate(([np.iinfo(np.int64).min], reach[:-1])))
        high = np.maximum(sorted_end, low)
        sizes = self._end - self._start
        missing_before = np.cumsum(sizes) - sizes
        new = np.zeros(len(flow), np.int64)
        new[order] = self._seen_below(high, missing_before) - self._seen_below(low, missing_before)

        # Union of the batch, then its complement, taken out of what was missing.
        gap = np.flatnonzero(sorted_start[1:] > reach[:-1])
        seen_start = sorted_start[np.concatenate(([0], gap + 1))]
        seen_end = reach[np.append(gap, len(reach) - 1)]
        limit = np.int64(self._flows) << _FLOW_BITS
        self._start, self._end = _intersect(
            self._start, self._end, np.concatenate(([np.int64(0)], seen_end)), np.append(seen_start, limit)
        )
        return new, retransmitted, advance
