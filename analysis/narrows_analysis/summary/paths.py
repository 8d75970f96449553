# SPDX-License-Identifier: Apache-2.0
"""From links to paths: what flows had over all links that they cross, and what each link had of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt

import numpy as np
import numpy.typing as npt
from narrows_formats.summary import (
    FlowSummary,
    GroupErrors,
    GroupSummary,
    LinkFlowSummary,
    LinkSummary,
    TelemetrySummary,
    shown_other_share,
)

from narrows_analysis.aggregation.interval_lengths import NANOSECOND_DIGITS
from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.metrics.limiting import limiting_link
from narrows_analysis.metrics.loss import loss_ratio
from narrows_analysis.metrics.throughput import group_rates, rate
from narrows_analysis.records.run_directory import FlowSpec, Run
from narrows_analysis.summary.link_analysis import LinkAnalysis
from narrows_analysis.summary.samples import relative_error_within
from narrows_analysis.summary.sections import (
    Goodput,
    bottleneck_section,
    competing_goodput,
    dynamics_section,
    fairness_section,
    is_probe,
    measured_window,
    quotient,
    run_goodput,
    seconds_of,
    telemetry_section,
)
from narrows_analysis.summary.time_series import active_bins, goodput_bytes, ratio

FloatArray = npt.NDArray[np.float64]


def link_section(link: LinkAnalysis) -> LinkSummary:
    """An entry of the "links" part."""
    run, aggregation = link.run, link.aggregation
    throughputs = np.array([flow["throughput_bps"] or 0.0 for flow in link.flows])
    known = aggregation is not None and aggregation.accounted_for
    together, whole = (_of_link(find, link) for find in (competing_goodput, run_goodput))
    flows: list[LinkFlowSummary] = []
    for position, (spec, flow) in enumerate(zip(run.flows, link.flows, strict=True)):
        delay = None
        if aggregation is not None and aggregation.flows.totals["samples"][position]:
            sums = aggregation.flows.totals
            delay = float(sums["delay_ticks"][position] / sums["samples"][position]) * aggregation.clock.unit_s
        flows.append(
            {
                "name": spec.name,
                "packets": spec.packets,
                "share": together.share(position) if known and spec.packets == "data" else None,
                "share_of_run": whole.share(position) if known and spec.packets == "data" else None,
                "throughput_bps": float(throughputs[position]) or None,
                "arrivals": flow["arrivals"],
                "departures": flow["departures"],
                "drops": flow["drops"],
                "loss_ratio": flow["loss_ratio"],
                "aqm_drops": flow["aqm_drops"],
                "policer_drops": flow["policer_drops"],
                "ack_filter_drops": flow["ack_filter_drops"],
                "loss_emulation_drops": flow["loss_emulation_drops"],
                "ce_marks": flow["ce_marks"],
                "queue_delay_mean_s": delay,
            }
        )
    return {
        **bottleneck_section(run, aggregation, link.dual_queue),
        "name": link.name,
        "direction": run.bottleneck.direction,
        "fairness": fairness_section(run, aggregation),
        "dynamics": dynamics_section(run, aggregation),
        "flows": flows,
        "telemetry": telemetry_section(aggregation),
    }


def path_sections(run: Run, links: Sequence[LinkAnalysis]) -> list[FlowSummary]:
    """The "flows" part: each flow over all links that its data cross, in run.json's order."""
    places = [_places(flow, links) for flow in run.flows]
    sections = []
    for crossed in places:
        section = _joined([link.flows[position] for link, position in crossed])
        if len(crossed) > 1:
            section["limited_by"] = _limited_by(crossed)
            last, position = crossed[-1]
            if last.aggregation is not None:
                _over_path(section, last.aggregation, position)
        sections.append(section)
    return sections


