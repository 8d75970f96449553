# SPDX-License-Identifier: Apache-2.0
"""The words and tables of a run's page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from narrows_formats.flow_names import OTHER_GROUP
from narrows_formats.flow_rows import SHARE_OF_RUN, flow_rows, shown_columns
from narrows_formats.run_record import AggregationRecord, FramingRecord, GilbertElliottRecord, LinkRecord
from narrows_formats.schedules import Opportunities
from narrows_formats.summary import (
    BottleneckSummary,
    FlowSummary,
    GroupSummary,
    LinkErrors,
    Summary,
    is_nearly_the_run,
    share_seconds,
    share_time,
    shown_other_share,
)
from narrows_formats.units import NANOSECONDS

from narrows_analysis.colors import FlowColor
from narrows_analysis.metrics.fairness import CONVERGENCE_HOLD_S, CONVERGENCE_TOLERANCE
from narrows_analysis.metrics.throughput import rate
from narrows_analysis.records.connection import RECORD_SOURCES
from narrows_analysis.records.run_directory import Run
from narrows_analysis.report import units
from narrows_analysis.report.applications import connection_table
from narrows_analysis.report.cells import Table, number, table, text
from narrows_analysis.report.events import event_table
from narrows_analysis.report.kinds import kind_tables
from narrows_analysis.report.links import flow_link_table, link_table, queue_table
from narrows_analysis.report.shares import MAX_BARS, OTHER_STYLE
from narrows_analysis.run_data import RunData
from narrows_analysis.summary.sections import (
    NOT_ASSESSABLE,
    PROBE_SOURCE,
    QLOG_SOURCE,
    SOCKET_SOURCE,
    SWITCH_RTT_SOURCE,
)
from narrows_analysis.summary.warnings import plural

# What `convergence_time` looks for.
SETTLED = f"within {units.percent(CONVERGENCE_TOLERANCE)} of its fair share for {CONVERGENCE_HOLD_S:g} s"

# Warnings of drops that the switch counted and reports do not tell of.
UNREPORTED_DROPS = ("late_drops", "drops_disagree")


def setting(run: Run) -> str:
    """A run's conditions and its time in one line."""
    started = run.raw.get("started")
    return " · ".join([*conditions(run), *([started[:16].replace("T", " ")] if isinstance(started, str) else [])])


def conditions(run: Run) -> list[str]:
    """What a run was made with, of which other runs may have the same: links, flows, target and kernel."""
    alone = len(run.views) == 1
    if alone:
        parts = _of_link(run.views[0], alone)
    else:
        parts = [f"{view.bottleneck.name}: {' · '.join(_of_link(view, alone))}" for view in run.views]
    parts.append(_flows(run))
    probes = sum(flow.probe for flow in run.flows)
    parts += [plural(probes, "probe")] if probes else []
    if run.host_jitter_s is not None:
        parts.append(f"host jitter up to {units.duration(run.host_jitter_s)}")
    parts.append(f"target {run.profile.name}")
    parts += _virtual_time(run)
    return parts


def _virtual_time(run: Run) -> list[str]:
    """The senders' kernel where it is not this machine's, and which BBR its plain name means."""
    virtual = run.raw.get("virtual_time")
    if not isinstance(virtual, dict):
        return []
    versions = virtual.get("cca_versions")
    used = {flow.cca for flow in run.flows}
    named = [str(version) for cca, version in versions.items() if cca in used] if isinstance(versions, dict) else []
    return ["virtual time", ", ".join([f"Linux {virtual.get('release', 'unknown')}", *named])]


def _flows(run: Run) -> str:
    """How many flows there are, without probes, and how many hosts send them."""
    competing = [flow for flow in run.flows if not flow.probe]
    flows = plural(len(competing), "flow")
    # Addresses in a capture are not always hosts.
    if len(competing) < 2 or run.raw.get("source") is not None:
        return flows
    return f"{flows} from {plural(len({flow.src for flow in competing}), 'host')}"


