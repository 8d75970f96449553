# SPDX-License-Identifier: Apache-2.0
"""Stored telemetry reports: which files can be read, and the clock of the experiment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats.units import NANOSECONDS

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import Run

Int64Array = npt.NDArray[np.int64]

COLUMNS = (
    "flags", "bottleneck", "sample_shift", "flow", "packet_length", "signature", "sequence", "arrivals", "departures",
    "loss_drops", "queue_delay", "enqueue_depth", "dequeue_depth", "timestamp", "epoch", "ecn", "protocol",
    "payload_length", "tcp_flags", "tcp_seq",
)  # fmt: skip
FLAG_CE_MARKED = 0x01
# Two bits, the ECN field with which the packet arrived.
FLAGS_ARRIVAL_ECN, ARRIVAL_ECN_SHIFT = 0x18, 3


@dataclass
class SkippedReports:
    """What was read and not used, by reason."""

    duplicates: int = 0
    late: int = 0
    implausible: int = 0
    unreadable_files: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Reports skipped."""
        return self.duplicates + self.late + self.implausible


class ReportClock:
    """Turns switch timestamps, which wrap, into seconds from the experiment's origin."""

    def __init__(self, run: Run, first_timestamp: int) -> None:
        """Take the origin from run.json, or from the first report where run.json has none."""
        self.unit_s = run.profile.time_unit_s
        self._modulus = 1 << run.profile.timestamp_bits
        if run.clock_origin_ns is None:
            self.origin = first_timestamp
        else:
            self.origin = round(run.clock_origin_ns / NANOSECONDS / self.unit_s)
        self.origin %= self._modulus

    def ticks(self, timestamps: Int64Array) -> Int64Array:
        """Time units since the origin; a timestamp up to half a wrap before the origin is negative."""
        half = self._modulus >> 1
        return (timestamps - self.origin + half) % self._modulus - half


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
    """Smallest and largest timestamp of each row group, in time units, from Parquet statistics where there are any."""
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
