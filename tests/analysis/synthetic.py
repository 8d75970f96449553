# SPDX-License-Identifier: Apache-2.0
"""A run directory of known truth: window-controlled senders through a byte-exact tail-drop FIFO, in integer time."""

from __future__ import annotations

import heapq
import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NS = 1_000_000_000
HEADERS = 66
REPORT_TYPES: dict[str, Any] = {
    "flags": pa.uint8(), "bottleneck": pa.uint8(), "sample_shift": pa.uint8(), "flow": pa.uint16(),
    "packet_length": pa.uint16(), "signature": pa.uint32(), "sequence": pa.uint32(), "arrivals": pa.uint32(),
    "departures": pa.uint32(), "loss_drops": pa.uint32(), "aqm_drops": pa.uint32(), "enqueue_depth": pa.uint32(),
    "dequeue_depth": pa.uint32(), "queue_delay": pa.uint64(), "epoch": pa.uint16(), "timestamp": pa.uint64(),
    "queue": pa.uint16(), "ip_version": pa.uint8(),
    "ecn": pa.uint8(), "protocol": pa.uint8(), "payload_length": pa.uint16(), "tcp_flags": pa.uint16(),
    "tcp_seq": pa.uint32(), "tcp_ack": pa.uint32(), "tcp_tsval": pa.uint32(), "tcp_tsecr": pa.uint32(),
}  # fmt: skip


@dataclass
class Sender:
    """One flow: `aimd` halves its window on loss, else the window stays at `window` packets."""

    group: str
    cca: str
    start_s: float = 0.0
    duration_s: float = 5.0
    window: float = 10.0
    aimd: bool = True
    initial_sequence: int = 4_294_900_000
    size_bytes: int | None = None
    payload: int = 1448


@dataclass
class Scenario:
    """A link and its flows."""

    rate_bps: int = 20_000_000
    rtt_s: float = 0.02
    buffer_bytes: int = 50_000
    senders: list[Sender] = field(default_factory=list)
    origin_ns: int = 123_456_789_000
    sample_shift: int = 0
    # Which packet of each row of 2^sample_shift is reported, from 0; None: drawn at random.
    sampled: int | None = None
    loss: float = 0.0
    seed: int = 1
    name: str = "synthetic"
    target: str = "soft"


@dataclass
class Truth:
    """What happened, by flow number, and every departing packet's depth and delay."""

    arrivals: list[int]
    departures: list[int]
    drops: list[int]
    loss_drops: list[int]
    unique_bytes: list[int]
    retransmitted: list[int]
    data_packets: list[int]
    l2_bytes: list[int]
    delays_ns: np.ndarray
    depths_bytes: np.ndarray
    peak_bytes: int
    rows: dict[str, np.ndarray]
    rtt_ns: list[list[tuple[int, int]]]


@dataclass
class _State:
    window: float
    next_offset: int = 0
    inflight: int = 0
    threshold: float = 1e9
    reduced_ns: int = -(10**18)
    again: deque[int] = field(default_factory=deque)
    arrivals: int = 0
    departures: int = 0
    losses: int = 0
    sent: set[int] = field(default_factory=set)