def _set_rate(link: LinkRecord) -> str:
    if link.schedule is None:
        return units.rate(link.rate_bps)
    if isinstance(link.schedule, Opportunities):
        return f"{units.rate(link.rate_bps)} in opportunities"
    span = link.schedule.span_bps
    return f"{units.rate(span.least)} to {units.rate(span.most)}"


def _of_link(view: Run, alone: bool) -> list[str]:
    """A link's settings; the RTTs of its flows only where they cross no other."""
    link = view.bottleneck
    parts = [] if link.rate_bps is None else [_set_rate(link)]
    if alone and (rtts := list(view.base_rtts_s)):
        span = dict.fromkeys(units.duration(rtt_s) for rtt_s in (rtts[0], rtts[-1]))
        parts.append(f"{' to '.join(span)} RTT")
    if link.full_buffer_bytes is not None:
        at = "" if link.schedule is None else f" at {units.rate(link.rate_bps)}"
        bdp = f"{units.significant(link.full_buffer_bytes / link.bdp_bytes, 3)} BDP{at}" if link.bdp_bytes else ""
        bdp += " of full-size frames" if bdp and link.buffer_packets is not None else ""
        parts.append(f"{_buffer(link)} buffer{f' ({bdp})' if bdp else ''}{_later_buffer(link)}")
    if link.queue_kind is not None:
        parts.append(f"{link.queue_kind} queue")
    if link.loss:
        parts.append(f"{units.percent(link.loss)} random loss{_loss_model(link)}")
    if link.burst_bytes:
        parts.append(f"token bucket of {units.size(link.burst_bytes)}")
    if link.policer is not None:
        parts.append(f"policer of {_policer(link)}")
    if link.framing is not None:
        parts.append(_framing(link.framing))
    if link.ack_filter is not None:
        parts.append(f"{link.ack_filter} ACK filter")
    if link.aggregation is not None:
        parts.append(f"bursts of {_bursts(link.aggregation)}")
    if link.jitter or link.delay_steps or link.duplication:
        parts.append(_behind_queue(link))
    return parts


def _at_one_rate(link: LinkRecord) -> str:
    """Which rate made bytes of a buffer that is written as a time or in BDPs, where the rate varies."""
    if link.written_buffer is None:
        return ""
    return f" whatever the rate: {link.written_buffer} at {units.rate(link.rate_bps)}"


def _buffer(link: LinkRecord) -> str:
    return units.depth(link.buffer_bytes, link.buffer_packets)


def _later_buffer(link: LinkRecord) -> str:
    """What events, or a driver, made of a buffer."""
    later = link.later_buffers
    if not later:
        return ""
    return f", later {' to '.join(dict.fromkeys(units.depth(*depth) for depth in (later[0], later[-1])))}"


# Different delays that are listed one by one.
MAX_STEPS = 4


def _loss_model(link: LinkRecord) -> str:
    """How losses depend on each other, where they do."""
    model = link.loss_model
    if model is None:
        return ""
    if isinstance(model, GilbertElliottRecord):
        return f" in bursts of {units.significant(1 / model.r, 3)} packets"
    first = "" if model.loop else f" of the first {model.packets:,} packets"
    return f"{first} by a recorded pattern"


def _policer(link: LinkRecord) -> str:
    """Rates and bursts of the policer in front of the queue."""
    policer = link.policer
    if policer is None:
        return "none"
    text = f"{units.rate(policer.rate_bps)}, {units.size(policer.burst_bytes)} burst"
    if policer.peak_rate_bps is None:
        return text
    return f"{text}; peak {units.rate(policer.peak_rate_bps)}, {units.size(policer.peak_burst_bytes)} burst"


def _framing(framing: FramingRecord) -> str:
    """The bytes of a frame on the link's medium."""
    least = f", {framing.mpu} B at least" if framing.mpu else ""
    layer = "" if framing.linklayer == "ethernet" else f", by {framing.linklayer.upper()}"
    return f"frames with {framing.overhead:+d} B{least}{layer}"


def _bursts(aggregation: AggregationRecord) -> str:
    """What the bursts of a link are at most, and what each costs."""
    limits = [] if aggregation.packets is None else [f"{aggregation.packets} packets"]
    limits += [] if aggregation.bytes is None else [units.size(aggregation.bytes)]
    return f"up to {' and '.join(limits)}, {units.duration(aggregation.overhead_ns / NANOSECONDS)} overhead each"


