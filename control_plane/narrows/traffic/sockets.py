# SPDX-License-Identifier: Apache-2.0
"""hosts/sockets.parquet: the state of the flows' sockets over time, as the senders' kernels tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.hosts.process import Process
from narrows.traffic import socket_sampler
from narrows.traffic.connection import Connection

TABLE = "sockets.parquet"
STOP_GRACE_S = 3.0
UNLIMITED = 2**64 - 1  # the kernel's word for a pacing rate that nothing has set
GAIN_UNIT = 256
UNITS = {
    "time_s": "s since the experiment's start", "flow": "number in run.json's flows", "cwnd_bytes": "bytes",
    "pacing_rate_bps": "bit/s", "rtt_s": "s", "min_rtt_s": "s", "delivery_rate_bps": "bit/s", "inflight_bytes": "bytes",
    "retransmits": "packets so far", "acked_bytes": "bytes so far", "data_packets": "packets so far",
    "bbr_bandwidth_bps": "bit/s", "bbr_min_rtt_s": "s", "bbr_pacing_gain": "1", "bbr_cwnd_gain": "1",
}  # fmt: skip


class SocketSampler:
    """One sampling process a sender."""

    def __init__(self, plan: Plan, testbed: Testbed, results: Path, interval_ns: int) -> None:
        """``interval_ns`` is the time between two readings; 0 for none at all."""
        self._plan = plan
        self._testbed = testbed
        self._results = results
        self._interval_ns = interval_ns
        self._processes: list[Process] = []
        self._offsets_s: dict[str, float] = {}

    async def start(self) -> None:
        """Begin to sample on all senders.

        Raises:
            RunError: one cannot be reached.
        """
        if not self._interval_ns:
            return
        interval, version = str(self._interval_ns / NANOSECONDS), str(self._plan.receiver.ip_version)
        for sender in self._plan.senders:
            self._offsets_s[sender.name] = await self._testbed.clock_offset_s(sender.name)
            script = await self._testbed.python(sender.name, Path(socket_sampler.__file__))
            command = [*script, interval, version]
            errors = self._output(sender.name).with_suffix(".err")
            self._processes.append(
                await self._testbed.spawn(sender.name, command, stdout=self._output(sender.name), stderr=errors)
            )

    async def stop(self, connections: Sequence[Connection], origin_s: float) -> None:
        """End sampling and write the table.

        Raises:
            RunError: a sampler had ended by itself.
        """
        processes, self._processes = self._processes, []
        if not processes:
            return
        died = [process for process in processes if process.returncode is not None]
        await asyncio.gather(*(process.stop(STOP_GRACE_S) for process in processes))
        frames = [
            _read(self._output(sender.name), sender.address, self._offsets_s[sender.name])
            for sender in self._plan.senders
        ]
        table = tabulate(pd.concat(frames, ignore_index=True), connections, origin_s)
        write(table, self._results / TABLE)
        if died:
            raise RunError("\n".join(f"{process.name} ended by itself{process.last_words()}" for process in died))

    def _output(self, host: str) -> Path:
        return self._testbed.state_dir / f"{host}-sockets.txt"


def write(table: pd.DataFrame, path: Path) -> None:
    """Write the table with the unit of each column in its metadata."""
    columns = pa.Table.from_pandas(table, preserve_index=False)
    fields = [field.with_metadata({"unit": UNITS[field.name]}) for field in columns.schema]
    pq.write_table(columns.cast(pa.schema(fields)), path)


def _read(path: Path, address: str, offset_s: float) -> pd.DataFrame:
    """The readings of a host on our clock, which its own is ahead of by ``offset_s``; a line cut short is left out."""
    names = list(socket_sampler.FIELDS)
    lines = [line.split() for line in path.read_text().splitlines()]
    frame = pd.DataFrame([line for line in lines if len(line) == len(names)], columns=names)
    return frame.assign(src=address, monotonic_s=frame["monotonic_s"].astype(np.float64) - offset_s)


def tabulate(readings: pd.DataFrame, connections: Sequence[Connection], origin_s: float) -> pd.DataFrame:
    """Readings of the flows' own sockets (control connections left out) in SI units, by flow and time.

    Args:
        readings: columns of `socket_sampler.FIELDS` as text or numbers, and ``src``.
        connections: in the order of run.json's flows.
        origin_s: the experiment's start on the clock of the readings.
    """
    number = {(c.flow.src, c.src_port, c.flow.dst_port): position for position, c in enumerate(connections)}
    raw = readings.astype({name: np.float64 for name in socket_sampler.FIELDS})
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
        }
    )
    return table.reset_index(drop=True)
