# SPDX-License-Identifier: Apache-2.0
"""What became of each packet of a small experiment, drawn at random, and the run directory that tells of it.

One packet after the other in exact integer arithmetic, without any code of the analysis: the table of lives that
figures are compared with. Hypothesis draws; nothing runs.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from synthetic import REPORT_TYPES

NS = 1_000_000_000
UDP, TCP = 17, 6
LOST, MANAGED, FULL, POLICED, THINNED = 1, 2, 3, 4, 5
# What a link itself drops, besides loss emulation in front of it.
BY_LINK = (FULL, MANAGED, POLICED, THINNED)
# Those whose packets have waited.
AFTER_WAITING = (MANAGED, THINNED)
HEADERS = 42
PAYLOADS = (100, 500, 1_000, 1_400)
NEVER = 1 << 62

Role = Literal["own", "probe", "other"]


@dataclass(frozen=True)
class Link:
    """A queue: its rate from each of some times on, in bit/s (the last one is not 0), and its room in bytes.

    A packet that finds `marks_from` bytes or more is marked.
    """

    name: str
    steps: tuple[tuple[int, int], ...]
    buffer_bytes: int
    duplicates: bool = False
    marks_from: int = NEVER

    @property
    def rate_bps(self) -> int:
        """What its BDP is of."""
        return self.steps[-1][1]

    @property
    def varies(self) -> bool:
        """Its rate is not one."""
        return len(self.steps) > 1

    def ready(self, time: int) -> int:
        """When it can begin to send, at `time` or later."""
        for (_, rate), end in self._parts(time):
            if rate and time < end:
                return time
            time = max(time, end)
        raise AssertionError("the last rate is not 0")

    def finish(self, time: int, length: int) -> int:
        """When a frame of `length` bytes that begins at `time` has passed."""
        left = length * 8 * NS
        for (_, rate), end in self._parts(time):
            if left <= (end - time) * rate:
                return time - (-left // rate)
            left -= (end - time) * rate
            time = end
        raise AssertionError("the last rate is not 0")

    def bits(self, begin: int, end: int) -> float:
        """What it could have sent in that time."""
        return sum(
            rate * (min(end, until) - max(begin, since)) / NS
            for (since, rate), until in self._parts(begin)
            if min(end, until) > max(begin, since)
        )

    def _parts(self, time: int) -> list[tuple[tuple[int, int], int]]:
        ends = [since for since, _ in self.steps[1:]] + [NEVER]
        return [(step, end) for step, end in zip(self.steps, ends, strict=True) if end > time]


@dataclass(frozen=True)
class Flow:
    """Who sends: by UDP what it is given, by TCP a number of bytes until all have arrived.

    A probe only measures; `other` is traffic that the experiment does not know.
    """

    name: str
    path: tuple[str, ...]
    protocol: int
    start: int
    duration: int | None
    payload: int
    size: int | None = None
    role: Role = "own"

    @property
    def group(self) -> str:
        """One of two."""
        return f"g{int(self.name[1:]) % 2}"


@dataclass(frozen=True)
class Sent:
    """A transmission: what it carries, and what chance does to it at each link of its path."""

    flow: str
    time: int
    offset: int
    last: bool
    lost_at: tuple[bool, ...]
    doubled_at: tuple[bool, ...]
    delay: tuple[int, ...]


@dataclass
class Life:
    """A packet at one link. `copy`: made by the link before; `dropped` is when, with `cause`."""

    flow: str
    link: str
    sent: Sent
    copy: bool
    offered: int
    length: int
    cause: int | None = None
    dropped: int | None = None
    started: int | None = None
    finished: int | None = None
    found: int = 0
    left: int = 0
    arrivals: int = 0
    departures: int = 0
    losses: int = 0
    managed: int = 0
    marked: bool = False


@dataclass(frozen=True)
class Experiment:
    """What is drawn."""

    links: tuple[Link, ...]
    flows: tuple[Flow, ...]
    sent: tuple[Sent, ...]
    managed_every: int
    policed_every: int
    thinned_every: int
    origin: int

    def flow(self, name: str) -> Flow:
        """A flow by its name."""
        return next(flow for flow in self.flows if flow.name == name)

    @property
    def known(self) -> list[Flow]:
        """Flows of the experiment."""
        return [flow for flow in self.flows if flow.role != "other"]


def lives(experiment: Experiment) -> dict[str, list[Life]]:
    """Each packet's life at each link, in the order of arrival there."""
    found: dict[str, list[Life]] = {link.name: [] for link in experiment.links}
    coming: dict[str, list[tuple[int, int, Sent, bool]]] = defaultdict(list)
    for number, sent in enumerate(experiment.sent):
        coming[experiment.flow(sent.flow).path[0]].append((sent.time, number, sent, False))
    # Paths lead from a link to later ones only.
    for link in experiment.links:
        packets = sorted(coming[link.name], key=lambda one: one[:2])
        found[link.name] = _cross(experiment, link, packets)
        for number, life in enumerate(found[link.name]):
            path = experiment.flow(life.flow).path
            at = path.index(link.name)
            if life.finished is None or at + 1 == len(path):
                continue
            arrival = life.finished + life.sent.delay[at]
            copies = 2 if link.duplicates and life.sent.doubled_at[at] else 1
            for copy in range(copies):
                coming[path[at + 1]].append((arrival + copy, number, life.sent, life.copy or copy > 0))
    return found