def _behind_queue(link: LinkRecord) -> str:
    """The one-way delay that a link has, and what varies it."""
    parts = [f"{units.duration(link.delay_s)} delay"]
    if (given := link.delay_steps) is not None:
        delays = dict.fromkeys(units.duration(delay / NANOSECONDS) for _, delay in given.steps)
        if given.gathers and given.period_ns is not None:
            parts.append(f"in bursts each {units.duration(given.period_ns / NANOSECONDS)}")
            return ", ".join(parts)
        parts = [f"delay of {', '.join(list(delays)[:MAX_STEPS])}{', ...' if len(delays) > MAX_STEPS else ''}"]
        if given.jitters:
            parts.append(f"uniform jitter of up to {units.duration(max(given.jitters) / NANOSECONDS)}, in order")
    if link.jitter is not None:
        kind = next(name for name in ("uniform_ns", "normal_ns", "pareto", "samples_ns") if getattr(link.jitter, name))
        parts.append(f"{kind.removesuffix('_ns')} jitter, {'reordering' if link.jitter.reorder else 'in order'}")
    if link.duplication:
        parts.append(f"{units.percent(link.duplication)} duplicated")
    return ", ".join(parts)


def verdict(run: Run, summary: Summary) -> str:
    """What happened, in a few sentences, each of which says which time it is of."""
    groups = [group for group in _competing(summary) if group["share"] is not None]
    if not groups:
        return ""
    # A sentence about the whole run comes first where the flows were all running in a part of it only.
    parts = [] if is_nearly_the_run(summary) else [_whole_run(summary, groups)]
    if len(groups) > 1:
        parts.append(_of_time(summary, _ranking(groups, "share", summary["bottleneck"]["other_share"])))
    elif groups[0]["flows"] == 1:
        parts = [_alone(groups[0], summary)]
    elif not parts:
        parts = [_of_time(summary, _equals(summary, groups[0], groups[0]["goodput_bps"]))]
    parts += [_fairness(summary)]
    link = summary["bottleneck"]
    mean = link["queue_bytes"]["mean"]
    if mean is not None and run.bottleneck.bdp_bytes:
        held, lost = units.significant(mean / run.bottleneck.bdp_bytes, 2), units.percent(link["loss_ratio"])
        marked = f", and marked {units.count(link['ce_marks'])}" if link["ce_marks"] else ""
        parts.append(
            f"Over the whole run, the queue held {held} BDP on average and dropped {lost} of the packets{marked}."
        )
    return " ".join(part for part in parts if part)


def _competing(summary: Summary) -> list[GroupSummary]:
    """Groups of flows that compete."""
    names = {flow["group"] for flow in summary["flows"] if not flow["probe"]}
    return [group for group in summary["groups"] if group["name"] in names]


def _of_time(summary: Summary, statement: str) -> str:
    """A statement about what shares are of, with its time."""
    part = summary["share_window_s"]
    if part is None or part == summary["run_window_s"]:
        return f"Over the whole run, {statement}"
    return f"While all flows were running ({share_seconds(part)}), {statement}"


def _ranking(groups: list[GroupSummary], share: Literal["share", "share_of_run"], other: float | None) -> str:
    first, *rest = sorted(groups, key=lambda group: -(group[share] or 0.0))
    others = ", ".join(f"{_members(group)} {units.percent(group[share])}" for group in rest)
    words = f"{_members(first)} took {units.percent(first[share])} of the goodput, {others}"
    if (part := shown_other_share(other)) is not None:
        words += f", and traffic that is not the experiment's {units.percent(part)}"
    return f"{words}."


def _whole_run(summary: Summary, groups: list[GroupSummary]) -> str:
    """The sentence about all of the run; empty where too little of the flows is known."""
    window, sent = summary["run_window_s"], [flow["bytes"] for flow in summary["flows"] if not flow["probe"]]
    known = [count for count in sent if count is not None]
    if window is None or len(known) < len(sent):
        return ""
    if len(groups) > 1:
        statement = _ranking(groups, "share_of_run", summary["bottleneck"]["other_share_of_run"])
    else:
        statement = _equals(summary, groups[0], rate(sum(known), window[1] - window[0]))
    return f"Over the whole run ({share_seconds(window)}), {statement}"


