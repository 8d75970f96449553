# SPDX-License-Identifier: Apache-2.0
"""What holds for the links of every run, whatever they do; recomputed from the reports, packet by packet.

Every packet has to be in a report. Flows that share a counter cell with a flow of another link have no losses: what is
said of the others still holds.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter, deque
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows_formats.run_record import LinkRecord
from narrows_formats.schedules import Opportunities, RateSteps
from test_links_that_vary import delivered

NS = 1_000_000_000
TAIL_DROP = "tail-drop"
FIFO = (TAIL_DROP, "head-drop", "step", "codel", "pie", "red", "pi2")
# These drop packets that wait, so that what others find is more than what leaves after them.
DROP_FROM_WAITING = ("head-drop", "codel", "fq", "fq_codel")
MARKED = 1
CAPABLE = (1, 2)
MAHIMAHI_BYTES = 10  # by which a frame is longer than what an opportunity counts


class Offered:
    """The bits that a link offers until a time, times a second's nanoseconds, so that nothing is rounded."""

    def __init__(self, link: LinkRecord) -> None:
        """Of run.json's link, one whose rate is constant or in steps."""
        self._before = round(link.rate_bps or 0)
        schedule = link.schedule or RateSteps(((0, self._before),))
        assert isinstance(schedule, RateSteps)
        self._period = schedule.period_ns
        self._starts = [start for start, _ in schedule.steps]
        self._rates = [rate for _, rate in schedule.steps]
        ends = [*self._starts[1:], *([self._period] if self._period else [])]
        parts = [rate * (end - start) for start, end, rate in zip(self._starts, ends, self._rates, strict=False)]
        self._sums: list[int] = list(accumulate(parts, initial=0))

    def until(self, time_ns: int) -> int:
        """Since the experiment's start; less than 0 before."""
        if time_ns < 0:
            return self._before * time_ns
        turns, within = divmod(time_ns, self._period) if self._period else (0, time_ns)
        step = bisect_right(self._starts, within) - 1
        return turns * self._sums[-1] + self._sums[step] + self._rates[step] * (within - self._starts[step])


class Packets:
    """What left a link, in order: times in nanoseconds from the experiment's start."""

    def __init__(self, reports: pd.DataFrame, origin_ns: int) -> None:
        """Of the reports of one link."""
        self.reports = reports.sort_values("sequence", kind="stable")
        column = {name: self.reports[name].astype("int64") for name in self.reports.columns}
        left = column["timestamp"] - origin_ns
        self.left, self.waited = left.tolist(), column["queue_delay"].tolist()
        self.lengths = column["packet_length"].tolist()
        self.came = (left - column["queue_delay"]).tolist()
        self.found, self.behind = column["enqueue_depth"].tolist(), column["dequeue_depth"].tolist()
        flags: list[int] = column["flags"].tolist()
        self.marked, self.ecn_before = [flag & MARKED for flag in flags], [flag >> 3 & 3 for flag in flags]


def check(run_dir: Path) -> Counter[str]:
    """Raise AssertionError where a run breaks a law; returns how many packets, or figures, each was tried with."""
    run, summary = (json.loads((run_dir / name).read_text()) for name in ("run.json", "summary.json"))
    assert run["status"] == "complete", run["reason"]
    assert run["losses_elsewhere"] == [] and run["telemetry"]["sample"] == 1
    files = sorted((run_dir / "telemetry").glob("reports-*.parquet"))
    reports = pd.concat([pd.read_parquet(file) for file in files])
    sections = {section["name"]: section for section in summary["links"]}
    if not sections:
        sections = {run["links"][0]["name"]: {**summary["bottleneck"], "flows": summary["flows"]}}
    tables = [pd.read_parquet(run_dir / f"{name}.parquet") for name in ("queue", "flows")]
    tried = Counter[str]()
    for link in map(LinkRecord.model_validate, run["links"]):
        name = link.name
        mine = reports[reports["bottleneck"] == link.index]
        if link.rate_bps is None:
            continue
        conserved = run["drop_cross_check"][name]
        assert conserved["holds"] and conserved["sum_of_flows"] == conserved["port_drops"], (name, conserved)
        if len(mine):
            packets = Packets(mine, run["clock_origin_ns"])
            order(link, packets)
            tried += service(link, packets)
            tried += depths(link, packets)
            tried += figures(link, sections[name], packets)
            add_up([table[table["link"] == name] for table in tables], packets)
    tried += senders_and_receivers(run, summary)
    return tried


def kind_of(link: LinkRecord) -> str:
    """The management of its queue."""
    return link.queue_kind or TAIL_DROP


def order(link: LinkRecord, packets: Packets) -> None:
    """Every departure has a report, of the link and of each flow; a FIFO is one."""
    reports = packets.reports
    assert reports["sequence"].tolist() == list(range(1, len(reports) + 1)), link.name
    assert all(first <= second for first, second in pairwise(packets.left)), link.name
    if kind_of(link) in FIFO:
        assert all(first <= second for first, second in pairwise(packets.came)), link.name