def _places(flow: FlowSpec, links: Sequence[LinkAnalysis]) -> list[tuple[LinkAnalysis, int]]:
    """Each link of a flow's path, and the flow's position among those that cross it."""
    by_name = {link.name: link for link in links}
    # A run made from a capture, or an early one, has one link and names none.
    crossed = [by_name[name] for name in flow.links if name in by_name] or list(links)[:1]
    return [(link, next(n for n, one in enumerate(link.run.flows) if one.number == flow.number)) for link in crossed]


def _joined(parts: list[FlowSummary]) -> FlowSummary:
    """A flow's figures over a path: offered at the first link, delivered at the last, lost at any of them."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return last
    joined: FlowSummary = {
        **last,
        "arrivals": first["arrivals"],
        "start_s": first["start_s"],
        "retransmit_ratio": first["retransmit_ratio"],
        "rtt_s": first["rtt_s"],
        "rtt_source": first["rtt_source"],
        "inflight_bytes": first["inflight_bytes"],
        "inflight_source": first["inflight_source"],
        "ack_compression": first["ack_compression"],
        "drops": _sum([part["drops"] for part in parts]),
        "aqm_drops": _sum([part["aqm_drops"] for part in parts]),
        "policer_drops": _sum([part["policer_drops"] for part in parts]),
        "ack_filter_drops": _sum([part["ack_filter_drops"] for part in parts]),
        "loss_emulation_drops": _sum([part["loss_emulation_drops"] for part in parts]),
        "ce_marks": _sum([part["ce_marks"] for part in parts]),
        "loss_ratio": None,
    }
    if first["start_s"] is None or last["end_s"] is None:
        joined["start_s"] = joined["end_s"] = None
    if joined["drops"] is not None and (offered := _offered(parts)) is not None:
        joined["loss_ratio"] = loss_ratio(float(joined["drops"]), float(offered))
    if last["fct_s"] is not None and first["start_s"] is not None and last["start_s"] is not None:
        joined["fct_s"] = round(last["fct_s"] + last["start_s"] - first["start_s"], NANOSECOND_DIGITS)
    return joined


def _over_path(section: FlowSummary, last: Aggregation, position: int) -> None:
    """Give a flow the rates over its life on the path, which began in front of the ``last`` link."""
    start_s, end_s, errors = section["start_s"], section["end_s"], section["standard_errors"]
    if start_s is None or end_s is None or end_s <= start_s:
        return
    before, size = section["throughput_bps"], float(last.flows.totals["bytes"][position])
    section["throughput_bps"] = throughput = rate(size, end_s - start_s)
    if section["bytes"] is not None:
        section["goodput_bps"] = rate(float(goodput_bytes(last)[1][position]), end_s - start_s)
    if errors is not None and before:
        of_goodput, of_throughput = errors["goodput_bps"], errors["throughput_bps"]
        errors["goodput_bps"] = None if of_goodput is None else of_goodput * throughput / before
        errors["throughput_bps"] = None if of_throughput is None else of_throughput * throughput / before


def _offered(parts: list[FlowSummary]) -> int | None:
    """Packets of a flow that came to its links' queues: to that of the first one, and copies that links made of them,
    which came to a later one and had not left the one before. None if that is not known."""
    offered = parts[0]["arrivals"]
    for before, part in pairwise(parts):
        came = _sum([part["arrivals"], part["loss_emulation_drops"]])
        if offered is None or came is None or before["departures"] is None:
            return None
        offered += max(0, came - before["departures"])
    return offered


def _sum(counts: list[int | None]) -> int | None:
    """Their sum; None if one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _limited_by(crossed: list[tuple[LinkAnalysis, int]]) -> dict[str, float]:
    """The part of the time in which each link was the flow's bottleneck; what is missing to 1 had no queue."""
    rows, frames, lives = [], [], []
    for link, position in crossed:
        if link.aggregation is None:
            return {}
        rows.append(_waits(link.aggregation, position))
        record = link.run.bottleneck
        frames.append(record.mtu_frame_bytes * 8 / record.rate_bps if record.rate_bps else 0.0)
        lives.append(active_bins(link.aggregation, position))
    width = max(len(row) for row in rows)
    delays = np.array([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row in rows])
    spans = [span for span in lives if span[1] > span[0]]
    if not spans:
        return {}
    life = slice(min(first for first, _ in spans), max(end for _, end in spans))
    positions = limiting_link(delays[:, life], np.array(frames))
    return {link.name: float((positions == n).mean()) for n, (link, _) in enumerate(crossed)}


