# SPDX-License-Identifier: Apache-2.0
"""summary.json: the numbers of a run. SI units, ratios in 0..1, null where a number cannot be given."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
from narrows_formats.run_record import LinkRecord
from narrows_formats.schedules import Opportunities, RateSchedule
from narrows_formats.summary import (
    BottleneckSummary,
    Distribution,
    DynamicsSummary,
    FairnessSummary,
    FlowSummary,
    TelemetrySummary,
)
from narrows_formats.units import NANOSECONDS

from narrows_analysis.aggregation.both_directions import PathMeasures
from narrows_analysis.aggregation.interval_lengths import NANOSECOND_DIGITS
from narrows_analysis.aggregation.tables import MIN_REPORTS, Aggregation, interval_at
from narrows_analysis.metrics.completion import completion_time
from narrows_analysis.metrics.fairness import CONVERGENCE_HOLD_S, CONVERGENCE_TOLERANCE, convergence_time, jain_index
from narrows_analysis.metrics.loss import loss_ratio
from narrows_analysis.metrics.queue import STANDING_WINDOW_S, in_bdp, oscillation, standing_queue
from narrows_analysis.metrics.synchronization import loss_synchronization, rate_synchronization
from narrows_analysis.metrics.throughput import rate, utilization
from narrows_analysis.records.flow_table import FlowTable
from narrows_analysis.records.host_record import HostRecord
from narrows_analysis.records.run_directory import FlowSpec, Run
from narrows_analysis.records.sockets import SocketRecords
from narrows_analysis.summary.connections import connection_rows
from narrows_analysis.summary.dual_queue import DualQueue
from narrows_analysis.summary.late_drops import drops_after_reports
from narrows_analysis.summary.samples import flow_errors, of_sample
from narrows_analysis.summary.time_series import goodput_bytes, ratio
from narrows_analysis.summary.warnings import MAX_MISSING_RATIO, missing_ratio

FloatArray = npt.NDArray[np.float64]

ICMP = {socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6}
# Every pair of flows is correlated.
MAX_PAIRED_FLOWS = 2000
SOCKET_SOURCE = "the hosts (sockets, TCP_INFO)"
QLOG_SOURCE = "the hosts (qlog of the sender)"
# How much later than whole ticks say the last frame's end may be: its begin and its end are each in the midst of one.
END_TICKS = 2
FEW_REPORTS = f"fewer than {MIN_REPORTS} of the sampled reports are of one of the flows"
FEW_REPORTS_OF_LINK = f"fewer than {MIN_REPORTS} sampled reports"
NO_QUEUE = "the switch does not say what its queue does"
NEVER_TOGETHER = "the flows were never all running for a whole interval of {:g} s"
SEVERAL_LINKS = "the experiment has several links, see `links`"
NO_SIZE = "the flow has no set size"
NO_TELEMETRY = "no telemetry"
NO_WINDOW = "no packet of the experiment's flows left it"
NOT_ASSESSABLE = "not assessable"
PROBE_SOURCE = "the probe (round trips of its datagrams)"
SWITCH_INFLIGHT_SOURCE = "the switch (sequence and acknowledgement numbers of both directions)"
SWITCH_RTT_SOURCE = "the switch (TCP timestamps of both directions)"


def quotient(numerator: float, denominator: float) -> float | None:
    """The quotient, None where the denominator is 0."""
    return float(numerator / denominator) if denominator else None


def _empty_distribution() -> Distribution:
    return {"mean": None, "p50": None, "p99": None, "max": None}


def measured_window(aggregation: Aggregation) -> tuple[float, float] | None:
    """From the first arrival of the experiment's flows to the end of their last departing frame, in seconds, and to the
    planned end of the last flow at least; None if there is none. A departure's timestamp is the start of its
    transmission, hence one frame time more at the end."""
    lives = [life for row in range(aggregation.rows - 1) if (life := aggregation.life_ticks(row)) is not None]
    if not lives:
        return None
    unit, last = aggregation.clock.unit_s, aggregation.last_departure[:-1]
    begin_s, end_s = (min(first for first, _ in lives) * unit, max(end for _, end in lives) * unit)
    if last.max() >= 0:
        begun_s = float(last.max()) * unit
        frame_s = _frame_s(aggregation.run.bottleneck, begun_s, int(aggregation.last_frame_bytes[last.argmax()]))
        end_s = max(end_s, begun_s + frame_s)
    return round(max(0.0, begin_s), NANOSECOND_DIGITS), round(end_s, NANOSECOND_DIGITS)


def _frame_s(link: LinkRecord, begun_s: float, frame_bytes: int) -> float:
    """How long a frame is on the link, from when it leaves the queue."""
    if link.schedule is not None:
        begun_ns = round(begun_s * NANOSECONDS)
        return (link.schedule.finish_ns(begun_ns, frame_bytes) - begun_ns) / NANOSECONDS
    return frame_bytes * 8 / link.rate_bps if link.rate_bps else 0.0


def is_probe(aggregation: Aggregation, row: int) -> bool:
    """Whether a flow is no competitor of others: a probe, or what programs send where that is ICMP alone."""
    protocols = {aggregation.table.protocols.get(key) for key in aggregation.table.keys_of[row]}
    return aggregation.run.flows[row].probe or bool(protocols and protocols <= ICMP)


def competing_rows(aggregation: Aggregation) -> list[int]:
    """Rows of the flows that compete for the link."""
    return [row for row in range(aggregation.run.data_flows) if not is_probe(aggregation, row)]


def common_window(aggregation: Aggregation) -> tuple[int, int] | None:
    """Whole intervals in which every flow that competes was running, or every probe where none does; None if they never
    all were."""
    rows = competing_rows(aggregation) or range(aggregation.run.data_flows)
    running = [aggregation.active_ticks(row) for row in rows]
    known = [times for times in running if times is not None]
    if not known or len(known) < len(running):
        return None
    width = round(aggregation.intervals.flows_s / aggregation.clock.unit_s)
    low, high = -(-max(first for first, _ in known) // width), min(last for _, last in known) // width
    return (max(0, low), high) if high > max(0, low) else None


def seconds_of(window: tuple[int, int], width_s: float) -> list[float]:
    """Begin and end, in seconds, of a window of whole intervals."""
    return [round(end * width_s, NANOSECOND_DIGITS) for end in window]


def no_bottleneck_section(why: str) -> BottleneckSummary:
    """The "bottleneck" part of a run with several links, or of one link before anything is known of it."""
    return {
        "rate_bps": None,
        "rate_mean_bps": None,
        "rate_least_bps": None,
        "rate_most_bps": None,
        "down_s": None,
        "down_reason": why,
        "buffer_bytes": None,
        "buffer_packets": None,
        "utilization": None,
        "loss_ratio": None,
        "total_loss_ratio": None,
        "share_window_s": None,
        "run_window_s": None,
        "other_share": None,
        "other_share_of_run": None,
        "queue_bytes": _empty_distribution(),
        "queue_delay_s": _empty_distribution(),
        "saturated_rate_bps": None,
        "saturated_rate_reason": why,
        "standing_queue_bytes": None,
        "standing_queue_bdp": None,
        "drops": None,
        "probe_drops": None,
        "drops_after_reports": None,
        "aqm_drops": None,
        "policer_drops": None,
        "ack_filter_drops": None,
        "loss_emulation_drops": None,
        "ce_marks": None,
        "queues": [],
        "standard_errors": None,
        "sampling_reason": None,
    }


def bottleneck_section(
    run: Run, aggregation: Aggregation | None, dual_queue: DualQueue | None = None
) -> BottleneckSummary:
    """A link and its queue: the "bottleneck" part of the summary where there is one link."""
    section = no_bottleneck_section(NO_TELEMETRY)
    link = run.bottleneck
    section["rate_bps"] = link.rate_bps
    section["buffer_bytes"], section["buffer_packets"] = link.buffer_bytes, link.buffer_packets
    if (later := drops_after_reports(run)) is not None:
        section["drops_after_reports"] = sum(later.values())
    if aggregation is None or not (aggregation.order.reports or aggregation.drops_recorded):
        return section
    if not aggregation.uncounted.any():
        totals = aggregation.flows.totals
        drops, emulated, arrivals = (float(totals[name].sum()) for name in ("drops", "loss_drops", "arrivals"))
        section["drops"], section["loss_emulation_drops"] = int(drops), int(emulated)
        probes = [row for row in range(len(run.flows)) if is_probe(aggregation, row)]
        of_probes = {name: float(totals[name][probes].sum()) for name in ("drops", "loss_drops", "arrivals")}
        section["probe_drops"] = int(of_probes["drops"])
        drops, emulated = drops - of_probes["drops"], emulated - of_probes["loss_drops"]
        arrivals -= of_probes["arrivals"]
        section["loss_ratio"] = loss_ratio(drops, arrivals)
        # Loss emulation is in front of the queue: what it takes has not arrived there.
        section["total_loss_ratio"] = loss_ratio(drops + emulated, arrivals + emulated)
        section["aqm_drops"] = int(totals["aqm_drops"].sum())
        section["policer_drops"] = int(totals["policer_drops"].sum()) if aggregation.policer_known else None
        thinned = totals["ack_filter_drops"].sum()
        section["ack_filter_drops"] = int(thinned) if aggregation.ack_filter_known else None
    if dual_queue is not None:
        section["queues"] = dual_queue.sections()
    if not aggregation.order.reports:
        section["down_reason"] = section["saturated_rate_reason"] = NO_WINDOW
    elif aggregation.enough_reports:
        _estimate(section, run, aggregation)
    else:
        section["down_reason"] = section["saturated_rate_reason"] = FEW_REPORTS_OF_LINK
    return section


def _estimate(section: BottleneckSummary, run: Run, aggregation: Aggregation) -> None:
    """Fill in what is exact only if each packet is in a report."""
    queue, unit_s = aggregation.queue, aggregation.clock.unit_s
    window = measured_window(aggregation)
    link = run.bottleneck
    if window is not None and window[1] > window[0] and link.rate_bps and aggregation.spans_flows:
        if link.schedule is None:
            carried, time_s = _carried(aggregation, window)
            section["utilization"] = utilization(carried, link.rate_bps, time_s)
            section["rate_mean_bps"] = section["rate_least_bps"] = section["rate_most_bps"] = link.rate_bps
            section["down_s"] = 0.0
        else:
            _of_schedule(section, aggregation, link.schedule, window)
    section["down_reason"] = _why_no_down_time(section, link, aggregation.spans_flows)
    together, whole = competing_goodput(aggregation), run_goodput(aggregation)
    section["share_window_s"], section["run_window_s"] = together.window_s, whole.window_s
    if aggregation.accounted_for:
        section["other_share"], section["other_share_of_run"] = together.share(-1), whole.share(-1)
    section["queue_bytes"] = aggregation.depth_histogram.distribution(
        run.depth_unit_bytes, aggregation.peak_depth_units
    )
    section["queue_delay_s"] = aggregation.delay_histogram.distribution(unit_s)
    if link.schedule is None:
        # Of a rate that varies it would be that of the times at which there was a queue.
        section["saturated_rate_bps"] = quotient(aggregation.saturated_bits, aggregation.saturated_ticks * unit_s)
    section["saturated_rate_reason"] = _why_no_saturated_rate(section, link, aggregation)
    # The smallest depth of a sample is not that of all packets.
    if window is not None and not aggregation.order.sample_shift and run.profile.queue_reported:
        bins = _queue_bins(aggregation, window)
        least = aggregation.depth.minimum[0, bins] * run.depth_unit_bytes
        begin = aggregation.begin_depth_bytes[bins]
        standing = standing_queue(least, begin, aggregation.intervals.queue_s, reaction_time(run))
        section["standing_queue_bytes"] = standing
        if link.rate_bps and link.rtt_s and standing is not None:
            section["standing_queue_bdp"] = in_bdp(standing, link.rate_bps, link.rtt_s)
    if run.profile.queue_reported:
        section["ce_marks"] = round(queue.totals["ce_marks"][0])
    if aggregation.order.sample_shift:
        of_sample(section, run, aggregation)


def _why_no_down_time(section: BottleneckSummary, link: LinkRecord, spanned: bool) -> str | None:
    if section["down_s"] is not None:
        return None
    if not link.rate_bps:
        return "it has no set rate"
    if not spanned:
        return "sampled reports are not of all of the time in which flows were at work"
    if isinstance(link.schedule, Opportunities):
        return "delivery opportunities, between which nothing passes anyway"
    return NO_WINDOW


def _why_no_saturated_rate(section: BottleneckSummary, link: LinkRecord, aggregation: Aggregation) -> str | None:
    if section["saturated_rate_bps"] is not None:
        return None
    if link.schedule is not None:
        return "the rate varies"
    if not aggregation.run.profile.queue_reported:
        return NO_QUEUE
    return (
        "sampled reports do not tell which packets left in a row"
        if aggregation.order.sample_shift
        else "no packet waited for another"
    )


def _of_schedule(
    section: BottleneckSummary, aggregation: Aggregation, schedule: RateSchedule, window: tuple[float, float]
) -> None:
    """Fill in what there is of a rate that varies: all of it is of the measured window."""
    begin, end = (round(time * NANOSECONDS) for time in _reach(aggregation, window))
    offered, extremes, down = schedule.bits(begin, end), schedule.extremes_bps(begin, end), schedule.down_ns(begin, end)
    cells, bins = aggregation.queue.cells, _queue_bins(aggregation, window)
    counted = schedule.frame_bytes(float(cells["bytes"][0, bins].sum()), float(cells["departures"][0, bins].sum()))
    later = end + round(END_TICKS * aggregation.clock.unit_s * NANOSECONDS)
    could = max(float(offered), min(counted * 8, float(schedule.bits(begin, later))))
    section["utilization"] = quotient(counted * 8, could)
    section["rate_mean_bps"] = float(offered) * NANOSECONDS / (end - begin)
    section["rate_least_bps"], section["rate_most_bps"] = float(extremes.least), float(extremes.most)
    section["down_s"] = None if down is None else down / NANOSECONDS


def _carried(aggregation: Aggregation, window: tuple[float, float]) -> tuple[float, float]:
    """L2 bytes that left in the queue's fine intervals that the window touches, and the seconds that the link had for
    them. More than the window holds is other traffic in its first and its last interval, which on a slow link a single
    frame may fill: the link had as much of those intervals as that traffic needs and was there for."""
    begin, end = _reach(aggregation, window)
    end += END_TICKS * aggregation.clock.unit_s
    carried = float(aggregation.queue.cells["bytes"][0, _queue_bins(aggregation, window)].sum())
    rate_bps = aggregation.run.bottleneck.rate_bps
    needed = carried * 8 / rate_bps if rate_bps else 0.0
    return carried, max(window[1] - window[0], min(end - begin, needed))


def _reach(aggregation: Aggregation, window: tuple[float, float]) -> tuple[float, float]:
    """The window, and what other traffic was there for of its first and its last interval."""
    bins, width, unit_s = _queue_bins(aggregation, window), aggregation.intervals.queue_s, aggregation.clock.unit_s
    first, last = float(aggregation.first_arrival[-1]) * unit_s, float(aggregation.last_departure[-1]) * unit_s
    begin, end = window
    if last >= first:
        link, until = aggregation.run.bottleneck, min(last, bins.stop * width)
        begin = min(begin, max(first, bins.start * width))
        end = max(end, until + _frame_s(link, until, link.mtu_frame_bytes))
    return begin, end


def _queue_bins(aggregation: Aggregation, window: tuple[float, float]) -> slice:
    width = aggregation.intervals.queue_s
    return slice(interval_at(window[0], width), interval_at(window[1], width) + 1)


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
    if not run.profile.queue_reported:
        section["oscillation_reason"] = NO_QUEUE
        return section
    if aggregation is None or window is None:
        section["oscillation_reason"] = NO_TELEMETRY if aggregation is None else _no_common_window(aggregation)
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
    if len(rows := competing_rows(aggregation)) > 1:
        # Of a sample without records, drops are known by the next report only: several episodes may be one then.
        dated = aggregation.drops_recorded or not aggregation.order.sample_shift
        if dated and not aggregation.uncounted.any():
            drops = aggregation.flows.cells["drops"][rows, slice(*window)]
            times = [np.flatnonzero(flow) * width for flow in drops]
            section["loss_synchronization"] = loss_synchronization(times, max(reaction_time(run), width) * 1.01)
        # Which packets of an interval a sample has is chance, and would hide much of what flows do together.
        if len(rows) <= MAX_PAIRED_FLOWS and not aggregation.order.sample_shift:
            rates = aggregation.flows.cells["bytes"][rows, slice(*window)]
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
        return _without_index(section, NO_TELEMETRY)
    rows = competing_rows(aggregation)
    if len(rows) < 2:
        return _without_index(section, _too_few(len(rows), run.data_flows))
    if missing_ratio(aggregation) > MAX_MISSING_RATIO:
        return _without_index(section, f"more than {MAX_MISSING_RATIO:.0%} of the telemetry reports are missing")
    window = common_window(aggregation)
    if window is None or not aggregation.assessable[rows].all():
        return _without_index(section, _no_common_window(aggregation))
    width = aggregation.intervals.flows_s
    rates = goodput_bytes(aggregation)[0][rows, window[0] : window[1]] * 8 / width
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
    section["window_s"] = seconds_of(window, width)
    return section


def _too_few(competing: int, crossing: int) -> str:
    """Why there is no fairness between so many of the flows whose data cross a link."""
    if not crossing:
        return "no flow's data cross it"
    probes = crossing - competing
    return ("a single flow" if competing else "no flow that competes") + (" and probes" if probes else "")


def _no_common_window(aggregation: Aggregation) -> str:
    """Why there is no time in which all flows were running."""
    if not aggregation.assessable[competing_rows(aggregation)].all():
        return FEW_REPORTS
    return NEVER_TOGETHER.format(aggregation.intervals.flows_s)


def _without_index(section: FairnessSummary, why: str) -> FairnessSummary:
    section["reason"] = section["convergence_reason"] = why
    return section


def flow_sections(
    run: Run,
    aggregation: Aggregation | None,
    table: FlowTable,
    paths: dict[int, PathMeasures],
    sockets: SocketRecords,
) -> list[FlowSummary]:
    """What one link tells of the flows that cross it, one entry a flow in the order of the run's flows."""
    sections = []
    for position, flow in enumerate(run.flows):
        section = _flow_section(run, aggregation, table, run.host_records[position], position)
        if flow.by_addresses:
            section["connections"] = connection_rows(aggregation, table, position, flow.number, sockets)
        if (record := sockets.flows.get(flow.number)) is not None:
            source = QLOG_SOURCE if record.logged else SOCKET_SOURCE
            if record.inflight_mean_bytes is not None:
                section["inflight_bytes"] = {"mean": record.inflight_mean_bytes, "max": record.inflight_max_bytes}
                section["inflight_source"] = source
            if record.rtt_min_s is not None:
                # Read ten times a second, with the smallest RTT of a packet; a record has one smoothed value a second.
                section["rtt_s"] = {"min": record.rtt_min_s, "mean": record.rtt_mean_s}
                section["rtt_source"] = source
        measures = paths.get(position)
        # Of a sample, the first packet with a timestamp or its first echo is another one than it was.
        if aggregation is not None and not aggregation.order.sample_shift and measures is not None:
            inflight = measures.inflight_bytes()
            if inflight["mean"] is not None:
                section["inflight_bytes"] = inflight
                section["inflight_source"] = SWITCH_INFLIGHT_SOURCE
            section["ack_compression"] = measures.acks.ratio
            rtt_s = measures.rtt_s(aggregation.clock.unit_s)
            if rtt_s["min"] is not None:
                section["rtt_s"] = rtt_s
                section["rtt_source"] = SWITCH_RTT_SOURCE
        sections.append(section)
    return sections


