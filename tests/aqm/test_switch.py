# SPDX-License-Identifier: Apache-2.0
"""Queue management of the compiled program, packet by packet against the models of its RFCs."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from models.blue import Blue
from models.codel import CoDel, LinuxRoot
from models.dualpi2 import DualPi2
from models.fair import Fair, fq_codel
from models.head_drop import HeadDrop
from models.link import CE, ECT_0, ECT_1, NOT_ECT, NS, Arrival, Discipline, Fate, Waiting, run
from models.pie import Pie
from models.red import Red
from switch import Law, flow_index, program_draws, through_switch

MS = 1_000_000
MTU = 1514
NO_MARK_ABOVE = (1 << 32) - 1
# `make stress` sends 10^6.
PACKETS = int(os.environ.get("NARROWS_PACKETS", "15000"))
PERCENT_32 = (1 << 32) - 1


def arrivals(count: int, rate_bps: int, seed: int, ecn: tuple[int, ...]) -> list[Arrival]:
    """Packets of many sizes at a rate that wanders between half and twice the link's, with idle times."""
    draw = random.Random(seed)
    made, now, load = [], 1000.0, 1.0
    for number in range(count):
        if number % (count // 10) == 0:
            load = draw.choice([0.5, 0.9, 1.1, 1.3, 1.3, 2.0])
            now += draw.choice([0, 0, 0.3 * NS])
        size = draw.choice([64, 200, 590, 1514, 1514, 1514])
        now += draw.expovariate(load * rate_bps / (size * 8 * NS))
        flow = draw.randrange(16)
        made.append(Arrival(int(now), 1000 + flow, size, ecn[flow % len(ecn)]))
    return made


def codel(marks: bool, shares: bool = False) -> tuple[Law, Callable[[], Discipline]]:
    settings = {"target": 5 * MS, "interval": 100 * MS, "mtu": MTU, "ecn_marks": int(marks), "shares_link": int(shares),
                "threshold": NO_MARK_ABOVE, "low_latency_only": 0}  # fmt: skip
    return Law(dequeue=("codel", settings)), lambda: CoDel(limit=10**9, ecn=marks, root=LinuxRoot())


def pie(marks: bool, limit: int = 400) -> tuple[Law, Callable[[], Discipline]]:
    gain = ((1 << 56) - 1) // NS
    settings = {"target": 15 * MS, "mtu": MTU, "limit_bytes": 0, "limit_packets": limit, "ecn_marks": int(marks)}
    update = {"target": 15 * MS, "tupdate": 15 * MS, "alpha": 2 * gain >> 4, "beta": 20 * gain >> 4}
    law = Law(
        ("pie_at_dequeue", {}),
        ("pie_at_enqueue", settings),
        ("pie_at_update", update),
        15 * MS,
        queue={"limit_packets": limit},
    )
    return law, lambda: Pie(program_draws(1), limit=limit, ecn=marks)


def red(marks: bool, **flags: bool) -> tuple[Law, Callable[[], Discipline]]:
    """Of a link that, idle, would send 1000 B in 0.8 ms, whatever its rate is."""
    limit, low, high, probability, log, idle_bps = 60_000, 10_000, 40_000, PERCENT_32 // 20, 7, 10_000_000
    halvings = -math.log2(1 - 2**-log) / 800_000
    slope = (probability << 32) // (high - low << log)
    settings = {"counts_packets": 0, "weight": log, "low": low << log, "high": high << log, "slope": slope,
                "halvings": int(halvings * 2**56), "forgotten": int(50 / halvings), "ecn_marks": int(marks),
                "harddrop": int(flags.get("harddrop", False)), "nodrop": int(flags.get("nodrop", False))}  # fmt: skip
    model = partial(Red, limit=limit, low=low, high=high, probability=probability, weight_log=log, avpkt=1000)
    law = Law(enqueue=("red", settings), queue={"limit_bytes": limit})
    return law, lambda: model(program_draws(1), rate_bps=idle_bps, ecn=marks, **flags)


def blue(marks: bool) -> tuple[Law, Callable[[], Discipline]]:
    """Its probability grows by a fiftieth, and falls by a tenth of that, at most every 20 ms."""
    limit, increment, decrement, freeze = 20_000, PERCENT_32 // 50, PERCENT_32 // 500, 20 * MS
    changes = {"increment": increment, "decrement": decrement, "freeze": freeze}
    settings = {"limit_bytes": limit, "limit_packets": 0, **changes, "ecn_marks": int(marks)}
    law = Law(enqueue=("blue", settings), queue={"limit_bytes": limit})
    return law, lambda: Blue(program_draws(1), limit, increment, decrement, freeze, ecn=marks)


def pi2(low_latency: bool) -> tuple[Law, Callable[[], Discipline]]:
    alpha, beta = (gain * PERCENT_32 * 64 // (256 * NS) for gain in (41, 819))
    law = Law(
        ("pi2_at_dequeue", {"step": MS, "coupling": 2, "mtu": MTU, "ecn_marks": 1}),
        ("two_queues" if low_latency else "one_queue", {}),
        ("pi2_at_update", {"target": 15 * MS, "alpha": alpha, "beta": beta}),
        16 * MS,
        {"coupled": {"classic_percent": 10, "mtu": MTU}} if low_latency else "fifo",
    )
    return law, lambda: DualPi2(program_draws(1), limit=10**9, low_latency=low_latency)


def fair(with_codel: bool) -> tuple[Law, Callable[[], Discipline]]:
    """Few queues, so that flows share some, and a limit that is reached."""
    law, _ = codel(True, shares=True)
    scheduling = {"fair": {"queues": 8, "quantum": 500, "batch": 64 if with_codel else 1}}
    law = Law(
        law.dequeue if with_codel else None,
        ("fair_queues", {"mask": 7}),
        scheduling=scheduling,
        queue={"limit_packets": 300 if with_codel else 60},
    )
    if with_codel:
        return law, lambda: ByIndex(fq_codel(root=LinuxRoot, queues=8, quantum=500, limit=300, whole_backlog=True))
    return law, lambda: ByIndex(Fair(queues=8, quantum=500, limit=60, batch=1))


class ByIndex(Discipline):
    """Fair queues that tell flows apart as the program does."""

    def __init__(self, queue: Fair) -> None:
        self._queue = queue

    def enqueue(self, packet: Waiting, now: int) -> None:
        self._queue.drop = self.drop
        arrival = packet.arrival
        self._queue.enqueue(replace(packet, arrival=replace(arrival, flow=flow_index(arrival.flow))), now)

    def dequeue(self, now: int) -> Waiting | None:
        return self._queue.dequeue(now)


def head_drop() -> tuple[Law, Callable[[], Discipline]]:
    limit = 30_000
    return Law(queue={"limit_bytes": limit, "head_drop": True}), lambda: HeadDrop(limit)


CASES = {
    "codel": (codel(False), (NOT_ECT,)),
    "codel, marks": (codel(True), (NOT_ECT, ECT_0, ECT_1)),
    "pie": (pie(False), (NOT_ECT,)),
    "pie, marks": (pie(True), (NOT_ECT, ECT_0)),
    "red": (red(False), (NOT_ECT,)),
    "red, marks": (red(True), (NOT_ECT, ECT_0)),
    "red, harddrop, nodrop": (red(True, harddrop=True, nodrop=True), (NOT_ECT, ECT_0)),
    "blue": (blue(False), (NOT_ECT,)),
    "blue, marks": (blue(True), (NOT_ECT, ECT_0)),
    "pi2": (pi2(False), (NOT_ECT, ECT_0)),
    "fq": (fair(False), (NOT_ECT,)),
    "fq_codel": (fair(True), (NOT_ECT, ECT_0)),
    "head drop": (head_drop(), (NOT_ECT,)),
    "dualpi2": (pi2(True), (NOT_ECT, ECT_0, ECT_1)),
}


@pytest.mark.needs("narrows-softswitch")
@pytest.mark.parametrize("rate_bps", [1_000_000, 10_000_000, 25_000_000])
@pytest.mark.parametrize("case", CASES)
def test_the_same_packets_are_dropped_and_marked(tmp_path: Path, case: str, rate_bps: int) -> None:
    (law, model), ecn = CASES[case]
    offered = arrivals(PACKETS, rate_bps, seed=rate_bps, ecn=ecn)
    expected = run(model(), offered, rate_bps)
    left = through_switch(tmp_path, law, offered, rate_bps)
    sent = {at for at, outcome in enumerate(expected) if outcome.fate in (Fate.SENT, Fate.MARKED)}
    assert [packet.number for packet in left] == sorted(sent, key=lambda at: (expected[at].time_ns, at))
    for packet in left:
        outcome, arrival = expected[packet.number], offered[packet.number]
        assert packet.ecn == (CE if outcome.fate is Fate.MARKED else arrival.ecn), packet
        # It starts when the model says, and its last bit leaves so many nanoseconds later, rounded up.
        passes = -(-arrival.size * 8 * NS // rate_bps)
        assert 0 <= outcome.time_ns + passes - packet.time_ns <= 1, packet
    fates = [outcome.fate for outcome in expected]
    assert len(fates) - fates.count(Fate.SENT) > 50, "the load does not reach what is to be tested"
