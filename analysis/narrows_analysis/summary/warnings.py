# SPDX-License-Identifier: Apache-2.0
"""What a reader must know before believing a number: the warnings of a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from narrows_formats import files
from narrows_formats.host_jitter import host_jitter
from narrows_formats.summary import BottleneckSummary, LinkSummary, WarningSummary
from narrows_formats.target_profile import TargetProfile

from narrows_analysis.aggregation.tables import MAX_ERROR, MIN_REPORTS, Aggregation
from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.flow_table import FlowTable
from narrows_analysis.records.json_files import read_json
from narrows_analysis.records.reports import SkippedReports
from narrows_analysis.records.run_directory import Run
from narrows_analysis.records.sockets import SocketRecords
from narrows_analysis.summary.ecn import MAX_NAMED, empty_l4s_queue, ignored_marks
from narrows_analysis.summary.late_drops import counts_by_flow, drops_after_reports
from narrows_analysis.summary.link_analysis import LinkAnalysis
from narrows_analysis.summary.time_series import goodput_bytes

MAX_MISSING_RATIO = 0.01
# A chip's shaper may be off by a percent.
MIN_UTILIZATION, MAX_UTILIZATION = 0.9, 1.02
MAX_OTHER_SHARE = 0.01
MAX_BUFFER_LIMITED = 0.01
# Drops after the last report of their flow: a few are usual.
MAX_LATE_DROPS, MIN_LATE_DROPS = 0.05, 10
# Of the time until which flows were to send: when none of their packets leaves any more.
MAX_SILENT_END = 0.1
# From a flow's planned start to the moment at which its sender begins to connect.
LATE_START_S = 0.01
# Of the shortest RTT, and of the time that a full buffer takes to drain: how long packets may wait on their host.
MAX_HELD = 0.05
# Lateness that is a software switch's usual one: BMv2 sends 1 % of its packets up to 2 ms after their time.
LATE_SERVICE_RATIO = 0.1
LATE_SERVICE_S = 2e-3
# Of a program's packets that reports show: those with payload, of a flow that is not acknowledgements of the other way.
LEAST_DATA = 0.01
# Datagrams for which a socket had no room, over IPv4 and IPv6.
NO_ROOM = ("UdpRcvbufErrors", "Udp6RcvbufErrors")
# Linux, Documentation/networking/snmp_counter.rst: data that had arrived was thrown away, or all sockets together had
# too little.
SHORT_OF_MEMORY = (
    "TcpExtRcvPruned", "TcpExtOfoPruned", "TcpExtTCPOFODrop", "TcpExtTCPRcvQDrop", "TcpExtTCPMemoryPressures",
)  # fmt: skip
# RFC 4293, and Linux's count of wrong checksums.
BROKEN = ("IpInHdrErrors", "Ip6InHdrErrors", "TcpInCsumErrors", "UdpInCsumErrors", "Udp6InCsumErrors")


Severity = Literal["error", "warning"]


def _caution(code: str, severity: Severity, message: str) -> WarningSummary:
    """One warning: a stable code, "error" (a number is withheld or wrong to compare) or "warning", and a sentence."""
    return {"code": code, "severity": severity, "message": message}


def _applying(*rows: tuple[object, str, Severity, str]) -> list[WarningSummary]:
    """The warnings, each (whether it applies, code, severity, message), that apply."""
    return [_caution(code, severity, message) for applies, code, severity, message in rows if applies]


def plural(count: float, noun: str) -> str:
    """`count` with thousands separators and `noun` in the right number."""
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def _named(flows: Sequence[str]) -> str:
    """The first few of some names, and how many others there are."""
    more = f" and {len(flows) - MAX_NAMED} more" if len(flows) > MAX_NAMED else ""
    return ", ".join(flows[:MAX_NAMED]) + more


def missing_ratio(aggregation: Aggregation) -> float:
    """Fraction (0..1) of the reports that should be there and are not usable."""
    due = aggregation.order.reports + aggregation.order.unusable
    return aggregation.order.unusable / due if due else 0.0


def _collector_warnings(run: Run) -> list[WarningSummary]:
    path = run.path / files.TELEMETRY / files.COLLECTOR
    if not path.exists():
        message = "telemetry/collector.json is missing: losses in the collector unknown."
        return [_caution("collector", "warning", message)]
    try:
        raw = read_json(run.path, f"{files.TELEMETRY}/{files.COLLECTOR}")
    except AnalysisError as error:
        return [_caution("collector", "warning", str(error))]
    losses = (
        ("kernel_ring_drops", "collector_drops", "The collector's kernel ring dropped {}."),
        ("rows_not_stored", "collector_not_stored", "The collector could not store {}."),
        ("flow_keys_overflow", "collector_flow_keys", "The collector had no room for the addresses of {}."),
    )
    lost = [
        _caution(code, "error", sentence.format(plural(_count(raw[key]), "report")))
        for key, code, sentence in losses
        if _count(raw.get(key))
    ]
    bad = raw.get("bad")
    reasons = {name: _count(value) for name, value in bad.items() if _count(value)} if isinstance(bad, dict) else {}
    listed = ", ".join(f"{name} {value:,}" for name, value in reasons.items())
    restarts = sum(_count(entry.get("restarts")) for entry in _objects(raw.get("bottlenecks")))
    return lost + _applying(
        (
            reasons, "collector_bad", "warning",
            f"The collector rejected {plural(sum(reasons.values()), 'broken report')} ({listed}).",
        ),
        (
            isinstance(raw.get("truncated_at"), int) or raw.get("stop_reason") == "truncated_file",
            "source_truncated", "warning", "The capture ends within a record: what came after is missing.",
        ),
        (
            restarts, "restarted", "error",
            f"Report numbering began anew {plural(restarts, 'time')}: the switch was restarted during the run.",
        ),
        (
            raw.get("error"), "collector_error", "error",
            f"The collector stopped with an error: {raw.get('error')}",
        ),
    )  # fmt: skip


def _count(value: object) -> int:
    """What the collector has counted, in 64 bits; anything else is not its own."""
    return value if isinstance(value, int) and 0 <= value < 1 << 64 else 0


def _objects(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value.values() if isinstance(entry, dict)] if isinstance(value, dict) else []


def _status_warnings(run: Run) -> list[WarningSummary]:
    if run.status == "complete":
        return []
    reason = f": {run.reason}" if run.reason else ""
    word = "failed" if run.status == "failed" else "was stopped early"
    return [_caution(f"run_{run.status}", "error", f"The run {word}{reason}. Results cover what was recorded.")]


def _late_reports(profile: TargetProfile) -> str:
    """The likeliest cause of times that go backwards, where a target's reports complete them when they leave."""
    if (latest_s := profile.latest_report_s) is None:
        return ""
    return (
        f" A report that leaves the switch more than {latest_s:.1f} s after its packet, as some of the SDE's model "
        "do, is dated multiples of that too late."
    )