def _flow_section(
    run: Run, aggregation: Aggregation | None, table: FlowTable, host: HostRecord, number: int
) -> FlowSummary:
    flow = run.flows[number]
    unseen = NO_SIZE if flow.size_bytes is None else "no telemetry of the flow"
    section: FlowSummary = {
        "name": flow.name, "group": flow.group, "cca": flow.cca, "probe": flow.probe, "src": flow.src, "dst": flow.dst,
        "goodput_bps": None,
        "arrivals": None, "departures": None, "drops": None, "loss_ratio": None, "retransmit_ratio": None,
        "rtt_s": {"min": host.rtt_min_s, "mean": host.rtt_mean_s}, "start_s": None, "end_s": None, "bytes": None,
        "fct_s": None, "fct_reason": unseen, "throughput_bps": None, "share": None, "share_of_run": None,
        "aqm_drops": None, "policer_drops": None, "ack_filter_drops": None, "loss_emulation_drops": None,
        "ce_marks": None,
        "inflight_bytes": {"mean": None, "max": None}, "inflight_source": None, "ack_compression": None,
        "host_retransmits": host.retransmits, "rtt_source": None if host.rtt_min_s is None else host.source,
        "links": list(flow.links), "limited_by": {}, "datagrams": None, "responses": None, "video": None,
        "connections": None, "standard_errors": None,
    }  # fmt: skip
    if host.record is not None:
        section.update(cast("FlowSummary", host.record.own_summary()))
    if (counted := section["datagrams"]) is not None and (rtts := counted["rtt_s"]) is not None:
        section["rtt_s"], section["rtt_source"] = {"min": rtts["min"], "mean": rtts["mean"]}, PROBE_SOURCE
    life = None if aggregation is None else aggregation.life_ticks(number)
    if aggregation is None or life is None:
        return section
    section["probe"] = is_probe(aggregation, number)
    totals = {name: values[number] for name, values in aggregation.flows.totals.items()}
    unit_s = aggregation.clock.unit_s
    start_s, end_s = (round(ticks * unit_s, NANOSECOND_DIGITS) for ticks in life)
    delivered, copied = float(goodput_bytes(aggregation)[1][number]), aggregation.copies_unknown[number]
    section["departures"] = int(totals["departures"])
    if not aggregation.uncounted[number]:
        section["loss_emulation_drops"] = int(totals["loss_drops"])
    if aggregation.assessable[number]:
        section |= {
            "start_s": start_s,
            "end_s": end_s,
            "bytes": None if copied else round(delivered),
            "goodput_bps": rate(delivered, end_s - start_s) if end_s > start_s and not copied else None,
            "throughput_bps": rate(float(totals["bytes"]), end_s - start_s) if end_s > start_s else None,
            "ce_marks": round(totals["ce_marks"]) if run.profile.queue_reported else None,
            "retransmit_ratio": _retransmit_ratio(aggregation, table, number),
        }
        if aggregation.order.sample_shift:
            section["standard_errors"] = flow_errors(section, aggregation, number)
    if not aggregation.collided[table.indices(number)].any() and run.profile.queue_reported:
        section["arrivals"] = int(totals["arrivals"])
        section["drops"] = int(totals["drops"])
        section["aqm_drops"] = int(totals["aqm_drops"])
        section["policer_drops"] = int(totals["policer_drops"]) if aggregation.policer_known else None
        section["ack_filter_drops"] = int(totals["ack_filter_drops"]) if aggregation.ack_filter_known else None
        section["loss_ratio"] = loss_ratio(float(totals["drops"]), float(totals["arrivals"]))
    section["fct_reason"] = _no_completion(flow, aggregation, number)
    if section["fct_reason"] is None:
        taken_s = completion_time(start_s, float(aggregation.last_new_departure[number]) * unit_s)
        section["fct_s"] = round(taken_s, NANOSECOND_DIGITS)
    return section


