# SPDX-License-Identifier: Apache-2.0
"""One pass over the reports of a bottleneck: everything that the time series and the summary are made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from narrows_analysis.accumulate import MAX_CELLS, Extremes, Grid, nice_interval, segments
from narrows_analysis.flow_table import FlowTable
from narrows_analysis.histogram import LogLinearHistogram
from narrows_analysis.reports import (
    FLAG_CE_MARKED,
    FLAG_COLLISION,
    PROTOCOL_TCP,
    TCP_FIN,
    TCP_SYN,
    ReportClock,
    ReportOrder,
    read_batches,
    timestamp_extremes,
)
from narrows_analysis.run_directory import Run
from narrows_analysis.sequence_space import SequenceSpace

Int64Array = npt.NDArray[np.int64]

FLOW_INDEXES = 1 << 16
QUEUE_BINS = 60_000
PACKETS_A_QUEUE_BIN = 4
FLOW_SUMS = (
    "arrivals", "departures", "drops", "loss_drops", "bytes", "payload_bytes", "new_bytes", "advanced_bytes",
    "data_packets", "retransmitted_packets", "ce_marks", "samples", "delay_ticks",
)  # fmt: skip
QUEUE_SUMS = (
    "departures", "bytes", "drops", "loss_drops", "ce_marks", "samples", "depth_units", "delay_ticks", "missing",
)  # fmt: skip
COUNTERS = ("arrivals", "departures", "loss_drops", "position")
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Intervals:
    """Widths of the time series' intervals in seconds."""

    flows_s: float
    queue_s: float


def choose_intervals(run: Run, duration_s: float, flows_s: float | None = None) -> Intervals:
    """Intervals that suit the run: flows at 0.1 s or an RTT, the queue at a few packets; coarser where the grid would
    pass MAX_CELLS cells or QUEUE_BINS rows, so that memory does not grow with the run's length."""
    rows = len(run.flows) + 1
    duration_s = max(duration_s, 1e-3)
    if flows_s is None:
        flows_s = max(0.1, run.bottleneck.rtt_s or 0.0)
    packet_s = run.bottleneck.mtu_frame_bytes * 8 / run.bottleneck.rate_bps
    return Intervals(
        flows_s=max(flows_s, nice_interval(max(flows_s, duration_s * rows / MAX_CELLS))),
        queue_s=nice_interval(max(1e-3, PACKETS_A_QUEUE_BIN * packet_s, duration_s / QUEUE_BINS)),
    )


