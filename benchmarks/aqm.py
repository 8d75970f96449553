# SPDX-License-Identifier: Apache-2.0
"""Queue management of Linux in a guest, with the flows of a run: queue delay, utilization, drops, marks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import managed
import pandas as pd
from measuring import Contestant, Series, alternate
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.virtual.kernels import Kernel, configuration
from passage import send_through
from results import Outcome, Table
from virtual import in_guests

TITLE = "Queue management of Linux"
# Of the time in which flows run: what comes before is their start.
SETTLED = 0.25
KINDS = ("codel", "pie", "red", "fq_codel", "dualpi2")
FIGURES = ("delay_median_ms", "delay_p99_ms", "utilization", "drops", "marks")


@dataclass(frozen=True)
class Load:
    """CUBIC flows through a link whose buffer is ``buffer``."""

    rate: str
    rtt: str
    flows: int
    seconds: int
    ecn: bool = False

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{self.rate.replace('bit', 'bit/s')}, {self.flows} flows{', ECN' * self.ecn}"

    def experiment(self, seed: int) -> dict[str, Any]:
        """The experiment file. Neither the buffer nor the step, which has hosts use ECN, is reached."""
        bottleneck: dict[str, Any] = {"rate": self.rate, "buffer": "8bdp", "rtt": self.rtt}
        if self.ecn:
            bottleneck["ecn_threshold"] = "7bdp"
        flows = [{"cca": "cubic", "count": self.flows, "duration": f"{self.seconds}s"}]
        return {"name": "aqm", "seed": seed, "bottleneck": bottleneck, "flows": flows}


LOADS = tuple(
    Load(rate, rtt, flows, seconds, ecn)
    for rate, rtt, seconds in (
        ("10Mbit", "40ms", 30),
        ("100Mbit", "40ms", 20),
        ("1Gbit", "10ms", 8),
        ("10Gbit", "2ms", 4),
    )
    for flows in (4, 50)
    for ecn in (False, True)
)


@in_guests(TITLE)
def run(runs: int, kernel: Kernel) -> Outcome:
    """Each kind at each load; a seed a round, which all contestants of that round have."""
    built = configuration(kernel)
    lacks = [kind for kind in KINDS if managed.NEEDS[kind] not in built]
    kinds = [kind for kind in KINDS if kind not in lacks]
    # Of each contestant the number of its round.
    rounds: dict[str, int] = {}
    contestants: dict[str, Contestant] = {}
    for load in LOADS:
        for kind in kinds:
            contestants[f"{kind}, {load.name}"] = partial(_next, rounds, kind, load, kernel)
    series = alternate(contestants, runs)
    tables = [_table(load, kinds, series) for load in LOADS]
    conditions = (
        "CUBIC flows in a guest of virtual time, 40 ms at 10 and 100 Mbit/s, 10 ms above; the first quarter is left "
        "out. Linux: htb on a bridge, with tc's defaults for the management in it; RED has 5 and 15 ms of the link as "
        "its bounds and 0.1 as probability, pfifo 8 BDP. Queue delay is what waits over the rate, read every 5 ms, "
        "of all queues together. Seeds are the numbers of the rounds."
    )
    skipped = [f"{kind}: the kernel was built without {managed.NEEDS[kind]}" for kind in lacks]
    return Outcome(TITLE, conditions, tables, series.as_json(), ["tc qdisc add dev DEV parent 1:1 KIND"], skipped)


def _next(rounds: dict[str, int], kind: str, load: Load, kernel: Kernel) -> dict[str, float]:
    name = f"{kind}, {load.name}"
    rounds[name] = rounds.get(name, 0) + 1
    return of_linux(kind, load, rounds[name], kernel)


def of_linux(kind: str, load: Load, seed: int, kernel: Kernel) -> dict[str, float]:
    """One run through the kernel's management.

    Raises:
        RunError: it failed.
    """
    experiment = Experiment.model_validate(load.experiment(seed))
    plan = make_plan(experiment)
    passage = asyncio.run(send_through("managed", experiment, plan, kernel, kind, load.ecn))
    return figures(passage.queue, plan.bottleneck.rate_bps, (SETTLED * load.seconds, load.seconds))


def figures(queue: pd.DataFrame, rate_bps: int, window: tuple[float, float]) -> dict[str, float]:
    """What a table shows, of a time in seconds.

    Args:
        queue: a row a reading: ``time_s``, ``depth_bytes``, and ``bytes``, ``drops`` and ``marks`` so far.
        rate_bps: of the link.
        window: begin and end.
    """
    begin, end = window
    inside = queue[(queue["time_s"] >= begin) & (queue["time_s"] < end)]
    delay_ms = inside["depth_bytes"] * 8 / rate_bps * 1000
    passed = inside.iloc[-1] - inside.iloc[0]
    return {
        "delay_median_ms": float(delay_ms.median()),
        "delay_p99_ms": float(delay_ms.quantile(0.99)),
        "utilization": float(passed["bytes"] * 8 / (rate_bps * passed["time_s"])),
        "drops": float(passed["drops"]),
        "marks": float(passed["marks"]),
    }


def _table(load: Load, kinds: list[str], series: Series) -> Table:
    table = Table(("Management", "Delay, median, ms", "p99, ms", "Utilization", "Drops", "Marks"), caption=load.name)
    for kind in kinds:
        table.rows.append((kind, *series.texts(f"{kind}, {load.name}", FIGURES)))
    return table
