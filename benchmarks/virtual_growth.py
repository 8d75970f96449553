# SPDX-License-Identifier: Apache-2.0
"""How the cost of virtual time, and its memory, grow with the number of flows and with the length of a run."""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from measuring import Contestant, alternate
from narrows.virtual.kernels import Kernel
from results import Outcome, Table
from virtual import RTT, Load, in_guests, measure

TITLE = "Growth of virtual time"
RATE = "1Gbit"
FLOWS = (2, 10, 100, 1000)
SECONDS = (10, 60, 600)
SHORT_S = 3
LOADS = (
    *(Load(f"{flows} flows, {SHORT_S} s", RATE, RTT, 1500, flows, SHORT_S) for flows in FLOWS),
    *(Load(f"2 flows, {seconds} s", RATE, RTT, 1500, 2, seconds) for seconds in SECONDS),
)


@in_guests(TITLE)
def run(runs: int, _: Kernel) -> Outcome:
    """Each load in a guest on one core; what it took of time and memory."""
    contestants: dict[str, Contestant] = {load.name: partial(_measure_apart, load) for load in LOADS}
    series = alternate(contestants, runs)
    table = Table(("Load", "Wall / virtual time", "us / packet", "Memory, MB", "Utilization", "Lost"))
    for load in LOADS:
        figures = ("wall_ratio", "us_a_packet", "memory_mb", "utilization", "reports_lost")
        table.rows.append((load.name, *series.texts(load.name, figures)))
    conditions = (
        f"`narrows run --virtual`, 1 Gbit/s, {RTT}, a buffer of 1 BDP, a report on every packet, the guest on one "
        "core; half of the flows BBR, half CUBIC. Wall time is that of the guest, from its boot to its end. Memory is "
        "the most that any one process of the command had, of which the guest with all its hosts is one."
    )
    return Outcome(TITLE, conditions, [table], series.as_json(), ["narrows run FILE --virtual"])


def _measure_apart(load: Load) -> dict[str, float]:
    """One run, from a process of its own: how much memory its children had is known of all of them together only."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_measure, load).result()


def _measure(load: Load) -> dict[str, float]:
    figures = measure(load)
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {**figures, "memory_mb": kilobytes * 1024 / 1e6}
