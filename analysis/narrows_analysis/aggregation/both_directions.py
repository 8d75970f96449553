# SPDX-License-Identifier: Apache-2.0
"""RTT, data in flight and spacing of acknowledgements of each flow at the switch, from the reports of both of its
directions, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from narrows_formats.summary import InflightSummary, RttSummary

from narrows_analysis.metrics.acks import GROUP, compressed_groups
from narrows_analysis.records.flow_table import FlowTable, reverse_keys
from narrows_analysis.records.run_directory import Run

Int64Array = npt.NDArray[np.int64]
Columns = dict[str, Int64Array]

BATCH_ROWS = 1 << 19
# Timestamps that wait for their echo, and acknowledgements for their effect, a flow; the oldest are given up.
MAX_WAITING = 1 << 16
COLUMNS = (
    "bottleneck", "flow", "departures", "timestamp", "queue_delay", "payload_length", "tcp_flags", "tcp_seq", "tcp_ack",
    "tcp_tsval", "tcp_tsecr",
)  # fmt: skip
ACK_FLAG = 0x10  # a segment without it, as a SYN, has no acknowledgement number
_SPACING = ("timestamp", "queue_delay", "departures", "payload_length")


@dataclass
class Mean:
    """Mean, smallest and largest of a stream of values."""

    count: int = 0
    total: float = 0.0
    least: float = np.inf
    greatest: float = -np.inf

    def add(self, values: npt.NDArray[np.int64]) -> None:
        """Take values into account."""
        if len(values):
            self.count += len(values)
            self.total += float(values.sum())
            self.least = min(self.least, float(values.min()))
            self.greatest = max(self.greatest, float(values.max()))

    @property
    def mean(self) -> float | None:
        """Arithmetic mean; None without values."""
        return self.total / self.count if self.count else None


def unwrapped(numbers: Int64Array, reference: int) -> Int64Array:
    """32-bit numbers as the 64-bit ones nearest to `reference` that have these last bits."""
    return reference + ((numbers - reference + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


@dataclass
class EchoTimes:
    """Time from the first packet with a timestamp value to the first in the other direction that echoes it
    (rtt.rtt_from_timestamps, batch by batch)."""

    rtt: Mean = field(default_factory=Mean)
    _sent: int | None = None
    _echoed: int | None = None
    _values: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    _times: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(
        self,
        time: Int64Array,
        value: Int64Array,
        echo_time: Int64Array,
        echo: Int64Array,
        answered: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Take the packets of one direction and the echoes of the other, each in order of time; 0: no timestamp.

        A packet that is not ``answered`` is echoed when the other end sends something anyway: no sample of a value that
        such a packet has first.
        """
        answered = np.ones(len(value), np.bool_) if answered is None else answered
        time, value, answered = time[value != 0], value[value != 0], answered[value != 0]
        echo_time, echo = echo_time[echo != 0], echo[echo != 0]
        if len(value):
            value = unwrapped(value, int(value[0]) if self._sent is None else self._sent)
            first = _rises(value, self._sent) & answered
            self._sent = int(max(value.max(), value[0] if self._sent is None else self._sent))
            self._values = np.concatenate((self._values, value[first]))[-MAX_WAITING:]
            self._times = np.concatenate((self._times, time[first]))[-MAX_WAITING:]
        if not len(echo) or self._sent is None:
            return
        echo = unwrapped(echo, self._sent)
        first = _rises(echo, self._echoed)
        self._echoed = int(max(echo.max(), echo[0] if self._echoed is None else self._echoed))
        _, sent, back = np.intersect1d(self._values, echo[first], assume_unique=True, return_indices=True)
        taken = echo_time[first][back] - self._times[sent]
        self.rtt.add(taken[taken > 0])
        waiting = self._values > self._echoed
        self._values, self._times = self._values[waiting], self._times[waiting]


def _rises(values: Int64Array, before: int | None) -> npt.NDArray[np.bool_]:
    """Which values are greater than all before them."""
    least = values[0] - 1 if before is None else before
    return values > np.maximum.accumulate(np.concatenate(([least], values[:-1])))


@dataclass
class Outstanding:
    """Bytes sent and not yet acknowledged, after each packet of either direction (rtt.inflight)."""

    size: Mean = field(default_factory=Mean)
    _sent: int | None = None
    _acknowledged: int | None = None
    # Acknowledgements that have not taken effect yet: when they passed the switch, and their numbers.
    _times: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    _acks: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, time: Int64Array, end: Int64Array, ack_time: Int64Array, ack: Int64Array, sender_rtt: int) -> None:
        """Take segments (sequence number behind their last byte) and acknowledgements, each in order of time."""
        ack_time, ack = np.concatenate((self._times, ack_time)), np.concatenate((self._acks, ack))
        # Data that arrived before a later acknowledgement may still wait in the queue, and be reported after it.
        effective = np.searchsorted(ack_time + sender_rtt, time[-1], side="right") if len(time) else 0
        effective = max(int(effective), len(ack) - MAX_WAITING)
        self._times, self._acks = ack_time[effective:], ack[effective:]
        self._count(time, end, ack_time[:effective] + sender_rtt, ack[:effective])

    def finish(self, sender_rtt: int) -> None:
        """Let all acknowledgements take effect."""
        none = np.zeros(0, np.int64)
        self._count(none, none, self._times + sender_rtt, self._acks)
        self._times, self._acks = none, none

    def _count(self, time: Int64Array, end: Int64Array, ack_time: Int64Array, ack: Int64Array) -> None:
        is_begin = self._sent is None
        if self._sent is None:
            if not len(end):
                return
            self._sent = int(end[0])
        end, ack = unwrapped(end, self._sent), unwrapped(ack, self._sent)
        if self._acknowledged is None:
            if not len(ack):
                self._sent = int(end.max(initial=self._sent))
                return
            self._acknowledged = int(ack[0])
            if is_begin:
                # Of acknowledgements in front of all data, as in a handshake, nothing is in flight.
                self._sent = min(self._sent, self._acknowledged)
        order = np.argsort(np.concatenate((time, ack_time)), kind="stable")
        sent = np.concatenate((end, np.full(len(ack), self._sent)))[order]
        confirmed = np.concatenate((np.full(len(end), self._acknowledged), ack))[order]
        sent = np.maximum.accumulate(np.concatenate(([self._sent], sent)))[1:]
        confirmed = np.maximum.accumulate(np.concatenate(([self._acknowledged], confirmed)))[1:]
        self.size.add(np.maximum(sent - confirmed, 0))
        if len(order):
            self._sent, self._acknowledged = int(sent[-1]), int(confirmed[-1])


