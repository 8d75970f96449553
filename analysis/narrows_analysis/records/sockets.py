# SPDX-License-Identifier: Apache-2.0
"""What the senders' sockets said while a run was under way: hosts/sockets.parquet."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from narrows_formats.columns import SOCKETS as COLUMNS
from narrows_formats.files import HOSTS, SOCKETS

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import Run

# Columns without which sockets.parquet is of no use; others are null where an older version did not write them.
NEEDED = ("flow", "rtt_s", "min_rtt_s", "inflight_bytes")


@dataclass(frozen=True)
class SocketRecord:
    """What a flow's sockets said when they were read (telemetry.sockets): RTTs in seconds, bytes in flight.

    ``buffer_limited`` is the share of the time with data to send in which the sender's buffer or the receiver's window
    was in the way (None if unknown).
    """

    rtt_min_s: float
    rtt_mean_s: float
    inflight_mean_bytes: float
    inflight_max_bytes: float
    buffer_limited: float | None


def read_sockets(run: Run) -> pd.DataFrame:
    """hosts/sockets.parquet (columns as narrows_formats.columns.SOCKETS says); without rows if sockets were not read.

    Raises:
        AnalysisError: the file is not what the control plane writes.
    """
    path = run.path / HOSTS / SOCKETS
    names = [column.name for column in COLUMNS]
    if not path.exists():
        return pd.DataFrame(columns=names, dtype=float)
    try:
        frame = pd.read_parquet(path)
        frame[list(NEEDED)]
    except (OSError, ValueError, KeyError) as error:
        raise AnalysisError(f"{path}: not readable: {error}") from None
    unknown = frame["flow"][~frame["flow"].isin(range(len(run.flows)))]
    if len(unknown):
        raise AnalysisError(f"{path}: flow {unknown.iloc[0]}; allowed: 0 to {len(run.flows) - 1}, as in run.json")
    return frame.reindex(columns=names)


def read_socket_records(run: Run) -> dict[int, SocketRecord]:
    """Record of each flow (by its number) in hosts/sockets.parquet; none if sockets were not read.

    Raises:
        AnalysisError: the file is not what the control plane writes.
    """
    return {
        int(str(number)): SocketRecord(
            float(rows["min_rtt_s"].min()),
            float(rows["rtt_s"].mean()),
            float(rows["inflight_bytes"].mean()),
            float(rows["inflight_bytes"].max()),
            _buffer_limited(rows),
        )
        for number, rows in read_sockets(run).groupby("flow")
    }


def _buffer_limited(rows: pd.DataFrame) -> float | None:
    busy_s, limited_s = float(rows["busy_s"].max()), float(rows["buffer_limited_s"].max())
    return limited_s / busy_s if busy_s > 0 else None
