# SPDX-License-Identifier: Apache-2.0
"""The senders' state while a run was under way, as their sockets or programs' logs have it: hosts/sockets.parquet."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from narrows_formats.columns import OF_QLOG
from narrows_formats.columns import SOCKETS as COLUMNS
from narrows_formats.files import HOSTS, SOCKETS

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import Run

# Columns without which sockets.parquet is of no use; others are null where an older version did not write them.
NEEDED = ("flow", "rtt_s", "min_rtt_s", "inflight_bytes")
PORTS = ["src_port", "dst_port"]
# Times, counters and rates of a kernel are within 64 bits without a sign.
MOST = 2.0**64


@dataclass(frozen=True)
class SocketRecord:
    """What sockets said when they were read (telemetry.sockets): RTTs in seconds, bytes in flight of all together.

    ``buffer_limited`` is the share of the time with data to send in which the sender's buffer or the receiver's window
    was in the way (None if unknown). RTTs are None where none was measured, as of segments that were all sent again;
    bytes in flight are where a program that has ``logged`` its state, as the kernel does not know it, left them out.
    """

    rtt_min_s: float | None
    rtt_mean_s: float | None
    inflight_mean_bytes: float | None
    inflight_max_bytes: float | None
    buffer_limited: float | None
    logged: bool = False


@dataclass(frozen=True)
class SocketRecords:
    """What was read of each flow, by its number, and of each of a program's connections, by that and its two ports."""

    flows: dict[int, SocketRecord]
    connections: dict[tuple[int, int, int], SocketRecord]


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
    numbers = frame.select_dtypes("number")
    beyond = ((numbers < 0) | (numbers > MOST)).any()
    if beyond.any():
        raise AnalysisError(f"{path}: {beyond.idxmax()} has values that no kernel gives; allowed: 0 to 2^64")
    return frame.reindex(columns=names)


def read_socket_records(run: Run) -> SocketRecords:
    """Records of what hosts/sockets.parquet has; none if sockets were not read.

    Raises:
        AnalysisError: the file is not what the control plane writes.
    """
    flows, connections = {}, {}
    for number, rows in read_sockets(run).groupby("flow"):
        flow = int(str(number))
        sockets = each_socket(rows)
        flows[flow] = _record(sockets)
        if run.flows[flow].by_addresses:
            for one in sockets:
                ports = one[PORTS].iloc[0]
                if ports.notna().all():
                    connections[flow, int(ports["src_port"]), int(ports["dst_port"])] = _record([one])
    return SocketRecords(flows, connections)


def each_socket(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The readings of each socket of a flow, those in front that carried most."""
    sockets = [one for _, one in rows.groupby(PORTS, dropna=False, sort=False)]
    return sorted(sockets, key=lambda one: -float(one["acked_bytes"].fillna(0).max()))


def lines(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The readings of a flow's sockets as the lines of a figure, in order of time.

    Sockets that follow each other share a line, with a gap (a row without values) between them; those that are open at
    the same time have lines of their own.
    """
    found: list[list[pd.DataFrame]] = []
    for one in sorted(each_socket(rows), key=lambda one: float(one["time_s"].iloc[0])):
        begins = float(one["time_s"].iloc[0])
        line = next((line for line in found if float(line[-1]["time_s"].iloc[-1]) < begins), None)
        if line is None:
            found.append([one])
        else:
            gap = pd.DataFrame({"time_s": [begins]}).reindex(columns=rows.columns)
            line += [gap, one]
    return [line[0] if len(line) == 1 else pd.concat(line, ignore_index=True) for line in found]


def _record(sockets: list[pd.DataFrame]) -> SocketRecord:
    rows = sockets[0] if len(sockets) == 1 else pd.concat(sockets)
    # Those of a host are read together.
    known = rows.dropna(subset=["inflight_bytes"])
    inflight = known["inflight_bytes"] if len(sockets) == 1 else known.groupby("time_s")["inflight_bytes"].sum()
    busy_s, limited_s = (sum(float(one[name].max()) for one in sockets) for name in ("busy_s", "buffer_limited_s"))
    measured = rows[["min_rtt_s", "rtt_s"]].dropna()
    return SocketRecord(
        None if measured.empty else float(measured["min_rtt_s"].min()),
        None if measured.empty else float(measured["rtt_s"].mean()),
        None if inflight.empty else float(inflight.mean()),
        None if inflight.empty else float(inflight.max()),
        limited_s / busy_s if busy_s > 0 else None,
        bool((rows["source"] == OF_QLOG).any()),
    )