class Aggregation:
    """State of the pass. Rows 0..n-1 of the flow grids are the experiment's flows, row n all other traffic."""

    def __init__(self, run: Run, table: FlowTable, clock: ReportClock, intervals: Intervals, duration_s: float) -> None:
        """Allocate for a run of `duration_s` seconds after the origin."""
        self.run, self.table, self.clock, self.intervals = run, table, clock, intervals
        self.rows = len(run.flows) + 1
        flow_bins = max(1, int(duration_s / intervals.flows_s) + 1)
        queue_bins = max(1, int(duration_s / intervals.queue_s) + 1)
        self.flows = Grid(FLOW_SUMS, self.rows, flow_bins)
        self.flow_delay = Extremes(self.rows, flow_bins)
        self.queue = Grid(QUEUE_SUMS, 1, queue_bins)
        self.depth = Extremes(1, queue_bins)
        self.delay = Extremes(1, queue_bins)
        self.depth_histogram = LogLinearHistogram()
        self.delay_histogram = LogLinearHistogram()
        self.peak_depth_units = 0
        self.order = ReportOrder()
        self.other_bottlenecks = 0
        self.first_arrival = np.full(self.rows, _NEVER)
        self.last_departure = np.full(self.rows, -_NEVER)
        self.last_data_departure = np.full(self.rows, -_NEVER)
        self.finished = np.zeros(self.rows, np.bool_)
        self.collided = np.zeros(FLOW_INDEXES, np.bool_)
        self.carried_in = 0
        self.clock_steps = 0
        self.implausible = 0
        self.saturated_bits = 0
        self.saturated_ticks = 0
        self._seen = np.zeros(FLOW_INDEXES, np.bool_)
        self._last = {name: np.zeros(FLOW_INDEXES, np.int64) for name in COUNTERS}
        self._first_position: int | None = None
        self._last_ticks: int | None = None
        self._last_bits = 0
        self._sequence_space = SequenceSpace()

    def add(self, batch: dict[str, Int64Array]) -> None:
        """Take a batch of reports, in the order received, into account."""
        mine = batch["bottleneck"] == self.run.bottleneck.index
        if not mine.all():
            self.other_bottlenecks += int((~mine).sum())
            batch = {name: values[mine] for name, values in batch.items()}
        batch = self.order.apply(batch)
        if not len(batch["flow"]):
            return
        ticks = self.clock.ticks(batch["timestamp"])
        arrival_ticks = ticks - batch["queue_delay"]
        number = self.table.numbers(batch["flow"], batch["signature"])
        row = np.where(number < 0, self.rows - 1, number)
        self._saturation(batch, ticks)
        increments = self._increments(batch)
        self._queue(batch, ticks, arrival_ticks, increments)
        self._flows(batch, row, ticks, arrival_ticks, increments)
        self.collided[batch["flow"][batch["flags"] & FLAG_COLLISION != 0]] = True

    def active_ticks(self, row: int) -> tuple[int, int] | None:
        """First and last moment at which the flow of `row` was running, in time units; None if it was never seen.

        A flow with a planned duration runs until that is over even if no packet of it gets through any more: a starved
        flow is not one that has ended. A run that was cut short ends with its last packet.
        """
        first, last = int(self.first_arrival[row]), int(self.last_data_departure[row])
        if int(self.last_departure[row]) < first:
            return None
        spec = self.run.flows[row] if row < len(self.run.flows) else None
        if spec is not None and spec.duration_s is not None:
            planned = round((spec.start_s + spec.duration_s) / self.clock.unit_s)
            last = max(last, min(planned, int(self.last_departure.max())))
        return first, max(first, last)

    def _bin(self, ticks: Int64Array, interval_s: float) -> Int64Array:
        return np.floor_divide(ticks, round(interval_s / self.clock.unit_s))

    def _saturation(self, batch: dict[str, Int64Array], ticks: Int64Array) -> None:
        """Bits and time of the stretches in which the link was never idle: between the departures of a packet and of
        the next, if that one had to wait and no report is missing between."""
        bits = batch["packet_length"] * 8
        previous_ticks = np.concatenate(([ticks[0] if self._last_ticks is None else self._last_ticks], ticks[:-1]))
        previous_bits = np.concatenate(([self._last_bits], bits[:-1]))
        step = ticks - previous_ticks
        self.clock_steps += int((step < 0).sum())
        busy = (batch["queue_delay"] > 0) & (step >= 0) & (batch["sample_shift"] == 0)
        busy[self.order.missing_positions] = False
        if self._last_ticks is None:
            busy[0] = False
        self.saturated_bits += int(previous_bits[busy].sum())
        self.saturated_ticks += int(step[busy].sum())
        self._last_ticks, self._last_bits = int(ticks[-1]), int(bits[-1])

    def _increments(self, batch: dict[str, Int64Array]) -> dict[str, Int64Array]:
        """By how much each report raises its flow index's counters; drops are the difference of the first two.

        Counters start a run at zero. Where a first report shows more departures than the bottleneck has had since the
        run's first report, they did not: that flow then counts from this report on.
        """
        flow = batch["flow"]
        order = np.argsort(flow, kind="stable")
        grouped = flow[order]
        starts = segments(grouped)
        heads, last = grouped[starts], np.append(starts[1:], len(flow)) - 1
        position = self.order.positions[order]
        if self._first_position is None:
            self._first_position = int(self.order.positions[0]) - (1 << int(batch["sample_shift"][0]))
            self._last["position"][:] = self._first_position
        unseen = ~self._seen[heads]
        carried = unseen & (batch["departures"][order][starts] > position[starts] - self._first_position)
        self.carried_in += int(carried.sum())
        self._seen[heads] = True
        result: dict[str, Int64Array] = {}
        for name, least in (("arrivals", 1), ("departures", 1), ("loss_drops", 0)):
            values = batch[name][order]
            base = np.where(carried, values[starts] - least, self._last[name][heads])
            previous = np.concatenate(([0], values[:-1]))
            previous[starts] = base
            step = (values - previous) & 0xFFFFFFFF
            self._last[name][heads] = values[last]
            result[name] = np.empty_like(step)
            result[name][order] = step
        before = np.concatenate(([0], position[:-1]))
        before[starts] = self._last["position"][heads]
        self._last["position"][heads] = position[last]
        # A flow cannot have left more often than its bottleneck sent, nor have lost fewer packets than before.
        wrong = np.empty(len(flow), np.bool_)
        wrong[order] = result["departures"][order] > position - before
        wrong |= result["arrivals"] - result["departures"] < 0
        wrong |= (result["arrivals"] >= 1 << 31) | (result["loss_drops"] >= 1 << 31)
        if wrong.any():
            self.implausible += int(wrong.sum())
            for name in ("arrivals", "departures", "loss_drops"):
                result[name][wrong] = 0
        result["drops"] = result["arrivals"] - result["departures"]
        return result

    def _queue(
        self, batch: dict[str, Int64Array], ticks: Int64Array, arrival_ticks: Int64Array, steps: dict[str, Int64Array]
    ) -> None:
        zero = np.zeros(len(ticks), np.int64)
        departed = self._bin(ticks, self.intervals.queue_s)
        arrived = self._bin(arrival_ticks, self.intervals.queue_s)
        delay, depth = batch["queue_delay"], batch["dequeue_depth"]
        own = -(-batch["packet_length"] // max(1, round(self.run.profile.depth_unit_bytes)))
        peak = batch["enqueue_depth"] + np.where(delay > 0, own, 0)
        missing = zero.copy()
        missing[self.order.missing_positions] = self.order.missing_counts
        self.queue.add(
            zero, departed, departures=steps["departures"], bytes=steps["departures"] * batch["packet_length"],
            ce_marks=batch["flags"] & FLAG_CE_MARKED, samples=zero + 1, depth_units=depth, delay_ticks=delay,
            missing=missing,
        )  # fmt: skip
        self.queue.add(zero, arrived, drops=steps["drops"], loss_drops=steps["loss_drops"])
        self.depth.add(zero, departed, depth)
        self.depth.add(zero, arrived, peak)
        self.delay.add(zero, departed, delay)
        self.depth_histogram.add(depth)
        self.delay_histogram.add(delay)
        self.peak_depth_units = max(self.peak_depth_units, int(peak.max()))

    def _flows(
        self,
        batch: dict[str, Int64Array],
        row: Int64Array,
        ticks: Int64Array,
        arrival_ticks: Int64Array,
        steps: dict[str, Int64Array],
    ) -> None:
        order = np.argsort(row, kind="stable")
        batch = {name: values[order] for name, values in batch.items()}
        steps = {name: values[order] for name, values in steps.items()}
        row, ticks, arrival_ticks = row[order], ticks[order], arrival_ticks[order]
        payload = batch["payload_length"]
        data = payload > 0
        new, advanced = payload * steps["departures"], np.zeros(len(row), np.int64)
        retransmitted = np.zeros(len(row), np.bool_)
        tcp = data & (batch["protocol"] == PROTOCOL_TCP) & (row < self.rows - 1) & (batch["tcp_flags"] & TCP_SYN == 0)
        new[tcp], retransmitted[tcp], advanced[tcp] = self._sequence_space.add(
            row[tcp], batch["tcp_seq"][tcp], payload[tcp]
        )
        advanced[~tcp] = new[~tcp]
        departed = self._bin(ticks, self.intervals.flows_s)
        arrived = self._bin(arrival_ticks, self.intervals.flows_s)
        self.flows.add(
            row, departed, departures=steps["departures"], bytes=steps["departures"] * batch["packet_length"],
            payload_bytes=steps["departures"] * payload, new_bytes=new, advanced_bytes=advanced, data_packets=data,
            retransmitted_packets=retransmitted, ce_marks=batch["flags"] & FLAG_CE_MARKED,
            samples=np.ones(len(row), np.int64), delay_ticks=batch["queue_delay"],
        )  # fmt: skip
        self.flows.add(row, arrived, arrivals=steps["arrivals"], drops=steps["drops"], loss_drops=steps["loss_drops"])
        self.flow_delay.add(row, departed, batch["queue_delay"])
        np.minimum.at(self.first_arrival, row, arrival_ticks)
        np.maximum.at(self.last_departure, row, ticks)
        np.maximum.at(self.last_data_departure, row[data], ticks[data])
        self.finished[row[batch["tcp_flags"] & TCP_FIN != 0]] = True


def aggregate(run: Run, table: FlowTable, files: list[Path], flows_s: float | None = None) -> Aggregation | None:
    """Read `files` once and return the sums; None if they hold no report."""
    extremes = timestamp_extremes(files)
    if not len(extremes):
        return None
    clock = ReportClock(run, int(extremes[0]))
    duration_s = float(clock.ticks(extremes).max()) * clock.unit_s
    planned = run.planned_end_s
    if planned is not None:
        # A stray packet long after the end must not stretch every series.
        duration_s = min(duration_s, planned * 1.5 + 30)
    duration_s = max(duration_s, clock.unit_s)
    aggregation = Aggregation(run, table, clock, choose_intervals(run, duration_s, flows_s), duration_s)
    for batch in read_batches(files):
        aggregation.add(batch)
    return aggregation
