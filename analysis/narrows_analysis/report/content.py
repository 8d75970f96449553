# SPDX-License-Identifier: Apache-2.0
"""The words and tables of a run's page."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from narrows_formats.flow_names import OTHER_GROUP
from narrows_formats.run_record import LinkRecord
from narrows_formats.schedules import Opportunities
from narrows_formats.summary import BottleneckSummary, GroupSummary, Summary, shown_other_share
from narrows_formats.units import NANOSECONDS

from narrows_analysis.colors import flow_colors
from narrows_analysis.records.connection import RECORD_SOURCES
from narrows_analysis.records.run_directory import Run
from narrows_analysis.report import units
from narrows_analysis.report.applications import connection_table
from narrows_analysis.report.cells import Cell, number
from narrows_analysis.report.datagrams import datagram_table
from narrows_analysis.report.events import event_table
from narrows_analysis.report.links import flow_link_table, link_table
from narrows_analysis.report.responses import response_table
from narrows_analysis.report.video import video_table
from narrows_analysis.summary.sections import NOT_ASSESSABLE, SOCKET_SOURCE, SWITCH_RTT_SOURCE

MAX_BARS = 24
OTHER_STYLE = "var(--axis)"


def setting(run: Run) -> str:
    """The links in one line."""
    alone = len(run.views) == 1
    parts = [f"{'' if alone else f'{view.bottleneck.name}: '}{' · '.join(_of_link(view, alone))}" for view in run.views]
    parts = [part for part in parts if part]
    parts.append(f"{len(run.flows)} flow{'' if len(run.flows) == 1 else 's'}")
    parts.append(f"target {run.profile.name}")
    if isinstance(run.raw.get("started"), str):
        parts.append(run.raw["started"][:16].replace("T", " "))
    return " · ".join(parts)


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
    if link.buffer_bytes is not None:
        bdp = f" ({units.significant(link.buffer_bytes / link.bdp_bytes, 3)} BDP)" if link.bdp_bytes else ""
        parts.append(f"{units.size(link.buffer_bytes)} buffer{bdp}")
    if link.loss:
        parts.append(f"{units.percent(link.loss)} random loss{_loss_model(link)}")
    if link.jitter or link.delay_steps or link.duplication:
        parts.append(_behind_queue(link))
    return parts


# Different delays that are listed one by one.
MAX_STEPS = 4


def _loss_model(link: LinkRecord) -> str:
    """How losses depend on each other, where they do."""
    if link.loss_model is None:
        return ""
    if "r" in link.loss_model:
        return f" in bursts of {units.significant(1 / link.loss_model['r'], 3)} packets"
    return " by a recorded pattern"


def _behind_queue(link: LinkRecord) -> str:
    """The one-way delay that a link has, and what varies it."""
    parts = [f"{units.duration(link.delay_s)} delay"]
    if link.delay_steps is not None:
        delays = dict.fromkeys(units.duration(delay / NANOSECONDS) for _, delay in link.delay_steps["steps"])
        parts = [f"delay of {', '.join(list(delays)[:MAX_STEPS])}{', ...' if len(delays) > MAX_STEPS else ''}"]
    if link.jitter is not None:
        kind = next(name for name in ("uniform_ns", "normal_ns", "pareto", "samples_ns") if link.jitter[name])
        parts.append(f"{kind.removesuffix('_ns')} jitter, {'reordering' if link.jitter['reorder'] else 'in order'}")
    if link.duplication:
        parts.append(f"{units.percent(link.duplication)} duplicated")
    return ", ".join(parts)


def verdict(run: Run, summary: Summary) -> str:
    """What happened, in one or two sentences."""
    groups = [group for group in summary["groups"] if group["share"] is not None]
    if not groups:
        return ""
    link, fairness = summary["bottleneck"], summary["fairness"]
    if len(groups) > 1:
        ranked = sorted(groups, key=lambda group: -(group["share"] or 0.0))
        first, rest = ranked[0], ranked[1:]
        others = ", ".join(f"{_members(group)} {units.percent(group['share'])}" for group in rest)
        words = f"{_members(first)} took {units.percent(first['share'])} of the goodput, {others}."
    elif len(run.flows) > 1:
        goodput = units.rate(groups[0]["goodput_bps"])
        shared = units.rate(link["rate_mean_bps"] or link["rate_bps"])
        words = f"{_members(groups[0])} shared {shared}, {goodput} of it goodput."
    else:
        words = f"One {groups[0]['name']} flow reached {units.rate(groups[0]['goodput_bps'])} of goodput."
    if (other := shown_other_share(summary["bottleneck"]["other_share"])) is not None:
        words += f" Traffic that is not the experiment's had {units.percent(other)}."
    if fairness["jain_index"] is not None:
        words += f" Jain's index {units.index(fairness['jain_index'])}"
        converged = fairness["convergence_s"]
        if converged is not None:
            words += f"; fair after {units.duration(converged)}."
        elif (fairness["convergence_reason"] or "").startswith(NOT_ASSESSABLE):
            words += f"; whether the flows settle is {fairness['convergence_reason']}."
        else:
            words += "; the flows never settled at their fair share."
    mean = link["queue_bytes"]["mean"]
    if mean is not None and run.bottleneck.bdp_bytes:
        held, lost = units.significant(mean / run.bottleneck.bdp_bytes, 2), units.percent(link["loss_ratio"])
        words += f" The queue held {held} BDP on average and dropped {lost} of the packets."
    return words


def _members(group: GroupSummary) -> str:
    return group["name"] if group["flows"] == 1 else f"{group['flows']} {group['name']} flows"


def tiles(run: Run, summary: Summary) -> list[dict[str, Any]]:
    """The figures at the top; `key` is the path in summary.json."""
    if len(summary["links"]) > 1:
        rows = [
            (f"{link['name']} used", f"links.{link['name']}.utilization", units.percent(link["utilization"]),
             link["utilization"], f"{units.percent(link['loss_ratio'])} dropped")
            for link in summary["links"]
        ]  # fmt: skip
        return [_tile(*row) for row in rows]
    link, fairness = summary["bottleneck"], summary["fairness"]
    delay, depth = link["queue_delay_s"], link["queue_bytes"]
    window = fairness["window_s"]
    rows = [
        ("Link used", "bottleneck.utilization", units.percent(link["utilization"]), link["utilization"],
         f"of {units.rate(link['rate_mean_bps'] or link['rate_bps'])}"),
        ("Packets dropped", "bottleneck.loss_ratio", units.percent(link["loss_ratio"]), link["loss_ratio"],
         f"{units.count(link['drops'])} packets{_emulated(link)}"),
        ("Queue delay, mean", "bottleneck.queue_delay_s.mean", units.duration(delay["mean"]), delay["mean"],
         f"99 % below {units.duration(delay['p99'])}"),
        ("Queue depth, mean", "bottleneck.queue_bytes.mean", units.size(depth["mean"]), depth["mean"],
         f"at most {units.size(depth['max'])}"),
    ]  # fmt: skip
    if len(run.flows) > 1:
        detail = f"not given: {fairness['reason']}"
        if window:
            detail = f"{units.significant(window[0])} to {units.significant(window[1])} s"
        rows.append(
            ("Jain's index", "fairness.jain_index", units.index(fairness["jain_index"]), fairness["jain_index"], detail)
        )
    return [_tile(*row) for row in rows]


def _tile(name: str, key: str, value: str, raw: float | None, detail: str) -> dict[str, Any]:
    return {"name": name, "key": key, "value": value, "raw": "" if raw is None else raw, "detail": detail}


def _emulated(link: BottleneckSummary) -> str:
    """What loss emulation took on top, where there is any."""
    count = link["loss_emulation_drops"]
    return f", and {units.count(count)} more by loss emulation" if count else ""


def tables(run: Run, summary: Summary) -> list[dict[str, Any]]:
    """Flows, and groups where there are several."""
    result = [_flow_table(run, summary)] if run.flows else []
    if len(summary["links"]) > 1:
        result = [link_table(summary), *result, flow_link_table(run, summary)]
    if 1 < len(summary["groups"]) < len(run.flows):
        result.append(_group_table(run, summary))
    if (events := event_table(run.events)) is not None:
        result.append(events)
    if (datagrams := datagram_table(summary)) is not None:
        result.append(datagrams)
    if (video := video_table(summary)) is not None:
        result.append(video)
    if (responses := response_table(summary)) is not None:
        result.append(responses)
    if (connections := connection_table(summary)) is not None:
        result.append(connections)
    return result if len(run.flows) <= MAX_BARS else result[::-1]


def shares(run: Run, summary: Summary) -> list[dict[str, Any]]:
    """A bar for each flow, or for each group where the flows are too many to compare."""
    groups = [flow.group for flow in run.flows]
    colored = zip(summary["flows"], flow_colors(groups), strict=True)
    known = [(section["name"], color.css, section["share"]) for section, color in colored]
    if len(known) > MAX_BARS:
        known = [(g["name"], f"var(--c{n % 8})", g["share"]) for n, g in enumerate(summary["groups"])]
    flows = len(known)
    if (other := shown_other_share(summary["bottleneck"]["other_share"])) is not None:
        known.append((OTHER_GROUP, OTHER_STYLE, other))
    bars = [(name, style, share) for name, style, share in known if share is not None]
    if len(known) < 2 or len(bars) < len(known):
        return []
    # Flows that share no link have no common fair share.
    fair = 100 / flows if 1 < flows == len(run.flows) and len(summary["links"]) == 1 else None
    most = max([share * 100 for _, _, share in bars] + ([fair] if fair is not None else []))
    return [
        {
            "name": name, "style": style, "text": units.percent(share), "raw": share,
            "width": share * 100 / most * 100, "fair": None if fair is None else fair / most * 100,
        }
        for name, style, share in bars
    ]  # fmt: skip


def _flow_table(run: Run, summary: Summary) -> dict[str, Any]:
    groups = [flow.group for flow in run.flows]
    rows = []
    for section, color in zip(summary["flows"], flow_colors(groups), strict=True):
        label, rtt = section["name"], section["rtt_s"]
        life = units.MISSING
        if section["start_s"] is not None:
            life = f"{section['start_s']:.1f}\u2013{section['end_s']:.1f}"
        rows.append(
            [
                Cell(label, label, color.css, text_column=True),
                Cell(section["cca"] or units.MISSING, section["cca"] or "", text_column=True),
                number(units.rate(section["goodput_bps"]), section["goodput_bps"]),
                number(units.percent(section["share"]), section["share"]),
                number(units.count(section["drops"]), section["drops"]),
                number(units.percent(section["loss_ratio"]), section["loss_ratio"]),
                number(units.percent(section["retransmit_ratio"]), section["retransmit_ratio"]),
                number(units.duration(rtt["mean"]), rtt["mean"]),
                number(units.duration(rtt["min"]), rtt["min"]),
                number(units.size(section["bytes"]), section["bytes"]),
                number(life, section["start_s"]),
            ]
        )
    rows += _other_row(summary, 3, len(rows[0]))
    names = [
        "Flow",
        "CCA",
        "Goodput",
        "Share",
        "Drops",
        "Loss",
        "Retrans-\nmitted",
        "RTT\nmean",
        "RTT\nmin",
        "Delivered",
        "Active\n(s)",
    ]
    sources = {section["rtt_source"] for section in summary["flows"]} - {None}
    note = "Goodput is over each flow's own life, share over the time in which all flows were running, of all goodput "
    note += "through the link. Drops and loss are those of the queue."
    for source in sorted(RECORD_SOURCES & sources):
        note += f" RTT as {source} report it: smoothed, sampled once a second."
    if SOCKET_SOURCE in sources:
        note += f" RTT as {SOCKET_SOURCE} say: mean of the smoothed RTT, and the smallest of a single packet."
    if SWITCH_RTT_SOURCE in sources:
        note += f" RTT measured at {SWITCH_RTT_SOURCE}."
    if any(section["inflight_bytes"]["mean"] is not None for section in summary["flows"]):
        names.append("In flight\nmean")
        seen = {section["inflight_source"] or "" for section in summary["flows"]} - {""}
        note += f" Bytes in flight from {', '.join(sorted(seen))}."
        means = [section["inflight_bytes"]["mean"] for section in summary["flows"]]
        for row, size in zip_longest(rows, means):
            row.append(number(units.size(size), size))
    marks = [section["ce_marks"] for section in summary["flows"]]
    if any(marks):
        names.append("CE\nmarks")
        note += " CE marks are those of the queue."
        for row, count in zip_longest(rows, marks):
            row.append(number(units.count(count), count))
    columns = [{"name": name, "text": name in ("Flow", "CCA")} for name in names]
    return {"id": "flows", "title": "Flows", "columns": columns, "rows": rows, "note": note}


def _other_row(summary: Summary, column: int, columns: int) -> list[list[Cell]]:
    """The row of the traffic that is not the experiment's, its share in ``column``; none where there is hardly any."""
    other = shown_other_share(summary["bottleneck"]["other_share"])
    if other is None:
        return []
    row = [number(units.MISSING, None) for _ in range(columns)]
    row[0] = Cell(OTHER_GROUP, OTHER_GROUP, OTHER_STYLE, text_column=True)
    row[1] = Cell(units.MISSING, "", text_column=True)
    row[column] = number(units.percent(other), other)
    return [row]