def _equals(summary: Summary, group: GroupSummary, goodput_bps: float | None) -> str:
    """What flows of one group had of the link; over several links, and in a capture, there is no one rate."""
    link = summary["bottleneck"]
    shared = link["rate_mean_bps"] or link["rate_bps"]
    of = "" if shared is None else f", on a link of {units.rate(shared)}"
    return f"{_members(group)} had {units.rate(goodput_bps)} of goodput{of}."


def _alone(group: GroupSummary, summary: Summary) -> str:
    (flow,) = (flow for flow in summary["flows"] if flow["group"] == group["name"])
    words = f"One {group['name']} flow reached {units.rate(flow['goodput_bps'])} of goodput"
    begin_s, end_s = flow["start_s"], flow["end_s"]
    words += "." if begin_s is None or end_s is None else f" in its life ({share_seconds((begin_s, end_s))})."
    if (other := shown_other_share(summary["bottleneck"]["other_share_of_run"])) is not None:
        words += f" Traffic that is not the experiment's had {units.percent(other)} of all goodput of the run."
    return words


def _fairness(summary: Summary) -> str:
    """Jain's index, and whether flows settle."""
    fairness = summary["fairness"]
    if fairness["jain_index"] is None or fairness["window_s"] is None:
        return ""
    words = f"Jain's index while all flows were running ({share_seconds(fairness['window_s'])}) was "
    words += units.index(fairness["jain_index"])
    converged = fairness["convergence_s"]
    if converged is not None:
        from_s = units.duration(fairness["window_s"][0] + converged)
        return f"{words}; each flow was {SETTLED} from {from_s} on."
    if (fairness["convergence_reason"] or "").startswith(NOT_ASSESSABLE):
        return f"{words}; whether the flows settle is {fairness['convergence_reason']}."
    return f"{words}; at no time was each flow {SETTLED}."


def _members(group: GroupSummary) -> str:
    return group["name"] if group["flows"] == 1 else f"{group['flows']} {group['name']} flows"


@dataclass(frozen=True)
class Tile:
    """A figure at the top of a page: its path in summary.json, as text and as a number, and what is said of it."""

    name: str
    key: str
    value: str
    raw: float | None
    detail: str


def tiles(run: Run, summary: Summary) -> list[Tile]:
    """The figures at the top; `key` is the path in summary.json."""
    if len(summary["links"]) > 1:
        rows = [
            (f"{link['name']} used", f"links.{link['name']}.utilization", units.percent(link["utilization"]),
             link["utilization"], f"{units.percent(link['loss_ratio'])} dropped")
            for link in summary["links"]
        ]  # fmt: skip
        return [Tile(*row) for row in rows]
    link, fairness = summary["bottleneck"], summary["fairness"]
    delay, depth = link["queue_delay_s"], link["queue_bytes"]
    window, errors = fairness["window_s"], link["standard_errors"] or EXACT
    rows = [
        ("Link used", "bottleneck.utilization", _with_error(units.percent, link["utilization"], errors["utilization"]),
         link["utilization"],
         f"of {units.rate(link['rate_mean_bps'] or link['rate_bps'])}"),
        ("Packets dropped", "bottleneck.loss_ratio", units.percent(link["loss_ratio"]), link["loss_ratio"],
         f"{_dropped(run, link)}{_unreported(link)}{_emulated(link)}{_marked(link)}"),
        ("Queue delay, mean", "bottleneck.queue_delay_s.mean",
         _with_error(units.duration, delay["mean"], errors["queue_delay_mean_s"]), delay["mean"],
         _of_each_queue(link) or f"99 % below {units.duration(delay['p99'])}"),
        ("Queue depth, mean", "bottleneck.queue_bytes.mean",
         _with_error(units.size, depth["mean"], errors["queue_bytes_mean"]), depth["mean"],
         f"at most {units.size(depth['max'])}"),
    ]  # fmt: skip
    if len(run.flows) > 1:
        detail = f"not given: {fairness['reason']}"
        if window:
            detail = f"all flows running, {share_seconds(window)}"
        rows.append(
            ("Jain's index", "fairness.jain_index", units.index(fairness["jain_index"]), fairness["jain_index"], detail)
        )
    return [Tile(*row) for row in rows]


