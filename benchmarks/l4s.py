# SPDX-License-Identifier: Apache-2.0
"""Flows of Prague and CUBIC through Linux's DualPI2 in a guest, beside published figures of the same experiment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import managed
import numpy as np
import pandas as pd
from measuring import Contestant, alternate
from narrows.errors import InputError
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.virtual.kernels import Kernel, configuration, installed, remembered
from passage import send_through
from results import Outcome, Table

TITLE = "L4S through Linux's DualPI2"
CCA, KIND = "prague", "dualpi2"
RATE = "50Mbit"
SECONDS = 180
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
        """The experiment file. Neither the buffer nor the step, which has hosts use ECN, is reached."""
        flows = [
            {"name": name, "cca": cca, "rtt": f"{rtt}ms", "duration": f"{SECONDS}s"}
            for name, cca, rtt in zip(("first", "second"), self.ccas, self.rtts_ms, strict=True)
        ]
        bottleneck = {"rate": RATE, "buffer": "8MB", "rtt": f"{self.rtts_ms[0]}ms", "ecn_threshold": "7MB"}
        return {"name": "l4s", "seed": seed, "bottleneck": bottleneck, "flows": flows}


PAIRS = (
    Pair(("cubic", CCA), (10, 10), "12.65/34.57"),
    Pair(("cubic", CCA), (20, 20), "14.94/32.39"),
    Pair(("cubic", CCA), (80, 80), "17.85/29.58"),
    Pair((CCA, CCA), (160, 10), "1.56/45.46"),
    Pair(("cubic", "cubic"), (160, 10), "10.74/36.50"),
)


def run(runs: int) -> Outcome:
    """Each pair; the seed is the number of the round."""
    try:
        kernel = _kernel()
    except InputError as error:
        return Outcome(TITLE, "Not run.", [], {}, [], [str(error)])
    seeds = {pair.name: 0 for pair in PAIRS}
    contestants: dict[str, Contestant] = {pair.name: partial(_next, seeds, pair, kernel) for pair in PAIRS}
    series = alternate(contestants, runs)
    table = Table(("Flows, RTTs in ms", "First, Mbit/s", "Second, Mbit/s", "Published", "C, p99, ms", "L, p99, ms"))
    for pair in PAIRS:
        first, second, classic, low = series.texts(pair.name, FIGURES)
        table.rows.append((pair.name, first, second, pair.published, classic, low))
    conditions = (
        f"Two flows through htb of {RATE}/s with DualPI2 and its defaults in a guest, {SECONDS} s; goodput as the "
        "senders' sockets have it acknowledged in the minute that ends 2 s before the end; CUBIC uses ECN. Queue "
        "delays of C and L as Linux tells them, read every 5 ms. Published: heistp/l4s-tests, a kernel of 2020, whose "
        f"Prague was not yet independent of the RTT below 25 ms. Kernel of the guest: {kernel.name}."
    )
    return Outcome(TITLE, conditions, [table], series.as_json(), [f"tc qdisc add dev DEV parent 1:1 {KIND}"])


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


def _next(seeds: dict[str, int], pair: Pair, kernel: Kernel) -> dict[str, float]:
    seeds[pair.name] += 1
    experiment = Experiment.model_validate(pair.experiment(seeds[pair.name]))
    passage = asyncio.run(send_through("managed", experiment, make_plan(experiment), kernel, KIND, True))
    first, second = (_goodput_mbps(one) for _, one in passage.sockets.groupby("flow"))
    queue = passage.queue[passage.queue["time_s"].between(*WINDOW_S)]
    return {
        "first_mbps": first,
        "second_mbps": second,
        "classic_p99_ms": float(queue["delay_c_s"].quantile(0.99)) * 1000,
        "low_p99_ms": float(queue["delay_l_s"].quantile(0.99)) * 1000,
    }


def _goodput_mbps(sockets: pd.DataFrame) -> float:
    begin, end = np.interp(WINDOW_S, sockets["time_s"], sockets["acked_bytes"])
    return float(end - begin) * 8 / (WINDOW_S[1] - WINDOW_S[0]) / 1e6
