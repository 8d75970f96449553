# SPDX-License-Identifier: Apache-2.0
"""Flows of Prague and CUBIC through the DualPI2 of Linux and of Narrows, beside published figures of the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

TITLE = "L4S through the DualPI2 of Linux and of Narrows"
CCA, KIND = "prague", "dualpi2"
RATE = "50Mbit"
ECN = {"ecn": True}
SECONDS = 90
# The minute that ends two seconds before the end.
WINDOW_S = (SECONDS - 62, SECONDS - 2)
FIGURES = ("first_mbps", "second_mbps", "classic_p99_ms", "low_p99_ms")


@dataclass(frozen=True)
class Pair:
    """Two flows with their RTTs in ms, and their published goodputs in Mbit/s (heistp/l4s-tests, kernel of 2020)."""

    ccas: tuple[str, str]
    rtts_ms: tuple[int, int]
    published: str

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{'/'.join(self.ccas)} {'/'.join(map(str, self.rtts_ms))}"

    def experiment(self, seed: int) -> dict[str, Any]:
        """The experiment file, without its queue management; its buffer is tc's limit, and not reached."""
        flows = [
            {"name": name, "cca": cca, "rtt": f"{rtt}ms", "duration": f"{SECONDS}s", "tcp": ECN}
            for name, cca, rtt in zip(("first", "second"), self.ccas, self.rtts_ms, strict=True)
        ]
        bottleneck = {"rate": RATE, "buffer": managed_link.LIMITS[KIND], "rtt": f"{self.rtts_ms[0]}ms"}
        return {"name": "l4s", "seed": seed, "bottleneck": bottleneck, "flows": flows}


# In which CUBIC and Prague share the link.
ANCHORS = (
    Pair(("cubic", CCA), (10, 10), "12.65/34.57"),
    Pair(("cubic", CCA), (20, 20), "14.94/32.39"),
    Pair(("cubic", CCA), (80, 80), "17.85/29.58"),
)
PAIRS = (
    *ANCHORS,
    Pair((CCA, CCA), (160, 10), "1.56/45.46"),
    Pair(("cubic", "cubic"), (160, 10), "10.74/36.50"),
)


def run(runs: int) -> Outcome:
    """The pairs of Prague and CUBIC."""
    return _measure(ANCHORS, runs)


def run_all(runs: int) -> Outcome:
    """Each pair."""
    return _measure(PAIRS, runs)


def _measure(pairs: Sequence[Pair], runs: int) -> Outcome:
    """The seed is the number of the round."""
    try:
        kernel = _kernel()
    except InputError as error:
        return Outcome(TITLE, "Not run.", [], {}, [], [str(error)])
    named = {f"{who}, {pair.name}": partial(of, pair) for pair in pairs for who, of in OF.items()}
    rounds = dict.fromkeys(named, 0)
    contestants: dict[str, Contestant] = {name: partial(_next, rounds, name, of, kernel) for name, of in named.items()}
    series = alternate(contestants, runs)
    columns = ("Flows, RTTs in ms", "Of", "First, Mbit/s", "Second, Mbit/s", "Published", "C, p99, ms", "L, p99, ms")
    table = Table(columns)
    for pair in pairs:
        for who in OF:
            first, second, classic, low = series.texts(f"{who}, {pair.name}", FIGURES)
            table.rows.append((pair.name, who, first, second, pair.published, classic, low))
    conditions = (
        f"Two flows through {RATE}/s with DualPI2 and its defaults in a guest, {SECONDS} s; Linux: under htb; Narrows: "
        "`queue: dualpi2`. Goodput as the senders' sockets have it acknowledged in the minute that ends 2 s before the "
        "end; CUBIC uses ECN. Queue delays of C and L are ages of their oldest packets, every 5 ms. Seeds are the "
        "numbers of the rounds. Published, of 180 s: heistp/l4s-tests, a kernel of 2020, whose "
        f"Prague was not yet independent of the RTT below 25 ms. Kernel of the guest: {kernel.name}."
    )
    commands = [f"tc qdisc add dev DEV parent 1:1 {KIND}", "narrows run FILE --virtual --kernel NAME"]
    return Outcome(TITLE, conditions, [table], series.as_json(), commands)


def _kernel() -> Kernel:
    """The first kernel that has what is needed.

    Raises:
        InputError: none has.
    """
    for kernel in installed():
        about = remembered(kernel)
        if about is not None and CCA in about.ccas and managed.NEEDS[KIND] in configuration(kernel):
            return kernel
    raise InputError(f"no kernel has {CCA} and {KIND}; fix: docs/tutorials/l4s.md says how to build one")


def _next(rounds: dict[str, int], name: str, of: Measure, kernel: Kernel) -> dict[str, float]:
    rounds[name] += 1
    return of(rounds[name], kernel)


def _of_linux(pair: Pair, seed: int, kernel: Kernel) -> dict[str, float]:
    experiment = Experiment.model_validate(pair.experiment(seed))
    passage = managed.send(experiment, kernel, KIND, True)
    return _figures(passage.sockets, passage.queue)


def _of_narrows(pair: Pair, seed: int, kernel: Kernel) -> dict[str, float]:
    experiment = pair.experiment(seed)
    experiment["bottleneck"]["queue"] = KIND
    with made(experiment, "--virtual", "--kernel", kernel.name) as results:
        sockets = pd.read_parquet(results / HOSTS / SOCKETS)
        return _figures(sockets, managed_link.readings(results, SECONDS))


# A seed and a kernel to figures.
Measure = Callable[[int, Kernel], dict[str, float]]
OF: dict[str, Callable[[Pair, int, Kernel], dict[str, float]]] = {"Linux": _of_linux, "Narrows": _of_narrows}


def _figures(sockets: pd.DataFrame, queue: pd.DataFrame) -> dict[str, float]:
    first, second = (_goodput_mbps(one) for _, one in sockets.groupby("flow"))
    queue = queue[queue["time_s"].between(*WINDOW_S)]
    return {
        "first_mbps": first,
        "second_mbps": second,
        "classic_p99_ms": float(queue["delay_c_s"].quantile(0.99)) * 1000,
        "low_p99_ms": float(queue["delay_l_s"].quantile(0.99)) * 1000,
    }


def _goodput_mbps(sockets: pd.DataFrame) -> float:
    begin, end = np.interp(WINDOW_S, sockets["time_s"], sockets["acked_bytes"])
    return float(end - begin) * 8 / (WINDOW_S[1] - WINDOW_S[0]) / 1e6