def _of_each_queue(link: BottleneckSummary) -> str:
    """The mean delay of each queue of a link that has several."""
    return ", ".join(f"{one['name']} {units.duration(one['queue_delay_s']['mean'])}" for one in link["queues"])


def _with_error(text: Callable[[float | None], str], value: float | None, error: float | None) -> str:
    """A number and its standard error, of what is estimated from a sample."""
    return text(value) if value is None or error is None else f"{text(value)} \u00b1 {text(error)}"


def _goodput_error(of: FlowSummary | GroupSummary) -> float | None:
    """Standard error of the goodput of a flow or a group, of a sample."""
    errors = of["standard_errors"]
    return None if errors is None else errors["goodput_bps"]


def _dropped(run: Run, link: BottleneckSummary) -> str:
    """How many packets of flows the queue dropped, and of probes, whose losses are not in the flows' loss."""
    apart = [(link["policer_drops"], "policer"), (link["ack_filter_drops"], "ACK filter")]
    if run.bottleneck.of_user:
        apart.append((link["aqm_drops"], "program"))
    others = "".join(f", {units.count(drops)} of them by the {cause}" for drops, cause in apart if drops)
    if link["drops"] is None or not link["probe_drops"]:
        return f"{units.count(link['drops'])} packets{others}"
    own = units.count(link["drops"] - link["probe_drops"])
    return f"{own} packets, and {units.count(link['probe_drops'])} of probes{others}"


def _unreported(link: BottleneckSummary) -> str:
    """How many the switch dropped after the last report of their flow, where there are any."""
    count = link["drops_after_reports"]
    return f", and {units.count(count)} after the last report of their flow" if count else ""


def _emulated(link: BottleneckSummary) -> str:
    """What loss emulation took on top, where there is any."""
    count = link["loss_emulation_drops"]
    return f", and {units.count(count)} more by loss emulation" if count else ""


def _marked(link: BottleneckSummary) -> str:
    """How many packets the queue marked, where it marked any."""
    return f"; {units.count(link['ce_marks'])} marked" if link["ce_marks"] else ""


def tables(data: RunData) -> list[Table]:
    """Links where there are several, flows, groups where there are several, and what flows of each kind have."""
    run, summary = data.run, data.summary
    result = [_flow_table(data)]
    if len(summary["links"]) > 1:
        result = [link_table(summary), *result, flow_link_table(data)]
    if 1 < len(summary["groups"]) < len(run.flows):
        result.append(_group_table(run, summary))
    result += [queue_table(summary), event_table(run.events), *kind_tables(summary), connection_table(summary)]
    result = [one for one in result if one.rows]
    return result if len(run.flows) <= MAX_BARS else result[::-1]


# Standard errors of a link of which each packet is in a report.
EXACT: LinkErrors = {"utilization": None, "queue_bytes_mean": None, "queue_delay_mean_s": None, "ce_marks": None}
# Headings that are too long for a column of numbers.
_HEADINGS = {"retransmitted": "Retrans-\nmitted", "lost by emulation": "Lost by\nemulation"}
ACTIVE = "Active\n(s)"


