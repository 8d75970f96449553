# SPDX-License-Identifier: Apache-2.0
"""Laws of summary and series, over experiments drawn at random: each figure against a slow count of packets' lives.

With loss before, at and behind queues, copies, reordering, outages, flows that start late, pause or send nothing, one
to three links. NARROWS_CASES sets how many experiments are drawn for each law (`make stress` has more).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import packet_lives as truth
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from narrows_analysis import analyze_run
from packet_lives import FULL, LOST, MANAGED, NS, TCP, Experiment, Life

CASES = int(os.environ.get("NARROWS_CASES", "25"))
pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]


@dataclass(frozen=True)
class Case:
    """An experiment with what became of its packets, and what the analysis says of them."""

    experiment: Experiment
    lives: dict[str, list[Life]]
    summary: dict[str, Any]
    flows: pd.DataFrame
    queue: pd.DataFrame

    def of(self, flow: str, link: str | None = None) -> list[Life]:
        """A flow's packets at one link, by default at the last of its path."""
        return [life for life in self.lives[link or self.experiment.flow(flow).path[-1]] if life.flow == flow]

    def flow(self, name: str) -> dict[str, Any]:
        """A flow's part of the summary."""
        found: dict[str, Any] = next(one for one in self.summary["flows"] if one["name"] == name)
        return found

    def link(self, name: str) -> dict[str, Any] | None:
        """A link's part; None if no flow crosses it."""
        links = self.summary["links"]
        if not links:
            return self.summary["bottleneck"] if len(self.experiment.links) == 1 else None
        return next((one for one in links if one["name"] == name), None)

    @cached_property
    def crossed(self) -> list[truth.Link]:
        """Links with packets."""
        return [link for link in self.experiment.links if self.lives[link.name]]


@cache
def analysed(experiment: Experiment) -> Case:
    """The case of an experiment."""
    lives = truth.lives(experiment)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place, "run")
        truth.write(experiment, lives, directory)
        summary: Any = analyze_run(directory)
        tables = [pd.read_parquet(directory / f"{name}.parquet") for name in ("flows", "queue")]
    return Case(experiment, lives, summary, *tables)


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


def by_interval(rows: pd.DataFrame, name: str) -> dict[int, int]:
    """What a column has in the intervals in which it is not 0."""
    numbers = (rows["time_s"] / rows["interval_s"]).round().astype(int)
    return {number: count for number, count in zip(numbers, rows[name], strict=True) if count}


def _counts(case: Case) -> None:
    """Packets offered are those delivered, those lost by each cause, and nothing else: of each flow, over its path."""
    for flow in case.experiment.flows:
        found = case.flow(flow.name)
        on_path = [life for link in flow.path for life in case.of(flow.name, link)]
        first = case.of(flow.name, flow.path[0])
        if not case.of(flow.name):
            continue
        assert found["drops"] == len(dropped(on_path, FULL, MANAGED))
        assert found["aqm_drops"] == len(dropped(on_path, MANAGED))
        assert found["loss_emulation_drops"] == len(dropped(on_path, LOST))
        assert found["departures"] == len(departed(case.of(flow.name)))
        assert found["arrivals"] == len(first) - len(dropped(first, LOST))
        copies = sum(life.copy for link in flow.path[1:] for life in case.of(flow.name, link))
        added = sum(
            len(case.of(flow.name, later)) - len(departed(case.of(flow.name, link)))
            for link, later in zip(flow.path, flow.path[1:], strict=False)
        )
        assert copies >= added >= 0
        offered = found["arrivals"] + len(dropped(first, LOST)) + added
        assert offered == found["departures"] + found["drops"] + found["loss_emulation_drops"]


def _link_counts(case: Case) -> None:
    """Losses of a link are those of all packets that came to it."""
    for link in case.crossed:
        found, lives = case.link(link.name), case.lives[link.name]
        assert found is not None
        lost, full, managed = (len(dropped(lives, cause)) for cause in (LOST, FULL, MANAGED))
        if not departed(lives):
            continue
        assert (found["drops"], found["aqm_drops"], found["loss_emulation_drops"]) == (full + managed, managed, lost)
        arrivals = len(lives) - lost
        assert found["loss_ratio"] == (pytest.approx((full + managed) / arrivals) if arrivals else None)
        assert found["total_loss_ratio"] == pytest.approx((full + managed + lost) / len(lives))


