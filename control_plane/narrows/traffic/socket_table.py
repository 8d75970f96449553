# SPDX-License-Identifier: Apache-2.0
"""hosts/sockets.parquet: the state of the flows' sockets over time, as the senders' kernels had it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats.columns import OF_KERNEL, SOCKETS, TEXTS, with_metadata
from narrows_formats.flow_names import possible_ends

from narrows.traffic import bbr_phase, socket_sampler
from narrows.traffic.connection import Connection
from narrows.traffic.socket_values import GAIN_UNIT, NO_BOUND, NO_MIN_RTT, UNLIMITED
from narrows.traffic.sockets import Readings

PORTS = ["src_port", "dst_port"]


def store(
    readings: Sequence[Readings],
    connections: Sequence[Connection],
    t0_s: float,
    path: Path,
    logged: Sequence[pd.DataFrame] = (),
) -> None:
    """Make the table from what was read on all hosts, and of what programs have ``logged`` (columns of SOCKETS);
    ``t0_s`` is the experiment's start on our clock."""
    frames = pd.concat([_read(one) for one in readings], ignore_index=True)
    write(pd.concat([tabulate(frames, connections, t0_s), *logged], ignore_index=True), path)


def write(table: pd.DataFrame, path: Path) -> None:
    """Write the table with unit and meaning of each column in its metadata."""
    names = [column.name for column in SOCKETS]
    texts = dict.fromkeys(TEXTS, "string")
    columns = pa.Table.from_pandas(table.reindex(columns=names).astype(texts), preserve_index=False)
    pq.write_table(columns.cast(with_metadata(columns.schema, SOCKETS)), path)


def _read(readings: Readings) -> pd.DataFrame:
    """The readings of a host on our clock; a line cut short is left out."""
    names = list(socket_sampler.FIELDS)
    lines = [line.split() for line in readings.path.read_text().splitlines()[1:]]
    frame = pd.DataFrame([line for line in lines if len(line) == len(names)], columns=names)
    return frame.assign(src=readings.address, monotonic_s=frame["monotonic_s"].astype(np.float64) - readings.offset_s)


def tabulate(readings: pd.DataFrame, connections: Sequence[Connection], t0_s: float) -> pd.DataFrame:
    """Readings of the flows' sockets (control connections of ours left out) in SI units, by flow, socket and time.

    Args:
        readings: columns of `socket_sampler.FIELDS` as text or numbers, and ``src``.
        connections: in the order of run.json's flows.
        t0_s: the experiment's start on the clock of the readings.
    """
    raw = readings.astype(dict.fromkeys((name for name in socket_sampler.FIELDS if name != "dst"), np.float64))
    raw = raw.astype(dict.fromkeys(PORTS, np.int32))
    raw = raw.assign(flow=_owners(raw, connections))
    raw = raw[raw["flow"] >= 0].sort_values(["flow", *PORTS, "monotonic_s"], kind="stable")
    bbr = raw["bbr_bandwidth"] > 0
    bbr3 = raw["bbr_phase"] > 0
    # The kernel counts a SYN that was acknowledged like a byte, at the end that sent it.
    opened = np.array([connections[flow].flow.payload.sender_opens for flow in raw["flow"]], dtype=np.int64)
    acked = np.maximum(raw["acked_bytes"].astype(np.int64) - opened, 0)
    table = pd.DataFrame(
        {
            "time_s": raw["monotonic_s"] - t0_s,
            "flow": raw["flow"].astype(np.int32),
            **{name: raw[name] for name in PORTS},
            "cwnd_bytes": raw["cwnd_packets"] * raw["mss"],
            "pacing_rate_bps": raw["pacing_rate"].where(raw["pacing_rate"] < UNLIMITED) * 8,
            "rtt_s": raw["rtt_us"].where(raw["rtt_us"] > 0) / 1e6,
            "min_rtt_s": raw["min_rtt_us"].where(raw["min_rtt_us"] < NO_MIN_RTT) / 1e6,
            "delivery_rate_bps": raw["delivery_rate"] * 8,
            "inflight_bytes": np.maximum(raw["sent_bytes"] - acked, 0),
            "retransmits": raw["retransmits"].astype(np.int64),
            "acked_bytes": acked,
            "data_packets": raw["data_packets"].astype(np.int64),
            "bbr_bandwidth_bps": (raw["bbr_bandwidth"] * 8).where(bbr),
            "bbr_min_rtt_s": (raw["bbr_min_rtt_us"] / 1e6).where(bbr),
            "bbr_pacing_gain": (raw["bbr_pacing_gain"] / GAIN_UNIT).where(bbr),
            "bbr_cwnd_gain": (raw["bbr_cwnd_gain"] / GAIN_UNIT).where(bbr),
            "busy_s": raw["busy_us"] / 1e6,
            "buffer_limited_s": raw["buffer_limited_us"] / 1e6,
            "bbr_phase": bbr_phase.names(raw),
            "bbr_max_bandwidth_bps": (raw["bbr_max_bandwidth"] * 8).where(bbr3),
            "bbr_shortterm_bandwidth_bps": raw["bbr_shortterm_bandwidth"].where(
                bbr3 & (raw["bbr_shortterm_bandwidth"] < UNLIMITED)
            )
            * 8,
            **{
                f"{name}_bytes": (raw[name] * raw["mss"]).where(bbr3 & (raw[name] < NO_BOUND))
                for name in ("bbr_shortterm_inflight", "bbr_longterm_inflight", "bbr_extra_acked")
            },
            "source": pd.Series(OF_KERNEL, index=raw.index, dtype="string"),
        }
    )
    return table.reset_index(drop=True)


def _owners(raw: pd.DataFrame, connections: Sequence[Connection]) -> list[int]:
    """Which connection each reading is of, -1: none. Connections of programs are known by their two addresses."""
    places = [(at, c, c.flow) for at, c in enumerate(connections)]
    by_ports = {(flow.src, c.src_port, flow.dst_port): at for at, c, flow in places if not flow.match_by_host_pair}
    by_ends = {flow.ends: at for at, _, flow in places if flow.match_by_host_pair}
    found = []
    for src, dst, src_port, dst_port in zip(raw["src"], raw["dst"], *(raw[name] for name in PORTS), strict=True):
        of_programs = (by_ends[ends] for ends in possible_ends(src, dst) if ends in by_ends)
        found.append(next(of_programs, by_ports.get((src, src_port, dst_port), -1)))
    return found
