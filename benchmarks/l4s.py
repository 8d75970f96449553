# SPDX-License-Identifier: Apache-2.0
"""Flows of Prague and CUBIC through DualPI2 and tail drop of Linux and of Narrows, beside published figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import managed
import managed_link
import numpy as np
import pandas as pd
from measuring import Contestant, alternate
from narrows.errors import InputError
from narrows.experiment.model import Experiment
from narrows.virtual.kernels import Kernel, configuration, installed, remembered
from narrows_formats.files import HOSTS, SOCKETS
from results import Outcome, Table
from virtual import made

TITLE = "L4S through DualPI2 and tail drop of Linux and of Narrows"
CCA = "prague"
DUAL, TAIL_DROP = "dualpi2", "tail-drop"
# Of each queue its name in Linux.
QUEUES = {DUAL: DUAL, TAIL_DROP: "pfifo"}
RATE, RATE_BPS = "50Mbit", 50_000_000
ECN = {"ecn": True}
SECONDS = 90
# Each flow starts at a time before this, which the seed draws.
STARTED_S = 10
# The minute that ends two seconds before the end.
WINDOW_S = (SECONDS - 62, SECONDS - 2)
GOODPUTS = ("first_mbps", "second_mbps")
# Of a queue alone, and of the two of DualPI2.
DELAYS = {TAIL_DROP: ("p99_ms",), DUAL: ("classic_p99_ms", "low_p99_ms")}


@dataclass(frozen=True)
class Pair:
    """Two flows with their RTTs in ms, and their published goodputs in Mbit/s by queue (heistp/l4s-tests of 2020)."""

    ccas: tuple[str, str]
    rtts_ms: tuple[int, int]
    dualpi2: str
    tail_drop: str

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{'/'.join(self.ccas)} {'/'.join(map(str, self.rtts_ms))}"

    @property
    def published(self) -> dict[str, str]:
        """Goodputs by queue."""
        return {DUAL: self.dualpi2, TAIL_DROP: self.tail_drop}

    def experiment(self, queue: str, seed: int) -> dict[str, Any]:
        """The experiment file; its buffer is Linux's limit, which DualPI2 does not reach."""
        starts = managed.starts(2, STARTED_S, seed)
        flows = [
            {"name": name, "cca": cca, "rtt": f"{rtt}ms", "duration": f"{SECONDS}s", "tcp": ECN, **start}
            for name, cca, rtt, start in zip(("first", "second"), self.ccas, self.rtts_ms, starts, strict=True)
        ]
        limit, rtt = managed_link.LIMITS[QUEUES[queue]], f"{self.rtts_ms[0]}ms"
        bottleneck = {"rate": RATE, "buffer": limit, "rtt": rtt, "queue": queue}
        return {"name": "l4s", "seed": seed, "bottleneck": bottleneck, "flows": flows}


PAIRS = (
    Pair(("cubic", CCA), (10, 10), "12.65/34.57", "39.98/7.55"),
    Pair(("cubic", CCA), (20, 20), "14.94/32.39", "35.44/12.24"),
    Pair(("cubic", CCA), (80, 80), "17.85/29.58", "43.71/3.74"),
    Pair((CCA, CCA), (160, 10), "1.56/45.46", "10.35/37.36"),
    Pair(("cubic", "cubic"), (160, 10), "10.74/36.50", "17.22/30.27"),
)


