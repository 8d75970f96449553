# SPDX-License-Identifier: Apache-2.0
"""The packets of a run as pcapng: each one twice, as it came to the queue and as it left, drops in comments."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from operator import itemgetter
from pathlib import Path

from narrows_analysis.interchange.pcapng import PcapngWriter
from narrows_analysis.interchange.policed import Policed
from narrows_analysis.interchange.raw import (
    Key,
    Report,
    flow_keys,
    longest_waits_ns,
    raw_reports,
    report_clock,
    start_ns,
)
from narrows_analysis.interchange.rebuilt import FlowKey, Tcp, headers
from narrows_analysis.interchange.whole import whole
from narrows_analysis.records.reports import ARRIVAL_ECN_SHIFT, FLAG_CE_MARKED, FLAGS_ARRIVAL_ECN
from narrows_analysis.records.run_directory import FlowSpec, Run

CAPABLE = 2  # ECT(0), for a marked packet whose report does not have what it had been.
HOW = (
    "Made by Narrows from telemetry reports, payload left out. Not reported, and fixed here: addresses of Ethernet, "
    "identification, hop limit, TCP window 65535, checksums of TCP and UDP. TCP options other than timestamps are NOP. "
    "Dropped packets are in the comments of the flow's next one."
)


@dataclass
class Written:
    """What the file has: packets that left, and the drops that its comments name, by what made them; ``unknown``:
    packets without a flow key."""

    packets: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    unknown: int = 0


def write_packets(run: Run, out: Path, names: Collection[str] | None = None) -> Written:
    """Write the file, of all links or of those with these names. Interface 2i is in front of the queue of link i of
    these, 2i + 1 behind it.

    Times are those of the switch's clock, from `start_ns` on.

    Raises:
        AnalysisError: ``out`` exists, or the telemetry is damaged.
    """
    wanted = [link for link in run.links if names is None or link.name in names]
    links = {link.index: (number, link.name) for number, link in enumerate(wanted)}
    keys, since_ns, waits_ns, written = flow_keys(run), start_ns(run), longest_waits_ns(run), Written()
    clock = report_clock(run)
    policed = {link.index: Policed(run.at(link), clock) for link in wanted}

    def stream(index: int, behind: bool) -> Iterator[tuple[int, int, Report]]:
        interface = 2 * links[index][0] + behind
        here = (report for report in raw_reports(run) if report.fields["bottleneck"] == index)
        if behind:
            yield from ((report.left_ns, interface, report) for report in here)
        else:
            yield from ((report.arrived_ns, interface, report) for report in _by_arrival(here, waits_ns.get(index, 0)))

    # A packet comes to the queue before it leaves it: two passes merged by time, so that memory does not grow.
    passes = (stream(index, behind) for index in links for behind in (False, True))
    with whole(out) as making, making.open("wb") as sink:
        writer = PcapngWriter(sink, HOW)
        for _, name in links.values():
            writer.interface(f"{name} in", f"in front of the queue of link {name}")
            writer.interface(f"{name} out", f"behind the queue of link {name}")
        writer.names(_senders(run))
        for time_ns, interface, report in heapq.merge(*passes, key=itemgetter(0, 1)):
            _packet(writer, keys, policed, since_ns + time_ns, interface, report, written)
    return written


def _senders(run: Run) -> dict[str, str]:
    """Whose data come from each address: the flow's name, or of several flows that of their groups."""
    flows: defaultdict[str, list[FlowSpec]] = defaultdict(list)
    for flow in run.flows:
        with suppress(ValueError):  # run.json may have a host's name there
            if not (address := ip_address(flow.src)).is_unspecified:
                flows[str(address)].append(flow)
    return {
        address: ",".join(dict.fromkeys(flow.name if len(here) == 1 else flow.group for flow in here))
        for address, here in flows.items()
    }


def _by_arrival(reports: Iterator[Report], longest_ns: int) -> Iterator[Report]:
    """Reports sorted by arrival. They come sorted by departure, and where a link has several queues, packets overtake
    each other. A report is held back while a later departure may still have arrived before it: `longest_ns` is the
    longest queue delay."""
    waiting: list[tuple[int, int, Report]] = []
    for number, report in enumerate(reports):
        heapq.heappush(waiting, (report.arrived_ns, number, report))
        while waiting[0][0] < report.left_ns - longest_ns:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def _packet(
    writer: PcapngWriter,
    keys: dict[Key, FlowKey],
    policed: dict[int, Policed],
    time_ns: int,
    interface: int,
    report: Report,
    written: Written,
) -> None:
    fields = report.fields
    key = keys.get((fields["bottleneck"], fields["flow"], fields["signature"]))
    behind = interface % 2 == 1
    # Also where the packet itself is left out: its drops are not those of the next one.
    of_link = policed[fields["bottleneck"]]
    drops = {} if behind else _drops(report, of_link)
    if key is None:
        written.unknown += behind
        return
    marked = fields["flags"] & FLAG_CE_MARKED
    written.packets += behind
    written.drops.update(drops)
    comments = [f"{drops} dropped by {cause} before it" for cause, drops in drops.items()]
    comments += [f"{of_link.marker} marked it CE"] if behind and marked else []
    tcp = Tcp(*(fields[f"tcp_{name}"] for name in ("seq", "ack", "flags", "tsval", "tsecr")))
    length = fields["packet_length"]
    ecn = _unmarked(fields) if marked and not behind else fields["ecn"]
    data = headers(key, length, fields["payload_length"], ecn, tcp)
    writer.packet(interface, time_ns, data[:length], length, "; ".join(comments))


def _drops(report: Report, policed: Policed) -> dict[str, int]:
    """The drops that a report shows, by what made them."""
    by_policer = policed.of(report)
    causes = {f"the policer or {policed.others}": report.drops} if by_policer is None else {
        "the policer": by_policer, policed.others: report.drops - by_policer,
    }  # fmt: skip
    return {cause: drops for cause, drops in {**causes, "loss emulation": report.loss_drops}.items() if drops}


def _unmarked(fields: dict[str, int]) -> int:
    """The ECN field with which a marked packet came."""
    return (fields["flags"] & FLAGS_ARRIVAL_ECN) >> ARRIVAL_ECN_SHIFT or CAPABLE