def _group_table(run: Run, summary: Summary) -> dict[str, Any]:
    names = list(dict.fromkeys(flow.group for flow in run.flows))
    colors = {name: f"var(--c{position % 8})" for position, name in enumerate(names)}
    rows = [
        [
            Cell(group["name"], group["name"], colors[group["name"]], text_column=True),
            Cell(group["cca"] or units.MISSING, group["cca"] or "", text_column=True),
            number(units.count(group["flows"]), group["flows"]),
            number(units.rate(group["goodput_bps"]), group["goodput_bps"]),
            number(units.percent(group["share"]), group["share"]),
            number(units.percent(group["loss_ratio"]), group["loss_ratio"]),
        ]
        for group in summary["groups"]
    ]
    rows += _other_row(summary, 4, len(rows[0]))
    columns = [
        {"name": n, "text": n in ("Group", "CCA")} for n in ("Group", "CCA", "Flows", "Goodput", "Share", "Loss")
    ]
    note = "Goodput and share over the time in which all flows were running."
    return {"id": "groups", "title": "Groups", "columns": columns, "rows": rows, "note": note}


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
        rows.append(("Convergence (all within 25 % of the fair share for 5 s)", when))
    return rows


def _sampling(sample: int | None) -> str:
    if sample is None:
        return "no report"
    return "every packet reported" if sample == 1 else f"one report in {sample} packets"


