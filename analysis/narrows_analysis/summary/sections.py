# SPDX-License-Identifier: Apache-2.0
"""summary.json: the numbers of a run. SI units, ratios in 0..1, null where a number cannot be given."""

from __future__ import annotations

import numpy as np
from narrows_formats.summary import (
    BottleneckSummary,
    Distribution,
    DynamicsSummary,
    FairnessSummary,
    FlowSummary,
    GroupSummary,
    TelemetrySummary,
)

from narrows_analysis.aggregation.both_directions import PathMeasures
from narrows_analysis.aggregation.histogram import LogLinearHistogram
from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.metrics.completion import completion_time
from narrows_analysis.metrics.fairness import CONVERGENCE_HOLD_S, CONVERGENCE_TOLERANCE, convergence_time, jain_index
from narrows_analysis.metrics.loss import loss_ratio
from narrows_analysis.metrics.queue import STANDING_WINDOW_S, in_bdp, oscillation, standing_queue
from narrows_analysis.metrics.synchronization import loss_synchronization, rate_synchronization
from narrows_analysis.metrics.throughput import group_rates, rate, utilization
from narrows_analysis.records.flow_table import FlowTable
from narrows_analysis.records.iperf3 import HostRecord
from narrows_analysis.records.run_directory import FlowSpec, Run
from narrows_analysis.records.sockets import SocketRecord
from narrows_analysis.summary.time_series import goodput_bytes, ratio
from narrows_analysis.summary.warnings import MAX_MISSING_RATIO, missing_ratio

# Every pair of flows is correlated.
MAX_PAIRED_FLOWS = 2000
RTT_SOURCE = "the hosts (iperf3, TCP_INFO)"  # where nothing else was read
SOCKET_SOURCE = "the hosts (sockets, TCP_INFO)"
NEVER_TOGETHER = "the flows were never all running at the same time"
NOT_ASSESSABLE = "not assessable"
SWITCH_INFLIGHT_SOURCE = "the switch (sequence and acknowledgement numbers of both directions)"
SWITCH_RTT_SOURCE = "the switch (TCP timestamps of both directions)"


def _quotient(numerator: float, denominator: float) -> float | None:
    return float(numerator / denominator) if denominator else None


def _distribution(histogram: LogLinearHistogram, scale: float, maximum: int | None = None) -> Distribution:
    def scaled(value: float | None) -> float | None:
        return None if value is None else value * scale

    top = histogram.maximum if maximum is None else maximum
    return {
        "mean": scaled(histogram.mean),
        "p50": scaled(histogram.percentile(50)),
        "p99": scaled(histogram.percentile(99)),
        "max": scaled(top) if histogram.count else None,
    }


def _empty_distribution() -> Distribution:
    return {"mean": None, "p50": None, "p99": None, "max": None}


def measured_window(aggregation: Aggregation) -> tuple[float, float] | None:
    """From the first arrival of the experiment's flows to the end of their last departing frame, in seconds; None if
    there is none. A departure's timestamp is the start of its transmission, hence one frame time more at the end."""
    first, last = aggregation.first_arrival[:-1], aggregation.last_departure[:-1]
    seen = last >= first
    if not seen.any():
        return None
    unit = aggregation.clock.unit_s
    link = aggregation.run.bottleneck
    frame_s = link.mtu_frame_bytes * 8 / link.rate_bps if link.rate_bps else 0.0
    return float(max(0, first[seen].min())) * unit, float(last[seen].max()) * unit + frame_s


