# SPDX-License-Identifier: Apache-2.0
"""Experiments drawn at random, each with what became of its packets and what the analysis says of them; laws of both.

NARROWS_CASES sets how many experiments are drawn for each law (`make stress` has more).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import packet_lives as truth
import pandas as pd
from hypothesis import HealthCheck, Phase, given, seed, settings
from narrows_analysis import analyze_run, load
from packet_lives import AFTER_WAITING, BY_LINK, NEVER, NS, TCP, Experiment, Flow, Life, Link

USUAL_CASES = 25
CASES = int(os.environ.get("NARROWS_CASES", USUAL_CASES))

Window = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """An experiment with what became of its packets, and what the analysis says of them."""

    experiment: Experiment
    lives: dict[str, list[Life]]
    summary: dict[str, Any]
    flows: pd.DataFrame
    queue: pd.DataFrame
    distributions: pd.DataFrame
    drops: pd.DataFrame

    def of(self, flow: str, link: str | None = None) -> list[Life]:
        """A flow's packets at one link, by default at the last of its path."""
        return [life for life in self.lives[link or self.experiment.flow(flow).path[-1]] if life.flow == flow]

    def flow(self, name: str) -> dict[str, Any]:
        """A flow's part of the summary."""
        found: dict[str, Any] = next(one for one in self.summary["flows"] if one["name"] == name)
        return found

    def link(self, name: str) -> dict[str, Any] | None:
        """A link's part; None if no flow crosses it."""
        return next((one for one in self.summary["links"] if one["name"] == name), None)

    @cached_property
    def crossed(self) -> list[Link]:
        """Links with packets."""
        return [link for link in self.experiment.links if self.lives[link.name]]

    @property
    def width_ns(self) -> int:
        """Length of the intervals of flows' series."""
        return round(float(self.flows["interval_s"].max()) * NS) if len(self.flows) else NS // 10

    def running(self, flow: Flow, link: str | None = None) -> tuple[int, int] | None:
        """From when to when a flow was running at a link, by default at the last of its path."""
        return self._span(flow, link, departed(self.of(flow.name, link)))

    def life(self, flow: Flow, link: str | None = None) -> tuple[int, int] | None:
        """The same until its last packet has left or was dropped."""
        return self._span(flow, link, self.of(flow.name, link))

    def on_path(self, flow: Flow) -> tuple[int, int] | None:
        """A flow's life on its path: from its first packet at the first link to the end of its life at the last."""
        first, last = self.of(flow.name, flow.path[0]), self.life(flow)
        return (min(life.offered for life in first), last[1]) if first and last else None

    def _span(self, flow: Flow, link: str | None, ends: list[Life]) -> tuple[int, int] | None:
        if not (lives := self.of(flow.name, link)):
            return None
        first = min(life.offered for life in lives)
        planned = first if flow.duration is None else flow.start + flow.duration
        return first, max([first, planned, *(life.started or life.dropped or 0 for life in ends)])

    def window(self, link: Link) -> tuple[int, int]:
        """From a link's first packet to the end of its last, and of the plan."""
        lives = self.lives[link.name]
        planned = [
            flow.start + flow.duration
            for flow in self.experiment.flows
            if flow.duration is not None and link.name in flow.path and self.of(flow.name, link.name)
        ]
        ends = [life.finished or life.dropped or 0 for life in lives]
        return min(life.offered for life in lives), max([*ends, *planned])


@cache
def analysed(experiment: Experiment) -> Case:
    """The case of an experiment."""
    lives = truth.lives(experiment)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place, "run")
        truth.write(experiment, lives, directory)
        summary: Any = analyze_run(directory)
        names = ("flows", "queue", "distributions")
        flows, queue, distributions = (pd.read_parquet(directory / f"{name}.parquet") for name in names)
        return Case(experiment, lives, summary, flows, queue, distributions, load(directory).drops())


def over_experiments(test: Callable[[Experiment], None]) -> Callable[[], None]:
    """A test of experiments that are the same for all laws. They are not made smaller where a law breaks: that takes
    minutes, and `truth` tells what became of each packet."""
    drawn = settings(
        max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    return drawn(seed(1)(given(truth.experiments().filter(truth.reported))(test)))


def law(check: Callable[[Case], None]) -> Callable[[], None]:
    """A test of a law over experiments."""

    @over_experiments
    def test(experiment: Experiment) -> None:
        check(analysed(experiment))

    test.__doc__ = check.__doc__
    return test


def dropped(lives: list[Life], *causes: int) -> list[Life]:
    """Those that were dropped for one of these reasons."""
    return [life for life in lives if life.cause in causes]


def departed(lives: list[Life]) -> list[Life]:
    """Those that left."""
    return [life for life in lives if life.started is not None]


def waits_until(life: Life) -> int:
    """When a packet that came into the queue leaves it, sent on or dropped."""
    until = life.dropped if life.cause in AFTER_WAITING else life.started
    return NEVER if until is None else until


def first_departures(flow: Flow, lives: list[Life]) -> dict[Any, int]:
    """When each piece of payload left first: of TCP by its place in the stream, else by the datagram."""
    found: dict[Any, int] = {}
    for life in sorted(departed(lives), key=lambda life: life.started or 0):
        found.setdefault(life.sent.offset if flow.protocol == TCP else life.sent, life.started or 0)
    return found


def copies(case: Case, link: Link, flows: list[Flow]) -> bool:
    """Whether copies come to a link, of flows whose payload does not tell them apart: when which of them is one is not
    known there."""
    return any(life.copy for flow in flows for life in case.of(flow.name, link.name) if flow.protocol != TCP)


def delivered(case: Case, flow: Flow, link: str | None = None, window: Window = (0, 1 << 62)) -> int:
    """New payload bytes of a flow that left in a time."""
    times = first_departures(flow, case.of(flow.name, link)).values()
    return flow.payload * sum(window[0] <= time < window[1] for time in times)


def together(case: Case, flows: list[Flow], link: str | None = None) -> Window | None:
    """Whole intervals in which all flows were running at a link, by default at the last of their paths."""
    spans = [span for flow in flows if (span := case.running(flow, link)) is not None]
    if not spans or len(spans) < len(flows):
        return None
    width = case.width_ns
    begin, end = -(-max(span[0] for span in spans) // width), min(span[1] for span in spans) // width
    return (begin * width, end * width) if end > begin else None


def hit_in_episodes(case: Case, link: str, window: Window) -> list[int]:
    """How many flows lose packets at a link in each episode of a time: intervals with drops that follow one another."""
    losers: dict[int, set[str]] = {}
    for life in dropped(case.lives[link], *BY_LINK):
        if window[0] <= (life.dropped or 0) < window[1]:
            losers.setdefault((life.dropped or 0) // case.width_ns, set()).add(life.flow)
    episodes: list[set[str]] = []
    for at in sorted(losers):
        if at - 1 in losers:
            episodes[-1] |= losers[at]
        else:
            episodes.append(set(losers[at]))
    return [len(hit) for hit in episodes]


def by_interval(rows: pd.DataFrame, name: str) -> dict[int, int]:
    """What a column has in the intervals in which it is not 0."""
    numbers = (rows["time_s"] / rows["interval_s"]).round().astype(int)
    return {number: count for number, count in zip(numbers, rows[name], strict=True) if count}
