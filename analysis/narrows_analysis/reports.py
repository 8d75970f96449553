# SPDX-License-Identifier: Apache-2.0
"""Telemetry reports as NumPy columns, batch by batch, in the units and on the clock of the experiment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from narrows_analysis.errors import AnalysisError
from narrows_analysis.run_directory import NANOSECONDS, Run

Int64Array = npt.NDArray[np.int64]

BATCH_ROWS = 1 << 19
COLUMNS = (
    "flags", "bottleneck", "sample_shift", "flow", "packet_length", "signature", "sequence", "arrivals", "departures",
    "loss_drops", "queue_delay", "enqueue_depth", "dequeue_depth", "timestamp", "epoch", "ecn", "protocol",
    "payload_length", "tcp_flags", "tcp_seq",
)  # fmt: skip
FLAG_CE_MARKED = 0x01
FLAG_COLLISION = 0x02
PROTOCOL_TCP = 6
TCP_FIN = 0x01
TCP_SYN = 0x02


@dataclass
class SkippedReports:
    """What was read and not used, by reason."""

    duplicates: int = 0
    late: int = 0
    unreadable_files: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Reports skipped."""
        return self.duplicates + self.late


class ReportClock:
    """Turns switch timestamps, which wrap, into seconds from the experiment's origin."""

    def __init__(self, run: Run, first_timestamp: int) -> None:
        """Take the origin from run.json, or from the first report where run.json has none."""
        self.unit_s = run.profile.time_unit_s
        self._modulus = 1 << run.profile.timestamp_bits
        if run.clock_origin_ns is None:
            self._origin = first_timestamp
        else:
            self._origin = round(run.clock_origin_ns * NANOSECONDS / self.unit_s)
        self._origin %= self._modulus

    def ticks(self, timestamps: Int64Array) -> Int64Array:
        """Time units since the origin; a timestamp up to half a wrap before the origin is negative."""
        half = self._modulus >> 1
        return (timestamps - self._origin + half) % self._modulus - half


def telemetry_files(run: Run, skipped: SkippedReports) -> list[Path]:
    """Report files that can be read; others, such as one that a killed collector left open, are noted in `skipped`."""
    usable = []
    for path in run.telemetry_files:
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowInvalid, OSError):
            skipped.unreadable_files.append(path.name)
            continue
        missing = [name for name in COLUMNS if name not in schema.names]
        if missing:
            raise AnalysisError(f"{path}: no column {', '.join(missing)}; not telemetry of this version of Narrows")
        usable.append(path)
    return usable


def timestamp_extremes(files: list[Path]) -> Int64Array:
    """Least and greatest timestamp of each row group, in time units, from Parquet statistics where there are any."""
    extremes: list[int] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            column = file.schema_arrow.get_field_index("timestamp")
            for group in range(file.num_row_groups):
                metadata = file.metadata.row_group(group)
                if not metadata.num_rows:
                    continue
                statistics = metadata.column(column).statistics
                if statistics is not None and statistics.has_min_max:
                    low, high = int(statistics.min), int(statistics.max)
                else:
                    values = file.read_row_group(group, columns=["timestamp"]).column(0).to_numpy()
                    low, high = int(values.min()), int(values.max())
                extremes += [low, high]
    return np.array(extremes, dtype=np.int64)


def read_batches(
    files: list[Path], columns: tuple[str, ...] = COLUMNS, rows: int = BATCH_ROWS
) -> Iterator[dict[str, Int64Array]]:
    """Yield the columns of at most `rows` reports at a time, widened to int64, in the order received."""
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                yield {name: batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in columns}


class ReportOrder:
    """Puts a bottleneck's reports in departure order and counts what is lost, duplicated or too late to use."""

    def __init__(self) -> None:
        """Start before the first report."""
        self._last: int | None = None
        self.reports = 0
        self.lost = 0
        self.skipped = SkippedReports()
        self.sample_shift: int | None = None
        self.missing_positions: Int64Array = np.zeros(0, np.int64)
        self.positions: Int64Array = np.zeros(0, np.int64)

    @property
    def unusable(self) -> int:
        """Reports that should have counted and did not: missing or skipped. A late report is missing before it comes,
        so the greater of both numbers is taken."""
        return max(self.lost, self.skipped.total)

    def apply(self, batch: dict[str, Int64Array]) -> dict[str, Int64Array]:
        """Return the usable rows of `batch` in departure order; afterwards `missing_positions` tells before which
        rows reports are missing, one entry a missing stretch, with `missing_counts` reports each, and `positions` holds
        the rows' unwrapped sequence numbers."""
        sequence = batch["sequence"]
        if not len(sequence):
            self.positions = np.zeros(0, np.int64)
            self.missing_positions = self.missing_counts = np.zeros(0, np.int64)
            return batch
        reference = int(sequence[0]) if self._last is None else self._last & 0xFFFFFFFF
        base = int(sequence[0]) if self._last is None else self._last
        position = base + ((sequence - reference + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
        step = np.diff(position)
        usable = np.arange(len(position))
        if (step <= 0).any() or (self._last is not None and position[0] <= self._last):
            order = np.argsort(position, kind="stable")
            ordered = position[order]
            late = np.zeros(len(ordered), np.bool_) if self._last is None else ordered <= self._last
            duplicate = np.concatenate(([False], ordered[1:] == ordered[:-1])) & ~late
            self.skipped.late += int(late.sum())
            self.skipped.duplicates += int(duplicate.sum())
            usable = order[~late & ~duplicate]
            batch = {name: values[usable] for name, values in batch.items()}
            position = position[usable]
        self._count(position, batch["sample_shift"])
        self.positions = position
        return batch

    def _count(self, position: Int64Array, shift: Int64Array) -> None:
        self.missing_positions = self.missing_counts = np.zeros(0, np.int64)
        if not len(position):
            return
        previous = np.concatenate(([position[0] - 1 if self._last is None else self._last], position[:-1]))
        missing = (position - previous + (np.int64(1) << shift) - 1 >> shift) - 1
        if self._last is None:
            missing[0] = 0
        self.missing_positions = np.flatnonzero(missing > 0)
        self.missing_counts = missing[self.missing_positions]
        self.lost += int(self.missing_counts.sum())
        self.reports += len(position)
        self.sample_shift = int(shift[-1])
        self._last = int(position[-1])