def _retransmit_ratio(aggregation: Aggregation, table: FlowTable, number: int) -> float | None:
    """Retransmitted share of a flow's TCP segments with data; None without any: other protocols do not reveal it."""
    keys = [key for key in table.keys_of[number] if table.protocols.get(key, socket.IPPROTO_TCP) == socket.IPPROTO_TCP]
    if not keys:
        return None
    again, sent = "retransmitted_packets", "data_packets"
    if keys[0] not in table.connections:
        totals = aggregation.flows.totals
        return quotient(totals[again][number], totals[sent][number])
    counts = [aggregation.connections[key] for key in keys if key in aggregation.connections]
    return quotient(sum(one[again] for one in counts), sum(one[sent] for one in counts))


def _no_completion(flow: FlowSpec, aggregation: Aggregation, number: int) -> str | None:
    """Why a flow that was seen has no completion time, if it has none."""
    if flow.size_bytes is None:
        return NO_SIZE
    totals = aggregation.flows.totals
    if not aggregation.complete and totals["samples"][number] < totals["departures"][number]:
        return "not every packet of the flow is in a report"
    if aggregation.begins_unseen[number]:
        return "its first packets were dropped, and when is not recorded"
    # A FIN may pass what is lost in front of it, and a run end before that is sent again.
    ended = aggregation.finished[number] and totals["new_bytes"][number] >= flow.size_bytes
    return None if ended else "the flow did not end during the run"


