# SPDX-License-Identifier: Apache-2.0
"""flows.parquet and queue.parquet: the tidy time series of a run, with the unit of each column in its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from narrows_formats import storage
from narrows_formats.columns import FLOWS, QUEUE, QUEUES, Column, with_metadata
from narrows_formats.flow_names import OTHER_GROUP

from narrows_analysis.aggregation.interval_lengths import begins_s
from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.records.flow_table import OTHER
from narrows_analysis.summary.dual_queue import NAMES, DualQueue

FloatArray = npt.NDArray[np.float64]

_WRITE_ROWS = 1 << 18

_EXTREMES = ("depth_min_bytes", "depth_max_bytes", "delay_min_s", "delay_max_s")
_OFFERED = ("arrivals", "drops", "aqm_drops", "policer_drops", "ack_filter_drops", "loss_drops")
_COUNTS = {"arrivals", "departures", "drops", "aqm_drops", "policer_drops", "ack_filter_drops", "loss_drops",
           "ce_marks", "data_packets", "retransmitted_packets", "missing_reports"}  # fmt: skip


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    kinds = {"flow": pa.int32(), **dict.fromkeys(("link", "queue", "name", "group", "cca", "packets"), pa.string()),
             **dict.fromkeys(_COUNTS, pa.int64())}  # fmt: skip
    fields = [(column.name, kinds.get(column.name, pa.float64())) for column in columns]
    return with_metadata(pa.schema(fields), columns)


FLOW_SERIES_SCHEMA = _schema(FLOWS)
QUEUE_SERIES_SCHEMA = _schema(QUEUE)
QUEUES_SERIES_SCHEMA = _schema(QUEUES)


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Element-wise quotient, NaN where the denominator is 0."""
    result = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def goodput_bytes(aggregation: Aggregation) -> tuple[FloatArray, FloatArray]:
    """New payload bytes per flow and interval, and per flow in total.

    With every report at hand a byte counts when it first leaves the bottleneck. Where reports are sampled or lost, the
    growth of the highest sequence number counts instead: the same over a flow's life, later inside it by the time that
    a hole takes to be filled.
    """
    name = "new_bytes" if aggregation.complete else "advanced_bytes"
    return aggregation.flows.cells[name], aggregation.flows.totals[name]


