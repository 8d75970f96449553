# SPDX-License-Identifier: Apache-2.0
"""What a sample of a link's packets leaves of the summary: standard errors, and what it cannot say taken out."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, sqrt
from socket import IPPROTO_TCP

from narrows_formats.summary import BottleneckSummary, FlowErrors, FlowSummary

from narrows_analysis.aggregation.tables import Aggregation, interval_at
from narrows_analysis.metrics.sampling import ends_error, mean_error, variance
from narrows_analysis.records.run_directory import Run

# Values that a percentile has above it, at the least: of fewer it would be hardly anything but the greatest.
MIN_ABOVE = 5
EVERY_NTH = "; each of them is the n-th packet, and traffic in step with that is not estimated well: no standard errors"
REASON = (
    "one report in {} packets: what depends on single packets (greatest depth and delay, standing queue, drops in one "
    "episode) is not of a sample"
)


def of_sample(section: BottleneckSummary, run: Run, aggregation: Aggregation) -> None:
    """Give the estimates of a link their standard errors, and take out what a sample does not have."""
    drawn = bool(run.profile.random_samples)
    reason = REASON.format(1 << (aggregation.order.sample_shift or 0))
    section["sampling_reason"] = reason if drawn else reason + EVERY_NTH
    section["standing_queue_bytes"] = section["standing_queue_bdp"] = None
    sums = aggregation.link_sums
    few = sums["reports"] < MIN_ABOVE * 100
    for values in (section["queue_bytes"], section["queue_delay_s"]):
        values["max"] = None
        values["p99"] = None if few else values["p99"]
    if not drawn:
        return
    used, count = section["utilization"], sums["reports"]
    depth = mean_error(aggregation.depth_histogram.variance, count)
    delay = mean_error(aggregation.delay_histogram.variance, count)
    section["standard_errors"] = {
        "utilization": None if used is None else used * _relative(sums),
        "queue_bytes_mean": None if depth is None else depth * run.depth_unit_bytes,
        "queue_delay_mean_s": None if delay is None else delay * aggregation.clock.unit_s,
        "ce_marks": _of_count(section["ce_marks"], sums),
    }


def flow_errors(section: FlowSummary, aggregation: Aggregation, number: int) -> FlowErrors | None:
    """Standard errors of what is estimated of a flow; None where which packets are reported is not drawn."""
    if not aggregation.run.profile.random_samples:
        return None
    sums = {name: float(values[number]) for name, values in aggregation.length_sums.items()}
    goodput, throughput = section["goodput_bps"], section["throughput_bps"]
    return {
        "goodput_bps": None if goodput is None else goodput * _relative(sums),
        "throughput_bps": None if throughput is None else throughput * _relative(sums),
        "ce_marks": _of_count(section["ce_marks"], sums),
    }


def _relative(sums: Mapping[str, float]) -> float:
    """Of bytes in a time: packets differ in size, and the time of the first and the last report is not all of it."""
    count = int(sums["reports"])
    sizes = mean_error(variance(sums["bytes"], sums["squared_bytes"], count), count)
    return hypot(sizes * count / sums["bytes"] if sizes else 0.0, ends_error(count))


def relative_error_within(aggregation: Aggregation, row: int, window_s: list[float] | None) -> float | None:
    """Standard error of the goodput of the flow of ``row`` within a time, of whole intervals, over that goodput; of all
    of the flow's time without one. None where no report is of that time, or which packets are reported is not drawn."""
    if not aggregation.run.profile.random_samples:
        return None
    sums = {name: float(values[row]) for name, values in aggregation.length_sums.items()}
    if window_s is None:
        return _relative(sums) if sums["reports"] else None
    begin, end = (interval_at(time_s, aggregation.intervals.flows_s) for time_s in window_s)
    count, reports = float(aggregation.flows.cells["samples"][row, begin:end].sum()), sums["reports"]
    if not count:
        return None
    inside = _relative({name: value * count / reports for name, value in sums.items()})
    keys = aggregation.table.keys_of[row]
    if all(aggregation.table.protocols.get(key) == IPPROTO_TCP for key in keys):
        return inside
    # Without sequence numbers, how many packets the time had is known by the part of the reports that are of it.
    return hypot(inside, sqrt(max(0.0, 1 - count / reports) / count))


def _of_count(estimate: int | None, sums: Mapping[str, float]) -> float | None:
    """Of how many packets are of a kind, by the part of the reports that are."""
    count, packets = int(sums["reports"]), sums["departures"]
    if estimate is None or not packets:
        return None
    part = min(estimate / packets, 1.0)
    error = mean_error(part * (1 - part), count)
    return None if error is None else packets * error
