# SPDX-License-Identifier: Apache-2.0
"""Everything that the time series and the summary are made of, from the tables of narrows-collector.

The engine's pass over the reports is the only one (analysis/README.md); here its rows, however
many there are, become grids of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from socket import IPPROTO_TCP
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from narrows_formats.run_record import LinkRecord
from narrows_formats.units import NANOSECONDS

from narrows_analysis.aggregation.accumulate import MAX_CELLS, Extremes, Grid
from narrows_analysis.aggregation.engine import (
    DEPTH_FOUND,
    UNREPORTED_LINK,
    Account,
    LinkAccount,
    aggregate_tables,
    duration_argument,
)
from narrows_analysis.aggregation.histogram import LogLinearHistogram
from narrows_analysis.aggregation.interval_lengths import queue_interval
from narrows_analysis.records.drops import ACK_FILTER, DECIDED, LOSS_EMULATION, POLICER, drop_batches
from narrows_analysis.records.flow_table import FlowTable, Key
from narrows_analysis.records.reports import ReportClock, SkippedReports
from narrows_analysis.records.run_directory import Run

Int64Array = npt.NDArray[np.int64]

FLOW_INDEXES = 1 << 16
QUEUE_BINS = 60_000
BATCH_ROWS = 1 << 16
# What an estimate may be short of. All but 2 / (N + 1) of a flow's packets lie, on average, between the first and the
# last of N that are drawn by chance.
MAX_ERROR = 0.05
MIN_REPORTS = round(2 / MAX_ERROR) - 1
FLOW_SUMS = (
    "arrivals", "departures", "drops", "aqm_drops", "policer_drops", "ack_filter_drops", "loss_drops", "bytes",
    "payload_bytes", "new_bytes", "advanced_bytes", "data_packets", "retransmitted_packets", "ce_marks", "samples",
    "delay_ticks",
)  # fmt: skip
# What is known of a connection of a program; times are timestamps.
CONNECTION_COLUMNS = (
    "arrivals", "departures", "drops", "first_arrival", "last_timestamp", "reports", "payload_bytes", "ce_marks",
    "delay_sum", "delay_max", "data_packets", "retransmitted_packets",
)  # fmt: skip
QUEUE_SUMS = (
    "departures", "bytes", "drops", "aqm_drops", "policer_drops", "ack_filter_drops", "loss_drops", "ce_marks",
    "samples", "depth_units", "delay_ticks", "missing",
)  # fmt: skip
_DEPTH, _DELAY = 1, 0
# The collector's word for an index that flows of several links have, in the column `collision`.
SHARED_BY_LINKS = 2
_NEVER = np.iinfo(np.int64).max
_NO_DEPTH = (1 << 32) - 1


class Intervals(NamedTuple):
    """Widths of the time series' intervals in seconds."""

    flows_s: float
    queue_s: float


class Clock(NamedTuple):
    """Seconds of a time unit; ticks count time units from the origin."""

    unit_s: float


@dataclass
class ReportCounts:
    """What became of the bottleneck's reports."""

    reports: int = 0
    lost: int = 0
    sample_shift: int | None = None
    skipped: SkippedReports = field(default_factory=SkippedReports)

    @property
    def unusable(self) -> int:
        """Reports that should have counted and did not: missing or skipped. A late report is missing before it comes,
        so the greater of both numbers is taken; of a duplicate the first copy counts."""
        return max(self.lost, self.skipped.late + self.skipped.implausible)


def wanted_intervals(run: Run, flows_s: float | None = None) -> Intervals:
    """Intervals that suit the links: flows at 0.1 s or an RTT, the queue at a few packets of the fastest link."""
    if flows_s is None:
        rtts = [run.bottleneck.rtt_s or 0.0] if len(run.links) == 1 else [flow.rtt_s or 0.0 for flow in run.flows]
        flows_s = max([0.1, *rtts])
    packets_s = [_packet_s(link) for link in run.links if link.rate_bps]
    return Intervals(flows_s=flows_s, queue_s=queue_interval(min(packets_s, default=0.0)))


def _packet_s(link: LinkRecord) -> float:
    return link.mtu_frame_bytes * 8 / link.rate_bps if link.rate_bps else 0.0