def _flow_table(data: RunData) -> Table:
    summary, columns, rows = data.summary, shown_columns(data.summary), []
    styles = [*(color.css for color in data.colors), OTHER_STYLE]
    for row, style in zip(flow_rows(summary, columns), styles, strict=False):
        start_s, end_s = (None, None) if row.flow is None else (row.flow["start_s"], row.flow["end_s"])
        life = units.MISSING if start_s is None else f"{start_s:.1f}\u2013{end_s:.1f}"
        error = _goodput_error(row.flow) if row.flow else None
        cells = [
            number(_with_error(units.TEXTS[one.kind], value, error if one.name == "goodput" else None), value)
            for one, value in zip(columns, row.values, strict=True)
        ]
        rows.append([text(row.name, style), text(row.cca or None), *cells, number(life, start_s)])
    headings = [_HEADINGS.get(one.name, "\n".join(one.name.rsplit(" ", 1))) for one in columns]
    names = ["Flow", "CCA", *(name[:1].upper() + name[1:] for name in headings), ACTIVE]
    sources = {section["rtt_source"] for section in summary["flows"]} - {None}
    whole, queue = ("through the link", "queue") if len(summary["links"]) == 1 else ("of the flows", "queues")
    note = f"Goodput is over each flow's own life (active). Share of all goodput {whole}: over {share_time(summary)}"
    note += "; share of run: over the whole run. " if SHARE_OF_RUN in columns else ". "
    note += f"Drops are those of the {queue}, without what loss emulation took in front."
    if any(one["code"] in UNREPORTED_DROPS for one in summary["warnings"]):
        note += (
            " The switch counted more: those after a flow's last packet that left are in no report, see the warnings."
        )
    for source in sorted(RECORD_SOURCES & sources):
        note += f" RTT as {source} report it: smoothed, sampled once a second."
    for source in (SOCKET_SOURCE, QLOG_SOURCE):
        if source in sources:
            note += f" RTT as {source} say: mean of the smoothed RTT, and the smallest of a single packet."
    if PROBE_SOURCE in sources:
        note += f" RTT of {PROBE_SOURCE}."
    if SWITCH_RTT_SOURCE in sources:
        note += f" RTT measured at {SWITCH_RTT_SOURCE}."
    if seen := {section["inflight_source"] or "" for section in summary["flows"]} - {""}:
        note += f" Bytes in flight from {', '.join(sorted(seen))}."
    if any(section["ack_compression"] for section in summary["flows"]):
        note += " ACKs compressed: part of the groups of three successive acknowledgements that left a queue on their "
        note += "way in less than 75 % of the time in which they had come, so that they release a burst of data."
    if any(section["ce_marks"] for section in summary["flows"]):
        note += " CE marks are those of the queue."
    return table("flows", "Flows", names, rows, note, ("Flow", "CCA"))


def _group_table(run: Run, summary: Summary) -> Table:
    brief = is_nearly_the_run(summary)
    names = list(dict.fromkeys(flow.group for flow in run.flows))
    rows = [
        [
            text(group["name"], FlowColor(names.index(group["name"]) % 8, 0).css),
            text(group["cca"]),
            number(units.count(group["flows"]), group["flows"]),
            number(_with_error(units.rate, group["goodput_bps"], _goodput_error(group)), group["goodput_bps"]),
            number(units.percent(group["share"]), group["share"]),
            *([] if brief else [number(units.percent(group["share_of_run"]), group["share_of_run"])]),
            number(units.percent(group["loss_ratio"]), group["loss_ratio"]),
        ]
        for group in summary["groups"]
    ]
    if (other := shown_other_share(summary["bottleneck"]["other_share"])) is not None:
        unknown = number(units.MISSING, None)
        found = [other] if brief else [other, summary["bottleneck"]["other_share_of_run"]]
        shares = [number(units.percent(share), share) for share in found]
        rows.append([text(OTHER_GROUP, OTHER_STYLE), text(None), unknown, unknown, *shares, unknown])
    of_run = () if brief else ("Share\nof run",)
    headings = ("Group", "CCA", "Flows", "Goodput\nof all", "Share", *of_run, "Dropped")
    note = f"Goodput of all flows of a group together, and share: over {share_time(summary)}."
    return table("groups", "Groups", headings, rows, note, ("Group", "CCA"))


