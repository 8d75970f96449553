# SPDX-License-Identifier: Apache-2.0
"""Queue management of Linux and of Narrows, with the same flows in guests: queue delay, utilization, drops, marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import managed
import managed_link
import pandas as pd
from measuring import Contestant, Series, alternate
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.virtual.kernels import Kernel, configuration
from results import Outcome, Table
from virtual import in_guests, made

TITLE = "Queue management of Linux and of Narrows"
# Of the time in which flows run: what comes before is their start.
SETTLED = 0.25
KINDS = ("codel", "pie", "red", "fq_codel", "dualpi2")
LINUX, NARROWS = "Linux", "Narrows"
FIGURES = ("delay_median_ms", "delay_p99_ms", "utilization", "drops", "marks")


@dataclass(frozen=True)
class Load:
    """CUBIC flows through a link, from hosts with links of ``access_rate``, else as fast as a run has them."""

    rate: str
    rtt: str
    flows: int
    seconds: int
    access_rate: str = ""
    ecn: bool = False

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{self.rate.replace('bit', 'bit/s')}, {self.flows} flows{', ECN' * self.ecn}"

    def experiment(self, kind: str, seed: int) -> dict[str, Any]:
        """The experiment file, without its queue management."""
        bottleneck = {"rate": self.rate, "buffer": managed_link.LIMITS[kind], "rtt": self.rtt}
        flow = {"cca": "cubic", "duration": f"{self.seconds}s", "tcp": {"ecn": self.ecn}}
        starts = managed.starts(self.flows, self.window[0] / 2, seed)
        flows = [{"name": f"flow-{number}", **flow, **start} for number, start in enumerate(starts, 1)]
        experiment = {"name": "aqm", "seed": seed, "bottleneck": bottleneck, "flows": flows}
        return {**experiment, "hosts": {"rate": self.access_rate}} if self.access_rate else experiment

    @property
    def window(self) -> tuple[float, float]:
        """Begin and end, in seconds, of what counts."""
        return SETTLED * self.seconds, self.seconds


ALL_LOADS = tuple(
    Load(rate, rtt, flows, seconds, access_rate, ecn)
    for rate, rtt, seconds, access_rate in (
        ("10Mbit", "40ms", 30, ""),
        ("100Mbit", "40ms", 20, ""),
        ("1Gbit", "10ms", 5, ""),
        # Netem sends a packet for each of its timers, of which a guest sets none for less than 500 ns.
        ("10Gbit", "2ms", 3, "20Gbit"),
    )
    for flows in (4, 50)
    for ecn in (False, True)
)
LOADS = tuple(load for load in ALL_LOADS if not load.ecn)


def _measure(loads: Sequence[Load], runs: int, kernel: Kernel) -> Outcome:
    """A seed a round, which all contestants of that round have."""
    built = configuration(kernel)
    lacks = [kind for kind in KINDS if managed.NEEDS[kind] not in built]
    kinds = [kind for kind in KINDS if kind not in lacks]
    # Of each contestant the number of its round.
    rounds: dict[str, int] = {}
    contestants: dict[str, Contestant] = {}
    for load in loads:
        for kind in kinds:
            for who, measure in OF.items():
                name = _name(who, kind, load)
                contestants[name] = partial(_next, rounds, name, partial(measure, kind, load, kernel=kernel))
    series = alternate(contestants, runs)
    tables = [_table(load, kinds, series) for load in loads]
    conditions = (
        "CUBIC flows in a guest of virtual time, 40 ms at 10 and 100 Mbit/s, 10 ms at 1 and 2 ms at 10 Gbit/s (hosts "
        "have links of 20 Gbit/s there); the first quarter is left out, in the first half of which each flow starts at "
        "a time that the seed draws. Linux: packets of single segments, htb on a bridge, a frame's time being part of "
        "the round trip as on a line, with a burst of one frame from 1 Gbit/s on and none below, and with tc's "
        "defaults for the management in it; RED has 5 and 15 ms of the link as its bounds (0.5 and 1.5 ms at 10 "
        "Gbit/s, as Linux has no larger ones) and 0.1 as probability. Narrows: `queue:` with its defaults, tc's limit "
        "as `buffer`. Queue delay is what waits over the rate, every 5 ms, of all queues together. Seeds are the "
        "numbers of the rounds."
    )
    skipped = [f"{kind}: the kernel was built without {managed.NEEDS[kind]}" for kind in lacks]
    commands = ["tc qdisc add dev DEV parent 1:1 KIND", "narrows run FILE --virtual"]
    return Outcome(TITLE, conditions, tables, series.as_json(), commands, skipped)


def _name(who: str, kind: str, load: Load) -> str:
    return f"{who}, {kind}, {load.name}"


def _next(rounds: dict[str, int], name: str, measure: Callable[..., dict[str, float]]) -> dict[str, float]:
    rounds[name] = rounds.get(name, 0) + 1
    return measure(seed=rounds[name])


def of_linux(kind: str, load: Load, seed: int, kernel: Kernel) -> dict[str, float]:
    """One run through the kernel's management.

    Raises:
        RunError: it failed.
    """
    experiment = Experiment.model_validate(load.experiment(kind, seed))
    passage = managed.send(experiment, kernel, kind, load.ecn)
    return figures(passage.queue, make_plan(experiment).bottleneck.rate_bps, load.window)


def of_narrows(kind: str, load: Load, seed: int, kernel: Kernel) -> dict[str, float]:
    """One run through the management of the same kind here.

    Raises:
        RunError: it failed.
    """
    experiment = load.experiment(kind, seed)
    # DualPI2 always marks what allows it, here as in Linux.
    chosen: dict[str, object] = {} if kind == "dualpi2" else {"ecn": load.ecn}
    if kind == "red":
        rate_bps = make_plan(Experiment.model_validate(experiment)).bottleneck.rate_bps
        sizes = ("min", "max", "avpkt")
        chosen |= {name: f"{value}B" if name in sizes else value for name, value in managed.red(rate_bps).items()}
    experiment["bottleneck"]["queue"] = {"kind": kind, **chosen}
    with made(experiment, "--virtual", "--kernel", kernel.name) as results:
        queue = managed_link.readings(results, load.seconds)
    return figures(queue, make_plan(Experiment.model_validate(experiment)).bottleneck.rate_bps, load.window)


OF: dict[str, Callable[..., dict[str, float]]] = {LINUX: of_linux, NARROWS: of_narrows}


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


def _table(load: Load, kinds: Sequence[str], series: Series) -> Table:
    columns = ("Management", "Of", "Delay, median, ms", "p99, ms", "Utilization", "Drops", "Marks")
    table = Table(columns, caption=load.name)
    for kind in kinds:
        for who in OF:
            table.rows.append((kind, who, *series.texts(_name(who, kind, load), FIGURES)))
    return table


def _benchmark(*loads: Load) -> Callable[[int], Outcome]:
    return in_guests(TITLE)(lambda runs, kernel: _measure(loads, runs, kernel))


BENCHMARKS = {
    "aqm": _benchmark(*(load for load in LOADS if load.rate.endswith("Mbit") and load.flows == 4)),
    "aqm-50": _benchmark(*(load for load in LOADS if load.rate.endswith("Mbit") and load.flows == 50)),
    "aqm-1g": _benchmark(*(load for load in LOADS if load.rate == "1Gbit")),
    "aqm-10g": _benchmark(*(load for load in LOADS if load.rate == "10Gbit")),
    "aqm-all": _benchmark(*ALL_LOADS),
}
