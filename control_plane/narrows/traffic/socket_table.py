# SPDX-License-Identifier: Apache-2.0
"""hosts/sockets.parquet: the state of the flows' sockets over time, as the senders' kernels told it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats.columns import SOCKETS, with_metadata

from narrows.traffic import socket_sampler
from narrows.traffic.connection import Connection
from narrows.traffic.sockets import Readings

UNLIMITED = 2**64 - 1  # the kernel's word for a pacing rate that nothing has set
GAIN_UNIT = 256


def store(readings: Sequence[Readings], connections: Sequence[Connection], origin_s: float, path: Path) -> None:
    """Make the table from what was read on all hosts; ``origin_s`` is the experiment's start on our clock."""
    frames = pd.concat([_read(one) for one in readings], ignore_index=True)
    write(tabulate(frames, connections, origin_s), path)


def write(table: pd.DataFrame, path: Path) -> None:
    """Write the table with unit and meaning of each column in its metadata."""
    columns = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(columns.cast(with_metadata(columns.schema, SOCKETS)), path)


def _read(readings: Readings) -> pd.DataFrame:
    """The readings of a host on our clock; a line cut short is left out."""
    names = list(socket_sampler.FIELDS)
    lines = [line.split() for line in readings.path.read_text().splitlines()[1:]]
    frame = pd.DataFrame([line for line in lines if len(line) == len(names)], columns=names)
    return frame.assign(src=readings.address, monotonic_s=frame["monotonic_s"].astype(np.float64) - readings.offset_s)


def tabulate(readings: pd.DataFrame, connections: Sequence[Connection], origin_s: float) -> pd.DataFrame:
    """Readings of the flows' own sockets (control connections left out) in SI units, by flow and time.

    Args:
        readings: columns of `socket_sampler.FIELDS` as text or numbers, and ``src``.
        connections: in the order of run.json's flows.
        origin_s: the experiment's start on the clock of the readings.
    """
    number = {(c.flow.src, *c.sender_ports): at for at, c in enumerate(connections) if c.sender_ports is not None}
    raw = readings.astype(dict.fromkeys(socket_sampler.FIELDS, np.float64))
    keys = zip(raw["src"], raw["src_port"].astype(int), raw["dst_port"].astype(int), strict=True)
    raw = raw.assign(flow=[number.get(key, -1) for key in keys])
    raw = raw[raw["flow"] >= 0].sort_values(["flow", "monotonic_s"], kind="stable")
    bbr = raw["bbr_bandwidth"] > 0
    table = pd.DataFrame(
        {
            "time_s": raw["monotonic_s"] - origin_s,
            "flow": raw["flow"].astype(np.int32),
            "cwnd_bytes": raw["cwnd_packets"] * raw["mss"],
            "pacing_rate_bps": raw["pacing_rate"].where(raw["pacing_rate"] < UNLIMITED) * 8,
            "rtt_s": raw["rtt_us"] / 1e6,
            "min_rtt_s": raw["min_rtt_us"] / 1e6,
            "delivery_rate_bps": raw["delivery_rate"] * 8,
            "inflight_bytes": raw["unacked"] * raw["mss"],
            "retransmits": raw["retransmits"].astype(np.int64),
            "acked_bytes": raw["acked_bytes"].astype(np.int64),
            "data_packets": raw["data_packets"].astype(np.int64),
            "bbr_bandwidth_bps": (raw["bbr_bandwidth"] * 8).where(bbr),
            "bbr_min_rtt_s": (raw["bbr_min_rtt_us"] / 1e6).where(bbr),
            "bbr_pacing_gain": (raw["bbr_pacing_gain"] / GAIN_UNIT).where(bbr),
            "bbr_cwnd_gain": (raw["bbr_cwnd_gain"] / GAIN_UNIT).where(bbr),
            "busy_s": raw["busy_us"] / 1e6,
            "buffer_limited_s": raw["buffer_limited_us"] / 1e6,
        }
    )
    return table.reset_index(drop=True)