def _series(case: Case) -> None:
    """Each packet is in the interval in which it was offered, dropped or sent on; sums are the summary's."""
    width = float(case.flows["interval_s"].max()) if len(case.flows) else 0.1
    for link in case.crossed:
        for flow in case.experiment.flows:
            lives = case.of(flow.name, link.name) if link.name in flow.path else []
            rows = case.flows[(case.flows["link"] == link.name) & (case.flows["name"] == flow.name)]
            for name, times in {
                "arrivals": [life.offered for life in lives if life.cause != LOST],
                "departures": [life.started for life in departed(lives)],
                "drops": [life.dropped for life in dropped(lives, FULL, MANAGED)],
                "aqm_drops": [life.dropped for life in dropped(lives, MANAGED)],
                "loss_drops": [life.dropped for life in dropped(lives, LOST)],
            }.items():
                expected = pd.Series(times, dtype="int64").floordiv(round(width * NS)).value_counts().to_dict()
                shown = by_interval(rows, name)
                assert shown == expected, (link.name, flow.name, name)


def _queue_series(case: Case) -> None:
    """The same of the link's own series."""
    for link in case.crossed:
        rows, lives = case.queue[case.queue["link"] == link.name], case.lives[link.name]
        if not len(rows):
            continue
        width = float(rows["interval_s"].max())
        for name, times in {
            "departures": [life.started for life in departed(lives)],
            "drops": [life.dropped for life in dropped(lives, FULL, MANAGED)],
            "loss_drops": [life.dropped for life in dropped(lives, LOST)],
        }.items():
            expected = pd.Series(times, dtype="int64").floordiv(round(width * NS)).value_counts().to_dict()
            shown = by_interval(rows, name)
            assert shown == expected, (link.name, name)


def _life(case: Case, flow: truth.Flow) -> tuple[int, int] | None:
    """When a flow was at work at the last link of its path."""
    lives = case.of(flow.name)
    if not lives:
        return None
    planned = 0 if flow.duration is None else flow.start + flow.duration
    return min(life.offered for life in lives), max([planned, *(life.started or life.dropped or 0 for life in lives)])


def _goodput(case: Case) -> None:
    """A payload byte counts when it leaves the path first, over the time in which its flow was at work."""
    for flow in case.experiment.flows:
        span, found = _life(case, flow), case.flow(flow.name)
        out = departed(case.of(flow.name))
        if span is None or not out:
            continue
        distinct = len({life.sent.offset if flow.protocol == TCP else life.sent for life in out})
        assert found["bytes"] == distinct * flow.payload, flow.name
        if span[1] > span[0]:
            assert found["goodput_bps"] == pytest.approx(distinct * flow.payload * 8 * NS / (span[1] - span[0]))


def _times(case: Case) -> None:
    """A flow begins when its first packet is offered, dropped or not; a transfer ends with its last new byte."""
    for flow in case.experiment.flows:
        found, span = case.flow(flow.name), _life(case, flow)
        if span is None:
            continue
        first = min(life.offered for life in case.of(flow.name, flow.path[0]))
        assert found["start_s"] == pytest.approx(first / NS, abs=1e-9)
        assert found["end_s"] == pytest.approx(span[1] / NS, abs=1e-9)
        if flow.protocol != TCP:
            continue
        new: dict[int, int] = {}
        for life in sorted(departed(case.of(flow.name)), key=lambda life: life.started or 0):
            new.setdefault(life.sent.offset, life.started or 0)
        complete = len(new) * flow.payload == flow.size and any(life.sent.last for life in departed(case.of(flow.name)))
        expected = pytest.approx((max(new.values()) - first) / NS, abs=1e-9) if complete and new else None
        assert found["fct_s"] == expected, found["fct_reason"]


def _window(case: Case, link: truth.Link) -> tuple[int, int]:
    lives = case.lives[link.name]
    planned = [
        flow.start + flow.duration
        for flow in case.experiment.flows
        if flow.duration is not None and case.of(flow.name, link.name if link.name in flow.path else None)
        and link.name in flow.path
    ]  # fmt: skip
    ends = [life.finished or life.dropped or 0 for life in lives]
    return min(life.offered for life in lives), max([*ends, *planned])