def dynamics(summary: Summary) -> list[tuple[str, str]]:
    """How queue and flows moved."""
    link, moves, fairness = summary["bottleneck"], summary["dynamics"], summary["fairness"]
    standing = units.MISSING
    if link["standing_queue_bytes"] is not None:
        standing = units.size(link["standing_queue_bytes"])
        if link["standing_queue_bdp"] is not None:
            standing += f", {units.significant(link['standing_queue_bdp'], 3)} BDP"
    period = moves["oscillation_reason"] or ""
    if moves["oscillation_period_s"] is not None:
        swing = units.size(moves["oscillation_amplitude_bytes"])
        period = f"every {units.duration(moves['oscillation_period_s'])}, by \u00b1{swing} "
        period += f"(autocorrelation {moves['oscillation_correlation']:.2f})"
    rows = [
        ("Standing queue (mean of the smallest depth in windows of 0.1 s or an RTT)", standing),
        ("Oscillation of the queue depth, second half of the common time", period),
    ]
    if moves["rate_synchronization"] is not None:
        rows.append(("Correlation of the flows' rate changes (-1 to 1)", f"{moves['rate_synchronization']:.2f}"))
    if moves["loss_synchronization"] is not None:
        rows.append(("Flows that lose in the same episode", units.percent(moves["loss_synchronization"])))
    if fairness["jain_index"] is not None:
        steady = units.index(fairness["jain_index_steady"])
        settled = fairness["convergence_s"]
        rows.append(("Jain's index in the second half of the common time", steady))
        when = (
            fairness["convergence_reason"] or ""
            if settled is None
            else f"{units.duration(settled)} after all flows ran"
        )
        rows.append((f"Convergence (each flow {SETTLED})", when))
    return rows


def _sampling(sample: int | None) -> str:
    if sample is None:
        return "no report"
    if sample == 1:
        return "every packet reported"
    return f"one report in {sample} packets, drawn at random, so that figures have a standard error (\u00b1)"