def _report_warnings(run: Run, aggregation: Aggregation, skipped: SkippedReports) -> list[WarningSummary]:
    order, ratio = aggregation.order, missing_ratio(aggregation)
    duplicates, late = plural(order.skipped.duplicates, "duplicate"), plural(order.skipped.late, "late report")
    implausible = order.skipped.implausible
    more = f" So were {implausible:,} whose number fits nothing before or after." if implausible else ""
    stored_bad = sum(aggregation.account["bad"].values())
    found = _applying(
        (
            ratio > MAX_MISSING_RATIO, "reports_missing", "error",
            f"{ratio:.1%} of the telemetry reports are missing or out of order ({order.unusable:,} of "
            f"{order.reports + order.unusable:,}); above {MAX_MISSING_RATIO:.0%} no fairness figure is given.",
        ),
        (
            order.lost and ratio <= MAX_MISSING_RATIO, "reports_missing", "warning",
            f"{plural(order.lost, 'telemetry report')} of {order.reports + order.lost:,} missing ({ratio:.3%}). "
            "Counts of packets and drops are exact nevertheless; extremes of delay and depth may have been missed.",
        ),
        (
            order.skipped.total, "reports_skipped", "warning",
            f"{duplicates} and {late} were skipped.{more}",
        ),
        (
            order.sample_shift, "sampled", "warning",
            f"One report in {1 << (order.sample_shift or 0)} packets: packet and drop counts are exact up to each "
            "flow's last report, bytes, marks, retransmissions, delay and depth are estimates from the sample.",
        ),
        (
            aggregation.implausible, "counters_implausible", "error",
            f"{plural(aggregation.implausible, 'report')} carried counters that cannot follow from the reports "
            "before; they were not counted, and drops and departures are not reliable.",
        ),
        (
            stored_bad and run.telemetry_files, "telemetry_damaged", "error",
            f"{plural(stored_bad, 'stored report')} cannot be and were skipped: the telemetry files are damaged.",
        ),
        (
            aggregation.carried_in, "counters_carried_in", "warning",
            f"Counters of {plural(aggregation.carried_in, 'flow')} were not zero when the run began: they count "
            "from their first report, and drops before it are not seen.",
        ),
        (
            aggregation.clock_steps, "clock", "error",
            f"The switch's clock went backwards {plural(aggregation.clock_steps, 'time')}: time series are unreliable."
            + _late_reports(run.profile),
        ),
        (
            not run.profile.queue_reported, "queue_unreported", "warning",
            f"{run.profile.name} does not say what its queue did: waits, depths, drops and marks are not known, and "
            "reports are of what has left it.",
        ),
        (
            run.profile.queue_reported and run.profile.depth_unit_bytes is None, "depth_estimated", "warning",
            f"The target reports queue depth in {run.profile.depth_unit}: depths in bytes take each for a full frame "
            f"of {run.depth_unit_bytes:g} bytes.",
        ),
        (
            run.clock_origin_ns is None, "clock_origin", "warning",
            "run.json states no clock origin: times count from the first report.",
        ),
    )  # fmt: skip
    for name in skipped.unreadable_files:
        message = f"telemetry/{name} is not complete and was skipped: its reports are missing from every figure."
        found.append(_caution("file_unreadable", "error", message))
    return found