def reported(experiment: Experiment) -> bool:
    """Whether a packet leaves any link: a run without a single report has no telemetry."""
    return any(life.started is not None for found in lives(experiment).values() for life in found)


def _cross(experiment: Experiment, link: Link, packets: list[tuple[int, int, Sent, bool]]) -> list[Life]:
    """One FIFO with tail drop; each `managed_every`-th packet that has waited is dropped at its head, at no cost, and
    each `policed_every`-th that arrives, before it could be queued. Each `thinned_every`-th that arrives has the first
    one of its flow that waits dropped, wherever that is."""
    found, waiting, free, heads, offered = [], list[Life](), 0, 0, 0
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def serve(until: int) -> None:
        nonlocal free, heads
        while waiting and (start := link.ready(max(free, waiting[0].offered))) <= until:
            life = waiting.pop(0)
            heads += 1
            if experiment.managed_every and heads % experiment.managed_every == 0:
                counts[life.flow][3] += 1
                life.cause, life.dropped = MANAGED, start
                life.left = sum(other.length for other in waiting)
                continue
            free = begin(life, start)

    def begin(life: Life, start: int) -> int:
        counts[life.flow][1] += 1
        life.started, life.finished = start, link.finish(start, life.length)
        life.left = sum(other.length for other in waiting)
        life.departures, life.managed = counts[life.flow][1], counts[life.flow][3]
        return life.finished

    for time, _, sent, copy in packets:
        serve(time)
        flow = experiment.flow(sent.flow)
        life = Life(flow.name, link.name, sent, copy, time, flow.payload + HEADERS)
        found.append(life)
        if sent.lost_at[flow.path.index(link.name)]:
            counts[flow.name][2] += 1
            life.cause, life.dropped = LOST, time
            continue
        counts[flow.name][0] += 1
        life.arrivals, life.losses = counts[flow.name][0], counts[flow.name][2]
        life.found = sum(other.length for other in waiting)
        life.marked = life.found >= link.marks_from
        offered += 1
        if experiment.policed_every and offered % experiment.policed_every == 0:
            life.cause, life.dropped = POLICED, time
            continue
        thins = experiment.thinned_every and offered % experiment.thinned_every == 0
        if other := next((one for one in waiting if thins and one.flow == flow.name), None):
            waiting.remove(other)
            other.cause, other.dropped = THINNED, time
            other.left = sum(one.length for one in waiting)
            life.found = other.left
            life.marked = life.found >= link.marks_from
        if not waiting and link.ready(max(free, time)) <= time:
            free = begin(life, time)
        elif life.found + life.length > link.buffer_bytes:
            life.cause, life.dropped = FULL, time
        else:
            waiting.append(life)
    serve(NEVER)
    return found


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """One to three links, one to four flows, up to some 120 transmissions in two seconds."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    links = []
    for name in names:
        changes = sorted(draw(st.lists(st.integers(1, 19), max_size=2, unique=True)))
        steps = [(0, draw(st.sampled_from([0, 400_000, 1_000_000, 3_000_000])))]
        steps += [(time * NS // 10, draw(st.sampled_from([0, 600_000, 2_000_000]))) for time in changes]
        if not steps[-1][1]:
            steps.append((2 * NS + NS // 2, 2_000_000))
        buffer = draw(st.sampled_from([0, 3_000, 20_000]))
        marks_from = draw(st.sampled_from([0, 1_500, NEVER]))
        links.append(Link(name, tuple(steps), buffer, draw(st.booleans()), marks_from))
    flows, sent = [], list[Sent]()
    for number in range(draw(st.integers(1, 4))):
        path = tuple(name for name in names if draw(st.booleans())) or (draw(st.sampled_from(names)),)
        tcp = draw(st.booleans())
        start, payload = draw(st.integers(0, NS)), draw(st.sampled_from(PAYLOADS))
        count = draw(st.integers(0, 30))
        size = count * payload if tcp else None
        flow = Flow(f"f{number}", path, TCP if tcp else UDP, start, None if tcp else NS, payload, size)
        flows.append(flow)
        bursts = draw(st.lists(st.integers(0, 100_000_000), min_size=count, max_size=count))
        loss, time = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])), start
        order = list(range(count))
        if tcp and count:
            # Retransmissions, needed or not.
            order += draw(st.lists(st.integers(0, count - 1), max_size=10))
            bursts += [50_000_000] * (len(order) - count)
        random = draw(st.randoms(use_true_random=False))
        for place, gap in zip(order, bursts, strict=True):
            time += gap // 3 if random.random() < 0.5 else gap % 1_000_000
            lost, doubled = (tuple(random.random() < part for _ in path) for part in (loss, 0.2))
            delays = tuple(random.choice([0, 1_000_000, random.randrange(20_000_000)]) for _ in path)
            sent.append(Sent(flow.name, time, place * payload, tcp and place == count - 1, lost, doubled, delays))
    sent.sort(key=lambda one: one.time)
    # Two transmissions at one instant have no order on a wire.
    distinct = {one.time + number: replace(one, time=one.time + number) for number, one in enumerate(sent)}
    return Experiment(
        tuple(links), tuple(flows), tuple(distinct.values()), draw(st.sampled_from([0, 0, 3])),
        draw(st.sampled_from([0, 0, 4])), draw(st.sampled_from([0, 0, 2])),
        draw(st.sampled_from([0, 123_456_789, (1 << 48) - NS])),
    )  # fmt: skip


def write(
    experiment: Experiment, found: dict[str, list[Life]], directory: Path, sample_shift: int = 0, draws: int = 0
) -> None:
    """The run's directory, as the control plane and the collector leave it; with reports of one packet of each row of
    2^`sample_shift` that left a link, drawn by the seed `draws`."""
    chance = random.Random(draws)
    for folder in ("telemetry", "hosts"):
        (directory / folder).mkdir(parents=True)
    telemetry = directory / "telemetry"
    reports, drops = list[tuple[int, dict[str, int]]](), list[dict[str, int]]()
    learned, reported = list[dict[str, Any]](), list[dict[str, Any]]()
    for index, link in enumerate(experiment.links):
        left = sorted(
            (life.started, number) for number, life in enumerate(found[link.name]) if life.started is not None
        )
        row, kept = 1 << sample_shift, 0
        for sequence, (started, number) in enumerate(left, 1):
            if (sequence - 1) % row == 0:
                kept = chance.randrange(row)
            if (sequence - 1) % row == kept:
                report = _report(experiment, found[link.name][number], index, sequence)
                reports.append((started, report | {"sample_shift": sample_shift}))
        drops += [_drop(experiment, life, index) for life in found[link.name] if life.dropped is not None]
        for flow in experiment.flows:
            mine = [life for life in found[link.name] if life.flow == flow.name]
            key = {"bottleneck": index, **_key(experiment, flow.name, index), "ip_version": 4, **_ends(flow)}
            learned += [key] * bool(mine)
            if started_at := [life.started for life in mine if life.started is not None]:
                reported.append({**key, "first_timestamp": min(started_at)})
    rows = [row for _, row in sorted(reports, key=lambda one: one[0])]
    table = pa.table({name: pa.array([row[name] for row in rows], type=kind) for name, kind in REPORT_TYPES.items()})
    pq.write_table(table, telemetry / "reports-00000.parquet", compression="lz4")
    drops.sort(key=lambda row: row.pop("order"))
    for name, records in {"drops": drops, "learned_flows": learned, "flow_keys": reported}.items():
        if records:
            pq.write_table(pa.Table.from_pylist(records), telemetry / f"{name}.parquet")
    (telemetry / "collector.json").write_text(json.dumps({"reports": len(rows), "kernel_ring_drops": 0}))
    for flow in experiment.known:
        (directory / "hosts" / f"{flow.name}.json").write_text(json.dumps(_host(experiment, flow, found)))
    (directory / "run.json").write_text(json.dumps(_run(experiment, 1 << sample_shift)))
    (directory / "experiment.yaml").write_text("name: lives\n")


def _key(experiment: Experiment, flow: str, index: int) -> dict[str, int]:
    """By the flow's name, so that the order of flows is not in it."""
    return {"flow": 1_000 + 100 * index + int(flow[1:]), "signature": 0xABC00000 + 16 * index + int(flow[1:])}


