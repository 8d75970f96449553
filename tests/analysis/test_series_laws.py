# SPDX-License-Identifier: Apache-2.0
"""Laws of the series and distributions of links and flows, and of rates that vary; packets and bytes are conserved over
every window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import pytest
from packet_cases import Case, departed, first_departures, law, waits_until
from packet_lives import AFTER_WAITING, LOST, NS, TCP, Life, Link

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]


def values(rows: pd.DataFrame, name: str) -> dict[int, float]:
    """What a column has in each interval; nothing where it is null."""
    numbers = (rows["time_s"] / rows["interval_s"]).round().astype(int)
    return {at: value for at, value in zip(numbers, rows[name], strict=True) if not pd.isna(value)}


def grouped(
    lives: Iterable[Life], width: int, of: Callable[[Life], float], join: Callable[[list[float]], float]
) -> dict[int, Any]:
    """Of the packets that left in each interval, what `join` makes of a quantity of theirs."""
    found: dict[int, list[float]] = {}
    for life in lives:
        found.setdefault((life.started or 0) // width, []).append(of(life))
    return {at: pytest.approx(join(ones), rel=1e-9, abs=1e-9) for at, ones in found.items()}


def mean(ones: list[float]) -> float:
    """Of numbers, of which there is one at least."""
    return sum(ones) / len(ones)


def once(_: Life) -> float:
    """To count packets."""
    return 1


def wait_s(life: Life) -> float:
    """How long a packet waited, in seconds."""
    return ((life.started or 0) - life.offered) / NS


def rates(lives: Iterable[Life], width: int) -> dict[int, Any]:
    """Bit/s that left in each interval."""
    return grouped(lives, width, lambda life: life.length * 8 * NS / width, sum)


def waiting(lives: list[Life], time: int) -> list[Life]:
    """Packets in the queue just before a time."""
    return [life for life in lives if life.cause in (None, *AFTER_WAITING) and life.offered < time <= waits_until(life)]


def nonzero(found: dict[int, float]) -> dict[int, float]:
    """Without intervals in which nothing happened."""
    return {at: value for at, value in found.items() if value}


def _conserved(case: Case) -> None:
    """From the start to the end of any interval: offered = left + dropped by each cause + waiting, of each flow and in
    sum, in packets; and bytes that left are those of the packets. Over any window it is the difference of two ends."""
    for link in case.crossed:
        sums: dict[int, list[float]] = {}
        for flow in (one for one in case.experiment.flows if link.name in one.path):
            lives = case.of(flow.name, link.name)
            rows = case.flows[(case.flows["link"] == link.name) & (case.flows["name"] == flow.name)]
            if not len(rows):
                assert not lives
                continue
            width = case.width_ns
            balance, size = 0, 0.0
            for row in rows.sort_values("time_s").to_dict("records"):
                at = round(row["time_s"] * NS / width)
                balance += row["arrivals"] - row["departures"] - row["drops"]
                size += row["throughput_bps"] * row["interval_s"] / 8
                end = (at + 1) * width
                assert balance == len(waiting(lives, end)), (link.name, flow.name, at)
                gone = sum(life.length for life in departed(lives) if (life.started or 0) < end)
                assert size == pytest.approx(gone), (link.name, flow.name, at)
                offered = sum(life.offered < end for life in lives)
                lost = sum(life.cause == LOST and life.offered < end for life in lives)
                counted = rows[rows["time_s"] <= row["time_s"]][["departures", "drops", "loss_drops"]].sum()
                assert offered == counted.sum() + balance and lost == counted["loss_drops"]
                one = sums.setdefault(at, [0.0, 0.0])
                one[0], one[1] = one[0] + row["departures"], one[1] + row["drops"]
        rows = case.queue[case.queue["link"] == link.name]
        by_flow = pd.Series((rows["time_s"] * NS / case.width_ns + 1e-9).astype(int))
        if rows["interval_s"].max() * NS <= case.width_ns and not case.width_ns % round(rows["interval_s"].max() * NS):
            of_link = rows.groupby(by_flow)[["departures", "drops"]].sum()
            shown = {at: list(ones) for at, ones in of_link.iterrows() if ones.any()}
            assert shown == {at: ones for at, ones in sums.items() if any(ones)}, link.name


def _flow_series(case: Case) -> None:
    """Rates, delays, marks and retransmissions of each interval are those of the packets that left in it."""
    width = case.width_ns
    for link in case.crossed:
        for flow in case.experiment.flows:
            rows = case.flows[(case.flows["link"] == link.name) & (case.flows["name"] == flow.name)]
            out = departed(case.of(flow.name, link.name)) if link.name in flow.path else []
            assert nonzero(values(rows, "throughput_bps")) == rates(out, width)
            assert values(rows, "queue_delay_mean_s") == grouped(out, width, wait_s, mean)
            assert values(rows, "queue_delay_max_s") == grouped(out, width, wait_s, max)
            marked = [life for life in out if life.marked]
            assert nonzero(values(rows, "ce_marks")) == grouped(marked, width, once, sum)
            ratios = rows[rows["arrivals"] > 0]
            assert list(ratios["loss_ratio"]) == pytest.approx(list(ratios["drops"] / ratios["arrivals"]))
            assert rows[rows["arrivals"] == 0]["loss_ratio"].isna().all()
            if flow.protocol != TCP:
                continue
            new = pd.Series(list(first_departures(flow, out).values()), dtype="int64") // width
            bits = {
                at: pytest.approx(count * flow.payload * 8 * NS / width) for at, count in new.value_counts().items()
            }
            assert nonzero(values(rows, "goodput_bps")) == bits
            highest, again = 0, list[Life]()
            for life in sorted(out, key=lambda life: life.started or 0):
                again += [life] * (life.sent.offset < highest)
                highest = max(highest, life.sent.offset + flow.payload)
            assert nonzero(values(rows, "retransmitted_packets")) == grouped(again, width, once, sum)
            assert nonzero(values(rows, "data_packets")) == grouped(out, width, once, sum)


def _queue_series(case: Case) -> None:
    """Depth, delay, rate and marks of a link in each interval."""
    for link in case.crossed:
        rows = case.queue[case.queue["link"] == link.name]
        if not len(rows):
            continue
        width, out = round(float(rows["interval_s"].max()) * NS), departed(case.lives[link.name])
        assert nonzero(values(rows, "throughput_bps")) == rates(out, width)
        assert values(rows, "delay_mean_s") == grouped(out, width, wait_s, mean)
        assert values(rows, "delay_max_s") == grouped(out, width, wait_s, max)
        assert values(rows, "delay_min_s") == grouped(out, width, wait_s, min)
        assert values(rows, "depth_mean_bytes") == grouped(out, width, lambda life: life.left, mean)
        marked = [life for life in out if life.marked]
        assert nonzero(values(rows, "ce_marks")) == grouped(marked, width, once, sum)
        assert rows["missing_reports"].sum() == 0


def ranked(ones: list[int], percent: float) -> int:
    """The smallest that so many percent do not exceed."""
    return sorted(ones)[max(0, math.ceil(len(ones) * percent / 100) - 1)]


def _percentiles(case: Case) -> None:
    """Nearest ranks of delays and depths, at most a bin above; the greatest depth is that behind an arrival. The
    distributions have the same."""
    for link in case.crossed:
        found, out = case.link(link.name), departed(case.lives[link.name])
        if found is None or not out:
            continue
        waits = [(life.started or 0) - life.offered for life in out]
        left = [life.left for life in out]
        for name, ones, unit in (("queue_delay_s", waits, NS), ("queue_bytes", left, 1)):
            for percent in (50, 99):
                value = found[name][f"p{percent}"] * unit
                assert ranked(ones, percent) <= value + 1e-6 <= ranked(ones, percent) * 1.00013 + 1e-5, name
            rows = case.distributions
            rows = rows[(rows["link"] == link.name) & (rows["quantity"] == name)]
            for value, fraction in zip(rows["value"] * unit, rows["fraction"], strict=True):
                # The value is the upper end of a bin.
                least, most = (sum(one <= limit + 1e-6 for one in ones) for limit in (value / 1.00013, value))
                assert least <= round(fraction * len(ones)) <= most
        after = [life.found + life.length * ((life.started or 0) > life.offered) for life in out]
        assert found["queue_bytes"]["max"] == max(after)


def _rates(case: Case) -> None:
    """What a link offered in the run: mean, least and most rate, and the time without any; the rate at which it was
    never idle is its own."""
    for link in case.crossed:
        found, out = case.link(link.name), departed(case.lives[link.name])
        if found is None or not out:
            continue
        begin, end = case.window(link)
        assert found["run_window_s"] == pytest.approx([begin / NS, end / NS], abs=2e-9)
        pieces = in_force(link, begin, end)
        assert found["rate_bps"] == link.rate_bps
        assert found["rate_mean_bps"] == pytest.approx(link.bits(begin, end) * NS / (end - begin), rel=1e-6)
        assert found["rate_least_bps"] == min(rate for rate, _ in pieces)
        assert found["rate_most_bps"] == max(rate for rate, _ in pieces)
        assert found["down_s"] == pytest.approx(sum(time for rate, time in pieces if not rate) / NS, abs=1e-9)
        waited = any((life.started or 0) > life.offered for life in out)
        known = waited and not link.varies
        assert found["saturated_rate_bps"] == (pytest.approx(link.rate_bps, rel=1e-5) if known else None)
        assert (found["saturated_rate_reason"] is None) == known
        if found["standing_queue_bytes"] is not None:
            bdp = link.rate_bps * 0.02 / 8
            assert found["standing_queue_bdp"] == pytest.approx(found["standing_queue_bytes"] / bdp)


def in_force(link: Link, begin: int, end: int) -> list[tuple[int, int]]:
    """Rates within a time, and for how long each holds."""
    ends = [since for since, _ in link.steps[1:]] + [1 << 62]
    held = [(rate, min(end, until) - max(begin, since)) for (since, rate), until in zip(link.steps, ends, strict=True)]
    return [(rate, time) for rate, time in held if time > 0]


test_conservation_over_every_window = law(_conserved)
test_series_of_flows = law(_flow_series)
test_series_of_links = law(_queue_series)
test_percentiles_and_distributions = law(_percentiles)
test_rates_of_links = law(_rates)
