# SPDX-License-Identifier: Apache-2.0
"""Every report of a run as it was stored, with the times of its packet and the drops that it shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from narrows_formats.files import FLOW_KEYS, TELEMETRY
from narrows_formats.units import NANOSECONDS

from narrows_analysis.errors import AnalysisError
from narrows_analysis.interchange.rebuilt import FlowKey
from narrows_analysis.records.flow_table import read_keys
from narrows_analysis.records.reports import ReportClock, SkippedReports, telemetry_files, timestamp_extremes
from narrows_analysis.records.run_directory import Run

ROWS = 1 << 16
COUNTER = (1 << 32) - 1
# Bottleneck, flow index and signature.
Key = tuple[int, int, int]


@dataclass(frozen=True)
class Report:
    """One report: ``arrived_ns`` and ``left_ns`` from the experiment's start; ``fields`` are its columns.

    ``drops`` and ``loss_drops`` are the packets of its flow index that the queue and loss emulation dropped between
    the arrivals of the packet of the report before and of this one.
    """

    fields: dict[str, int]
    arrived_ns: int
    left_ns: int
    drops: int
    loss_drops: int


def raw_reports(run: Run) -> Iterator[Report]:
    """Reports in the order received, which is that of departure at each bottleneck.

    Counters start from zero with the run, but for a flow that carries them in: one whose first report shows more
    departures than its bottleneck had.

    Raises:
        AnalysisError: there is no report file that can be read.
    """
    files, clock = _files(run), report_clock(run)
    unit_ns = clock.unit_s * NANOSECONDS
    before: dict[tuple[int, int], tuple[int, int]] = {}
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS):
                ticks = clock.ticks(batch.column("timestamp").to_numpy().astype("int64")).tolist()
                for fields, left in zip(batch.to_pylist(), ticks, strict=True):
                    waited = max(fields["queue_delay"] - run.profile.empty_queue_delay, 0)
                    index = fields["bottleneck"], fields["flow"]
                    counters = fields["arrivals"] - fields["departures"], fields["loss_drops"]
                    carried = fields["departures"] > fields["sequence"]
                    dropped, lost = before.get(index, counters if carried else (0, 0))
                    before[index] = counters
                    yield Report(
                        fields, round((left - waited) * unit_ns), round(left * unit_ns),
                        counters[0] - dropped & COUNTER, counters[1] - lost & COUNTER,
                    )  # fmt: skip


def report_clock(run: Run) -> ReportClock:
    """The clock of a run's reports.

    Raises:
        AnalysisError: there is no report file that can be read.
    """
    extremes = timestamp_extremes(_files(run))
    return ReportClock(run, int(extremes[0]) if len(extremes) else 0)


def longest_waits_ns(run: Run) -> dict[int, int]:
    """The longest queue delay at each bottleneck, by its index.

    Raises:
        AnalysisError: there is no report file that can be read.
    """
    longest: dict[int, int] = {}
    for path in _files(run):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS, columns=["bottleneck", "queue_delay"]):
                waits = batch.column("queue_delay").to_numpy()
                at = batch.column("bottleneck").to_numpy()
                for index in np.unique(at).tolist():
                    longest[index] = max(longest.get(index, 0), int(waits[at == index].max()))
    return {index: round(wait * run.profile.time_unit_s * NANOSECONDS) for index, wait in longest.items()}


def _files(run: Run) -> list[Path]:
    if not run.profile.queue_reported:
        raise AnalysisError(f"{run.path}: reports of {run.profile.name} do not say what its queue did")
    files = telemetry_files(run, SkippedReports())
    if not files:
        raise AnalysisError(f"{run.path}/telemetry: no report file that can be read")
    return files


def flow_keys(run: Run) -> dict[Key, FlowKey]:
    """The 5-tuple of each flow.

    Raises:
        AnalysisError: the run has no flow keys.
    """
    path = run.path / TELEMETRY / FLOW_KEYS
    if not path.exists():
        raise AnalysisError(f"{path}: no such file")
    return {(row.bottleneck, *row.key): FlowKey.of(row) for row in read_keys(path)}


def start_ns(run: Run) -> int:
    """The experiment's start in ns since 1970.

    Runs before version 0.3.0 have only when the measurement began, in seconds; without that it is 2 January 1970.
    """
    known = run.raw.get("clock_origin_unix_ns")
    if known is not None:
        return int(known)
    started = run.raw.get("started")
    return round(datetime.fromisoformat(started).timestamp() if started else 86_400) * NANOSECONDS
