# SPDX-License-Identifier: Apache-2.0
"""Laws of counts and times in summary and series: each figure against a slow count of packets' lives.

With loss before, at and behind queues, copies, reordering, outages, flows that start late, pause or send nothing, one
to three links.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from packet_cases import Case, by_interval, departed, dropped, law
from packet_lives import AFTER_WAITING, BY_LINK, FULL, LOST, MANAGED, NS, POLICED, TCP, THINNED

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]


def _counts(case: Case) -> None:
    """Packets offered are those delivered, those lost by each cause, and nothing else: of each flow, over its path."""
    for flow in case.experiment.flows:
        found = case.flow(flow.name)
        on_path = [life for link in flow.path for life in case.of(flow.name, link)]
        first = case.of(flow.name, flow.path[0])
        if not case.of(flow.name):
            continue
        assert found["drops"] == len(dropped(on_path, *BY_LINK))
        assert found["aqm_drops"] == len(dropped(on_path, MANAGED))
        assert found["policer_drops"] == len(dropped(on_path, POLICED))
        assert found["ack_filter_drops"] == len(dropped(on_path, THINNED))
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
        lost, full, managed, policed, thinned = (
            len(dropped(lives, cause)) for cause in (LOST, FULL, MANAGED, POLICED, THINNED)
        )
        if not departed(lives):
            continue
        drops = full + managed + policed + thinned
        assert (found["drops"], found["aqm_drops"], found["policer_drops"]) == (drops, managed, policed)
        assert found["ack_filter_drops"] == thinned
        assert found["loss_emulation_drops"] == lost
        arrivals = len(lives) - lost
        assert found["loss_ratio"] == (pytest.approx(drops / arrivals) if arrivals else None)
        assert found["total_loss_ratio"] == pytest.approx((drops + lost) / len(lives))


def _series(case: Case) -> None:
    """Each packet is in the interval in which it was offered, dropped or sent on; sums are the summary's."""
    for link in case.crossed:
        for flow in case.experiment.flows:
            lives = case.of(flow.name, link.name) if link.name in flow.path else []
            rows = case.flows[(case.flows["link"] == link.name) & (case.flows["name"] == flow.name)]
            for name, times in {
                "arrivals": [life.offered for life in lives if life.cause != LOST],
                "departures": [life.started for life in departed(lives)],
                "drops": [life.dropped for life in dropped(lives, *BY_LINK)],
                "aqm_drops": [life.dropped for life in dropped(lives, MANAGED)],
                "policer_drops": [life.dropped for life in dropped(lives, POLICED)],
                "ack_filter_drops": [life.dropped for life in dropped(lives, THINNED)],
                "loss_drops": [life.dropped for life in dropped(lives, LOST)],
            }.items():
                expected = pd.Series(times, dtype="int64").floordiv(case.width_ns).value_counts().to_dict()
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
            "drops": [life.dropped for life in dropped(lives, *BY_LINK)],
            "policer_drops": [life.dropped for life in dropped(lives, POLICED)],
            "ack_filter_drops": [life.dropped for life in dropped(lives, THINNED)],
            "loss_drops": [life.dropped for life in dropped(lives, LOST)],
        }.items():
            expected = pd.Series(times, dtype="int64").floordiv(round(width * NS)).value_counts().to_dict()
            shown = by_interval(rows, name)
            assert shown == expected, (link.name, name)


def _recorded(case: Case) -> None:
    """Each drop is there once, with its time, link, flow, cause and wait."""
    numbers = {flow.name: number for number, flow in enumerate(case.experiment.flows)}
    causes = {
        FULL: "full queue", MANAGED: "queue management", LOST: "loss emulation", POLICED: "policer",
        THINNED: "ACK filter",
    }  # fmt: skip
    expected = sorted(
        (life.dropped, link, numbers[life.flow], life.flow, causes[cause], life.length, life.dropped - life.offered)
        for link, lives in case.lives.items()
        for life in lives
        if (cause := life.cause) is not None and life.dropped is not None
    )
    found = case.drops
    times, waits = ((found[name] * NS).round().astype(int) for name in ("time_s", "waited_s"))
    which = (found[name] for name in ("link", "flow", "name", "cause", "packet_bytes"))
    rows = zip(times, *which, waits, strict=True)
    assert sorted(rows) == expected and times.is_monotonic_increasing


def _goodput(case: Case) -> None:
    """A payload byte counts when it leaves the path first, over the time in which its flow was at work."""
    for flow in case.experiment.flows:
        span, found = case.on_path(flow), case.flow(flow.name)
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
        found, span = case.flow(flow.name), case.life(flow)
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


def _utilization(case: Case) -> None:
    """What left of what the link could have carried, from the first packet to the end of the last, and of the plan."""
    for link in case.crossed:
        found, lives = case.link(link.name), departed(case.lives[link.name])
        if not lives or found is None:
            continue
        begin, end = case.window(link)
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
        begin, end = case.window(link)
        first = begin // width * width
        # The series end with the last departure, drop or plan.
        last = min(end // width + 1, len(case.queue[case.queue["link"] == link.name])) * width
        waiting = [
            (life.offered, life.dropped if life.cause in AFTER_WAITING else life.started, life.length)
            for life in lives
            if life.cause in (None, *AFTER_WAITING)
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
test_recorded_drops = law(_recorded)
test_goodput = law(_goodput)
test_starts_ends_and_completions = law(_times)
test_utilization = law(_utilization)
test_standing_queues = law(_standing_queue)
test_delays_and_depths = law(_delay)
