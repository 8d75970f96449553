# SPDX-License-Identifier: Apache-2.0
"""The link that is the kernel's htb with a queue management of Linux in it, each with tc's defaults.

htb takes a packet out of its queue when the link is free for it, tbf one packet earlier: management that decides at
dequeue would see a wait that is too short. htb forwards a packet when its transmission begins, a real line when it
ends; `as_on_a_line` adds the difference to the round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from bridged import bridged
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.experiment.planning import make_plan
from narrows.virtual.kernels import Kernel
from narrows_formats.units import NANOSECONDS
from passage import Passage, Place, send_through

# Kernel options of the kinds, as `NEEDS` of other links.
NEEDS = {
    kind: f"CONFIG_NET_SCH_{option}=y"
    for kind, option in (
        ("pfifo", "FIFO"), ("codel", "CODEL"), ("pie", "PIE"), ("red", "RED"), ("fq_codel", "FQ_CODEL"),
        ("dualpi2", "DUALPI2"),
    )
}  # fmt: skip
READING_S = 0.005
# A line does not make up for idle time; HTB sends one frame more than its burst allows at once. Where frames are short,
# what its clock's ticks of 64 ns lose of each would be more than that.
NO_BURST_BELOW_BPS = 10**9
# Of RED, which has no defaults: Floyd's rules (tc-red(8)), from the link's rate. Its average has 32 bits in Linux,
# which refuses three times that and more as the greater bound, as 15 ms of 10 Gbit/s would be.
RED_MIN_S, RED_PROBABILITY, RED_PACKET = 0.005, 0.1, 1000
RED_MIN_MOST = 625_000
PERCENT_BITS = 32
# Where marks are in what a kind says of itself (struct tc_*_xstats of linux/pkt_sched.h), in words of 32 bits.
MARKS_AT = {"codel": 6, "pie": 9, "red": 3, "fq_codel": 3, "dualpi2": 6}
CLASS = 0x10001
COLUMNS = ("marks", "delay_c_s", "delay_l_s", "probability")


def starts(flows: int, most_s: float, seed: int) -> list[dict[str, str]]:
    """Of each flow its ``start`` in an experiment file, drawn by the seed.

    Flows that always start together go through the same cycles in each round, which then tell little of the spread.
    """
    drawn = np.random.default_rng(seed).uniform(0, most_s, flows)
    return [{"start": f"{start_s:.3f}s"} for start_s in drawn]


def red(rate_bps: int) -> dict[str, float]:
    """RED's parameters on a link by their names in tc, sizes in bytes."""
    low = min(int(rate_bps / 8 * RED_MIN_S), RED_MIN_MOST)
    high = 3 * low
    burst = max((2 * low + high) // (3 * RED_PACKET), low // RED_PACKET + 1)
    return {"min": low, "max": high, "burst": burst, "avpkt": RED_PACKET, "probability": RED_PROBABILITY}


def send(experiment: Experiment, kernel: Kernel, kind: str, ecn: bool) -> Passage:
    """Run an experiment's flows through the kernel's management, as if its link were a line.

    Raises:
        RunError: something cannot be set up, or a flow fails.
    """
    plan = as_on_a_line(make_plan(experiment))
    return asyncio.run(send_through("managed", experiment, plan, kernel, kind, ecn))


def as_on_a_line(plan: Plan) -> Plan:
    """The same flows with the time that a full frame takes on the link in their round trip."""
    frame_ns = round(plan.frame_bytes * 8 * NANOSECONDS / plan.bottleneck.rate_bps)
    senders = {sender.port for sender in plan.senders}
    ports = [
        replace(port, delay_ns=port.delay_ns + frame_ns) if port.number in senders else port for port in plan.ports
    ]
    return replace(plan, ports=tuple(ports))


def words(kind: str, rate_bps: int, limit_bytes: int, ecn: bool) -> str:
    """The management in tc's words: its defaults, and ECN where that can be chosen."""
    if kind == "pfifo":
        return f"bfifo limit {limit_bytes}"
    if kind == "red":
        asked = " ".join(f"{name} {value}" for name, value in red(rate_bps).items())
        return f"red limit {limit_bytes} {asked} bandwidth {rate_bps}bit" + " ecn" * ecn
    if kind == "dualpi2":
        # Older tc does not know it, but takes it without parameters. It always marks.
        return kind
    return f"{kind} {'ecn' if ecn else 'noecn'}"


def link(place: Place, kind: str, ecn: bool) -> AbstractAsyncContextManager[Callable[[], pd.DataFrame]]:
    """See `passage.Link`; the queue is what was read of the management, with its marks so far.

    Raises:
        RunError: it cannot be made.
    """
    bottleneck = place.plan.bottleneck
    rate = f"{bottleneck.rate_bps}bit"
    burst = 1 if bottleneck.rate_bps < NO_BURST_BELOW_BPS else place.plan.frame_bytes
    managed = words(kind, bottleneck.rate_bps, bottleneck.limit_bytes, ecn)
    commands = [
        "qdisc add DEV root handle 1: htb default 1",
        f"class add DEV parent 1: classid 1:1 htb rate {rate} ceil {rate} burst {burst} cburst {burst} quantum 60000",
        f"qdisc add DEV parent 1:1 handle 10: {managed}",
    ]
    return bridged(place, commands, CLASS, READING_S, COLUMNS, partial(_read, kind))


def _read(kind: str, more: Sequence[int]) -> Sequence[float]:
    if kind != "dualpi2":
        return more[MARKS_AT[kind]] if kind in MARKS_AT else 0, 0.0, 0.0, 0.0
    probability, classic_us, low_us = more[:3]
    micro = NANOSECONDS // 1000
    return more[MARKS_AT[kind]], classic_us / micro, low_us / micro, probability / (1 << PERCENT_BITS)