def _ends(flow: Flow) -> dict[str, Any]:
    place = int(flow.name[1:])
    return {"src": f"10.0.{place}.1", "dst": f"10.1.{place}.1", "protocol": flow.protocol,
            "src_port": 40_000 + place, "dst_port": 5_201}  # fmt: skip


def _report(experiment: Experiment, life: Life, index: int, sequence: int) -> dict[str, int]:
    flow = experiment.flow(life.flow)
    started = life.started or 0
    tcp = flow.protocol == TCP
    return {
        "flags": int(life.marked), "bottleneck": index, "sample_shift": 0, **_key(experiment, life.flow, index),
        "packet_length": life.length, "sequence": sequence, "arrivals": life.arrivals, "departures": life.departures,
        "loss_drops": life.losses, "aqm_drops": life.managed, "enqueue_depth": life.found, "dequeue_depth": life.left,
        "queue_delay": started - life.offered, "epoch": 1, "timestamp": (started + experiment.origin) % (1 << 48),
        "queue": 0, "ip_version": 4, "ecn": 0, "protocol": flow.protocol, "payload_length": flow.payload,
        "tcp_flags": 0x10 | int(life.sent.last) if tcp else 0, "tcp_seq": 77 + life.sent.offset if tcp else 0,
        "tcp_ack": 1 if tcp else 0, "tcp_tsval": 0, "tcp_tsecr": 0,
    }  # fmt: skip