def service(link: LinkRecord, packets: Packets) -> Counter[str]:
    """A packet starts when it has come and the one before it is served, in the nanosecond that has begun by then, or as
    soon as the link offers anything. Delivery opportunities are Mahimahi's."""
    if isinstance(link.schedule, Opportunities):
        # Which packet the next opportunity is for is known beforehand where none is dropped meanwhile.
        if kind_of(link) not in FIFO or kind_of(link) in DROP_FROM_WAITING:
            return Counter()
        stamps = [stamp // 1_000_000 for stamp in link.schedule.at_ns]
        sizes = [length - MAHIMAHI_BYTES for length in packets.lengths]
        assert list(delivered(stamps, list(zip(packets.came, sizes, strict=True)))) == packets.left, link.name
        return Counter(opportunities=len(sizes))
    offered, waited = Offered(link), 0
    free = offered.until(packets.came[0])
    for came, left, length in zip(packets.came, packets.left, packets.lengths, strict=True):
        ready = max(free, offered.until(came))
        assert offered.until(left) <= ready < offered.until(left + 1), (link.name, left)
        waited += left > came
        free = ready + 8 * length * NS
    return Counter(started_after_others=waited)


def depths(link: LinkRecord, packets: Packets) -> Counter[str]:
    """With tail drop a packet finds what came before it and has not started, and leaves what has come since. It gets CE
    where it finds the threshold or more. At one instant departures come before arrivals."""
    if kind_of(link) != TAIL_DROP:
        return Counter()
    waiting: deque[tuple[int, int]] = deque()
    packets_found: list[int] = []
    depth, lengths = 0, packets.lengths
    for came, left, length, found in zip(packets.came, packets.left, lengths, packets.found, strict=True):
        while waiting and waiting[0][0] <= came:
            depth -= waiting.popleft()[1]
        assert found == depth, (link.name, came)
        packets_found.append(len(waiting))
        if left > came:
            waiting.append((left, length))
            depth += length
        assert depth <= (link.deepest_bytes or math.inf), (link.name, came)
    sums, arrived = list(accumulate(lengths, initial=0)), 0
    for position, (left, behind) in enumerate(zip(packets.left, packets.behind, strict=True)):
        arrived = max(arrived, position + 1)
        while arrived < len(lengths) and packets.came[arrived] < left:
            arrived += 1
        assert behind == sums[arrived] - sums[position + 1], (link.name, left)
    by_packets = link.ecn_threshold_packets is not None
    threshold = link.ecn_threshold_packets if by_packets else link.ecn_threshold_bytes
    found_depths = packets_found if by_packets else packets.found
    for found, before, marked in zip(found_depths, packets.ecn_before, packets.marked, strict=True):
        assert bool(marked) == (threshold is not None and before in CAPABLE and found >= threshold), link.name
    return Counter(depths=len(lengths))


def figures(link: LinkRecord, section: dict[str, Any], packets: Packets) -> Counter[str]:
    """What summary.json says of a link is what its packets say."""
    count = len(packets.left)
    waited, behind = sorted(packets.waited), packets.behind
    assert section["ce_marks"] == sum(packets.marked)
    assert section["queue_delay_s"]["mean"] == pytest.approx(sum(waited) / count / NS, rel=1e-9, abs=1e-12)
    assert section["queue_delay_s"]["max"] == pytest.approx(waited[-1] / NS)
    # Nearest rank, from bins of 0.012 % at most.
    rank = math.ceil(0.99 * count) - 1
    assert section["queue_delay_s"]["p99"] == pytest.approx(waited[rank] / NS, rel=1.3e-4, abs=1e-9)
    assert section["queue_bytes"]["mean"] == pytest.approx(sum(behind) / count, rel=1e-9, abs=1e-9)
    shares = [flow["departures"] for flow in section["flows"]]
    assert section["other_share"] not in (0, None) or None in shares or sum(shares) == count, link.name
    if section["utilization"] is None or "opportunities_ns" in (link.rate_schedule or {}):
        return Counter(figures=5)
    # From the first arrival until the last packet has left, and longer where packets were dropped, or flows paused.
    offered, (begin, end) = Offered(link), (round(time_s * NS) for time_s in section["run_window_s"])
    assert begin <= min(packets.came) + 1
    until = max(offered.until(packets.left[-1]) + 8 * packets.lengths[-1] * NS, offered.until(end))
    carried = 8 * NS * sum(packets.lengths)
    assert section["utilization"] == pytest.approx(carried / (until - offered.until(begin)), rel=1e-6)
    return Counter(figures=6)


def add_up(tables: list[pd.DataFrame], packets: Packets) -> None:
    """The series of a link add up to its packets and bytes."""
    for table in tables:
        assert table["departures"].sum() == len(packets.left)
        octets = (table["throughput_bps"] * table["interval_s"]).sum() / 8
        assert octets == pytest.approx(sum(packets.lengths), rel=1e-9)


def senders_and_receivers(run: dict[str, Any], summary: dict[str, Any]) -> Counter[str]:
    """Datagrams: each is received or lost, and a drop is a loss. A finite flow delivers its size, or has no end."""
    duplicating = {link["name"] for link in run["links"] if link.get("duplication")}
    tried = Counter[str]()
    for record, flow in zip(run["flows"], summary["flows"], strict=True):
        counted = flow["datagrams"]
        if counted is not None and counted["received"] is not None:
            assert counted["sent"] == counted["received"] - counted["duplicates"] + counted["lost"], flow["name"]
            twice = duplicating.intersection(record["links"])
            if record["protocol"] == 17 and flow["drops"] is not None and not record["ack_links"] and not twice:
                # The last ones may be lost after the last one that a report is of.
                assert flow["drops"] + flow["loss_emulation_drops"] <= counted["lost"], flow["name"]
                tried["datagrams"] += counted["sent"]
        if flow["fct_s"] is not None:
            assert flow["bytes"] >= record["size_bytes"], flow["name"]
            tried["finished"] += 1
    return tried
