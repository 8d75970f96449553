# SPDX-License-Identifier: Apache-2.0
"""What virtual time costs, in time and memory, with more flows, longer runs, and more bottlenecks at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from measuring import Contestant, alternate
from narrows.virtual.kernels import Kernel
from results import Outcome, Table
from virtual import RTT, Load, in_guests, made, measure

TITLE = "Growth of virtual time"
RATE = "1Gbit"
FLOWS = (2, 10, 100, 1000)
SECONDS = (10, 60, 600)
SHORT_S = 3
LOADS = (
    *(Load(f"{flows} flows, {SHORT_S} s", RATE, RTT, 1500, flows, SHORT_S) for flows in FLOWS),
    *(Load(f"2 flows, {seconds} s", RATE, RTT, 1500, 2, seconds) for seconds in SECONDS),
)
BOTTLENECKS = (1, 2, 8, 64)
OF_MANY = Load("2 flows, 5 s", "100Mbit", "40ms", 1500, 2, 5)


@in_guests(TITLE)
def run(runs: int, _: Kernel) -> Outcome:
    """Each load in a guest on one core, then several guests at once; what it took of time and memory."""
    contestants: dict[str, Contestant] = {load.name: partial(_measure_apart, load) for load in LOADS}
    contestants |= {str(number): partial(_at_once, number) for number in BOTTLENECKS}
    series = alternate(contestants, runs)
    table = Table(("Load", "Wall / virtual time", "us / packet", "Memory, MB", "Utilization", "Lost"))
    for load in LOADS:
        figures = ("wall_ratio", "us_a_packet", "memory_mb", "utilization", "reports_lost")
        table.rows.append((load.name, *series.texts(load.name, figures)))
    several = Table(("Bottlenecks", "Wall s of all", "Core s of each", "Utilization", "Lost"))
    for number in BOTTLENECKS:
        of_all = ("wall_s", "core_s_each", "utilization", "reports_lost")
        several.rows.append((str(number), *series.texts(str(number), of_all)))
    conditions = (
        f"`narrows run --virtual`, 1 Gbit/s, {RTT}, a buffer of 1 BDP, a report on every packet, the guest on one "
        "core; half of the flows BBR, half CUBIC. Wall time is that of the guest, from its boot to its end. Memory is "
        "the most that any one process of the command had, of which the guest with all its hosts is one. Bottlenecks: "
        f"as many runs of one experiment ({OF_MANY.rate}, {OF_MANY.rtt}, {OF_MANY.name}, `repeat`), each with a seed "
        f"and a guest of its own, on {len(os.sched_getaffinity(0))} cores; analysis and reports are in the time. "
        "Utilization is the least of them, reports lost are those of all."
    )
    return Outcome(TITLE, conditions, [table, several], series.as_json(), ["narrows run FILE --virtual"])


def _measure_apart(load: Load) -> dict[str, float]:
    """One run, from a process of its own: how much memory its children had is known of all of them together only."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_measure, load).result()


def _measure(load: Load) -> dict[str, float]:
    figures = measure(load)
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {**figures, "memory_mb": kilobytes * 1024 / 1e6}


def _at_once(bottlenecks: int) -> dict[str, float]:
    """As many runs as bottlenecks, by one command."""
    began = time.monotonic()
    with made({**OF_MANY.experiment(), "repeat": bottlenecks}, "--virtual") as out:
        wall_s = time.monotonic() - began
        summaries = [json.loads(file.read_text()) for file in out.rglob("summary.json")]
    assert len(summaries) == bottlenecks
    return {
        "wall_s": wall_s,
        "core_s_each": wall_s * min(bottlenecks, len(os.sched_getaffinity(0))) / bottlenecks,
        "utilization": min(summary["bottleneck"]["utilization"] for summary in summaries),
        "reports_lost": sum(summary["telemetry"]["lost"] for summary in summaries),
    }
