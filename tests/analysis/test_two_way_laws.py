# SPDX-License-Identifier: Apache-2.0
"""Laws of what both directions of a flow tell at the switch: RTT, bytes in flight, compressed acknowledgements, each
counted packet by packet."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from narrows_analysis import SourceSettings, analyze_source
from packet_cases import CASES
from synthetic import REPORT_TYPES

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

US, MS = 1_000, 1_000_000
DATA, BACK = 0, 32
PAYLOAD, DATA_FRAME, ACK_FRAME = 1_000, 1_066, 66
ORIGIN = 123_456_789
WRAP = 1 << 32


@dataclass
class Packet:
    """One that left the switch: when it came and left, what it carries; numbers count from the first byte."""

    arrived: int
    left: int
    payload: int
    seq: int
    ack: int
    value: int
    echo: int


def queued(arrivals: list[int], frame: int, rate_bps: int) -> list[int]:
    """When packets leave that come at these times, one after the other."""
    free, found = 0, []
    for time in arrivals:
        found.append(max(free, time))
        free = found[-1] + frame * 8 * 1_000_000_000 // rate_bps
    return found


def drawn(number: int) -> tuple[list[Packet], list[Packet]]:
    """A handshake, and data of which some are sent again and some never come; each, or each second one, is acknowledged
    by a receiver that has it some milliseconds later, through a queue that is slow or not."""
    chance = random.Random(number)
    gap, back_ns, sender_ns = chance.randint(100, 3_000) * US, chance.randint(1, 40) * MS, chance.randint(1, 30) * MS
    every, again = chance.choice([1, 2]), chance.choice([0.0, 0.1])
    times = [back_ns + sender_ns + 5 * MS]
    while len(times) < 150:
        # Bursts, and pauses.
        times.append(times[-1] + chance.choice([10 * US, gap, gap, 20 * gap if chance.random() < 0.1 else gap]))
    seqs, top = [], 0
    for _ in times:
        resent = top > 0 and chance.random() < again
        seqs.append(max(0, top - PAYLOAD * chance.randint(1, 5)) if resent else top)
        top = max(top, seqs[-1] + PAYLOAD)
    kept = [at for at in range(len(times)) if chance.random() > 0.03]
    rate = chance.choice([5_000_000, 50_000_000])
    left = queued([times[at] for at in kept], DATA_FRAME, rate)
    # The switch sees a SYN at 0, and what answers it: timestamps count milliseconds from 1.
    back = [Packet(back_ns, back_ns, 0, -1, 0, 1_000_001, 1)]
    have, waiting, arrivals, acks = set[int](), 0, list[int](), list[tuple[int, int]]()
    for at, leaves in zip(kept, left, strict=True):
        have.add(seqs[at])
        waiting += 1
        if waiting >= every:
            waiting, reached = 0, 0
            while reached in have:
                reached += PAYLOAD
            arrivals.append(leaves + back_ns)
            acks.append((reached, times[at] // MS + 1))
    slow = chance.choice([60_000, 2_000_000])
    back += [
        Packet(came, leaves, 0, 0, ack, came // MS + 1_000_001, value)
        for came, leaves, (ack, value) in zip(
            arrivals, queued(arrivals, ACK_FRAME, slow), acks, strict=True
        )
    ]  # fmt: skip
    data = [Packet(0, 0, 0, -1, 0, 1, 0)]
    for at, leaves in zip(kept, left, strict=True):
        known = [one.value for one in back if one.left + sender_ns <= times[at]]
        data.append(Packet(times[at], leaves, PAYLOAD, seqs[at], 0, times[at] // MS + 1, max(known, default=0)))
    return data, back


def write(data: list[Packet], back: list[Packet], directory: Path) -> None:
    """A telemetry directory with the reports of both."""
    directory.mkdir()
    rows = []
    for bottleneck, index, packets in ((DATA, 7, data), (BACK, 9, back)):
        for number, one in enumerate(packets, 1):
            syn = one.seq < 0
            rows.append({
                **dict.fromkeys(REPORT_TYPES, 0), "bottleneck": bottleneck, "flow": index, "signature": 0xABC + index,
                "packet_length": one.payload + 66, "sequence": number, "arrivals": number, "departures": number,
                "queue_delay": one.left - one.arrived, "timestamp": one.left + ORIGIN, "epoch": 1, "ip_version": 4,
                "protocol": 6, "payload_length": one.payload,
                "tcp_flags": (0x02 if syn else 0) | (0 if syn and bottleneck == DATA else 0x10),
                # Close to where sequence numbers begin again.
                "tcp_seq": (WRAP - 20_000 + one.seq) % WRAP if bottleneck == DATA else 5,
                "tcp_ack": (WRAP - 20_000 + one.ack) % WRAP if bottleneck == BACK else 6,
                "tcp_tsval": one.value, "tcp_tsecr": one.echo,
            })  # fmt: skip
    rows.sort(key=lambda row: int(row["timestamp"]))
    table = pa.table({name: pa.array([row[name] for row in rows], type=kind) for name, kind in REPORT_TYPES.items()})
    pq.write_table(table, directory / "reports-00000.parquet", compression="lz4")
    there = {"src": "10.0.0.1", "dst": "10.1.0.1", "src_port": 40_000, "dst_port": 5_201}
    turned = {"src": "10.1.0.1", "dst": "10.0.0.1", "src_port": 5_201, "dst_port": 40_000}
    keys = [
        {"bottleneck": bottleneck, "flow": index, "signature": 0xABC + index, "ip_version": 4, "protocol": 6, **ends,
         "first_timestamp": ORIGIN + packets[0].left}
        for bottleneck, index, packets, ends in ((DATA, 7, data, there), (BACK, 9, back, turned))
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(keys), directory / "flow_keys.parquet")
    (directory / "collector.json").write_text(json.dumps({"reports": len(rows), "kernel_ring_drops": 0}))


def round_trips(there: list[Packet], back: list[Packet], answered: bool) -> list[int]:
    """From the first packet with a greater timestamp than any before, if it carries data where that is what is
    answered, to the first with a greater echo than any before that echoes it."""
    sent, highest = dict[int, int](), 0
    for one in sorted(there, key=lambda one: one.arrived):
        if one.value > highest:
            highest = one.value
            if one.payload or not answered:
                sent[one.value] = one.arrived
    found, echoed = [], 0
    for one in sorted(back, key=lambda one: one.arrived):
        if one.echo > echoed and (one.payload or answered):
            echoed = one.echo
            if one.echo in sent and one.arrived > sent[one.echo]:
                found.append(one.arrived - sent[one.echo])
    return found


def in_flight(data: list[Packet], back: list[Packet], sender_ns: int) -> list[int]:
    """Bytes that came and whose acknowledgement cannot have reached the sender, after each packet and each of these."""
    moments = [(one.arrived, 0, number, one.seq + one.payload, 0) for number, one in enumerate(data) if one.payload]
    moments += [(one.arrived + sender_ns, 1, number, 0, one.ack) for number, one in enumerate(back)]
    sent = known = 0
    found = []
    for _, _, _, end, ack in sorted(moments):
        sent, known = max(sent, end), max(known, ack)
        found.append(max(0, sent - known))
    return found


def compressed(back: list[Packet]) -> tuple[int, int]:
    """Groups of three acknowledgements that left in less than three quarters of the time in which they came, the clock
    being good to a nanosecond, and all groups."""
    groups = list(zip(back, back[1:], back[2:], strict=False))
    return sum(c.left - a.left + 1 < 0.75 * (c.arrived - a.arrived - 1) for a, _, c in groups), len(groups)


def test_both_directions(tmp_path: Path) -> None:
    some_compressed = 0
    for number in range(CASES):
        data, back = drawn(number)
        write(data, back, tmp_path / f"telemetry-{number}")
        settings = SourceSettings(bottleneck=DATA)
        summary: Any = analyze_source(tmp_path / f"telemetry-{number}", tmp_path / f"out-{number}", settings)
        (flow,) = summary["flows"]
        far, near = round_trips(data, back, answered=True), round_trips(back, data, answered=False)
        assert far and near
        assert flow["rtt_source"] == "the switch (TCP timestamps of both directions)"
        assert flow["rtt_s"]["min"] == pytest.approx((min(far) + min(near)) / 1e9, abs=1e-12)
        assert flow["rtt_s"]["mean"] == pytest.approx((fmean(far) + fmean(near)) / 1e9, abs=1e-12)
        sizes = in_flight(data, back, min(near))
        assert flow["inflight_source"] == "the switch (sequence and acknowledgement numbers of both directions)"
        assert flow["inflight_bytes"]["max"] == max(sizes), number
        assert flow["inflight_bytes"]["mean"] == pytest.approx(fmean(sizes)), number
        count, groups = compressed(back)
        assert flow["ack_compression"] == pytest.approx(count / groups), number
        some_compressed += count
    assert some_compressed