def common_window(aggregation: Aggregation) -> tuple[int, int] | None:
    """Whole intervals in which every flow of the experiment was running; None if they never all were."""
    running = [aggregation.active_ticks(row) for row in range(aggregation.rows - 1)]
    known = [times for times in running if times is not None]
    if not known or len(known) < len(running):
        return None
    width = round(aggregation.intervals.flows_s / aggregation.clock.unit_s)
    low, high = -(-max(first for first, _ in known) // width), min(last for _, last in known) // width
    return (max(0, low), high) if high > max(0, low) else None


def bottleneck_section(run: Run, aggregation: Aggregation | None) -> BottleneckSummary:
    """The "bottleneck" part of the summary."""
    section: BottleneckSummary = {
        "rate_bps": run.bottleneck.rate_bps,
        "buffer_bytes": run.bottleneck.buffer_bytes,
        "utilization": None,
        "loss_ratio": None,
        "queue_bytes": _empty_distribution(),
        "queue_delay_s": _empty_distribution(),
        "saturated_rate_bps": None,
        "standing_queue_bytes": None,
        "standing_queue_bdp": None,
        "drops": None,
        "loss_emulation_drops": None,
        "ce_marks": None,
    }
    if aggregation is None or not aggregation.order.reports:
        return section
    totals, queue, unit_s = aggregation.flows.totals, aggregation.queue, aggregation.clock.unit_s
    window = measured_window(aggregation)
    link = run.bottleneck
    if window is not None and window[1] > window[0] and link.rate_bps:
        section["utilization"] = utilization(_carried_bytes(aggregation, window), link.rate_bps, window[1] - window[0])
    section["loss_ratio"] = loss_ratio(float(totals["drops"].sum()), float(totals["arrivals"].sum()))
    section["queue_bytes"] = _distribution(
        aggregation.depth_histogram, run.depth_unit_bytes, aggregation.peak_depth_units
    )
    section["queue_delay_s"] = _distribution(aggregation.delay_histogram, unit_s)
    section["saturated_rate_bps"] = _quotient(aggregation.saturated_bits, aggregation.saturated_ticks * unit_s)
    if window is not None:
        least = aggregation.depth.minimum[0, _queue_bins(aggregation, window)] * run.depth_unit_bytes
        standing = standing_queue(least, aggregation.intervals.queue_s, reaction_time(run))
        section["standing_queue_bytes"] = standing
        if link.rate_bps and link.rtt_s and standing is not None:
            section["standing_queue_bdp"] = in_bdp(standing, link.rate_bps, link.rtt_s)
    section["drops"] = int(totals["drops"].sum())
    section["loss_emulation_drops"] = int(totals["loss_drops"].sum())
    section["ce_marks"] = int(queue.totals["ce_marks"][0])
    return section


def _carried_bytes(aggregation: Aggregation, window: tuple[float, float]) -> float:
    """L2 bytes that left inside the window, from the queue's fine intervals."""
    return float(aggregation.queue.cells["bytes"][0, _queue_bins(aggregation, window)].sum())


def _queue_bins(aggregation: Aggregation, window: tuple[float, float]) -> slice:
    width = aggregation.intervals.queue_s
    return slice(int(window[0] / width), int(window[1] / width) + 1)


def reaction_time(run: Run) -> float:
    """Seconds within which a sender reacts to the queue: 0.1 s, or the RTT if that is longer."""
    return max(STANDING_WINDOW_S, run.bottleneck.rtt_s or 0.0)


def dynamics_section(run: Run, aggregation: Aggregation | None) -> DynamicsSummary:
    """How queue and flows move together: oscillation of the depth over the second half of the time in which all flows
    were running (slow start would hide it), and the fraction of the flows that lose in the same episode (drops taken
    at the flow series' intervals)."""
    section: DynamicsSummary = {
        "oscillation_period_s": None,
        "oscillation_amplitude_bytes": None,
        "oscillation_correlation": None,
        "oscillation_reason": None,
        "loss_synchronization": None,
        "rate_synchronization": None,
    }
    window = None if aggregation is None else common_window(aggregation)
    if aggregation is None or window is None:
        section["oscillation_reason"] = "no telemetry" if aggregation is None else NEVER_TOGETHER
        return section
    width = aggregation.intervals.flows_s
    bins = _queue_bins(aggregation, ((window[0] + window[1]) / 2 * width, window[1] * width))
    cells = {name: aggregation.queue.cells[name][0, bins] for name in ("depth_units", "samples")}
    depth = ratio(cells["depth_units"], cells["samples"]) * run.depth_unit_bytes
    found = oscillation(depth, aggregation.intervals.queue_s)
    if found is not None:
        section["oscillation_period_s"], section["oscillation_amplitude_bytes"] = found.period_s, found.amplitude
        section["oscillation_correlation"] = found.correlation
    else:
        seconds = (window[1] - window[0]) / 2 * width
        section["oscillation_reason"] = f"the queue depth has no period below {seconds / 2:.3g} s"
    if len(run.flows) > 1:
        drops = aggregation.flows.cells["drops"][:-1, slice(*window)]
        times = [np.flatnonzero(flow) * width for flow in drops]
        section["loss_synchronization"] = loss_synchronization(times, max(reaction_time(run), width) * 1.01)
        if len(run.flows) <= MAX_PAIRED_FLOWS:
            rates = aggregation.flows.cells["bytes"][:-1, slice(*window)]
            section["rate_synchronization"] = rate_synchronization(rates)
    return section


def fairness_section(run: Run, aggregation: Aggregation | None) -> FairnessSummary:
    """The "fairness" part: Jain's index of the flows' goodputs while all of them were running, and convergence."""
    section: FairnessSummary = {
        "jain_index": None,
        "interval_s": None if aggregation is None else aggregation.intervals.flows_s,
        "convergence_s": None,
        "convergence_reason": None,
        "jain_index_steady": None,
        "window_s": None,
        "reason": None,
    }
    if aggregation is None or not aggregation.order.reports:
        return _without_index(section, "no telemetry")
    if len(run.flows) < 2:
        return _without_index(section, "a single flow")
    if missing_ratio(aggregation) > MAX_MISSING_RATIO:
        return _without_index(section, f"more than {MAX_MISSING_RATIO:.0%} of the telemetry reports are missing")
    window = common_window(aggregation)
    if window is None:
        return _without_index(section, NEVER_TOGETHER)
    width = aggregation.intervals.flows_s
    rates = goodput_bytes(aggregation)[0][:-1, window[0] : window[1]] * 8 / width
    section["jain_index"] = jain_index(rates.mean(axis=1))
    section["jain_index_steady"] = jain_index(rates[:, rates.shape[1] // 2 :].mean(axis=1))
    section["convergence_s"] = convergence_time(rates, width)
    if section["convergence_s"] is None:
        together = (window[1] - window[0]) * width
        section["convergence_reason"] = (
            f"{NOT_ASSESSABLE} in {together:.3g} s: it takes {CONVERGENCE_HOLD_S:g} s "
            f"within {CONVERGENCE_TOLERANCE:.0%} of the fair share"
            if together < CONVERGENCE_HOLD_S
            else f"never settled in {together:.3g} s"
        )
    section["window_s"] = [window[0] * width, window[1] * width]
    return section


def _without_index(section: FairnessSummary, why: str) -> FairnessSummary:
    section["reason"] = section["convergence_reason"] = why
    return section


def flow_sections(
    run: Run,
    aggregation: Aggregation | None,
    table: FlowTable,
    paths: dict[int, PathMeasures],
    sockets: dict[int, SocketRecord],
) -> list[FlowSummary]:
    """The "flows" part, one entry a flow in run.json's order."""
    names = run.flow_names
    sections = [
        _flow_section(run, aggregation, table, run.host_records[number], number, name)
        for number, name in enumerate(names)
    ]
    for number, record in sockets.items():
        if number >= len(sections):
            continue
        section = sections[number]
        section["inflight_bytes"] = {"mean": record.inflight_mean_bytes, "max": record.inflight_max_bytes}
        section["inflight_source"] = SOCKET_SOURCE
        # Read ten times a second, with the smallest RTT of a single packet; iperf3 knows one smoothed value a second.
        section["rtt_s"] = {"min": record.rtt_min_s, "mean": record.rtt_mean_s}
        section["rtt_source"] = SOCKET_SOURCE
    if aggregation is not None:
        for number, measures in paths.items():
            inflight = measures.inflight_bytes()
            if inflight["mean"] is not None:
                sections[number]["inflight_bytes"] = inflight
                sections[number]["inflight_source"] = SWITCH_INFLIGHT_SOURCE
            rtt_s = measures.rtt_s(aggregation.clock.unit_s)
            if rtt_s["min"] is not None:
                sections[number]["rtt_s"] = rtt_s
                sections[number]["rtt_source"] = SWITCH_RTT_SOURCE
    return sections


def _flow_section(
    run: Run, aggregation: Aggregation | None, table: FlowTable, host: HostRecord, number: int, name: str
) -> FlowSummary:
    flow = run.flows[number]
    section: FlowSummary = {
        "name": name, "group": flow.group, "cca": flow.cca, "src": flow.src, "dst": flow.dst, "goodput_bps": None,
        "arrivals": None, "departures": None, "drops": None, "loss_ratio": None, "retransmit_ratio": None,
        "rtt_s": {"min": host.rtt_min_s, "mean": host.rtt_mean_s}, "start_s": None, "end_s": None, "bytes": None,
        "fct_s": None, "fct_reason": _no_completion(flow, None), "throughput_bps": None, "share": None,
        "loss_emulation_drops": None, "ce_marks": None,
        "inflight_bytes": {"mean": None, "max": None}, "inflight_source": None,
        "host_retransmits": host.retransmits, "rtt_source": None if host.rtt_min_s is None else RTT_SOURCE,
    }  # fmt: skip
    if aggregation is None or aggregation.last_departure[number] < aggregation.first_arrival[number]:
        return section
    totals = {name: values[number] for name, values in aggregation.flows.totals.items()}
    unit_s = aggregation.clock.unit_s
    start_s = float(aggregation.first_arrival[number]) * unit_s
    end_s = float(aggregation.last_departure[number]) * unit_s
    delivered = float(goodput_bytes(aggregation)[1][number])
    section |= {
        "start_s": start_s,
        "end_s": end_s,
        "bytes": int(delivered),
        "goodput_bps": rate(delivered, end_s - start_s) if end_s > start_s else None,
        "throughput_bps": rate(float(totals["bytes"]), end_s - start_s) if end_s > start_s else None,
        "departures": int(totals["departures"]),
        "loss_emulation_drops": int(totals["loss_drops"]),
        "ce_marks": int(totals["ce_marks"]),
        "retransmit_ratio": _quotient(totals["retransmitted_packets"], totals["data_packets"]),
    }
    if not aggregation.collided[table.index_of[number]]:
        section["arrivals"] = int(totals["arrivals"])
        section["drops"] = int(totals["drops"])
        section["loss_ratio"] = loss_ratio(float(totals["drops"]), float(totals["arrivals"]))
    section["fct_reason"] = _no_completion(flow, bool(aggregation.finished[number]))
    if section["fct_reason"] is None:
        section["fct_s"] = completion_time(start_s, float(aggregation.last_data_departure[number]) * unit_s)
    return section


def _no_completion(flow: FlowSpec, finished: bool | None) -> str | None:
    """Why a flow has no completion time, if it has none; None for `finished`: nothing was seen of it."""
    if flow.size_bytes is None:
        return "the flow has no set size"
    if finished is None:
        return "no telemetry of the flow"
    return None if finished else "the flow did not end during the run"


def group_sections(run: Run, aggregation: Aggregation | None, flows: list[FlowSummary]) -> list[GroupSummary]:
    """The "groups" part, in order of first appearance; fills in each flow's "share" as well.

    Goodput and share are taken over the time in which all flows were running; where they never all were, over the
    whole run, so that flows of a workload can still be added up.
    """
    window = None if aggregation is None else common_window(aggregation)
    goodput = np.zeros(len(flows))
    if aggregation is not None and flows:
        cells, totals = goodput_bytes(aggregation)
        measured = measured_window(aggregation)
        if window is not None:
            duration_s = (window[1] - window[0]) * aggregation.intervals.flows_s
            goodput = rate(cells[:-1, slice(*window)].sum(axis=1), duration_s)
        elif measured is not None and measured[1] > measured[0]:
            goodput = rate(totals[:-1], measured[1] - measured[0])
    total = float(goodput.sum())
    members: dict[str, list[int]] = {}
    for number, flow in enumerate(run.flows):
        members.setdefault(flow.group, []).append(number)
        flows[number]["share"] = _quotient(goodput[number], total)
    goodputs = group_rates(goodput, [flow.group for flow in run.flows])
    sections: list[GroupSummary] = []
    for name, numbers in members.items():
        counted = [(flows[n]["drops"], flows[n]["arrivals"]) for n in numbers]
        known = [(drops, arrivals) for drops, arrivals in counted if drops is not None and arrivals is not None]
        complete = len(known) == len(counted)
        ccas = sorted({run.flows[n].cca or "" for n in numbers})
        sections.append(
            {
                "name": name,
                "cca": ", ".join(ccas) or None,
                "flows": len(numbers),
                "goodput_bps": float(goodputs[name]) if total else None,
                "share": _quotient(float(goodputs[name]), total),
                "loss_ratio": loss_ratio(sum(d for d, _ in known), sum(a for _, a in known)) if complete else None,
            }
        )
    return sections


def telemetry_section(aggregation: Aggregation | None) -> TelemetrySummary:
    """The "telemetry" part: reports used, reports missing, and one report in `sample` packets."""
    if aggregation is None:
        return {"reports": 0, "lost": 0, "sample": None, "duplicates": 0, "late": 0}
    order = aggregation.order
    return {
        "reports": order.reports,
        "lost": order.lost,
        "sample": None if order.sample_shift is None else 1 << order.sample_shift,
        "duplicates": order.skipped.duplicates,
        "late": order.skipped.late,
    }
