# SPDX-License-Identifier: Apache-2.0
"""The two queues of DualPI2 (RFC 9332), each by the reports of the packets that left it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from narrows_formats.summary import Distribution, QueueSummary

from narrows_analysis.aggregation.accumulate import Extremes, Grid
from narrows_analysis.aggregation.histogram import LogLinearHistogram
from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.records.flow_table import OTHER, FlowTable
from narrows_analysis.records.reports import ARRIVAL_ECN_SHIFT, FLAG_CE_MARKED, FLAGS_ARRIVAL_ECN, ReportClock
from narrows_analysis.records.run_directory import Run

Int64Array = npt.NDArray[np.int64]
Rows = dict[str, Int64Array]

# By the column `queue` of a report.
NAMES = ("classic", "low latency")
_COLUMNS = ("bottleneck", "queue", "flags", "packet_length", "queue_delay", "timestamp", "flow", "signature")
_SUMS = ("departures", "bytes", "ce_marks", "delay_ticks", "depths", "depth_bytes")
_NONE: Distribution = {"mean": None, "p50": None, "p99": None, "max": None}


class _Distribution:
    """Values of a quantity so far."""

    def __init__(self) -> None:
        self.values, self._sum = LogLinearHistogram(), 0

    def add(self, values: Int64Array) -> None:
        self._sum += int(values.sum())
        self.values.add_bins(*np.unique(values, return_counts=True))
        self.values.set_totals(self._sum, max(self.values.maximum, int(values.max(initial=0))))


class _Behind:
    """What departures leave behind in a queue that is first in, first out: the packets that came before them and leave
    after them. Those that it drops at its head have no report and are not among them."""

    def __init__(self) -> None:
        # Arrivals, departures and lengths of packets that leave no later than all that is known of arrivals.
        self._open = np.zeros((3, 0), np.int64)

    def add(self, arrival: Int64Array, departure: Int64Array, length: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Take packets in order of departure; answer departures and bytes left behind, where both are known now."""
        rows = np.concatenate((self._open, [arrival, departure, length]), axis=1)
        arrived = np.searchsorted(rows[0], rows[1], side="right")
        known = int(np.searchsorted(arrived, rows.shape[1]))
        self._open = rows[:, known:]
        return self._of(rows, arrived, known)

    def finish(self) -> tuple[Int64Array, Int64Array]:
        """The same of the last packets, behind which none came."""
        rows, self._open = self._open, self._open[:, :0]
        return self._of(rows, np.searchsorted(rows[0], rows[1], side="right"), rows.shape[1])

    @staticmethod
    def _of(rows: Int64Array, arrived: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
        so_far = np.cumsum(rows[2])
        return rows[1, :count], so_far[arrived[:count] - 1] - so_far[:count]


class DualQueue:
    """What reports say of both queues of a link, in one pass over them, in intervals as the link's.

    `arrival_ecn` counts packets by flow (rows, the last one all other traffic) and by the ECN field with which they
    came (columns). Rows of the others are the queues, in the order of `NAMES`; depths are known where each packet has
    a report.
    """

    def __init__(self, run: Run, table: FlowTable, aggregation: Aggregation, clock: ReportClock) -> None:
        """Start empty, for `run` at its link."""
        bins = aggregation.queue.bins
        self.run, self.complete, self.interval_s = run, aggregation.complete, aggregation.intervals.queue_s
        self.sampled = bool(aggregation.order.sample_shift)
        self.arrival_ecn = np.zeros((len(run.flows) + 1, 4), np.int64)
        self.sums = Grid(_SUMS, len(NAMES), bins)
        self.delay, self.depth = Extremes(len(NAMES), bins), Extremes(len(NAMES), bins)
        self._table, self._clock = table, clock
        self._ticks = round(self.interval_s / clock.unit_s)
        self._delays, self._depths = ([_Distribution() for _ in NAMES] for _ in range(2))
        self._behind = [_Behind() for _ in NAMES]

    @property
    def unit_s(self) -> float:
        """Of delays, in seconds."""
        return self._clock.unit_s

    def add(self, rows: Rows) -> None:
        """Take reports of the link, in order of departure."""
        number = self._table.numbers(rows["flow"], rows["signature"])
        number = np.where(number == OTHER, len(self.run.flows), number)
        found = (rows["flags"] & FLAGS_ARRIVAL_ECN) >> ARRIVAL_ECN_SHIFT
        counts = np.bincount(number * 4 + found, minlength=self.arrival_ecn.size)
        self.arrival_ecn += counts.reshape(self.arrival_ecn.shape)
        queue, left = rows["queue"], self._clock.ticks(rows["timestamp"])
        delay = np.maximum(rows["queue_delay"] - self.run.profile.empty_queue_delay, 0)
        column = left // self._ticks
        self.sums.add(
            queue, column, departures=np.ones_like(queue), bytes=rows["packet_length"], delay_ticks=delay,
            ce_marks=rows["flags"] & FLAG_CE_MARKED != 0,
        )  # fmt: skip
        self.delay.add(queue, column, delay)
        for number_of_queue in range(len(NAMES)):
            mine = queue == number_of_queue
            self._delays[number_of_queue].add(delay[mine])
            if self.complete:
                times = (left - rows["queue_delay"])[mine], left[mine]
                self._deep(number_of_queue, *self._behind[number_of_queue].add(*times, rows["packet_length"][mine]))

    def finish(self) -> None:
        """Let what the last packets left behind be known."""
        for number, behind in enumerate(self._behind):
            self._deep(number, *behind.finish())

    def _deep(self, number: int, left: Int64Array, size: Int64Array) -> None:
        row, column = np.full_like(left, number), left // self._ticks
        self.sums.add(row, column, depths=np.ones_like(size), depth_bytes=size)
        self.depth.add(row, column, size)
        self._depths[number].add(size)

    def sections(self) -> list[QueueSummary]:
        """The "queues" of a link's summary; none of a sample, whose packets are not those of the queues."""
        if self.sampled:
            return []
        return [
            {
                "name": name,
                "departures": round(self.sums.totals["departures"][row]),
                "bytes": round(self.sums.totals["bytes"][row]),
                "ce_marks": round(self.sums.totals["ce_marks"][row]),
                "queue_bytes": self._depths[row].values.distribution(1.0) if self.complete else _NONE,
                "queue_delay_s": self._delays[row].values.distribution(self.unit_s),
            }
            for row, name in enumerate(NAMES)
        ]


def measure_dual_queue(
    run: Run, table: FlowTable, aggregation: Aggregation, clock: ReportClock, files: Sequence[Path]
) -> DualQueue | None:
    """Both queues of a run's link, from its report files; None unless it is DualPI2."""
    if run.bottleneck.queue_kind != "dualpi2":
        return None
    found = DualQueue(run, table, aggregation, clock)
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=_COLUMNS):
                rows = {name: batch.column(name).to_numpy().astype(np.int64) for name in batch.schema.names}
                mine = rows["bottleneck"] == run.bottleneck.index
                found.add({name: values[mine] for name, values in rows.items()})
    found.finish()
    return found