def _drop(experiment: Experiment, life: Life, index: int) -> dict[str, int]:
    dropped = life.dropped or 0
    return {
        "timestamp": (dropped + experiment.origin) % (1 << 48), "bottleneck": index,
        **_key(experiment, life.flow, index), "cause": life.cause or 0, "packet_length": life.length,
        "waited": dropped - life.offered if life.cause in AFTER_WAITING else 0,
        "depth_bytes": life.found if life.cause in (FULL, POLICED) else life.left, "depth_packets": 0, "order": dropped,
    }  # fmt: skip


def _host(experiment: Experiment, flow: Flow, found: dict[str, list[Life]]) -> dict[str, Any]:
    number = int(flow.name[1:])
    sent = [one for one in experiment.sent if one.flow == flow.name]
    end = flow.start + (flow.duration or NS)
    record: dict[str, Any] = {
        "src_port": 40_000 + number, "dst_port": 5_201, "started_s": flow.start / NS, "ended_s": end / NS,
        "ending": "time_over", "bytes_sent": len(sent) * flow.payload, "kind": "tcp" if flow.protocol == TCP else "udp",
    }  # fmt: skip
    if flow.protocol == UDP:
        out = [life for life in found[flow.path[-1]] if life.flow == flow.name and life.finished is not None]
        distinct = len({life.sent for life in out})
        # The last link's own copies come to the receiver as well.
        last = next(link for link in experiment.links if link.name == flow.path[-1])
        doubled = sum(life.sent.doubled_at[-1] for life in out) if last.duplicates else 0
        record |= {
            "packets_sent": len(sent), "packets_unsent": 0,
            "received": {"packets": len(out) + doubled, "bytes": distinct * flow.payload,
                         "duplicates": len(out) + doubled - distinct, "reordered": 0, "ce_marked": 0, "unread": 0},
        }  # fmt: skip
    return record


def _run(experiment: Experiment, sample: int) -> dict[str, Any]:
    flows = [
        {"name": flow.name, "group": flow.group, "cca": "cubic" if flow.protocol == TCP else None,
         **_ends(flow), "links": list(flow.path), "start_s": flow.start / NS,
         "duration_s": None if flow.duration is None else flow.duration / NS, "size_bytes": flow.size,
         "started_s": flow.start / NS, "ended_s": (flow.start + (flow.duration or NS)) / NS,
         "record": f"hosts/{flow.name}.json", "probe": flow.role == "probe"}
        for flow in experiment.known
    ]  # fmt: skip
    links = [
        {"name": link.name, "index": index, "rate_bps": link.rate_bps, "rtt_s": 0.02, "buffer_bytes": link.buffer_bytes,
         "mtu_frame_bytes": 1514, "duplication": 0.2 if link.duplicates else 0.0, "drops_recorded": True,
         **({} if len(link.steps) == 1 else {"rate_schedule": {
             "start_ns": [time for time, _ in link.steps], "rate_bps": [rate for _, rate in link.steps],
             "period_ns": None}}),
         **({"policer": {"rate_bps": 1_000_000, "burst_bytes": 3_000}} if experiment.policed_every else {}),
         **({"ack_filter": "conservative"} if experiment.thinned_every else {})}
        for index, link in enumerate(experiment.links)
    ]  # fmt: skip
    profile = {
        "name": "soft",
        "time_unit_s": 1e-9,
        "depth_unit": "bytes",
        "depth_unit_bytes": 1,
        "drop_records": True,
        "random_samples": True,
    }
    return {
        "narrows_version": "0.2.0", "name": "lives", "started": "2026-01-02T03:04:05Z", "ended": "2026-01-02T03:05:05Z",
        "status": "complete", "reason": None, "target_profile": profile, "switch": {"program": "sha256:0"},
        "host": {"kernel": "6.1.0", "cpu": "synthetic"}, "links": links, "flows": flows,
        "telemetry": {"sample": sample}, "clock_origin_ns": experiment.origin, "seed": 1,
    }  # fmt: skip