@dataclass
class AckSpacing:
    """Groups of successive acknowledgements, and how many of them a queue compressed (acks.compressed_groups, batch by
    batch). Successive are those that left one after the other: none if only some packets are reported."""

    groups: int = 0
    compressed: int = 0
    _before: Columns = field(default_factory=lambda: {name: np.zeros(0, np.int64) for name in _SPACING})

    def add(self, back: Columns) -> None:
        """Take packets of the direction of acknowledgements, in order of their arrival."""
        rows = {name: np.concatenate((self._before[name], back[name])) for name in _SPACING}
        # A segment with data is not an acknowledgement; a group that it interrupts is none.
        rows = {name: values[rows["payload_length"] == 0] for name, values in rows.items()}
        left = rows["departures"]
        successive = left[GROUP - 1 :] - left[: -(GROUP - 1)] == GROUP - 1
        compressed = compressed_groups(rows["timestamp"] - rows["queue_delay"], rows["timestamp"], resolution=1)
        self.groups += int(successive.sum())
        self.compressed += int((successive & compressed).sum())
        self._before = {name: values[-(GROUP - 1) :] for name, values in rows.items()}

    @property
    def ratio(self) -> float | None:
        """Compressed groups over all; None where there are none."""
        return self.compressed / self.groups if self.groups else None


@dataclass
class PathMeasures:
    """What both directions of a flow tell: RTT from the switch to the receiver and back, to the sender and back, in
    time units, bytes in flight, and the spacing of acknowledgements. The sum of the two is the RTT of the path."""

    receiver: EchoTimes = field(default_factory=EchoTimes)
    sender: EchoTimes = field(default_factory=EchoTimes)
    outstanding: Outstanding = field(default_factory=Outstanding)
    acks: AckSpacing = field(default_factory=AckSpacing)

    def add(self, data: Columns, back: Columns) -> None:
        """Take a batch of both directions."""
        arrival, back_arrival = (rows["timestamp"] - rows["queue_delay"] for rows in (data, back))
        carries = data["payload_length"] > 0
        self.receiver.add(arrival, data["tcp_tsval"], back_arrival, back["tcp_tsecr"], carries)
        self.sender.add(back_arrival, back["tcp_tsval"], arrival[carries], data["tcp_tsecr"][carries])
        end = (data["tcp_seq"] + data["payload_length"]) & 0xFFFFFFFF
        acks = back["tcp_flags"] & ACK_FLAG != 0
        self.outstanding.add(
            arrival[carries], end[carries], back_arrival[acks], back["tcp_ack"][acks], self._sender_rtt()
        )
        self.acks.add(back)

    def finish(self) -> None:
        """No more batches will come."""
        self.outstanding.finish(self._sender_rtt())

    def _sender_rtt(self) -> int:
        """Smallest RTT between switch and sender so far; 0 where there is none."""
        return int(self.sender.rtt.least) if self.sender.rtt.count else 0

    def rtt_s(self, unit_s: float) -> RttSummary:
        """Smallest and mean RTT of the path in seconds; None where one side has no sample."""
        near, far = self.sender.rtt, self.receiver.rtt
        if not near.count or not far.count:
            return {"min": None, "mean": None}
        return {"min": (near.least + far.least) * unit_s, "mean": ((near.mean or 0) + (far.mean or 0)) * unit_s}

    def inflight_bytes(self) -> InflightSummary:
        """Mean over packets and largest number of bytes in flight; None without acknowledgements."""
        size = self.outstanding.size
        return {"mean": size.mean, "max": size.greatest if size.count else None}


def measure_paths(run: Run, table: FlowTable, files: Iterable[Path]) -> dict[int, PathMeasures]:
    """Measures of each flow (by its number) whose reverse direction is reported as well."""
    back = reverse_keys(run, table)
    found = {number: PathMeasures() for number in back}
    if not found:
        return {}
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(COLUMNS)):
                rows = {name: batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in COLUMNS}
                key = rows["bottleneck"] << 16 | rows["flow"]
                for number, measures in found.items():
                    mine = key == run.bottleneck.index << 16 | table.indices(number)[0]
                    theirs = np.isin(key, [bottleneck << 16 | index for bottleneck, index in back[number]])
                    if mine.any() or theirs.any():
                        measures.add(_of(rows, mine), _of(rows, theirs))
    for measures in found.values():
        measures.finish()
    return found


def _of(rows: Columns, which: npt.NDArray[np.bool_]) -> Columns:
    chosen = {name: values[which] for name, values in rows.items()}
    order = np.argsort(chosen["timestamp"] - chosen["queue_delay"], kind="stable")
    return {name: values[order] for name, values in chosen.items()}