def _without_data(run: Run, aggregation: Aggregation) -> Iterator[WarningSummary]:
    """Flows of which nothing but acknowledgements left, or of those of programs hardly anything else."""
    totals, (_, data) = aggregation.flows.totals, goodput_bytes(aggregation)
    for number in range(run.data_flows if aggregation.complete else 0):
        packets = int(totals["departures"][number])
        with_payload = totals["data_packets"][number] / max(totals["samples"][number], 1)
        programs = run.flows[number].by_addresses
        if not packets or (data[number] and not (programs and with_payload < LEAST_DATA)):
            continue
        message = f"no data left, only {plural(packets, 'packet')} without payload."
        if data[number]:
            message = f"only {with_payload:.2%} of its packets had payload.".replace("%", " %")
        if programs:
            message += " Where the client of a program sends the data, its group needs `sends: client`."
        yield _caution("flow_without_data", "warning", f"{run.flow_names[number]}: {message}")


def _flow_warnings(run: Run, aggregation: Aggregation, table: FlowTable) -> list[WarningSummary]:
    names = run.flow_names
    found = _few_reports(run, aggregation)
    for number in table.unmatched if aggregation.complete else ():
        flow = run.flows[number]
        message = f"{names[number]} ({flow.src} to {flow.dst}) never crossed the bottleneck."
        found.append(_caution("flow_unseen", "error", message))
    found += _without_data(run, aggregation)
    for number in table.guessed:
        message = f"{names[number]}: source port unknown; taken to be the last connection opened between its hosts."
        found.append(_caution("flow_guessed", "warning", message))
    collided = [n for n in range(len(names)) if aggregation.collided[table.indices(n)].any()]
    if collided:
        who = ", ".join(names[number] for number in collided)
        message = f"Flow index collision: each of {who} shares its counters with another flow; its drops are withheld."
        if aggregation.uncounted.any():
            message += " One of these flows is of another link, so that this link's drops and losses are not known."
        found.append(_caution("collision", "error", message))
    late = [(flow.late_s, names[number]) for number, flow in enumerate(run.flows) if flow.late_s > LATE_START_S]
    if late:
        worst_s, name = max(late)
        message = (
            f"{plural(len(late), 'flow')} began more than {LATE_START_S * 1000:g} ms late; {name} {worst_s:.3f} s."
        )
        found.append(_caution("late_start", "warning", message))
    other, total = aggregation.flows.totals["bytes"][-1], aggregation.flows.totals["bytes"].sum()
    if total and other / total > MAX_OTHER_SHARE:
        message = f"{other / total:.1%} of the bytes do not belong to a flow of the experiment."
        found.append(_caution("other_traffic", "warning", message))
    return found


def _few_reports(run: Run, aggregation: Aggregation) -> list[WarningSummary]:
    """What lost or sampled reports say too little of, and what follows from that."""
    if not aggregation.enough_reports:
        message = f"Fewer than {MIN_REPORTS} reports in all: what is estimated from them is withheld."
        return [_caution("few_reports", "warning", message)]
    few = [name for name, enough in zip(run.flow_names, aggregation.assessable, strict=False) if not enough]
    if not few:
        return []
    who = _named(few)
    shares = "" if aggregation.accounted_for else ", and no flow has a share"
    message = f"Fewer than {MIN_REPORTS} reports, or none for more than {MAX_ERROR:.0%} of their time: {who}; "
    message += f"they have no goodput and no times{shares}."
    return [_caution("few_reports", "warning", message)]