def _flat(value: object) -> str:
    """The plain values of an object in one line; what is nested deeper stands in run.json."""
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


def parameters(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """What was set and what it ran on."""
    link, profile, raw, telemetry = run.bottleneck, run.profile, run.raw, summary["telemetry"]
    rows = [
        ("Rate (L2: Ethernet frames without preamble, gap and FCS)", _set_rate(link)),
        ("Rate measured while the link was never idle", units.rate(summary["bottleneck"]["saturated_rate_bps"])),
        ("Buffer", units.size(link.buffer_bytes)),
        ("Round-trip time without queue", _base_rtts(run)),
        ("Bandwidth-delay product", units.size(link.bdp_bytes)),
        ("Random loss set", units.percent(link.loss) + _loss_model(link)),
        ("Behind the queue", _behind_queue(link)),
        ("ECN threshold", "off" if link.ecn_threshold_bytes is None else units.size(link.ecn_threshold_bytes)),
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
    told = [
        (name, _program(raw[key]) if key == "switch" else _flat(raw[key])) for key, name in names.items() if key in raw
    ]
    return rows + [(name, text) for name, text in told if text not in ("", "None")]


def provenance(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """Where each kind of number comes from."""
    rows = [
        ("Goodput, share, delivered bytes", "telemetry/reports-*.parquet: packet lengths and TCP sequence numbers; a "
         "byte counts once, when it first leaves the queue. Series: flows.parquet"),
        ("Arrivals, departures, drops, loss", "telemetry/reports-*.parquet: per-flow counters of the switch; drops are "
         "arrivals minus departures, exact for a FIFO even where reports are missing. Series: flows.parquet"),
        ("Retransmitted", "telemetry/reports-*.parquet: packets below the flow's highest sequence number seen before"),
        ("Queue depth and delay", "telemetry/reports-*.parquet: measured by the switch's traffic manager for each "
         "packet. Series: queue.parquet; distributions: distributions.parquet (bins of at most 0.013 %)"),
        ("Jain's index, convergence", "flows.parquet, goodput while all flows were running"),
        ("Link used", "telemetry/reports-*.parquet: L2 bytes of all departures over the rate set in run.json"),
    ]  # fmt: skip
    sources = {section["rtt_source"] for section in summary["flows"]}
    if SOCKET_SOURCE in sources:
        rows.append(("Round-trip time", "hosts/sockets.parquet: the senders' sockets, not measured by the switch"))
    if RECORD_SOURCES & sources:
        rows.append(("Round-trip time", "hosts/*.json: reported by the senders' sockets, not measured by the switch"))
    if SWITCH_RTT_SOURCE in sources:
        rows.append(("Round-trip time", "telemetry/reports-*.parquet of both directions, at the switch"))
    for source in sorted({section["inflight_source"] or "" for section in summary["flows"]} - {""}):
        file = "hosts/sockets.parquet" if source == SOCKET_SOURCE else "telemetry/reports-*.parquet"
        rows.append(("Bytes in flight", f"{file}: {source}"))
    if isinstance(run.raw.get("traffic_manager"), dict):
        agrees = not any(warning["code"] == "drops_disagree" for warning in summary["warnings"])
        rows.append(
            ("Check of the drops", "the traffic manager's own per-flow counts in run.json "
             + ("agree with the telemetry to the packet" if agrees else "differ, see the warnings"))
        )  # fmt: skip
    return rows
