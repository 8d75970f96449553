# SPDX-License-Identifier: Apache-2.0
"""The two queues of DualPI2 (RFC 9332), each by the reports of the packets that left it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from narrows_formats.summary import QueueSummary

from narrows_analysis.aggregation.histogram import LogLinearHistogram
from narrows_analysis.records.reports import FLAG_CE_MARKED, SkippedReports, telemetry_files
from narrows_analysis.records.run_directory import Run

Int64Array = npt.NDArray[np.int64]

# By the column `queue` of a report.
NAMES = ("classic", "low latency")
_COLUMNS = ("bottleneck", "queue", "flags", "packet_length", "queue_delay")


class _Queue:
    """What has left a queue so far."""

    def __init__(self) -> None:
        self.packets = self.bytes = self.marks = self._waited = 0
        self.delay = LogLinearHistogram()

    def add(self, lengths: Int64Array, marked: npt.NDArray[np.bool_], delay: Int64Array) -> None:
        """Count packets: their lengths in bytes, whether they were marked, and their delays in time units."""
        self.packets += len(lengths)
        self.bytes += int(lengths.sum())
        self.marks += int(marked.sum())
        self._waited += int(delay.sum())
        self.delay.add_bins(*np.unique(delay, return_counts=True))
        self.delay.set_totals(self._waited, max(self.delay.maximum, int(delay.max(initial=0))))


def queue_sections(run: Run) -> list[QueueSummary]:
    """The "queues" of a link: none unless it is DualPI2. Depths in reports are of both queues together."""
    if run.bottleneck.queue_kind != "dualpi2":
        return []
    queues = [_Queue() for _ in NAMES]
    for path in telemetry_files(run, SkippedReports()):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=_COLUMNS):
                rows = {name: batch.column(name).to_numpy().astype(np.int64) for name in batch.schema.names}
                delay = np.maximum(rows["queue_delay"] - run.profile.empty_queue_delay, 0)
                marked = rows["flags"] & FLAG_CE_MARKED != 0
                for number, queue in enumerate(queues):
                    mine = (rows["bottleneck"] == run.bottleneck.index) & (rows["queue"] == number)
                    queue.add(rows["packet_length"][mine], marked[mine], delay[mine])
    return [
        {
            "name": name,
            "departures": queue.packets,
            "bytes": queue.bytes,
            "ce_marks": queue.marks,
            "queue_delay_s": queue.delay.distribution(run.profile.time_unit_s),
        }
        for name, queue in zip(NAMES, queues, strict=True)
    ]