def _traffic_manager_warnings(run: Run, aggregation: Aggregation, table: FlowTable) -> list[WarningSummary]:
    manager = run.raw.get("traffic_manager")
    by_link = manager.get("flow_drops") if isinstance(manager, dict) else None
    rows = by_link.get(run.bottleneck.name) if isinstance(by_link, dict) else None
    if not isinstance(rows, list):
        return []
    counted = counts_by_flow(rows, "packets")
    later = drops_after_reports(run) or {}
    names = run.flow_names
    found = []
    for number in range(len(names)):
        indices = table.indices(number)
        if not indices or aggregation.collided[indices].any():
            continue
        ours, theirs = int(aggregation.flows.totals["drops"][number]), sum(counted.get(one, 0) for one in indices)
        if ours + sum(later.get(one, 0) for one in indices) != theirs:
            message = (
                f"{names[number]}: {plural(ours, 'drop')} in the telemetry, {theirs:,} counted by the traffic manager "
                "(drops after a flow's last departing packet leave no report)."
            )
            found.append(_caution("drops_disagree", "warning", message))
    return found


def _late_drops(section: BottleneckSummary) -> list[WarningSummary]:
    """Drops that no report can tell of, where they are many."""
    later, reported = section["drops_after_reports"], section["drops"]
    if later is None or reported is None or later < MIN_LATE_DROPS or later <= MAX_LATE_DROPS * (later + reported):
        return []
    message = (
        f"{later:,} of {later + reported:,} drops came after the last packet of their flow that left, or was reported: "
        "they are in no other figure, and losses were more than these say (run.json, drop_cross_check)."
    )
    return [_caution("late_drops", "warning", message)]


def _silent_end(run: Run, aggregation: Aggregation) -> list[WarningSummary]:
    """A link that nothing leaves any more long before its flows end. What programs and users send may be over early."""
    ends = [
        flow.start_s + flow.duration_s
        for flow, said in zip(run.flows[: run.data_flows], run.host_records, strict=False)
        if flow.duration_s is not None and not flow.by_addresses and not (said.record and said.record.pauses)
    ]
    last = float(aggregation.last_departure[: run.data_flows].max(initial=0)) * aggregation.clock.unit_s
    if run.status != "complete" or not ends or max(ends) - last <= MAX_SILENT_END * max(ends):
        return []
    message = (
        f"No packet of the flows left after {last:.3g} s, though they were to send until {max(ends):.3g} s: rates, "
        "shares and utilization are of the time before, and losses since then are in no figure."
    )
    return [_caution("silent_end", "warning", message)]


def _ecn_warnings(link: LinkAnalysis, section: LinkSummary) -> list[WarningSummary]:
    empty = empty_l4s_queue(link)
    ignored = ignored_marks(link.run, {flow["name"]: flow["ce_marks"] or 0 for flow in section["flows"]})
    return _applying((empty, "l4s_unused", "warning", empty), (ignored, "marks_ignored", "warning", ignored))


def _late_service_warnings(run: Run, section: BottleneckSummary) -> list[WarningSummary]:
    """Packets that waited longer than a full buffer takes: a software switch on a machine that is too busy."""
    link, delay_s = run.bottleneck, section["queue_delay_s"]["p99"]
    deepest = link.deepest_bytes
    if delay_s is None or deepest is None or link.rate_bps is None or link.schedule is not None:
        return []
    # How long that is depends on how full bursts are, and on what frames take.
    if link.has_several_queues or link.aggregation is not None or link.framing is not None:
        return []
    # The packet in service comes on top of those that wait.
    full_s = (deepest + link.mtu_frame_bytes) * 8 / link.rate_bps
    if delay_s <= (1 + LATE_SERVICE_RATIO) * full_s + LATE_SERVICE_S:
        return []
    message = (
        f"1 % of the packets waited {delay_s * 1e3:.1f} ms or more, and a full buffer takes {full_s * 1e3:.1f} ms at "
        "the rate that was set: the switch did not keep up. Set a lower rate, or take load off the machine."
    )
    return [_caution("late_service", "warning", message)]


