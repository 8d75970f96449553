# SPDX-License-Identifier: Apache-2.0
"""Alternating runs of several contestants, and what is kept of them: median, least and greatest, ratios run by run."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

# A warm-up, a run, or anything else that takes no arguments and gives named figures.
Contestant = Callable[[], dict[str, float]]


@contextmanager
def spent() -> Iterator[dict[str, float]]:
    """Wall and processor seconds of the commands that are run within, with all their children; filled in at the end."""
    figures: dict[str, float] = {}
    start, before = time.monotonic(), _processor_s()
    yield figures
    figures |= {"wall_s": time.monotonic() - start, "processor_s": _processor_s() - before}


def _processor_s() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of the same figure over all runs."""

    median: float
    least: float
    greatest: float
    runs: int

    @staticmethod
    def of(values: list[float]) -> Spread:
        """Summarise at least one value."""
        return Spread(statistics.median(values), min(values), max(values), len(values))

    def text(self, scale: float = 1.0) -> str:
        """``median (least to greatest)`` in three significant digits, each multiplied by ``scale``."""
        return f"{number(self.median * scale)} ({number(self.least * scale)} to {number(self.greatest * scale)})"


def number(value: float) -> str:
    """Three significant digits without an exponent; more where the integer part has more."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 3
    magnitude = abs(value)
    while magnitude >= 1:
        magnitude /= 10
        digits -= 1
    while magnitude < 0.1 and digits < 6:
        magnitude *= 10
        digits += 1
    return f"{value:.{max(digits, 0)}f}"


@dataclass
class Series:
    """The figures of every contestant in every run, in the order in which they ran."""

    runs: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)

    def spread(self, contestant: str, figure: str) -> Spread:
        """One figure of one contestant over its runs."""
        return Spread.of([run[figure] for run in self.runs[contestant]])

    def texts(self, contestant: str, figures: Iterable[str], scales: Mapping[str, float] | None = None) -> list[str]:
        """Figures of one contestant for a table, each times its scale (default 1)."""
        return [self.spread(contestant, figure).text((scales or {}).get(figure, 1)) for figure in figures]

    def ratio(self, contestant: str, other: str, figure: str) -> Spread:
        """One contestant over another, run by run: what disturbs a round disturbs both."""
        pairs = zip(self.runs[contestant], self.runs[other], strict=True)
        return Spread.of([one[figure] / two[figure] for one, two in pairs])

    def as_json(self) -> dict[str, Any]:
        """Every run, and the spread of every figure."""
        spreads = {
            name: {figure: asdict(self.spread(name, figure)) for figure in runs[0]} for name, runs in self.runs.items()
        }
        return {"runs": self.runs, "spread": spreads, "load_before_each_round": self.loads}


def alternate(contestants: Mapping[str, Contestant], runs: int) -> Series:
    """Run all contestants in turn, ``runs`` times: one round after the other, in an order that turns each time.

    Args:
        contestants: what to call, by name.
        runs: number of rounds.
    """
    series = Series({name: [] for name in contestants})
    names = list(contestants)
    for turn in range(runs):
        series.loads.append(os.getloadavg()[0])
        order = names[turn % len(names) :] + names[: turn % len(names)]
        for name in order:
            started = time.monotonic()
            figures = contestants[name]()
            series.runs[name].append(figures)
            shown = ", ".join(f"{key} {number(value)}" for key, value in figures.items())
            print(
                f"  run {turn + 1}: {name}: {shown} [{time.monotonic() - started:.1f} s]", file=sys.stderr, flush=True
            )
    return series
