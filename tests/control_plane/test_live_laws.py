# SPDX-License-Identifier: Apache-2.0
"""Laws of what is shown while a run is under way: rates of the live view, and Prometheus' page, of drawn readings."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from narrows.experiment.loader import validate
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.live.metrics import families
from narrows.run.sampler import Reading, Sampler
from narrows.switch.readings import QueueStats
from narrows_formats.digest import NewFlow

CASES = int(os.environ.get("NARROWS_CASES", "25"))
WINDOW_S = 1.0
GROUPS: list[dict[str, Any]] = [
    {"cca": "bbr", "duration": "30s", "path": ["first", "second"]},
    {"cca": "cubic", "count": 2, "size": "1MB", "repeat": 3, "duration": "20s", "path": ["second"]},
]
LINKS = {name: {"rate": "100Mbit", "buffer": "100kB", "rtt": "20ms"} for name in ("first", "second")}
END = "second"


def queue(dequeued_bytes: int, chance: random.Random) -> QueueStats:
    """A reading of which all but the bytes that left does not matter for rates."""
    numbers = {name: chance.randrange(1 << 40) for name in (
        "limit_packets", "enqueued_packets", "enqueued_bytes", "dequeued_packets", "dropped_packets", "dropped_bytes",
        "depth_packets", "depth_bytes", "peak_depth_bytes", "duplicated_packets",
    )}  # fmt: skip
    return QueueStats(
        port=1, queue=0, rate_bps=100_000_000, limit_bytes=100_000, delay_ns=0, epoch=1,
        dequeued_bytes=dequeued_bytes, **numbers,
    )  # fmt: skip


def learned(plan: Plan, number: int, index: int, connection: int, link: str) -> NewFlow:
    """A record of the digest of new flows."""
    flow = plan.flows[number]
    bottleneck = next(one.index for one in plan.links if one.name == link)
    return NewFlow(bottleneck, index, 0, 4, flow.src, flow.dst, 6, flow.src_port + connection, flow.dst_port)


def test_rates_are_what_left_since_a_reading_a_second_ago() -> None:
    for number in range(CASES):
        chance = random.Random(number)
        plan = make_plan(validate({"name": "live", "links": LINKS, "flows": GROUPS}, "live"))
        sampler, owner, sizes, drops = Sampler(plan), dict[int, int](), dict[int, int](), Counter[tuple[int, int]]()
        last = next(link.index for link in plan.links if link.name == END)
        unknown = [(flow, connection) for flow in range(3) for connection in range(3 if flow else 1)]
        past: list[tuple[float, dict[int, int], dict[str, int]]] = []
        time_s, left = 0.0, dict.fromkeys(LINKS, 0)
        for _ in range(30):
            time_s += chance.choice([0.05, 0.1, 0.35, 1.7]) * (1 + 0.1 * chance.random())
            if unknown and chance.random() < 0.5:
                flow, connection = unknown.pop(chance.randrange(len(unknown)))
                index = len(owner)
                owner[index], sizes[index] = flow, 0
                sampler.learn(learned(plan, flow, index, connection, END))
                # What else a flow crosses has an index that counts in no rate.
                sampler.learn(learned(plan, flow, 1_000 + index, connection, "first"))
            for index in sizes:
                sizes[index] += chance.choice([0, 0, 1_500, chance.randrange(1_000_000)])
                drops[last, index] += chance.choice([0, 3])
            left = {"first": left["first"] + chance.randrange(10**6), END: sum(sizes.values()) + 2 * len(past)}
            read = set(sampler.to_read(time_s))
            assert read == set(sizes)
            queues = {name: queue(size, chance) for name, size in left.items()}
            shown = sampler.take(Reading(time_s, queues, dict(sizes), dict(drops)), 3)
            before = next((one for one in reversed(past) if time_s - one[0] >= WINDOW_S), past[0] if past else None)
            past.append((time_s, dict(sizes), dict(left)))
            dropped = [sum(drops[last, index] for index in owner if owner[index] == flow) for flow in range(3)]
            assert [flow.drops for flow in shown.flows] == dropped
            if before is None:
                rows: tuple[Any, ...] = (*shown.flows, *shown.groups, *shown.links)
                assert {row.rate_bps for row in rows} == {None}
                continue
            moved = [
                sum(size - before[1].get(index, 0) for index, size in sizes.items() if owner[index] == flow)
                for flow in range(3)
            ]
            elapsed = time_s - before[0]
            rates = [8 * size / elapsed for size in moved]
            assert [flow.rate_bps for flow in shown.flows] == pytest.approx(rates)
            assert [group.rate_bps for group in shown.groups] == pytest.approx([rates[0], rates[1] + rates[2]])
            assert [group.drops for group in shown.groups] == [dropped[0], dropped[1] + dropped[2]]
            of_links = [8 * (left[link.name] - before[2][link.name]) / elapsed for link in shown.links]
            assert [link.rate_bps for link in shown.links] == pytest.approx(of_links)
            assert [link.drops for link in shown.links] == [queues[link.name].dropped_packets for link in shown.links]


COUNTERS = ("enqueued_packets", "dequeued_packets", "dequeued_bytes", "duplicated_packets")
GAUGES = ("limit_bytes", "limit_packets", "depth_bytes", "depth_packets", "peak_depth_bytes")


def test_prometheus_has_the_readings() -> None:
    """Each counter of each link, and nothing where the target does not know it."""
    plan = make_plan(validate({"name": "live", "links": LINKS, "flows": GROUPS}, "live"))
    number = {link.name: str(link.index) for link in plan.links}
    for case in range(CASES):
        chance = random.Random(case)
        queues = {}
        for name in LINKS:
            found = queue(chance.randrange(1 << 40), chance)
            unknown = [one for one in ("depth_bytes", "dropped_packets", "duplicated_packets") if chance.random() < 0.3]
            absent: dict[str, Any] = dict.fromkeys(unknown)
            queues[name] = replace(found, **absent)
        right: dict[tuple[str, str, str], float] = {}
        for name, one in queues.items():
            labels = name, number[name]
            values = {f"narrows_queue_{field}_total": getattr(one, field) for field in COUNTERS}
            values |= {f"narrows_queue_{field}": getattr(one, field) for field in GAUGES}
            values["narrows_queue_drops_packets_total"] = one.dropped_packets
            values["narrows_queue_rate_bits_per_second"] = one.rate_bps
            right |= {(*labels, field): value for field, value in values.items() if value is not None}
        samples = [sample for family in families(plan, queues) for sample in family.samples]
        shown = {
            (one.labels["link"], one.labels["bottleneck"], one.name): one.value
            for one in samples
            if one.name != "narrows_link_info"
        }
        assert shown == right
        assert sum(one.name == "narrows_link_info" for one in samples) == len(plan.reported)