def engine_options(run: Run, intervals: Intervals) -> list[str]:
    """Arguments of the engine that the run's target profile calls for."""
    profile = run.profile
    options = ["--interval", duration_argument(intervals.flows_s)]
    options += ["--queue-interval", duration_argument(intervals.queue_s)]
    options += ["--time-unit-s", repr(profile.time_unit_s)]
    options += ["--depth-unit-bytes", str(profile.depth_unit_bytes or run.bottleneck.mtu_frame_bytes)]
    options += ["--empty-queue-delay", str(profile.empty_queue_delay)]
    if not profile.depth_left_reported:
        options.append(DEPTH_FOUND)
    return options


class Aggregation:
    """The tables in memory. Rows 0..n-1 of the flow grids are the experiment's flows, row n all other traffic."""

    def __init__(
        self, run: Run, table: FlowTable, tables: Path, account: Account, most_rows: int | None = None
    ) -> None:
        """Read the tables of `tables`; `account` is its aggregate.json.

        `most_rows` is the number of flows by which intervals are chosen where other links are to have the same ones.
        """
        self.run, self.table, self.account = run, table, account
        self._tables, self._origin = tables, account["origin"]
        self.clock = Clock(account["time_unit_s"])
        mine = account["bottlenecks"].get(str(run.bottleneck.index), UNREPORTED_LINK)
        self.order = ReportCounts(
            reports=mine["reports"],
            lost=mine["lost"],
            sample_shift=mine["sample_shift"] if mine["reports"] else None,
            skipped=SkippedReports(mine["duplicates"], mine["late"], implausible=mine["implausible"]),
        )
        known = {str(link.index) for link in run.links}
        self.other_bottlenecks = sum(b["reports"] for index, b in account["bottlenecks"].items() if index not in known)
        self.implausible = account["implausible_counters"] + account["counter_resets"]
        self.carried_in = account["carried_in"]
        self.clock_steps = mine["clock_steps"] + mine["implausible_times"]
        self.saturated_bits = 8 * mine["saturated_bytes"]
        self.saturated_ticks = mine["saturated_units"]
        self.link_sums = {
            "reports": mine["reports"],
            "departures": mine["departures"],
            "bytes": mine["bytes"],
            "squared_bytes": mine["squared_bytes"],
        }
        # A packet that pushes others out finds no room for itself, but is let in when there is.
        deepest = run.bottleneck.deepest_bytes if run.bottleneck.pushes_out else None
        self._most_units = _NEVER if deepest is None else int(deepest / run.depth_unit_bytes)
        self.peak_depth_units = min(mine["depth_peak"], self._most_units)
        # Each packet that was dropped has a record.
        self.drops_recorded = run.bottleneck.drops_recorded
        # Reports do not tell a policer's drops from those of a full queue; records do.
        self.policer_known = self.drops_recorded or run.bottleneck.policer is None
        self.ack_filter_known = self.drops_recorded or run.bottleneck.ack_filter is None
        # Every packet that left is in a report.
        self.complete = not self.order.lost and not self.order.sample_shift
        self.rows = len(run.flows) + 1
        self._most_rows = most_rows or self.rows
        self._collisions()
        self._totals()
        self._offered()
        flow_bins, queue_bins = self._grid_sizes(mine)
        # Bytes that came into the queue by interval of arrival, and those that left it, sent on or dropped.
        self._admitted_bytes, self._gone_bytes = np.zeros(queue_bins), np.zeros(queue_bins)
        self.flows, self.flow_delay = Grid(FLOW_SUMS, self.rows, flow_bins), Extremes(self.rows, flow_bins)
        self.queue = Grid(QUEUE_SUMS, 1, queue_bins)
        self.depth, self.delay = Extremes(1, queue_bins), Extremes(1, queue_bins)
        self._flow_series()
        self._queue_series()
        if self.drops_recorded:
            self._recorded_drops()
        self._leave_copies_out()
        self.delay_histogram = self._histogram(_DELAY, mine["delay_sum"], mine["delay"]["max"])
        self.depth_histogram = self._histogram(_DEPTH, mine["depth_sum"], mine["depth"]["max"])
        if not run.profile.queue_reported:
            self._withhold_queue()

    def active_ticks(self, row: int) -> tuple[int, int] | None:
        """First and last moment at which the flow of `row` was running, in time units; None if it was never seen.

        A flow with a planned duration runs until that is over even if it sends nothing or no packet of it gets through
        any more: a starved flow is not one that has ended. A run that was cut short ends with its last packet.
        """
        first, last = int(self.first_arrival[row]), int(self.last_data_departure[row])
        if max(int(self.last_departure[row]), int(self.last_drop[row])) < first:
            return None
        spec = self.run.flows[row] if row < len(self.run.flows) else None
        if spec is not None and spec.duration_s is not None:
            planned = round((spec.start_s + spec.duration_s) / self.clock.unit_s)
            end = _NEVER if self.run.status == "complete" else int(self.last_departure.max())
            last = max(last, min(planned, end))
        return first, max(first, last)

    def life_ticks(self, row: int) -> tuple[int, int] | None:
        """First moment at which the flow of `row` was running, and the last, or when its last packet left or was
        dropped."""
        running, ended = self.active_ticks(row), max(int(self.last_departure[row]), int(self.last_drop[row]))
        return None if running is None else (running[0], max(running[1], ended))

    @cached_property
    def assessable(self) -> npt.NDArray[np.bool_]:
        """Rows of which there are enough reports for what is estimated from them; all if each packet is in one."""
        samples, departures = self.flows.totals["samples"], self.flows.totals["departures"]
        if self.complete:
            return np.ones(self.rows, np.bool_)
        enough: npt.NDArray[np.bool_] = samples >= MIN_REPORTS
        if not self.order.sample_shift:
            # Of reports that were lost, none is of these.
            enough |= (samples >= departures) & (samples > 0)
        else:
            enough &= np.array([*(self._spans([row]) for row in range(len(self.run.flows))), True])
        return enough

    @property
    def enough_reports(self) -> bool:
        """What is estimated of the link can be."""
        return self.complete or self.order.reports >= MIN_REPORTS

    @property
    def spans_flows(self) -> bool:
        """Reports of the link are of nearly all of the time in which its flows were at work."""
        return not self.order.sample_shift or self._spans(range(len(self.run.flows)))

    def _spans(self, rows: Sequence[int]) -> bool:
        """Nearly all of the time in which senders were at work, where that is known, lies between the flows' reports.

        Slow ones may be in none for long, as they are of each N-th packet of the link. Programs, and those who make
        requests, are not at work all the time.
        """
        flows, unit_s = [self.run.flows[row] for row in rows], self.clock.unit_s
        timed = [flow for flow in flows if not flow.by_addresses]
        # A sender of datagrams that pauses at its end is not at work any more.
        records = [self.run.host_records[row].record for row in rows]
        worked_s = [
            flow.ended_s if record is None or record.stopped_s is None else record.stopped_s
            for flow, record in zip(flows, records, strict=True)
            if not flow.by_addresses
        ]
        first_s = float(self.first_arrival[rows].min(initial=_NEVER)) * unit_s
        last_s = float(self.last_departure[rows].max(initial=-_NEVER)) * unit_s
        most_s = MAX_ERROR * (last_s - first_s) + max((flow.rtt_s or 0.0 for flow in flows), default=0.0)
        begun_s = min((flow.started_s for flow in timed if flow.started_s is not None), default=first_s)
        ended_s = max((time_s for time_s in worked_s if time_s is not None), default=last_s)
        return first_s - begun_s <= most_s and ended_s - last_s <= most_s

    @cached_property
    def accounted_for(self) -> bool:
        """Nearly all that left is of rows that are assessable, so that shares of it are."""
        assessable = self.flows.totals["departures"][self.assessable].sum()
        return self.complete or bool(assessable >= (1 - MAX_ERROR) * self.queue.totals["departures"][0])

    @cached_property
    def begin_depth_bytes(self) -> npt.NDArray[np.float64]:
        """Bytes of reported packets that waited in the queue as each of its intervals began, shape (bins,)."""
        waiting = np.cumsum(self._admitted_bytes - self._gone_bytes)
        return np.concatenate(([0.0], waiting[:-1]))

    def waiting_packets(self, row: int) -> npt.NDArray[np.float64]:
        """Packets of the flow of `row` in the queue as each interval of the flows' series ended, shape (bins,)."""
        cells = self.flows.cells
        waiting: npt.NDArray[np.float64] = np.cumsum(
            cells["arrivals"][row] - cells["drops"][row] - cells["departures"][row]
        )
        return waiting

    def ticks_from_origin(self, timestamp: int) -> int:
        """A time of the engine's tables in time units from the experiment's start."""
        return timestamp - self._origin

    def _batches(self, name: str) -> Iterator[dict[str, Int64Array]]:
        """Rows of the bottleneck in a table, its numbers widened to int64."""
        with pq.ParquetFile(self._tables / name) as file:
            columns = [column for column in file.schema_arrow.names if not column.startswith("delay_bins")]
            columns.remove("delay_counts") if "delay_counts" in columns else None
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=columns):
                rows = {column: batch.column(column).to_numpy(zero_copy_only=False) for column in columns}
                mine = rows["bottleneck"] == self.run.bottleneck.index
                if mine.any():
                    yield self._departed({column: values[mine].astype(np.int64) for column, values in rows.items()})

    def _departed(self, batch: dict[str, Int64Array]) -> dict[str, Int64Array]:
        """The rows, with departures as reports tell of flows in whose counters those of another link count as well."""
        if {"flow", "departures"} <= batch.keys():
            reported = batch["reports"] << (self.order.sample_shift or 0)
            batch["departures"] = np.where(self._shared[batch["flow"]], reported, batch["departures"])
        return batch

    def _row(self, batch: dict[str, Int64Array]) -> Int64Array:
        number = self.table.numbers(batch["flow"], batch["signature"])
        return np.where(number < 0, self.rows - 1, number)

    def _collisions(self) -> None:
        """Flow indices that several flows have, in whose counters each counts what it sends."""
        self.collided, self._shared = np.zeros(FLOW_INDEXES, np.bool_), np.zeros(FLOW_INDEXES, np.bool_)
        for batch in self._batches("flow_totals.parquet"):
            self.collided[batch["flow"][batch["collision"] > 0]] = True
            # One is a flow of another link: what each of them was offered, and has lost, cannot be told.
            self._shared[batch["flow"][batch["collision"] == SHARED_BY_LINKS]] = True

    def _totals(self) -> None:
        self.first_arrival = np.full(self.rows, _NEVER)
        self.last_departure = np.full(self.rows, -_NEVER)
        self.last_data_departure = np.full(self.rows, -_NEVER)
        # The same of data that had not left before: the rest is what a sender repeats.
        self.last_new_departure = np.full(self.rows, -_NEVER)
        # Length of the frame that left last.
        self.last_frame_bytes = np.zeros(self.rows, np.int64)
        self.finished = np.zeros(self.rows, np.bool_)
        # Packets of which no time is known were lost before the first one that left.
        self.begins_unseen = np.zeros(self.rows, np.bool_)
        # Rows whose arrivals and drops are not known.
        self.uncounted = np.zeros(self.rows, np.bool_)
        # What reports of rows say of the lengths of packets, and how many packets there were.
        self.length_sums = {name: np.zeros(self.rows) for name in ("reports", "departures", "bytes", "squared_bytes")}
        # Rows of what programs make, connection by connection.
        self.connections: dict[Key, dict[str, int]] = {}
        for batch in self._batches("flow_totals.parquet"):
            row = self._row(batch)
            for at in np.flatnonzero(np.isin(batch["flow"], [index for index, _ in self.table.connections])):
                key = int(batch["flow"][at]), int(batch["signature"][at])
                if key in self.table.connections:
                    self.connections[key] = {name: int(batch[name][at]) for name in CONNECTION_COLUMNS}
            np.minimum.at(self.first_arrival, row, batch["first_arrival"] - self._origin)
            new = batch["last_new_timestamp"] > 0
            np.maximum.at(self.last_new_departure, row[new], batch["last_new_timestamp"][new] - self._origin)
            left = batch["last_timestamp"] - self._origin
            np.maximum.at(self.last_departure, row, left)
            last = left == self.last_departure[row]
            self.last_frame_bytes[row[last]] = batch["last_length"][last]
            data = batch["last_data_timestamp"] > 0
            np.maximum.at(self.last_data_departure, row[data], batch["last_data_timestamp"][data] - self._origin)
            self.finished[row[batch["finished"] > 0]] = True
            if not self.drops_recorded:
                self.begins_unseen[row[batch["lost_first"] > 0]] = True
            self.uncounted[row[self._shared[batch["flow"]]]] = True
            for name, sums in self.length_sums.items():
                np.add.at(sums, row, batch[name])

    def _grid_sizes(self, mine: LinkAccount) -> tuple[int, int]:
        """Numbers of intervals; longer ones than the tables' where the grid would pass MAX_CELLS cells or QUEUE_BINS
        rows, so that memory does not grow with the length of the source."""
        last = max(mine["last_timestamp"] - self._origin, int(self.last_drop.max()), 1)
        duration_s, planned = last * self.clock.unit_s, self.run.planned_end_s
        if planned is not None:
            # A stray packet long after the end must not stretch every series.
            duration_s = min(duration_s, planned * 1.5 + 30)
        base = Intervals(self.account["interval_s"], self.account["queue_interval_s"])
        self._flow_factor = _factor(duration_s * self._most_rows / MAX_CELLS, base.flows_s)
        slow = queue_interval(_packet_s(self.run.bottleneck)) if len(self.run.links) > 1 else 0.0
        self._queue_factor = _factor(max(duration_s / QUEUE_BINS, slow), base.queue_s)
        self.intervals = Intervals(base.flows_s * self._flow_factor, base.queue_s * self._queue_factor)
        # A flow that pauses at its end has series until then.
        planned_s = planned if planned is not None and self.run.status == "complete" else 0.0
        flow_bins, queue_bins = (
            max(interval_at(duration_s, width) + 1, -interval_at(-planned_s, width)) for width in self.intervals
        )
        return flow_bins, queue_bins

    def scaled(self, batch: Mapping[str, Any], name: str, sums: Mapping[str, Any] | None = None) -> Any:
        """What reports show, of intervals or of a connection, for all packets that left with them.

        Of a sample a report stands for as many packets as any other one of its flow, or link, whose ``sums`` are given:
        how many left in an interval, by its reports, depends on which packets these are of.
        """
        if self.complete:
            return batch[name]
        counts = batch if sums is None or not self.order.sample_shift else sums
        return batch[name] * (counts["departures"] / np.maximum(counts["reports"], 1))

    def _flow_series(self) -> None:
        for batch in self._batches("flow_series.parquet"):
            row, column = self._row(batch), batch["interval"] // self._flow_factor
            sums = {name: values[row] for name, values in self.length_sums.items()}
            payload = self.scaled(batch, "payload_bytes", sums)
            # Only TCP has sequence numbers; of other traffic every byte is new.
            tcp = batch["advanced_bytes"] > 0
            retransmitting = batch["retransmitted_bytes"] > 0
            numbered = tcp | retransmitting | (batch["new_bytes"] < batch["payload_bytes"])
            self.flows.add(
                row, column, departures=batch["departures"], bytes=self.scaled(batch, "bytes", sums),
                payload_bytes=payload, new_bytes=np.where(numbered, batch["new_bytes"], payload),
                advanced_bytes=np.where(numbered, batch["advanced_bytes"], payload),
                **{name: self.scaled(batch, name, sums)
                   for name in ("data_packets", "retransmitted_packets", "ce_marks")},
                samples=batch["reports"], delay_ticks=batch["delay_sum"],
            )  # fmt: skip
            self.flow_delay.add(row, column, batch["delay_max"])
        for batch in self._batches("flow_arrivals.parquet"):
            counts = {name: batch[name] for name in ("arrivals", "drops", "aqm_drops", "loss_drops")}
            if self.drops_recorded:
                # By reports a drop is known when the flow's next packet gets through; records have its own time.
                counts = {"arrivals": counts["arrivals"] - counts["drops"]}
            self.flows.add(self._row(batch), batch["interval"] // self._flow_factor, **counts)

    def _queue_series(self) -> None:
        for batch in self._batches("bottleneck_series.parquet"):
            column = batch["interval"] // self._queue_factor
            zero = np.zeros(len(column), np.int64)
            due = batch["departures"] >> (self.order.sample_shift or 0)
            self.queue.add(
                zero, column, departures=batch["departures"], bytes=self.scaled(batch, "bytes", self.link_sums),
                ce_marks=self.scaled(batch, "ce_marks", self.link_sums), samples=batch["reports"],
                depth_units=batch["depth_sum"], delay_ticks=batch["delay_sum"],
                missing=np.maximum(due - batch["reports"], 0),
            )  # fmt: skip
            self._add_bytes(self._gone_bytes, column, batch["bytes"])
            for extremes, name in ((self.depth, "depth"), (self.delay, "delay")):
                extremes.add(zero, column, batch[f"{name}_min"])
                extremes.add(zero, column, batch[f"{name}_max"])
        for batch in self._batches("bottleneck_arrivals.parquet"):
            column = batch["interval"] // self._queue_factor
            zero = np.zeros(len(column), np.int64)
            counts = {name: batch[name] for name in ("drops", "aqm_drops", "loss_drops")}
            if not self.drops_recorded:
                self.queue.add(zero, column, **counts)
            self._add_bytes(self._admitted_bytes, column, batch["bytes"])
            seen = batch["depth_min"] < _NO_DEPTH
            for name in ("depth_min", "depth_max"):
                self.depth.add(zero[seen], column[seen], np.minimum(batch[name][seen], self._most_units))

    def _leave_copies_out(self) -> None:
        """Of a flow that has no sequence numbers for the switch to see, copies made by links in front of this one are
        not goodput. How many of its packets are copies, their receiver says, if it is behind this link."""
        self.copies_unknown = np.zeros(self.rows, np.bool_)
        copying = {link.name for link in self.run.links if link.duplication}
        for row, flow in enumerate(self.run.flows):
            at = flow.links.index(self.run.bottleneck.name) if self.run.bottleneck.name in flow.links else 0
            tcp = all(self.table.protocols.get(key) == IPPROTO_TCP for key in self.table.keys_of[row])
            if tcp or not copying.intersection(flow.links[:at]):
                continue
            record = self.run.host_records[row].record
            received = None if record is None else record.distinct_datagrams
            if received is None or at + 1 < len(flow.links):
                self.copies_unknown[row] = True
                continue
            distinct = min(1.0, received / max(1, self.flows.totals["departures"][row]))
            for name in ("new_bytes", "advanced_bytes"):
                self.flows.cells[name][row] *= distinct
                self.flows.totals[name][row] *= distinct

    def _withhold_queue(self) -> None:
        """Take out what reports have of a queue that they do not know: it is 0 there, and was not."""
        self.uncounted[:] = True
        self.saturated_bits = self.saturated_ticks = 0
        self.depth_histogram, self.delay_histogram = LogLinearHistogram(), LogLinearHistogram()
        self.depth, self.delay = Extremes(1, self.queue.bins), Extremes(1, self.queue.bins)
        self.flow_delay = Extremes(self.rows, self.flows.bins)
        for grid in (self.flows, self.queue):
            for name in {"delay_ticks", "depth_units"} & set(grid.cells):
                grid.cells[name][:] = np.nan

    @staticmethod
    def _add_bytes(grid: npt.NDArray[np.float64], column: Int64Array, size: Int64Array) -> None:
        inside = (column >= 0) & (column < len(grid))
        grid += np.bincount(column[inside], weights=size[inside], minlength=len(grid))

    def _drops(self) -> Iterator[dict[str, Int64Array]]:
        """Recorded drops, with time units from the experiment's start in place of timestamps."""
        half = 1 << (self.run.profile.timestamp_bits - 1)
        for batch in drop_batches(self.run):
            batch["ticks"] = (batch["timestamp"] - self._origin + half) % (2 * half) - half
            yield batch

    def _offered(self) -> None:
        """When packets of each row were first and last offered, those that never left the queue included."""
        self.last_drop = np.full(self.rows, -_NEVER)
        for batch in self._drops() if self.drops_recorded else ():
            row = self._row(batch)
            np.minimum.at(self.first_arrival, row, batch["ticks"] - batch["waited"])
            np.maximum.at(self.last_drop, row, batch["ticks"])
        self._dropped_of_connections()

    def _dropped_of_connections(self) -> None:
        """What records say of the packets of programs' connections that were dropped, in place of what reports of later
        ones do: of some nothing ever left."""
        if not self.drops_recorded or not self.table.connections:
            return
        for one in self.connections.values():
            one["arrivals"], one["drops"] = one["arrivals"] - one["drops"], 0
        for batch in self._drops():
            keys, time = batch["flow"] << 32 | batch["signature"], batch["ticks"] + self._origin
            for key, (index, signature) in ((key, divmod(int(key), 1 << 32)) for key in np.unique(keys)):
                if (index, signature) not in self.table.connections:
                    continue
                mine = keys == key
                new = {**dict.fromkeys(CONNECTION_COLUMNS, 0), "first_arrival": _NEVER}
                one = self.connections.setdefault((index, signature), new)
                by_queue = int((mine & (batch["cause"] != LOSS_EMULATION)).sum())
                one["arrivals"], one["drops"] = one["arrivals"] + by_queue, one["drops"] + by_queue
                one["first_arrival"] = min(one["first_arrival"], int((time - batch["waited"])[mine].min()))
                one["last_timestamp"] = max(one["last_timestamp"], int(time[mine].max()))

    def _recorded_drops(self) -> None:
        flow_ticks, queue_ticks = (round(width / self.clock.unit_s) for width in self.intervals)
        for batch in self._drops():
            row, ticks, one = self._row(batch), batch["ticks"], np.ones(len(batch["ticks"]), np.int64)
            emulated, managed = batch["cause"] == LOSS_EMULATION, np.isin(batch["cause"], DECIDED)
            policed, redundant = batch["cause"] == POLICER, batch["cause"] == ACK_FILTER
            counts = {
                "drops": one - emulated, "aqm_drops": managed, "policer_drops": policed, "ack_filter_drops": redundant,
                "loss_drops": emulated,
            }  # fmt: skip
            self.flows.add(row, ticks // flow_ticks, **counts)
            self.flows.add(row, (ticks - batch["waited"]) // flow_ticks, arrivals=one - emulated)
            column = ticks // queue_ticks
            self.queue.add(np.zeros_like(row), column, **counts)
            inside, size = batch["waited"] > 0, batch["packet_length"]
            arrived = (ticks - batch["waited"]) // queue_ticks
            self._add_bytes(self._admitted_bytes, arrived[inside], size[inside])
            self._add_bytes(self._gone_bytes, column[inside], size[inside])
            depth = np.rint(batch["depth_bytes"][inside] / self.run.depth_unit_bytes).astype(np.int64)
            self.depth.add(np.zeros_like(depth), column[inside], depth)

    def _histogram(self, quantity: int, total: int, maximum: int) -> LogLinearHistogram:
        histogram = LogLinearHistogram()
        for batch in self._batches("histograms.parquet"):
            mine = batch["quantity"] == quantity
            histogram.add_bins(batch["lower"][mine], batch["count"][mine])
        histogram.set_totals(total, maximum)
        return histogram


def interval_at(time_s: float, length_s: float) -> int:
    """The interval of this length, from 0, that a time lies in; both are whole nanoseconds, as for the collector.

    Of floats, 4.05 / 0.05 is less than 81: what leaves at the begin of an interval would be in the one before.
    """
    return round(time_s * NANOSECONDS) // round(length_s * NANOSECONDS)


def _factor(at_least_s: float, base_s: float) -> int:
    """By how much intervals of `base_s` have to be lengthened: 1, 2, 5, 10, 20, ..."""
    factor = 1
    for step in range(30):
        factor = (1, 2, 5)[step % 3] * 10 ** (step // 3)
        if factor * base_s >= at_least_s:
            break
    return factor


def aggregate(
    run: Run,
    views: Sequence[tuple[Run, FlowTable]],
    clock: ReportClock,
    unreadable: list[str],
    tables: Path,
    flows_s: float | None = None,
) -> list[Aggregation]:
    """Aggregate the telemetry of a run, in one pass over it, into tables in the directory `tables` and read them.

    Args:
        run: the run.
        views: it at each link, and which reports there belong to its flows.
        clock: where its time begins.
        unreadable: names of report files to leave out.
        tables: directory for the engine's tables.
        flows_s: interval of the flows' series in seconds.

    Raises:
        AnalysisError: the telemetry holds more than one run, or is damaged.
    """
    options = ["--run", "--origin", str(clock.origin), *engine_options(run, wanted_intervals(run, flows_s))]
    for name in unreadable:
        options += ["--skip", name]
    account = aggregate_tables(run.path, tables, *options)
    return [Aggregation(view, table, tables, account, len(run.flows) + 1) for view, table in views]
