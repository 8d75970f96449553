# SPDX-License-Identifier: Apache-2.0
"""pandas access to a run: lazy, tidy frames in SI units, with the unit of each column in `DataFrame.attrs["units"]`."""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.parquet as pq
from narrows_formats import files
from narrows_formats.columns import DROPS, QUEUES, REPORTS, SOCKETS, units
from narrows_formats.flow_names import OTHER_GROUP
from narrows_formats.flow_rows import brief_columns, flow_rows, plain_values
from narrows_formats.kinds import requests
from narrows_formats.summary import Summary, WarningSummary

from narrows_analysis.aggregation.both_directions import ACK_FLAG
from narrows_analysis.aggregation.tables import aggregate
from narrows_analysis.colors import FlowColor, flow_colors
from narrows_analysis.errors import AnalysisError
from narrows_analysis.metrics.rtt import inflight, rtt_from_sequence, rtt_from_timestamps
from narrows_analysis.records.drops import CAUSES, UNKNOWN, drop_batches
from narrows_analysis.records.flow_table import FlowNumbers, FlowTable, read_flow_table, reverse_keys
from narrows_analysis.records.reports import (
    ARRIVAL_ECN_SHIFT,
    FLAG_CE_MARKED,
    FLAGS_ARRIVAL_ECN,
    ReportClock,
    SkippedReports,
    telemetry_files,
    timestamp_extremes,
)
from narrows_analysis.records.run_directory import Run, read_run
from narrows_analysis.records.sockets import read_sockets
from narrows_analysis.records.watched import WatchedFields
from narrows_analysis.summary.file import read_summary
from narrows_analysis.summary.link_view import data_only, series_at, summary_at
from narrows_analysis.summary.time_series import write_flows

if TYPE_CHECKING:
    import dask.dataframe as dd

REPORT_UNITS = units(REPORTS)
# Of a queue that reports do not know.
_OF_QUEUE = {
    "arrival_s", "queue_delay_s", "enqueue_depth_bytes", "dequeue_depth_bytes", "ce_marked", "arrival_ecn", "arrivals",
    "loss_drops", "aqm_drops", "queue", "epoch",
}  # fmt: skip
"""Columns of reports; a run that was recorded before there was queue management lacks the last three."""
_RAW_COLUMNS = [
    "flags", "bottleneck", "flow", "packet_length", "signature", "sequence", "arrivals", "departures", "loss_drops",
    "queue_delay", "enqueue_depth", "dequeue_depth", "timestamp", "epoch", "ecn", "protocol", "payload_length",
    "tcp_flags", "tcp_seq", "tcp_ack", "tcp_tsval", "tcp_tsecr", "aqm_drops", "queue",
]  # fmt: skip
RESPONSE_UNITS = {"flow": "", "name": "", **requests.UNITS}
DROP_UNITS = {column.name: column.unit for column in DROPS}
HOST_UNITS = {"flow": "", "group": "", "time_s": "s", "quantity": "", "value": "s (rtt), bytes (cwnd)"}


def convert_reports(raw: pd.DataFrame, run: Run, clock: ReportClock, numbers: FlowNumbers) -> pd.DataFrame:
    """Raw telemetry columns as REPORTS describes them: seconds from the origin, bytes, flow numbers of run.json. Works
    on a partition of any size. What they do not know of the queue has no column."""
    ticks = clock.ticks(raw["timestamp"].to_numpy().astype(np.int64))
    delay = np.maximum(raw["queue_delay"].to_numpy().astype(np.int64) - run.profile.empty_queue_delay, 0)
    depth_bytes = run.depth_unit_bytes
    # Where the target does not report the depth that was left, its place is taken by the one found, as in the summary.
    left = "dequeue_depth" if run.profile.depth_left_reported else "enqueue_depth"
    flow, signature = (raw[name].to_numpy().astype(np.int64) for name in ("flow", "signature"))
    bottleneck = raw["bottleneck"].to_numpy()
    values: dict[str, npt.NDArray[np.generic]] = {
        "time_s": ticks * clock.unit_s,
        "arrival_s": (ticks - delay) * clock.unit_s,
        "bottleneck": bottleneck,
        "flow": numbers.of(bottleneck, flow, signature).astype(np.int32),
        "flow_index": flow.astype(np.int32),
        "packet_bytes": raw["packet_length"].to_numpy().astype(np.int32),
        "payload_bytes": raw["payload_length"].to_numpy().astype(np.int32),
        "queue_delay_s": delay * clock.unit_s,
        "enqueue_depth_bytes": raw["enqueue_depth"].to_numpy() * float(depth_bytes),
        "dequeue_depth_bytes": raw[left].to_numpy() * float(depth_bytes),
        "ce_marked": (raw["flags"].to_numpy() & FLAG_CE_MARKED) != 0,
    }
    if "queue" in raw:
        values["arrival_ecn"] = (raw["flags"].to_numpy() & FLAGS_ARRIVAL_ECN) >> ARRIVAL_ECN_SHIFT
    for name in REPORT_UNITS:
        if name in raw and name not in values:
            values[name] = raw[name].to_numpy().astype(np.int64)
    known = values.keys() if run.profile.queue_reported else values.keys() - _OF_QUEUE
    return pd.DataFrame({name: values[name] for name in REPORT_UNITS if name in known})