def run(runs: int) -> Outcome:
    """Each pair through each queue; the seed is the number of the round."""
    try:
        kernel = _kernel()
    except InputError as error:
        return Outcome(TITLE, "Not run.", [], {}, [], [str(error)])
    rows = [(pair, queue, who) for pair in PAIRS for queue in QUEUES for who in OF]
    named = {_name(*row): partial(OF[row[2]], *row[:2]) for row in rows}
    rounds = dict.fromkeys(named, 0)
    contestants: dict[str, Contestant] = {name: partial(_next, rounds, name, of, kernel) for name, of in named.items()}
    series = alternate(contestants, runs)
    columns = ("Flows, RTTs", "Queue", "Of", "First, Mbit/s", "Second, Mbit/s", "Published", "p99, ms", "L, p99, ms")
    table = Table(columns)
    for pair, queue, who in rows:
        first, second = series.texts(_name(pair, queue, who), GOODPUTS)
        delay, *low = series.texts(_name(pair, queue, who), DELAYS[queue])
        table.rows.append((pair.name, queue, who, first, second, pair.published[queue], delay, *(low or [""])))
    conditions = (
        f"Two flows through {RATE}/s in a guest, {SECONDS} s each, begun at times before {STARTED_S} s that "
        "the seed draws, RTTs in ms, with DualPI2 and its defaults, or tail drop "
        f"at {managed_link.LIMITS[QUEUES[TAIL_DROP]]}; Linux: packets of single segments, under htb without a burst, "
        "a frame's time being part of the round trip as on a line; Narrows: `queue:`. Goodput as the senders' sockets "
        f"have it acknowledged in the minute from {WINDOW_S[0]} s on; CUBIC uses ECN. Delays, every 5 ms: of tail "
        "drop what waits over the rate, of DualPI2 the age of the oldest packet of C, and of L. Seeds are the "
        "numbers of the rounds. Published, of 180 s: heistp/l4s-tests, a kernel of 2020, whose "
        f"Prague was not yet independent of the RTT below 25 ms. Kernel of the guest: {kernel.name}."
    )
    commands = [f"tc qdisc add dev DEV parent 1:1 {DUAL}", "narrows run FILE --virtual --kernel NAME"]
    return Outcome(TITLE, conditions, [table], series.as_json(), commands)


def _name(pair: Pair, queue: str, who: str) -> str:
    return f"{who}, {queue}, {pair.name}"


def _kernel() -> Kernel:
    """The first kernel that has what is needed.

    Raises:
        InputError: none has.
    """
    for kernel in installed():
        about = remembered(kernel)
        if about is not None and CCA in about.ccas and managed.NEEDS[DUAL] in configuration(kernel):
            return kernel
    raise InputError(f"no kernel has {CCA} and {DUAL}; fix: docs/tutorials/l4s.md says how to build one")


def _next(rounds: dict[str, int], name: str, of: Measure, kernel: Kernel) -> dict[str, float]:
    rounds[name] += 1
    return of(rounds[name], kernel)


def _of_linux(pair: Pair, queue: str, seed: int, kernel: Kernel) -> dict[str, float]:
    experiment = Experiment.model_validate(pair.experiment(queue, seed))
    passage = managed.send(experiment, kernel, QUEUES[queue], True)
    return _figures(queue, passage.sockets, passage.queue)


def _of_narrows(pair: Pair, queue: str, seed: int, kernel: Kernel) -> dict[str, float]:
    with made(pair.experiment(queue, seed), "--virtual", "--kernel", kernel.name) as results:
        sockets = pd.read_parquet(results / HOSTS / SOCKETS)
        return _figures(queue, sockets, managed_link.readings(results, SECONDS))


# A seed and a kernel to figures.
Measure = Callable[[int, Kernel], dict[str, float]]
OF: dict[str, Callable[[Pair, str, int, Kernel], dict[str, float]]] = {"Linux": _of_linux, "Narrows": _of_narrows}


def _figures(queue: str, sockets: pd.DataFrame, readings: pd.DataFrame) -> dict[str, float]:
    goodputs = (_goodput_mbps(one) for _, one in sockets.groupby("flow"))
    inside = readings[readings["time_s"].between(*WINDOW_S)]
    delays_s = [inside["delay_c_s"], inside["delay_l_s"]] if queue == DUAL else [inside["depth_bytes"] * 8 / RATE_BPS]
    p99s_ms = (float(delay_s.quantile(0.99)) * 1000 for delay_s in delays_s)
    return dict(zip((*GOODPUTS, *DELAYS[queue]), (*goodputs, *p99s_ms), strict=True))


def _goodput_mbps(sockets: pd.DataFrame) -> float:
    begin, end = np.interp(WINDOW_S, sockets["time_s"], sockets["acked_bytes"])
    return float(end - begin) * 8 / (WINDOW_S[1] - WINDOW_S[0]) / 1e6