def _waits(aggregation: Aggregation, position: int) -> FloatArray:
    """How long packets of a flow waited at a link, in seconds, shape (intervals,): the mean of those that left; where
    none left though some waited, how long that has been so; NaN where there were none."""
    cells, width = aggregation.flows.cells, aggregation.intervals.flows_s
    waits = ratio(cells["delay_ticks"][position], cells["samples"][position]) * aggregation.clock.unit_s
    if not aggregation.complete or aggregation.uncounted[position]:
        return waits
    stuck = np.isnan(waits) & (aggregation.waiting_packets(position) > 0)
    intervals = np.arange(len(waits))
    since = np.maximum.accumulate(np.where(stuck, 0, intervals + 1))
    return np.where(stuck, (intervals + 1 - since) * width, waits)


def _of_link(find: Callable[[Aggregation], Goodput], link: LinkAnalysis) -> Goodput:
    """What a function finds of a link; nothing where there is no telemetry."""
    return Goodput(np.zeros(len(link.flows) + 1), None) if link.aggregation is None else find(link.aggregation)


def path_goodput(run: Run, links: Sequence[LinkAnalysis]) -> tuple[Goodput, Goodput]:
    """Goodput of each flow of the experiment behind the last link of its path and, last, of other traffic: while all
    flows that compete were running, and over the whole run.

    Where they never all were, the first is over the whole run, too, as at one link: over each flow's own, one of two
    packets would have the share of one that sends them all the time.
    """
    if len(links) == 1:
        return _of_link(competing_goodput, links[0]), _of_link(run_goodput, links[0])
    none = Goodput(np.zeros(len(run.flows) + 1), None)
    ends = [_places(flow, links)[-1] for flow in run.flows]
    known = [(link.aggregation, position) for link, position in ends if link.aggregation is not None]
    begin, end = _whole_time(links)
    if len(known) < len(ends) or end <= begin:
        return none, none
    totals = [goodput_bytes(aggregation)[1][position] for aggregation, position in known]
    whole = Goodput(rate(np.array([*totals, 0.0]), end - begin), [begin, end])
    compete = [one for one in known if not is_probe(*one)] or known
    running = [aggregation.active_ticks(position) for aggregation, position in compete]
    first = [times[0] for times in running if times is not None]
    last = [times[1] for times in running if times is not None]
    intervals, unit_s = known[0][0].intervals, known[0][0].clock.unit_s
    width = round(intervals.flows_s / unit_s)
    low, high = max(0, -(-max(first, default=0) // width)), min(last, default=0) // width
    if len(first) < len(compete) or high <= low or len(ends) == 1:
        return whole, whole
    cells = [goodput_bytes(aggregation)[0][position, low:high].sum() for aggregation, position in known]
    window = seconds_of((low, high), intervals.flows_s)
    return Goodput(rate(np.array([*cells, 0.0]), window[1] - window[0]), window), whole


def _whole_time(links: Sequence[LinkAnalysis]) -> tuple[float, float]:
    """From the first arrival of the experiment's flows at any link to the end of their last frame at any; (0, 0) if
    there is none."""
    measured = [measured_window(link.aggregation) for link in links if link.aggregation is not None]
    known = [window for window in measured if window is not None]
    return min((begin for begin, _ in known), default=0.0), max((end for _, end in known), default=0.0)


def group_sections(
    run: Run, links: Sequence[LinkAnalysis], flows: list[FlowSummary], together: Goodput, whole: Goodput
) -> list[GroupSummary]:
    """The "groups" part, in order of first appearance; fills in each flow's shares as well.

    Shares are of all goodput: through the link where there is one, so that what is not the experiment's has the rest
    (`bottleneck.other_share`); of the flows where there are several. There they are None if other traffic left a link
    as well: whether that is the same at two links, or another one's, is unknown, but each link has its own shares. None
    as well where too much of what left is of flows with too few reports.
    """
    comparable = all(map(_accounted_for, links)) and not (len(links) > 1 and any(map(_carries_others, links)))
    enough = [_assessable(flow, links) for flow in run.flows]
    members: dict[str, list[int]] = {}
    for number, flow in enumerate(run.flows):
        members.setdefault(flow.group, []).append(number)
        if enough[number] and comparable:
            flows[number]["share"], flows[number]["share_of_run"] = together.share(number), whole.share(number)
    both = (together, whole)
    rates = [group_rates(one.rates[:-1], [flow.group for flow in run.flows]) for one in both]
    sections: list[GroupSummary] = []
    for name, numbers in members.items():
        offered = _sum([_offered([at.flows[place] for at, place in _places(run.flows[n], links)]) for n in numbers])
        drops = _sum([flows[n]["drops"] for n in numbers])
        estimated = together.window_s is not None and all(enough[n] for n in numbers)
        shares = [quotient(float(sums[name]), float(one.rates.sum())) for sums, one in zip(rates, both, strict=True)]
        share, share_of_run = shares if estimated and comparable else (None, None)
        ccas = sorted({run.flows[n].cca or "" for n in numbers})
        sections.append(
            {
                "name": name,
                "cca": ", ".join(ccas) or None,
                "flows": len(numbers),
                "goodput_bps": float(rates[0][name]) if estimated else None,
                "share": share,
                "share_of_run": share_of_run,
                "loss_ratio": None if drops is None or offered is None else loss_ratio(drops, offered),
                "standard_errors": _group_errors(run, links, numbers, together, whole) if estimated else None,
            }
        )
    return sections


def _group_errors(
    run: Run, links: Sequence[LinkAnalysis], numbers: Sequence[int], together: Goodput, whole: Goodput
) -> GroupErrors | None:
    """Of the goodput of some flows together; None where nothing is estimated. A report of one flow is none of another,
    so that what they have together is known better than by draws of their own, which are taken here."""
    window = None if together.window_s == whole.window_s else together.window_s
    squares = 0.0
    for number in numbers:
        link, position = _places(run.flows[number], links)[-1]
        if link.aggregation is None or not link.aggregation.order.sample_shift:
            return None
        relative = relative_error_within(link.aggregation, position, window)
        if relative is None:
            return None
        squares += (relative * float(together.rates[number])) ** 2
    return {"goodput_bps": sqrt(squares)}


def _accounted_for(link: LinkAnalysis) -> bool:
    return link.aggregation is None or link.aggregation.accounted_for


def _assessable(flow: FlowSpec, links: Sequence[LinkAnalysis]) -> bool:
    """Whether a flow has enough reports at every link that it crosses and that has telemetry."""
    if all(link.aggregation is None or link.aggregation.complete for link in links):
        return True
    places = _places(flow, links)
    return all(link.aggregation is None or bool(link.aggregation.assessable[n]) for link, n in places)


def _carries_others(link: LinkAnalysis) -> bool:
    found = (_of_link(find, link).share(-1) for find in (competing_goodput, run_goodput))
    return any(shown_other_share(share) is not None for share in found)


def all_telemetry(links: Sequence[LinkAnalysis]) -> TelemetrySummary:
    """The "telemetry" part: reports of all links together."""
    parts = [telemetry_section(link.aggregation) for link in links]
    return {
        "reports": sum(part["reports"] for part in parts),
        "lost": sum(part["lost"] for part in parts),
        "sample": parts[0]["sample"],
        "duplicates": sum(part["duplicates"] for part in parts),
        "late": sum(part["late"] for part in parts),
    }