@dataclass(frozen=True)
class Goodput:
    """Goodput in bit/s of each flow and, last, of all other traffic, and the time that it is of, in seconds from the
    experiment's start; None where there is none, and all of it is 0."""

    rates: FloatArray
    window_s: list[float] | None

    def share(self, row: int) -> float | None:
        """The part of a row of all of it; None where there is none."""
        return quotient(float(self.rates[row]), float(self.rates.sum()))


def competing_goodput(aggregation: Aggregation) -> Goodput:
    """What shares are shares of: over the time in which all flows that compete were running; where they never all were,
    over the whole run, so that flows of a workload can still be added up, and so where there is one flow only."""
    window = common_window(aggregation)
    if window is None or len(aggregation.run.flows) == 1:
        # A single flow has its own time, which need not be cut to whole intervals.
        return run_goodput(aggregation)
    cells, width = goodput_bytes(aggregation)[0], aggregation.intervals.flows_s
    seconds = (window[1] - window[0]) * width
    return Goodput(rate(cells[:, slice(*window)].sum(axis=1), seconds), seconds_of(window, width))


def run_goodput(aggregation: Aggregation) -> Goodput:
    """The same over the whole run: from the first arrival of the experiment's flows to the end of their last frame; of
    other traffic, which may be there before and after, what left in the intervals that this touches."""
    window = measured_window(aggregation)
    if window is None or window[1] <= window[0]:
        return Goodput(np.zeros(aggregation.rows), None)
    cells, totals = goodput_bytes(aggregation)
    first, last = (interval_at(end_s, aggregation.intervals.flows_s) for end_s in window)
    sizes = np.append(totals[:-1], cells[-1, first : last + 1].sum())
    return Goodput(rate(sizes, window[1] - window[0]), list(window))


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
