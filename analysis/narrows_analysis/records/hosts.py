# SPDX-License-Identifier: Apache-2.0
"""What the hosts say about a flow: iperf3's JSON. Used for retransmissions and socket RTT only, and labelled so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
from narrows_formats.columns import SOCKETS as COLUMNS
from narrows_formats.files import HOSTS, SOCKETS

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import FlowSpec, Run, read_json

MICROSECONDS = 1e-6
# Columns without which sockets.parquet is of no use; others are null where an older version did not write them.
NEEDED = ("flow", "rtt_s", "min_rtt_s", "inflight_bytes")


@dataclass(frozen=True)
class HostRecord:
    """iperf3's view of one flow; RTTs in seconds from TCP_INFO, series as (seconds from the origin, seconds)."""

    retransmits: int | None = None
    rtt_min_s: float | None = None
    rtt_mean_s: float | None = None
    rtt_series: tuple[tuple[float, float], ...] = ()
    cwnd_series: tuple[tuple[float, float], ...] = ()
    cca: str | None = None
    error: str | None = None


def _seconds(value: Any) -> float | None:
    """Microseconds of iperf3 as seconds; None where it measured nothing."""
    return value * MICROSECONDS if isinstance(value, int | float) and value > 0 else None


def read_host_record(run: Run, flow: FlowSpec) -> HostRecord:
    """Read the flow's iperf3 JSON; a missing or broken file gives a record with `error` set."""
    if flow.iperf3 is None:
        return HostRecord()
    try:
        raw = read_json(run.path / flow.iperf3)
        return _record(raw, flow)
    except AnalysisError as error:
        return HostRecord(error=str(error))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return HostRecord(error=f"{flow.iperf3} is not a result of iperf3.")


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
        return frame.reindex(columns=names)
    except (OSError, ValueError, KeyError) as error:
        raise AnalysisError(f"{path}: not readable: {error}") from None


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


def _record(raw: dict[str, Any], flow: FlowSpec) -> HostRecord:
    rtt: list[tuple[float, float]] = []
    cwnd: list[tuple[float, float]] = []
    for interval in raw.get("intervals") or []:
        for stream in (interval.get("streams") or [])[:1]:
            time_s = flow.start_s + float(stream.get("end", 0.0))
            value = _seconds(stream.get("rtt"))
            if value is not None:
                rtt.append((time_s, value))
            if isinstance(stream.get("snd_cwnd"), int | float):
                cwnd.append((time_s, float(stream["snd_cwnd"])))
    end = raw.get("end") or {}
    sender: dict[str, Any] = {}
    for stream in end.get("streams") or []:
        sender = stream.get("sender") or {}
        break
    retransmits = sender.get("retransmits")
    return HostRecord(
        retransmits=int(retransmits) if isinstance(retransmits, int | float) else None,
        rtt_min_s=_seconds(sender.get("min_rtt")),
        rtt_mean_s=_seconds(sender.get("mean_rtt")),
        rtt_series=tuple(rtt),
        cwnd_series=tuple(cwnd),
        cca=end.get("sender_tcp_congestion") if isinstance(end.get("sender_tcp_congestion"), str) else None,
        error=str(raw["error"]) if raw.get("error") else None,
    )