def _utilization(case: Case) -> None:
    """What left of what the link could have carried, from the first packet to the end of the last, and of the plan."""
    for link in case.crossed:
        found, lives = case.link(link.name), departed(case.lives[link.name])
        if not lives or found is None:
            continue
        begin, end = _window(case, link)
        size = sum(life.length for life in lives) * 8
        if (could := link.bits(begin, end)) > 0:
            assert found["utilization"] == pytest.approx(size / could, rel=1e-6), link.name


def _standing_queue(case: Case) -> None:
    """Of each window of 0.1 s the least depth, whatever happens in it."""
    for link in case.crossed:
        found, lives = case.link(link.name), case.lives[link.name]
        if not departed(lives) or found is None:
            continue
        width = round(float(case.queue[case.queue["link"] == link.name]["interval_s"].max()) * NS)
        begin, end = _window(case, link)
        first = begin // width * width
        # The series end with the last departure, drop or plan.
        last = min(end // width + 1, len(case.queue[case.queue["link"] == link.name])) * width
        waiting = [
            (life.offered, life.dropped if life.cause == MANAGED else life.started, life.length)
            for life in lives
            if life.cause in (None, MANAGED)
        ]
        gone = sorted(until for since, until, _ in waiting if until is not None and until > since)

        def depth(time: int, waiting: list[Any] = waiting) -> int:
            """Of packets that came before and have not left."""
            return sum(size for since, until, size in waiting if since < time <= until)

        def left(time: int, waiting: list[Any] = waiting) -> int:
            """Of packets that wait just after something left."""
            return sum(size for since, until, size in waiting if since <= time < until)

        # Windows are of whole intervals, of which a slow link has few.
        total, window_ns = 0.0, max(1, round(NS / 10 / width)) * width
        for window in range(first, last, window_ns):
            until = min(window + window_ns, last)
            least = min([depth(window), *(left(time) for time in gone if window <= time < until)])
            total += least * (until - window)
        assert found["standing_queue_bytes"] == pytest.approx(total / (last - first), rel=1e-9, abs=1e-6), link.name


def _delay(case: Case) -> None:
    """The queue's delay and depth are those of the packets that left."""
    for link in case.crossed:
        found, lives = case.link(link.name), departed(case.lives[link.name])
        if not lives or found is None:
            continue
        waits = [(life.started or 0) - life.offered for life in lives]
        assert found["queue_delay_s"]["mean"] == pytest.approx(np.mean(waits) / NS, abs=1e-9)
        assert found["queue_delay_s"]["max"] == pytest.approx(max(waits) / NS, abs=1e-9)
        assert found["queue_bytes"]["mean"] == pytest.approx(np.mean([life.left for life in lives]), abs=1e-6)


test_packets_are_conserved = law(_counts)
test_losses_of_links = law(_link_counts)
test_intervals_of_flows = law(_series)
test_intervals_of_queues = law(_queue_series)
test_goodput = law(_goodput)
test_starts_ends_and_completions = law(_times)
test_utilization = law(_utilization)
test_standing_queues = law(_standing_queue)
test_delays_and_depths = law(_delay)


def figures(case: Case) -> dict[str, Any]:
    """All that is said of flows and links, by name."""
    links = case.summary["links"] or [case.summary["bottleneck"]]
    return {
        "flows": {flow["name"]: flow for flow in case.summary["flows"]},
        "links": {place: {**link, "flows": None} for place, link in enumerate(links)},
    }


def alike(one: Any, other: Any, place: str = "") -> None:
    """Equal but for the last digits of floats."""
    assert type(one) is type(other), place
    if isinstance(one, dict):
        assert one.keys() == other.keys(), place
        for key in one:
            alike(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), place
        for number, pair in enumerate(zip(one, other, strict=True)):
            alike(*pair, f"{place}[{number}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9), place
    else:
        assert one == other, place


def later(experiment: Experiment) -> Experiment:
    """The same on a switch whose clock is elsewhere."""
    return replace(experiment, origin=(experiment.origin + 77 * NS + 1) % (1 << 48))


def turned(experiment: Experiment) -> Experiment:
    """The same with the flows in another order."""
    return replace(experiment, flows=experiment.flows[::-1])


@pytest.mark.parametrize("change", [later, turned])
def test_figures_do_not_depend_on(change: Callable[[Experiment], Experiment]) -> None:
    @over_experiments
    def test(experiment: Experiment) -> None:
        alike(figures(analysed(experiment)), figures(analysed(change(experiment))))

    test()