def simulate(scenario: Scenario) -> Truth:
    """Run the scenario and return its truth and its reports as columns."""
    rng = np.random.default_rng(scenario.seed)
    states = [_State(sender.window) for sender in scenario.senders]
    rtt_ns = round(scenario.rtt_s * NS)
    events: list[tuple[int, int, int, str, int]] = []
    counter = 0

    def push(time: int, flow: int, kind: str, offset: int) -> None:
        nonlocal counter
        counter += 1
        heapq.heappush(events, (time, counter, flow, kind, offset))

    for flow, sender in enumerate(scenario.senders):
        push(round(sender.start_s * NS), flow, "start", 0)
    accepted: list[tuple[int, int, int, int, int, int, int, int, int, int]] = []
    waiting: deque[tuple[int, int]] = deque()
    depth = finish = peak = 0
    rtts: list[list[tuple[int, int]]] = [[] for _ in states]

    def offer(now: int, flow: int, offset: int) -> None:
        nonlocal depth, finish, peak
        state, sender = states[flow], scenario.senders[flow]
        length = sender.payload + HEADERS
        state.inflight += 1
        state.sent.add(offset)
        while waiting and waiting[0][0] <= now:
            depth -= waiting.popleft()[1]
        wait = max(0, finish - now)
        if scenario.loss and rng.random() < scenario.loss:
            state.losses += 1
            push(now + wait + rtt_ns, flow, "loss", offset)
            return
        state.arrivals += 1
        if depth + length > scenario.buffer_bytes:
            push(now + wait + rtt_ns, flow, "loss", offset)
            return
        start = now + wait
        finish = start + -(-length * 8 * NS // scenario.rate_bps)
        accepted.append((now, start, flow, offset, length, depth, state.arrivals, state.losses, finish, now))
        if wait:
            peak = max(peak, depth + length)
            waiting.append((start, length))
            depth += length
        rtts[flow].append((now, finish + rtt_ns - now))
        push(finish + rtt_ns, flow, "ack", offset)

    while events:
        now, _, flow, kind, offset = heapq.heappop(events)
        state, sender = states[flow], scenario.senders[flow]
        if kind != "start":
            state.inflight -= 1
        if kind == "loss":
            state.again.append(offset)
            if sender.aimd and now - state.reduced_ns > rtt_ns:
                state.window = state.threshold = max(2.0, state.window / 2)
                state.reduced_ns = now
        elif kind == "ack" and sender.aimd:
            state.window += 1.0 if state.window < state.threshold else 1.0 / state.window
        end = round((sender.start_s + sender.duration_s) * NS)
        while state.inflight < int(state.window) and (now < end or state.again):
            if state.again:
                offer(now, flow, state.again.popleft())
            elif sender.size_bytes is not None and state.next_offset >= sender.size_bytes:
                break
            else:
                offer(now, flow, state.next_offset)
                state.next_offset += sender.payload
    return _truth(scenario, states, accepted, peak, rtts)


def _truth(
    scenario: Scenario, states: list[_State], accepted: list[Any], peak: int, rtts: list[list[tuple[int, int]]]
) -> Truth:
    packets = np.array(accepted, dtype=np.int64)
    arrival, start, flow, offset, length, found, arrivals, losses = packets[:, :8].T
    total = np.concatenate(([0], np.cumsum(length)))
    waits_until = np.searchsorted(arrival, start, side="right")
    left = total[np.maximum(waits_until, np.arange(len(start)) + 1)] - total[np.arange(len(start)) + 1]
    count = len(states)
    departures = np.zeros(len(start), np.int64)
    unique, again, data = [0] * count, [0] * count, [0] * count
    for number, sender in enumerate(scenario.senders):
        mine = flow == number
        departures[mine] = np.arange(1, mine.sum() + 1)
        offsets = offset[mine]
        unique[number] = len(np.unique(offsets)) * sender.payload
        ahead = np.concatenate(([-1], np.maximum.accumulate(offsets)[:-1])) if mine.any() else offsets
        again[number] = int((offsets <= ahead).sum())
        data[number] = int(mine.sum())
    initial = np.array([sender.initial_sequence for sender in scenario.senders])
    payload = np.array([sender.payload for sender in scenario.senders])
    finals = {n: int(np.flatnonzero(flow == n)[-1]) for n in range(count) if (flow == n).any()}
    flags = np.full(len(start), 0x10)
    flags[list(finals.values())] |= 0x01
    rows = {
        "flags": np.zeros(len(start), np.int64), "bottleneck": np.zeros(len(start), np.int64),
        "sample_shift": np.full(len(start), scenario.sample_shift), "flow": 1000 + 7 * flow, "packet_length": length,
        "signature": 0xABC00000 + flow, "sequence": np.arange(1, len(start) + 1), "arrivals": arrivals,
        "departures": departures, "loss_drops": losses, "aqm_drops": np.zeros(len(start), np.int64),
        "enqueue_depth": found, "dequeue_depth": left, "queue_delay": start - arrival,
        "epoch": np.ones(len(start), np.int64), "timestamp": (start + scenario.origin_ns) % (1 << 48),
        "queue": np.zeros(len(start), np.int64), "ip_version": np.full(len(start), 4), "ecn": np.zeros(len(start), int),
        "protocol": np.full(len(start), 6), "payload_length": payload[flow], "tcp_flags": flags,
        "tcp_seq": (initial[flow] + offset) % (1 << 32), "tcp_ack": np.ones(len(start), np.int64),
        "tcp_tsval": (arrival // 1_000_000) % (1 << 32), "tcp_tsecr": np.zeros(len(start), np.int64),
    }  # fmt: skip
    return Truth(
        arrivals=[state.arrivals for state in states],
        departures=[int((flow == n).sum()) for n in range(count)],
        drops=[state.arrivals - int((flow == n).sum()) for n, state in enumerate(states)],
        loss_drops=[state.losses for state in states],
        unique_bytes=unique,
        retransmitted=again,
        data_packets=data,
        l2_bytes=[int(length[flow == n].sum()) for n in range(count)],
        delays_ns=start - arrival,
        depths_bytes=left,
        peak_bytes=peak,
        rows=rows,
        rtt_ns=rtts,
    )


def write_reports(path: Path, rows: dict[str, np.ndarray]) -> None:
    """Write report columns as the collector does."""
    table = pa.table({name: pa.array(rows[name], type=kind) for name, kind in REPORT_TYPES.items()})
    pq.write_table(table, path, row_group_size=20_000, compression="lz4")


def _addresses(number: int) -> tuple[str, str, int, int]:
    return f"10.0.{number}.1", f"10.1.{number}.1", 40000 + number, 5201


def write_run(run_dir: Path, scenario: Scenario, files: int = 2) -> Truth:
    """Simulate and write a complete run directory; the traffic manager's drop counts are the truth's."""
    truth = simulate(scenario)
    (run_dir / "telemetry").mkdir(parents=True)
    (run_dir / "hosts").mkdir()
    rows = truth.rows
    if scenario.sample_shift:
        row, place = np.divmod(rows["sequence"].astype(np.int64) - 1, 1 << scenario.sample_shift)
        drawn = np.random.default_rng(1).integers(0, 1 << scenario.sample_shift, len(row))[row]
        kept = place == (drawn if scenario.sampled is None else scenario.sampled)
        rows = {name: values[kept] for name, values in rows.items()}
    for part, index in enumerate(np.array_split(np.arange(len(rows["flow"])), files)):
        name = f"reports-{part:05d}.parquet"
        write_reports(run_dir / "telemetry" / name, {key: values[index] for key, values in rows.items()})
    keys = []
    for number in range(len(scenario.senders)):
        src, dst, src_port, dst_port = _addresses(number)
        keys.append(
            {"bottleneck": 0, "flow": 1000 + 7 * number, "signature": 0xABC00000 + number, "ip_version": 4, "src": src,
             "dst": dst, "protocol": 6, "src_port": src_port, "dst_port": dst_port,
             "first_timestamp": scenario.origin_ns + number}
        )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(keys), run_dir / "telemetry" / "flow_keys.parquet")
    (run_dir / "telemetry" / "collector.json").write_text(
        json.dumps({"reports": len(rows["flow"]), "kernel_ring_drops": 0})
    )
    for number in range(len(scenario.senders)):
        _write_record(run_dir, scenario, truth, number)
    (run_dir / "run.json").write_text(json.dumps(run_json(scenario, truth), indent=1))
    (run_dir / "experiment.yaml").write_text(f"name: {scenario.name}\n")
    return truth


def _write_record(run_dir: Path, scenario: Scenario, truth: Truth, number: int) -> None:
    _, _, src_port, dst_port = _addresses(number)
    sender = scenario.senders[number]
    start = round(sender.start_s * NS)
    samples = []
    for second in range(int(sender.duration_s)):
        inside = [rtt for time, rtt in truth.rtt_ns[number] if second <= (time - start) / NS < second + 1]
        if inside:
            time_s = sender.start_s + second + 1
            samples.append({"time_s": time_s, "rtt_s": inside[-1] / NS, "cwnd_bytes": 100_000})
    document = {
        "congestion_control": sender.cca, "src_port": src_port, "dst_port": dst_port, "started_s": sender.start_s,
        "ended_s": sender.start_s + sender.duration_s, "ending": "time_over", "bytes_sent": 1_000_000,
        "retransmits": truth.drops[number] + truth.loss_drops[number], "mss_bytes": 1448, "samples": samples,
        "rtt_min_s": min((rtt / NS for _, rtt in truth.rtt_ns[number]), default=None),
    }  # fmt: skip
    (run_dir / "hosts" / f"flow{number}.json").write_text(json.dumps(document))


def run_json(scenario: Scenario, truth: Truth) -> dict[str, Any]:
    """run.json as the control plane writes it."""
    flows = []
    for number, sender in enumerate(scenario.senders):
        src, dst, src_port, dst_port = _addresses(number)
        flows.append(
            {"group": sender.group, "cca": sender.cca, "src": src, "dst": dst, "src_port": src_port,
             "dst_port": dst_port, "start_s": sender.start_s, "duration_s": sender.duration_s,
             "size_bytes": sender.size_bytes, "rtt_s": scenario.rtt_s, "record": f"hosts/flow{number}.json"}
        )  # fmt: skip
    drops = [{"flow": 1000 + 7 * n, "packets": value, "bytes": value * 1514} for n, value in enumerate(truth.drops)]
    return {
        "name": scenario.name,
        "narrows_version": "0.1.0",
        "started": "2026-01-02T03:04:05Z",
        "ended": "2026-01-02T03:05:05Z",
        "status": "complete",
        "reason": None,
        "target_profile": {
            "name": scenario.target, "time_unit_s": 1e-9, "depth_unit": "bytes", "depth_unit_bytes": 1,
            "random_samples": scenario.target == "soft",
        },
        "host": {"kernel": "6.1.0", "cpu": "synthetic"},
        "switch": {"program": "sha256:0123456789abcdef"},
        "bottleneck": {
            "rate_bps": scenario.rate_bps, "buffer_bytes": scenario.buffer_bytes, "rtt_s": scenario.rtt_s,
            "bdp_bytes": scenario.rate_bps * scenario.rtt_s / 8, "mtu_frame_bytes": 1514, "loss": scenario.loss,
            "ecn_threshold_bytes": None,
        },
        "flows": flows,
        "traffic_manager": {"queues": [], "flow_drops": drops},
        "clock_origin_ns": scenario.origin_ns,
        "seed": scenario.seed,
    }  # fmt: skip


def two_flows(duration_s: float = 20.0) -> Scenario:
    """An aggressive fixed-window flow beside an additive-increase one; the second starts late."""
    return Scenario(
        senders=[
            Sender("bbr", "bbr", 0.0, duration_s, window=45, aimd=False),
            Sender("cubic", "cubic", 1.0, duration_s - 1, window=10),
        ],
        name="bbr-vs-cubic",
    )