def _balance_warnings(run: Run) -> list[WarningSummary]:
    """Packets that the control plane found to be lost where the target counts no losses."""
    rows = run.raw.get("balances")
    found = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("lost"):
            lost, entered = int(row["lost"]), int(row["entered"])
            message = (
                f"{plural(lost, 'packet')} of {entered:,} lost {row['place']}: neither the bottleneck's queue nor loss "
                "emulation took them."
                if lost > 0
                else f"{plural(-lost, 'packet')} too many came out {row['place']}, where {entered:,} went in: "
                "something else sends there, and losses would not show."
            )
            found.append(_caution("lost_elsewhere", "warning", message))
    return found


def _host_warnings(run: Run) -> list[WarningSummary]:
    found: list[WarningSummary] = []
    for flow, host in zip(run.flows, run.host_records, strict=True):
        notes = () if flow.application is None else flow.application.notes
        found.extend(_caution("application", "warning", f"{flow.name}: {note}.") for note in notes)
        if host.error:
            found.append(_caution("host", "warning", f"{flow.name}: {host.error}"))
        if host.cca and flow.cca and host.cca != flow.cca:
            message = f"{flow.name} ran {host.cca}, not {flow.cca} as the experiment asks."
            found.append(_caution("cca", "error", message))
    return found


def _socket_warnings(sockets: SocketRecords, run: Run) -> list[WarningSummary]:
    """Flows that their sockets held back where the algorithm would have sent."""
    found = []
    for flow in run.flows:
        share = sockets.flows[flow.number].buffer_limited if flow.number in sockets.flows else None
        if share is not None and share > MAX_BUFFER_LIMITED:
            message = (
                f"{flow.name} was limited by its socket buffers in {share:.0%} of the time, not by its congestion "
                "control or the link. Set a larger tcp_buffer if that is not what was to be tested."
            )
            found.append(_caution("buffer_limited", "warning", message))
    return found


def _jitter_warnings(run: Run) -> list[WarningSummary]:
    """Hosts whose own random time for a frame is more than a small part of the shortest RTT."""
    jitter_s, shortest_s = run.host_jitter_s, min(run.base_rtts_s, default=0.0)
    if jitter_s is None or (why := host_jitter(jitter_s, shortest_s)) is None:
        return []
    return [_caution("host_jitter", "warning", f"{why}.")]


def _shared_host_warnings(run: Run) -> list[WarningSummary]:
    """Hosts whose link spread what several flows sent at once over a time that shows at a link, or in an RTT."""
    full_s = [link.buffer_bytes * 8 / link.rate_bps for link in run.links if link.buffer_bytes and link.rate_bps]
    noticed_s = MAX_HELD * min((*full_s, *run.base_rtts_s), default=0.0)
    found = []
    for host in run.shared_hosts:
        if host.longest_held_s > noticed_s:
            message = (
                f"{host.flows} flows share the host {host.host}, whose link held {host.held:,} of "
                f"{plural(host.packets, 'packet')}, for up to {host.longest_held_s * 1e3:.4g} ms: what they send in "
                "one instant leaves one after the other. `senders` gives a group several hosts."
            )
            found.append(_caution("shared_host", "warning", message))
    return found


def _undelivered_warnings(run: Run) -> list[WarningSummary]:
    """Flows through users' programs of which nothing was delivered; pairs of hosts beyond a few are counted."""
    found = []
    for pair in run.undelivered[:MAX_NAMED]:
        message = f"{_named(pair.flows)}: nothing was delivered. In the whole run, {'; '.join(pair.found)}."
        found.append(_caution("undelivered", "error", message))
    if more := sum(len(pair.flows) for pair in run.undelivered[MAX_NAMED:]):
        message = f"Of {plural(more, 'further flow')} nothing was delivered (run.json, undelivered)."
        found.append(_caution("undelivered", "error", message))
    return found


def _kernel_counters(run: Run) -> Iterator[tuple[str, dict[str, object]]]:
    """What the kernel of each host has counted."""
    host = run.raw.get("host")
    testbed = host.get("testbed") if isinstance(host, dict) else None
    # Versions before 0.3 counted TCP only.
    hosts = testbed.get("kernel_counters", testbed.get("tcp_counters")) if isinstance(testbed, dict) else None
    for name, counted in hosts.items() if isinstance(hosts, dict) else ():
        yield name, counted if isinstance(counted, dict) else {}