def _flat(value: object) -> str:
    """The plain values of an object in one line; what is nested deeper is in run.json."""
    if isinstance(value, dict):
        plain = {key: item for key, item in value.items() if not isinstance(item, dict | list)}
        return ", ".join(f"{str(key).replace('_', ' ')}: {item}" for key, item in plain.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _program(switch: object) -> str:
    """The program that the switch ran, by its files' digests, and what the target noted."""
    if not isinstance(switch, dict):
        return _flat(switch)
    program, notes = switch.get("program"), switch.get("notes")
    if isinstance(program, dict):
        program = ", ".join(f"{name} (SHA-256 {str(digest)[:16]}\u2026)" for name, digest in program.items())
    return "; ".join([str(program or units.MISSING), *map(str, notes if isinstance(notes, list) else [])])


def _base_rtts(run: Run) -> str:
    """One RTT, or each with the groups that have it."""
    rtts = run.base_rtts_s
    if len(rtts) < 2:
        return units.duration(next(iter(rtts), None))
    return "; ".join(f"{units.duration(rtt_s)} ({', '.join(groups)})" for rtt_s, groups in rtts.items())


def _link_parameters(link: LinkRecord, section: BottleneckSummary) -> list[tuple[str, str]]:
    return [
        ("Rate (L2: Ethernet frames without preamble, gap and FCS)", _set_rate(link)),
        ("Rate measured while the link was never idle", units.rate(section["saturated_rate_bps"])),
        ("Buffer", _buffer(link) + _at_one_rate(link) + _later_buffer(link)),
        ("Bandwidth-delay product", units.size(link.bdp_bytes)),
        ("Random loss set", units.percent(link.loss) + _loss_model(link)),
        *([("Token bucket of the link", units.size(link.burst_bytes))] if link.burst_bytes else []),
        ("Policer in front of the queue", _policer(link)),
        *([("Bytes that the rate counts", _framing(link.framing))] if link.framing is not None else []),
        *([("ACK filter", link.ack_filter)] if link.ack_filter is not None else []),
        *([("Packets leave in bursts", _bursts(link.aggregation))] if link.aggregation is not None else []),
        ("Behind the queue", _behind_queue(link)),
        ("ECN threshold", _ecn_threshold(link)),
    ]


def _ecn_threshold(link: LinkRecord) -> str:
    if link.ecn_threshold_bytes is None and link.ecn_threshold_packets is None:
        return "off"
    return units.depth(link.ecn_threshold_bytes, link.ecn_threshold_packets)


def parameters(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """What was set and what it ran on."""
    profile, raw, telemetry, alone = run.profile, run.raw, summary["telemetry"], len(summary["links"]) == 1
    rows = []
    for view, section in zip(run.views, summary["links"], strict=True):
        of_link = _link_parameters(view.bottleneck, section)
        rows += of_link if alone else [(f"{section['name']}: {name}", value) for name, value in of_link]
    rows += [
        ("Round-trip time without queue", _base_rtts(run)),
        ("Target", f"{profile.name}; time unit {profile.time_unit_s:g} s, depth unit {profile.depth_unit} "
                   f"({run.depth_unit_bytes:g} B)"),
        ("Telemetry", f"{_sampling(telemetry['sample'])}; "
                      f"{units.count(telemetry['reports'])} used, {units.count(telemetry['lost'])} missing"),
        ("Status", run.status + (f": {run.reason}" if run.reason else "")),
    ]  # fmt: skip
    names = {
        "started": "Started", "ended": "Ended", "seed": "Seed", "narrows_version": "Narrows", "host": "Host",
        "switch": "Switch program", "versions": "Versions",
    }  # fmt: skip
    further = [
        (name, _program(raw[key]) if key == "switch" else _flat(raw[key])) for key, name in names.items() if key in raw
    ]
    return rows + [(name, text) for name, text in further if text not in ("", "None")]


def provenance(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """Where each kind of number comes from."""
    rows = [
        ("Goodput, share, delivered bytes", "telemetry/reports-*.parquet: packet lengths and TCP sequence numbers; a "
         "byte counts once, when it first leaves the queue. Series: flows.parquet"),
        ("Arrivals, departures, drops, loss", "telemetry/reports-*.parquet: per-flow counters of the switch; drops are "
         "arrivals minus departures, exact for a FIFO even where reports are missing. Series: flows.parquet"),
        ("Retransmitted", "telemetry/reports-*.parquet: packets that left below the flow's highest sequence number "
         "seen before. The senders' kernels (summary.json, host_retransmits) count all that they sent again, also what "
         "was dropped after that"),
        ("Queue depth and delay", "telemetry/reports-*.parquet: measured by the switch's traffic manager for each "
         "packet. Series: queue.parquet; distributions: distributions.parquet (bins of at most 0.013 %)"),
        ("Jain's index, convergence", "flows.parquet, goodput while all flows were running"),
        ("Link used", "telemetry/reports-*.parquet: L2 bytes of all departures over the rate set in run.json"),
    ]  # fmt: skip
    if said := _virtual_time(run):
        rows.append(("Clock and senders", f"{', '.join(said)}: a guest whose clock jumps to the next event; run.json "
                     "(virtual_time) has its image and options"))  # fmt: skip
    sources = {section["rtt_source"] for section in summary["flows"]}
    if SOCKET_SOURCE in sources:
        rows.append(("Round-trip time", "hosts/sockets.parquet: the senders' sockets, not measured by the switch"))
    if QLOG_SOURCE in sources:
        rows.append(("Round-trip time", "hosts/sockets.parquet: what programs have logged (qlog), not the switch"))
    if RECORD_SOURCES & sources:
        rows.append(("Round-trip time", "hosts/*.json: reported by the senders' sockets, not measured by the switch"))
    if PROBE_SOURCE in sources:
        rows.append(("Round-trip time", f"hosts/*.json: {PROBE_SOURCE}"))
    if SWITCH_RTT_SOURCE in sources:
        rows.append(("Round-trip time", "telemetry/reports-*.parquet of both directions, at the switch"))
    for source in sorted({section["inflight_source"] or "" for section in summary["flows"]} - {""}):
        file = "hosts/sockets.parquet" if source in (SOCKET_SOURCE, QLOG_SOURCE) else "telemetry/reports-*.parquet"
        rows.append(("Bytes in flight", f"{file}: {source}"))
    if isinstance(run.raw.get("traffic_manager"), dict):
        agrees = not any(warning["code"] == "drops_disagree" for warning in summary["warnings"])
        rows.append(
            ("Check of the drops", "the traffic manager's own per-flow counts in run.json "
             + ("agree with the telemetry to the packet" if agrees else "differ, see the warnings"))
        )  # fmt: skip
    return rows