def active_bins(aggregation: Aggregation, row: int) -> tuple[int, int]:
    """First and one past the last interval in which the flow of `row` was running; (0, 0) if never."""
    life = aggregation.life_ticks(row)
    if life is None:
        return 0, 0
    first, last = life
    width = round(aggregation.intervals.flows_s / aggregation.clock.unit_s)
    return max(0, first // width), max(0, min(aggregation.flows.bins, last // width + 1))


def write_flows(path: Path, aggregations: Sequence[Aggregation | None]) -> None:
    """Write flows.parquet: a row for each link, flow and interval while it was running; `flow` is the position
    in run.json's list, -1 (group "(other)") stands for all traffic that is not part of the experiment."""
    with storage.replacing(path) as file, pq.ParquetWriter(file, FLOW_SERIES_SCHEMA) as writer:
        for aggregation in aggregations:
            if aggregation is not None:
                _write_flows_at(writer, aggregation)


def _write_flows_at(writer: pq.ParquetWriter, aggregation: Aggregation) -> None:
    run, width = aggregation.run, aggregation.intervals.flows_s
    cells, unit_s = aggregation.flows.cells, aggregation.clock.unit_s
    good, _ = goodput_bytes(aggregation)
    delay_max = aggregation.flow_delay.maximum
    for row in range(aggregation.rows):
        low, high = active_bins(aggregation, row)
        spec = run.flows[row] if row < len(run.flows) else None
        for start in range(low, high, _WRITE_ROWS):
            span = slice(start, min(high, start + _WRITE_ROWS))
            n = span.stop - span.start
            values: dict[str, object] = {
                "link": [run.bottleneck.name] * n,
                "packets": ["data" if spec is None else spec.packets] * n,
                "time_s": begins_s(span.start, span.stop, width),
                "interval_s": np.full(n, width),
                "flow": np.full(n, OTHER if spec is None else spec.number),
                "name": [OTHER_GROUP if spec is None else spec.name] * n,
                "group": [OTHER_GROUP if spec is None else spec.group] * n,
                "cca": [None if spec is None else spec.cca] * n,
                "throughput_bps": cells["bytes"][row, span] * 8 / width,
                "goodput_bps": good[row, span] * 8 / width,
                "loss_ratio": ratio(cells["drops"][row, span], cells["arrivals"][row, span]),
                "queue_delay_mean_s": ratio(cells["delay_ticks"][row, span], cells["samples"][row, span]) * unit_s,
                "queue_delay_max_s": delay_max[row, span] * unit_s,
            }
            if aggregation.order.sample_shift:
                values["queue_delay_max_s"] = [None] * n
            for name in _COUNTS & set(cells):
                values[name] = np.rint(cells[name][row, span]).astype(np.int64)
            if aggregation.uncounted[row]:
                values |= dict.fromkeys((*_OFFERED, "loss_ratio"), [None] * n)
            if not run.profile.queue_reported:
                values["ce_marks"] = [None] * n
            if not aggregation.policer_known:
                values["policer_drops"] = [None] * n
            if not aggregation.ack_filter_known:
                values["ack_filter_drops"] = [None] * n
            writer.write_table(_table(FLOW_SERIES_SCHEMA, values))


def write_queue(path: Path, aggregations: Sequence[Aggregation | None]) -> None:
    """Write queue.parquet: a row for each link and interval from the origin; depth and delay are null where nothing
    left."""
    with storage.replacing(path) as file, pq.ParquetWriter(file, QUEUE_SERIES_SCHEMA) as writer:
        for aggregation in aggregations:
            if aggregation is not None:
                _write_queue_at(writer, aggregation)


def _write_queue_at(writer: pq.ParquetWriter, aggregation: Aggregation) -> None:
    width, unit_s = aggregation.intervals.queue_s, aggregation.clock.unit_s
    depth_bytes = aggregation.run.depth_unit_bytes
    cells = {name: values[0] for name, values in aggregation.queue.cells.items()}
    values: dict[str, object] = {
        "link": [aggregation.run.bottleneck.name] * aggregation.queue.bins,
        "time_s": begins_s(0, aggregation.queue.bins, width),
        "interval_s": np.full(aggregation.queue.bins, width),
        "depth_mean_bytes": ratio(cells["depth_units"], cells["samples"]) * depth_bytes,
        "depth_min_bytes": aggregation.depth.minimum[0] * depth_bytes,
        "depth_max_bytes": aggregation.depth.maximum[0] * depth_bytes,
        "delay_mean_s": ratio(cells["delay_ticks"], cells["samples"]) * unit_s,
        "delay_min_s": aggregation.delay.minimum[0] * unit_s,
        "delay_max_s": aggregation.delay.maximum[0] * unit_s,
        "throughput_bps": cells["bytes"] * 8 / width,
        "missing_reports": cells["missing"].astype(np.int64),
    }
    for name in ("departures", "drops", "aqm_drops", "policer_drops", "ack_filter_drops", "loss_drops", "ce_marks"):
        values[name] = np.rint(cells[name]).astype(np.int64)
    if aggregation.uncounted.any():
        values |= {name: [None] * aggregation.queue.bins for name in _OFFERED if name in values}
    if not aggregation.run.profile.queue_reported:
        values["ce_marks"] = [None] * aggregation.queue.bins
    if not aggregation.policer_known:
        values["policer_drops"] = [None] * aggregation.queue.bins
    if not aggregation.ack_filter_known:
        values["ack_filter_drops"] = [None] * aggregation.queue.bins
    if aggregation.order.sample_shift:
        # The extremes of a sample are not those of the packets.
        values |= {name: [None] * aggregation.queue.bins for name in _EXTREMES}
    writer.write_table(_table(QUEUE_SERIES_SCHEMA, values))


def write_queues(path: Path, links: Mapping[str, DualQueue]) -> None:
    """Write queues.parquet: a row for each link with two queues, each of these, and each interval from the origin."""
    with storage.replacing(path) as file, pq.ParquetWriter(file, QUEUES_SERIES_SCHEMA) as writer:
        for name, both in links.items():
            for row in range(len(NAMES)):
                writer.write_table(_table(QUEUES_SERIES_SCHEMA, _queue_values(name, both, row)))


def _queue_values(link: str, both: DualQueue, row: int) -> dict[str, object]:
    width, unit_s, bins = both.interval_s, both.unit_s, both.sums.bins
    cells = {name: values[row] for name, values in both.sums.cells.items()}
    return {
        "link": [link] * bins,
        "queue": [NAMES[row]] * bins,
        "time_s": begins_s(0, bins, width),
        "interval_s": np.full(bins, width),
        "depth_mean_bytes": ratio(cells["depth_bytes"], cells["depths"]),
        "depth_min_bytes": both.depth.minimum[row],
        "depth_max_bytes": both.depth.maximum[row],
        "delay_mean_s": ratio(cells["delay_ticks"], cells["departures"]) * unit_s,
        "delay_min_s": both.delay.minimum[row] * unit_s,
        "delay_max_s": both.delay.maximum[row] * unit_s,
        "departures": cells["departures"].astype(np.int64),
        "throughput_bps": cells["bytes"] * 8 / width,
        "ce_marks": cells["ce_marks"].astype(np.int64),
    }


def _table(schema: pa.Schema, values: dict[str, object]) -> pa.Table:
    return pa.table(
        [pa.array(values[field.name], type=field.type, from_pandas=True) for field in schema], schema=schema
    )