def _broken_warnings(run: Run) -> list[WarningSummary]:
    """Hosts whose kernel dropped what came with a wrong header or checksum: what had changed it did not say so."""
    found = []
    for name, counters in _kernel_counters(run):
        if broken := {one: _count(counters[one]) for one in BROKEN if _count(counters.get(one))}:
            message = (
                f"The kernel of {name} dropped {plural(sum(broken.values()), 'packet')} with a wrong header or "
                f"checksum ({', '.join(f'{one} {count}' for one, count in broken.items())}), which count as delivered "
                "here: what had changed them, such as a program of yours, did not compute the checksum again."
            )
            found.append(_caution("broken_packets", "error", message))
    return found


def _memory_warnings(run: Run) -> list[WarningSummary]:
    """Hosts whose kernel had no memory for what had arrived, or was to be sent."""
    found = []
    for name, counters in _kernel_counters(run):
        if missed := sum(_count(counters.get(one)) for one in NO_ROOM):
            message = (
                f"{plural(missed, 'datagram')} arrived at {name} and had no room in a socket: the program that was to "
                "read did not keep up. The drops given here are those of links; the program counts these as lost, too."
            )
            found.append(_caution("datagrams_not_read", "warning", message))
        if short := [f"{one} {counters[one]}" for one in SHORT_OF_MEMORY if _count(counters.get(one))]:
            message = (
                f"The kernel of {name} had too little memory for TCP: {', '.join(short)}. It threw data away that had "
                "arrived, or held senders back, which no congestion control asked for."
            )
            found.append(_caution("host_memory", "warning", message))
    return found


def find_warnings(
    run: Run,
    links: Sequence[LinkAnalysis],
    sections: Sequence[LinkSummary],
    skipped: SkippedReports,
    sockets: SocketRecords,
) -> list[WarningSummary]:
    """All warnings of a run, gravest first; `sections` are those of the links in the summary."""
    found = _status_warnings(run)
    for link, section in zip(links, sections, strict=True):
        own = _link_warnings(link, section, skipped)
        if len(links) > 1:
            own = [{**warning, "message": f"{link.name}: {warning['message']}"} for warning in own]
        found += own
    found += _undelivered_warnings(run)
    found += _balance_warnings(run)
    if control := _count(run.raw.get("control_connections")):
        message = f"{plural(control, 'connection')} that carried little around another one to the same port "
        message += (
            "(iperf3's control) is not among the flows." if control == 1 else "(iperf3's) are not among the flows."
        )
        found.append(_caution("control_connections", "warning", message))
    found += _collector_warnings(run)
    found += _host_warnings(run)
    found += _socket_warnings(sockets, run)
    found += _jitter_warnings(run)
    found += _shared_host_warnings(run)
    found += _broken_warnings(run)
    found += _memory_warnings(run)
    return sorted(found, key=lambda warning: warning["severity"] != "error")


def _link_warnings(link: LinkAnalysis, section: LinkSummary, skipped: SkippedReports) -> list[WarningSummary]:
    run, aggregation = link.run, link.aggregation
    if aggregation is None or not aggregation.order.reports:
        if len(run.links) > 1 and not run.flows:
            return [_caution("unused_link", "warning", "No flow crosses it, and nothing else did.")]
        found = [_caution("no_telemetry", "error", "No telemetry report was recorded: there is nothing to measure.")]
        found.extend(
            _caution("file_unreadable", "error", f"telemetry/{name} is not complete and was skipped.")
            for name in skipped.unreadable_files
        )
        return found
    found = _report_warnings(run, aggregation, skipped)
    found += _flow_warnings(run, aggregation, link.table)
    found += _traffic_manager_warnings(run, aggregation, link.table)
    found += _late_drops(section)
    found += _silent_end(run, aggregation)
    found += _late_service_warnings(run, section)
    found += _ecn_warnings(link, section)
    utilization = section["utilization"]
    # Which of several links is to be the bottleneck is for the experiment to show.
    if utilization is not None and utilization < MIN_UTILIZATION and len(run.links) == 1:
        message = f"The link was not saturated: {utilization:.1%} of its rate was used while flows were running."
        found.append(_caution("unsaturated", "warning", message))
    if utilization is not None and utilization > MAX_UTILIZATION and not aggregation.order.sample_shift:
        message = f"The link carried {utilization:.1%} of its rate: the rate that was set, or given, is not the link's."
        found.append(_caution("above_rate", "error", message))
    peak, buffer = section["queue_bytes"]["max"], run.bottleneck.deepest_bytes
    if peak is not None and buffer is not None and peak > buffer + run.depth_unit_bytes:
        message = f"The queue reached {peak:,.0f} bytes, above the {buffer:,.0f} bytes that were set."
        found.append(_caution("queue_above_buffer", "error", message))
    return found