def _read_series(path: Path, source: str) -> pd.DataFrame:
    schema = pq.read_schema(path)
    units = {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in schema}
    return _with_units(pd.read_parquet(path), units, source)


def _with_units(frame: pd.DataFrame, units: dict[str, str], source: str) -> pd.DataFrame:
    frame.attrs = {"units": {name: unit for name, unit in units.items() if name in frame}, "source": source}
    return frame


class RunData:
    """A run and its frames; a frame is read when it is first asked for.

    Frames: `table` (flows), `flows`, `queue` and `queues` (time series), `flow_intervals()` (`flows` in any interval),
    `distributions` (CDFs), `sockets` (what the senders' sockets say), `hosts` (RTT and window in senders'
    records), `responses` (each request), `registers` (of a user's P4 program), `flow_keys` (5-tuples), `reports()`
    (every report), `dask_reports()` (the same on Dask) and `drops()` (every packet that a link dropped).
    """

    def __init__(self, run_dir: Run | Path | str, link: str | None = None) -> None:
        """Read run.json; raise AnalysisError if it breaks the contract, or there is no such link."""
        self.run = self._whole = read_run(run_dir)
        self.path = self.run.path
        self._link = link
        if link is not None:
            views = {view.bottleneck.name: view for view in self.run.views}
            if link not in views:
                raise AnalysisError(f"{self.path}: has no link '{link}'; allowed: {', '.join(views)}")
            self.run = data_only(views[link])

    def at(self, link: str) -> Self:
        """The run at one of its links, as if that were its only one; flows are those whose data cross it.

        Raises:
            AnalysisError: there is no such link.
        """
        return type(self)(self._whole, link)

    @property
    def links(self) -> list[str]:
        """Names of the links."""
        return [view.bottleneck.name for view in self.run.views]

    def __repr__(self) -> str:
        """Name the run and its link, with errors and the table of its flows if it has been analysed."""
        head = self._headline()
        return "\n".join([head, *self._errors, self.table.to_string(index=False)]) if self._analysed else head

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        head = f"<p>{html.escape(self._headline())}</p>"
        if not self._analysed:
            return head
        errors = "".join(f"<p>{html.escape(line)}</p>" for line in self._errors)
        return f"{head}{errors}{self.table.to_html(index=False)}"

    @property
    def warnings(self) -> list[WarningSummary]:
        """What the terminal and the page say of a run that may mislead; ``severity`` is "error" or "warning"."""
        return self.summary["warnings"]

    @property
    def _errors(self) -> list[str]:
        return [f"error: {one['message']}" for one in self.warnings if one["severity"] == "error"]

    @property
    def _analysed(self) -> bool:
        return (self.path / files.SUMMARY).exists()

    @property
    def table(self) -> pd.DataFrame:
        """The table printed at the end of a run: a row for each flow, in the units that the columns name."""
        columns = brief_columns(self.summary)
        names = ["flow", "CCA", *(f"{column.name} {column.unit}".rstrip() for column in columns)]
        rows = [[row.name, row.cca, *plain_values(row, columns)] for row in flow_rows(self.summary, columns)]
        return pd.DataFrame(rows, columns=names)

    def _headline(self) -> str:
        records = [view.bottleneck for view in self.run.views] if self._link is None else [self.run.bottleneck]
        known = ("rate not known" if link.rate_bps is None else f"{link.rate_bps / 1e6:g} Mbit/s" for link in records)
        rate = ", ".join(
            text if len(records) == 1 else f"{link.name} {text}" for link, text in zip(records, known, strict=True)
        )
        return f"<run {self.path.name}: {rate}, {len(self.run.flows)} flows, {self.run.status}>"

    @cached_property
    def summary(self) -> Summary:
        """summary.json; of one link as that of an experiment with this link alone."""
        summary = read_summary(self.path)
        return summary if self._link is None else summary_at(summary, self.run)

    @property
    def labels(self) -> list[str]:
        """Short name of each flow."""
        return self.run.flow_names

    @property
    def competing(self) -> list[int]:
        """Positions of the flows that compete: all but probes."""
        return [position for position, flow in enumerate(self.summary["flows"]) if not flow["probe"]]

    @property
    def colors(self) -> list[FlowColor]:
        """Colour of each flow, the same everywhere: on the page, in figures, at each link."""
        colors = flow_colors([flow.group for flow in self._whole.flows])
        known = dict(zip(self._whole.flow_names, colors, strict=True))
        return [known[name] for name in self.labels]

    def _series(self, name: str) -> pd.DataFrame:
        path = self.path / name
        if not path.exists():
            raise AnalysisError(f"{path}: no such file; analyse the run first: narrows analyze {self.path}")
        frame = _read_series(path, name)
        if self._link is None:
            return frame
        return _with_units(series_at(frame, self.run), frame.attrs["units"], name)

    def flow_intervals(self, interval_s: float) -> pd.DataFrame:
        """`flows` in intervals of any length: the same rows and columns, made from the reports by the same function.

        An interval in which nothing left while a flow was running has a row of its own, with rates of 0. Reports are
        streamed: memory does not grow with their number.

        Args:
            interval_s: length of an interval in seconds, more than 0.

        Raises:
            AnalysisError: the telemetry is damaged.
            ValueError: the interval is not positive.
        """
        if not interval_s > 0:
            raise ValueError(f"an interval of {interval_s} s is not positive")
        skipped = SkippedReports()
        telemetry_files(self.run, skipped)
        with TemporaryDirectory(prefix="narrows-analysis-") as tables:
            path = Path(tables)
            views = [(view, read_flow_table(view)) for view in self.run.views]
            found = aggregate(self.run, views, self._clock, skipped.unreadable_files, path, interval_s)
            write_flows(path / files.FLOWS, found)
            return _read_series(path / files.FLOWS, "telemetry/reports-*.parquet")

    @cached_property
    def flows(self) -> pd.DataFrame:
        """Tidy time series: a row for each flow and interval."""
        return self._series(files.FLOWS)

    @cached_property
    def queue(self) -> pd.DataFrame:
        """Time series of the queue: a row for each interval."""
        return self._series(files.QUEUE)

    @cached_property
    def queues(self) -> pd.DataFrame:
        """Time series of each queue of DualPI2: a row for each queue and interval; without rows for another queue."""
        if not (self.path / files.QUEUES).exists():
            return _with_units(pd.DataFrame(columns=list(units(QUEUES))), units(QUEUES), files.QUEUES)
        return self._series(files.QUEUES)

    @cached_property
    def distributions(self) -> pd.DataFrame:
        """CDFs of queue depth and delay over departing packets."""
        return self._series(files.DISTRIBUTIONS)

    @cached_property
    def hosts(self) -> pd.DataFrame:
        """Measurements of the hosts (not the switch): quantity "rtt" in s and "cwnd" in bytes."""
        rows = []
        for flow, record in zip(self.run.flows, self.run.host_records, strict=True):
            for quantity, series in (("rtt", record.rtt_series), ("cwnd", record.cwnd_series)):
                rows += [(flow.number, flow.group, time, quantity, value) for time, value in series]
        return _with_units(pd.DataFrame(rows, columns=list(HOST_UNITS)), HOST_UNITS, "hosts/*.json")

    @cached_property
    def sockets(self) -> pd.DataFrame:
        """State of the senders' sockets over time: congestion window, pacing rate, RTT, bytes in flight, BBR's model.

        Columns are those of narrows_formats.columns.SOCKETS and `name`; without rows if sockets were not read.
        """
        frame = read_sockets(self.run)
        if self._link is not None:
            positions = {flow.number: position for position, flow in enumerate(self.run.flows)}
            frame = frame[frame["flow"].isin(positions)]
            frame = frame.assign(flow=frame["flow"].map(positions))
        frame = frame.assign(name=[self.labels[int(flow)] for flow in frame["flow"]])
        return _with_units(frame, {**units(SOCKETS), "name": ""}, "hosts/sockets.parquet")

    @property
    def watches_registers(self) -> bool:
        """Whether there are `registers`."""
        return (self.path / files.TELEMETRY / files.REGISTERS).exists()

    @cached_property
    def registers(self) -> pd.DataFrame:
        """Watched cells of registers of a user's P4 program, in order of time: columns ``time_s``, ``register`` (as the
        experiment names the cell) and ``value``.

        Raises:
            AnalysisError: none was watched.
        """
        if not self.watches_registers:
            raise AnalysisError(f"{self.path}: no register was watched; allowed: `watch` of a program of your own")
        return _read_series(self.path / files.TELEMETRY / files.REGISTERS, f"telemetry/{files.REGISTERS}")

    @cached_property
    def responses(self) -> pd.DataFrame:
        """Each request of flows of requests, or segment of players: who asked, its times, bytes and port.

        Columns are those of narrows_formats.kinds.requests.Response behind `flow` and `name`; without rows if there
        is no such flow.
        """
        rows = [
            {"flow": position, "name": name, **one.model_dump()}
            for position, (name, host) in enumerate(zip(self.labels, self.run.host_records, strict=True))
            if isinstance(host.record, requests.RequestsRecord)
            for one in host.record.responses
        ]
        return _with_units(pd.DataFrame(rows, columns=list(RESPONSE_UNITS)), RESPONSE_UNITS, "hosts/*.json")

    @cached_property
    def flow_keys(self) -> pd.DataFrame:
        """5-tuple of each flow index and signature."""
        path = self.path / files.TELEMETRY / files.FLOW_KEYS
        if not path.exists():
            raise AnalysisError(f"{path}: no such file")
        return _with_units(pd.read_parquet(path), {"first_timestamp": "time units"}, "telemetry/flow_keys.parquet")

    @cached_property
    def _flow_table(self) -> FlowTable:
        return read_flow_table(self.run)

    @cached_property
    def _flow_numbers(self) -> FlowNumbers:
        """As run.json has them; of one link the positions among the flows whose data cross it."""
        views = [data_only(view) for view in self.run.views] if self._link is None else [self.run]
        tables = {}
        for view in views:
            numbers = [flow.number if self._link is None else place for place, flow in enumerate(view.flows)]
            tables[view.bottleneck.index] = read_flow_table(view), np.array(numbers, dtype=np.int64)
        return FlowNumbers(tables)

    @cached_property
    def _files(self) -> list[Path]:
        files = telemetry_files(self.run, SkippedReports())
        if not files:
            raise AnalysisError(f"{self.path}/telemetry: no report file that can be read")
        return files

    @cached_property
    def _watched(self) -> WatchedFields:
        return WatchedFields(self.run)

    @property
    def watched_fields(self) -> list[str]:
        """Fields of a user's P4 program that were watched: the last columns of `reports`."""
        return self._watched.names

    @property
    def _report_units(self) -> dict[str, str]:
        return REPORT_UNITS | dict.fromkeys(self.watched_fields, "")

    @cached_property
    def _clock(self) -> ReportClock:
        extremes = timestamp_extremes(self._files)
        return ReportClock(self.run, int(extremes[0]) if len(extremes) else 0)

    def report_batches(self, rows: int = 1 << 19) -> Iterator[pd.DataFrame]:
        """Reports as frames of at most `rows` rows, in the order received: for runs larger than memory."""
        for path in self._files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=rows, columns=_RAW_COLUMNS):
                    frame = convert_reports(batch.to_pandas(), self.run, self._clock, self._flow_numbers)
                    frame = self._watched.join(frame)
                    yield _with_units(frame, self._report_units, f"telemetry/{path.name}")

    def reports(self) -> pd.DataFrame:
        """Every report as one frame (about 150 bytes each in memory), in the order received. Watched fields of a user's
        P4 program are columns behind the others: what they had when the packet had left egress."""
        frame = pd.concat(list(self.report_batches()), ignore_index=True)
        return _with_units(frame, self._report_units, "telemetry/reports-*.parquet")

    @property
    def drops_recorded(self) -> bool:
        """Whether every link's target records each drop."""
        return all(view.bottleneck.drops_recorded for view in self._whole.views)

    def drops(self) -> pd.DataFrame:
        """Every packet that a link dropped, in order of time.

        Columns: ``time_s`` of the drop, ``link``, ``flow`` and ``name`` (-1 and "(other)" for other traffic), ``cause``
        (such as "full queue"; of a user's program "program (ingress)" and "program (egress)"), ``packet_bytes``,
        ``waited_s`` in the queue before that, ``depth_bytes`` and ``depth_packets`` that waited just after it.

        Raises:
            AnalysisError: the target does not record each drop; `flows` and `summary` have how many there were.
        """
        if not self.drops_recorded:
            raise AnalysisError(f"{self.path}: target {self.run.profile.name} counts drops and does not record each")
        clock = self._clock if self.run.clock_origin_ns is None else ReportClock(self.run, 0)
        parts = [pd.DataFrame({name: pd.Series(dtype=float) for name in DROP_UNITS})]
        names = np.array([*self.labels, OTHER_GROUP], dtype=object)  # -1, OTHER, is the last one
        for view in self._whole.views if self._link is None else [self.run]:
            for batch in drop_batches(view):
                at = np.full(len(batch["flow"]), view.bottleneck.index)
                flow = self._flow_numbers.of(at, batch["flow"], batch["signature"]).astype(np.int32)
                parts.append(
                    pd.DataFrame(
                        {
                            "time_s": clock.ticks(batch["timestamp"]) * clock.unit_s,
                            "link": view.bottleneck.name,
                            "flow": flow,
                            "name": names[flow],
                            "cause": [CAUSES.get(cause, UNKNOWN) for cause in batch["cause"].tolist()],
                            "packet_bytes": batch["packet_length"],
                            "waited_s": batch["waited"] * clock.unit_s,
                            "depth_bytes": batch["depth_bytes"],
                            "depth_packets": batch["depth_packets"],
                        }
                    )
                )
        frame = pd.concat(parts[1:] or parts, ignore_index=True).sort_values("time_s", ignore_index=True, kind="stable")
        return _with_units(frame, DROP_UNITS, f"telemetry/{files.DROPS}")

    def dask_reports(self) -> dd.DataFrame:
        """Every report as a Dask frame, a partition for each Parquet row group, with the columns of `reports`: those of
        watched fields, too. Needs pip install 'narrows[dask]'."""
        import dask.dataframe as dd

        parts = []
        for path in self._files:
            with pq.ParquetFile(path) as file:
                parts += [(str(path), group) for group in range(file.num_row_groups)]
        recorded = pq.read_schema(self._files[0]).names if self._files else _RAW_COLUMNS
        empty = pd.DataFrame({name: pd.Series(dtype="int64") for name in _RAW_COLUMNS if name in recorded})
        load = _PartitionLoader(self.run, self._clock, self._flow_numbers, self._watched.names)
        meta = load.convert(empty)
        frame: dd.DataFrame = dd.from_map(load, parts, meta=meta)  # type: ignore[no-untyped-call]
        return frame

    def switch_rtt(self, flow: int) -> pd.DataFrame:
        """RTT between switch and receiver of a flow, queue included, measured at the switch: time_s, rtt_s, method.
        Of several links it is measured at the first that its data cross.

        Needs a report of each packet, and of the reverse path as well (a second bottleneck there); without them the
        frame is empty. TCP timestamps are used where the flow carries them, else sequence and acknowledgement numbers.
        """
        forward, backward = self._both_directions(flow)
        data = forward[forward["payload_bytes"] > 0]
        backward = backward[backward["tcp_flags"] & ACK_FLAG != 0]
        if (data["tcp_tsval"] != 0).any():
            # What an acknowledgement has first is echoed when the receiver sends something anyway.
            data = forward[(forward["payload_bytes"] > 0) & ~forward["tcp_tsval"].duplicated()]
            method = "timestamps"
            time, rtt = rtt_from_timestamps(
                data["arrival_s"], data["tcp_tsval"], backward["arrival_s"], backward["tcp_tsecr"]
            )
        else:
            method = "sequence"
            time, rtt = rtt_from_sequence(
                data["arrival_s"], data["tcp_seq"], data["payload_bytes"], backward["arrival_s"], backward["tcp_ack"]
            )
        frame = pd.DataFrame({"time_s": time, "rtt_s": rtt, "method": method})
        return _with_units(frame, {"time_s": "s", "rtt_s": "s"}, "telemetry/reports-*.parquet, both directions")

    def switch_inflight(self, flow: int) -> pd.DataFrame:
        """Bytes of a flow in flight, as seen at the switch (rtt.inflight): time_s, inflight_bytes; empty as switch_rtt.

        Without TCP timestamps these are the bytes from the queue to the receiver and back to the switch only.
        """
        forward, backward = self._both_directions(flow)
        data = forward[forward["payload_bytes"] > 0]
        backward = backward[backward["tcp_flags"] & ACK_FLAG != 0]
        if not len(backward):
            data = data.iloc[:0]
        _, near = rtt_from_timestamps(
            backward["arrival_s"], backward["tcp_tsval"], data["arrival_s"], data["tcp_tsecr"]
        )
        data = data.sort_values("arrival_s", kind="stable")
        time, size = inflight(
            data["arrival_s"], data["tcp_seq"], data["payload_bytes"], backward["arrival_s"], backward["tcp_ack"],
            near.min() if len(near) else 0.0,
        )  # fmt: skip
        frame = pd.DataFrame({"time_s": time, "inflight_bytes": size})
        return _with_units(frame, {"time_s": "s", "inflight_bytes": "bytes"}, "telemetry/reports-*.parquet")

    def _both_directions(self, flow: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        if not 0 <= flow < len(self.run.flows):
            raise AnalysisError(f"flow {flow}: the run has flows 0 to {len(self.run.flows) - 1}")
        first = self.run.flows[flow].links[:1]
        if self._link is None and first and first[0] != self.run.bottleneck.name:
            there = self.at(first[0])
            return there._both_directions(there.labels.index(self.labels[flow]))
        # Of a sample, the first packet with a number or its first echo is another one than it was.
        back = set() if self._sampled else reverse_keys(self.run, self._flow_table).get(flow, set())
        forward_parts, backward_parts = [], []
        for batch in self.report_batches():
            forward_parts.append(batch[(batch["flow"] == flow) & (batch["bottleneck"] == self.run.bottleneck.index)])
            keys = list(zip(batch["bottleneck"], batch["flow_index"], strict=True)) if back else []
            backward_parts.append(batch[[key in back for key in keys]] if back else batch.iloc[:0])
        forward, backward = pd.concat(forward_parts), pd.concat(backward_parts)
        return forward.sort_values("time_s", kind="stable"), backward.sort_values("time_s", kind="stable")

    @property
    def _sampled(self) -> bool:
        """Not each packet is in a report."""
        shifts = (pq.read_table(path, columns=["sample_shift"])["sample_shift"] for path in self._files)
        return any(shift.to_numpy().any() for shift in shifts)


class _PartitionLoader:
    """Reads one row group; an object, so that Dask can send it to workers."""

    def __init__(self, run: Run, clock: ReportClock, numbers: FlowNumbers, watched: list[str]) -> None:
        self._run, self._clock, self._numbers, self._watched = run, clock, numbers, watched

    def __call__(self, part: tuple[str, int]) -> pd.DataFrame:
        path, group = part
        with pq.ParquetFile(path) as file:
            return self.convert(file.read_row_group(group, columns=_RAW_COLUMNS).to_pandas())

    def convert(self, raw: pd.DataFrame) -> pd.DataFrame:
        """Rows of a row group, or none, as `RunData.reports` has them."""
        frame = convert_reports(raw, self._run, self._clock, self._numbers)
        # Each worker reads what belongs to its rows: all values of a run may not fit into its memory.
        return WatchedFields(self._run, within=frame).join(frame) if self._watched else frame
