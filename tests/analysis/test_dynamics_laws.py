# SPDX-License-Identifier: Apache-2.0
"""Laws of how flows settle, swing and move together: each from packets' lives, sum by sum."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from statistics import fmean

import pytest
from packet_cases import CASES, Case, analysed, delivered, departed, hit_in_episodes, together
from packet_lives import NS, UDP, Experiment, Flow, Link, Sent

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

# A decision that a figure depends on is too close for sums in another order.
CLOSE = 1e-9
NEVER_S = math.inf


@cache
def drawn(number: int) -> Case:
    """Two or three UDP flows of several seconds, each at rates that change now and then, or all together in bursts, on
    one or two links that are too narrow or not."""
    chance = random.Random(number)
    names = ["a", "b"][: chance.randint(1, 2)]
    period, bursts = chance.choice([0.4, 0.7, 1.3]), chance.random() < 0.5
    flows, sent = [], list[Sent]()
    for place in range(chance.randint(2, 3)):
        path = (names[0],) if chance.random() < 0.3 else tuple(names)
        start, duration = round(chance.choice([0.0, chance.random()]) * NS), chance.randint(4, 14) * NS
        flow = Flow(f"f{place}", path, UDP, start, duration, chance.choice([500, 1_000]))
        flows.append(flow)
        time = start + place * 1_003
        change, rate = start, 20
        while time < start + duration:
            if time >= change:
                # Mostly fair.
                rate, change = chance.choice([20, 20, 21, 23, 40, 5]), time + chance.randint(1, 8) * NS
            phase = time / NS % period / period
            if not bursts or phase < 0.5:
                here = len(path)
                lost = tuple(chance.random() < 0.02 for _ in path)
                sent.append(Sent(flow.name, time, len(sent) * 1_500, False, lost, (False,) * here, (0,) * here))
            time += round(NS / rate / (2 if bursts else 1) * (1 + 0.2 * chance.random()))
    sent.sort(key=lambda one: one.time)
    links = tuple(Link(name, ((0, chance.choice([350_000, 600_000, 3_000_000])),), 30_000) for name in names)
    return analysed(Experiment(links, tuple(flows), tuple(sent), 0, 0, 0, 123_456_789))


def over_links(check: Callable[[Case, Link, list[Flow]], str]) -> Callable[[], None]:
    """A test of a law at each link of some cases. What it says of each is counted: there are several answers."""

    def test() -> None:
        answers = Counter[str]()
        for number in range(CASES):
            case = drawn(number)
            for link in case.crossed:
                flows = [flow for flow in case.experiment.flows if link.name in flow.path]
                answers[check(case, link, flows)] += 1
        assert len(answers) > 1, answers

    test.__doc__ = check.__doc__
    return test


def _fairness(case: Case, link: Link, flows: list[Flow]) -> str:
    """Jain's index of goodputs over the time in which all flows were running, and over its second half; parts of all
    goodput in that time."""
    section, common = case.link(link.name), together(case, flows, link.name)
    assert section is not None
    found = section["fairness"]
    if len(flows) < 2 or common is None:
        assert found["jain_index"] is found["jain_index_steady"] is None
        return "alone"
    for window in (found["window_s"], section["share_window_s"]):
        assert window == pytest.approx([end / NS for end in common], abs=2e-9)
    had = [delivered(case, flow, link.name, common) for flow in flows]
    assert [one["share"] for one in section["flows"]] == pytest.approx([size / sum(had) for size in had])
    middle = common[0] + (common[1] - common[0]) // case.width_ns // 2 * case.width_ns
    indices = []
    for begin in (common[0], middle):
        rates = [delivered(case, flow, link.name, (begin, common[1])) for flow in flows]
        indices.append(sum(rates) ** 2 / len(rates) / sum(rate**2 for rate in rates))
    assert [found["jain_index"], found["jain_index_steady"]] == pytest.approx(indices)
    return "fairer" if indices[1] > indices[0] else "less fair"


def settled_s(rates: list[list[float]], tolerance: float) -> float:
    """From when on each rate, over a second or since the begin, is within a part of the mean for fifty intervals."""
    close = []
    for end in range(1, len(rates[0]) + 1):
        smooth = [fmean(one[max(0, end - 10) : end]) for one in rates]
        fair = fmean(smooth)
        close.append(fair > 0 and all(abs(one - fair) <= tolerance * fair for one in smooth))
    return next((at / 10 for at in range(len(close) - 49) if all(close[at : at + 50])), NEVER_S)


def _convergence(case: Case, link: Link, flows: list[Flow]) -> str:
    """Within 25 % of the fair share for five seconds, all flows at once; if not, the reason says which it is."""
    section, common = case.link(link.name), together(case, flows, link.name)
    assert section is not None
    found = section["fairness"]
    assert found["interval_s"] == 0.1 == case.width_ns / NS
    if len(flows) < 2 or common is None:
        assert found["convergence_s"] is None and found["convergence_reason"] == found["reason"] is not None
        return "alone"
    width = case.width_ns
    rates = [
        [float(delivered(case, flow, link.name, (at, at + width))) for at in range(*common, width)] for flow in flows
    ]
    # A flow may be off by exactly so much.
    early, late = (settled_s(rates, 0.25 + sign * CLOSE) for sign in (1, -1))
    shown = NEVER_S if found["convergence_s"] is None else found["convergence_s"]
    assert early - CLOSE <= shown <= late + CLOSE, (early, shown, late)
    together_s = (common[1] - common[0]) / NS
    if shown < NEVER_S:
        assert found["convergence_reason"] is None
        return "settled" if shown else "at once"
    assert found["convergence_reason"].startswith("not assessable" if together_s < 5 else "never settled")
    return "too short" if together_s < 5 else "never"


def depths(case: Case, link: Link, begin: int, end: int) -> list[float]:
    """Mean depth behind departures in each interval of the link's series, from that of one moment to that of another;
    on a line between its neighbours where nothing left."""
    rows = case.queue[case.queue["link"] == link.name]
    width = round(float(rows["interval_s"].max()) * NS)
    known: dict[int, list[int]] = {}
    for life in departed(case.lives[link.name]):
        known.setdefault((life.started or 0) // width, []).append(life.left)
    first, last = begin // width, min(end // width + 1, len(rows))
    means = {at: fmean(known[at]) for at in range(first, last) if at in known}
    found = []
    for at in range(first, last):
        before, after = (max((one for one in means if one <= at), default=None),
                         min((one for one in means if one >= at), default=None))  # fmt: skip
        if before is None or after is None or before == after:
            found.append(means[before if before is not None else after or 0])
        else:
            part = (at - before) / (after - before)
            found.append(means[before] * (1 - part) + means[after] * part)
    return found


def swing(values: list[float]) -> tuple[float, float, float] | str | None:
    """Period in intervals, half of the mean peak to trough, and autocorrelation at it; None where there is none, and a
    word where that is decided by the last digits."""
    count, middle = len(values), fmean(values)
    off = [value - middle for value in values]
    power = sum(one * one for one in off)
    if count < 8 or power <= CLOSE:
        return None
    near = [
        sum(one * other for one, other in zip(off, off[lag:], strict=False)) / power * count / (count - lag)
        for lag in range(count // 2)
    ]
    if any(abs(one - other) < CLOSE for one, other in pairwise(near)):
        return "level"
    first = next((lag for lag, one in enumerate(near) if one < 0), None)
    if first is None:
        return None
    tops = [lag for lag in range(max(1, first), len(near) - 1) if near[lag - 1] <= near[lag] > near[lag + 1]]
    highest = max((near[lag] for lag in tops), default=0.0)
    if any(abs(near[lag] - edge) < CLOSE for lag in tops for edge in (0.2, 0.9 * highest)):
        return "level"
    if highest < 0.2:
        return None
    best = next(lag for lag in tops if near[lag] >= 0.9 * highest)
    # The top of the parabola through three points.
    left, top, right = near[best - 1 : best + 2]
    period = best + (left - right) / (left - 2 * top + right) / 2
    cycles = [values[at : at + best] for at in range(0, count // best * best, best)]
    return period, fmean(max(one) - min(one) for one in cycles) / 2, min(1.0, top)


def _oscillation(case: Case, link: Link, flows: list[Flow]) -> str:
    """Of the mean depth over the second half of the time in which all flows were running."""
    section, common = case.link(link.name), together(case, flows, link.name)
    assert section is not None
    found = section["dynamics"]
    names = ("oscillation_period_s", "oscillation_amplitude_bytes", "oscillation_correlation")
    shown = [found[name] for name in names]
    if common is None:
        assert shown == [None] * 3 and found["oscillation_reason"]
        return "never together"
    right = swing(depths(case, link, (common[0] + common[1]) // 2, common[1]))
    if isinstance(right, str):
        return right
    if right is None:
        assert shown == [None] * 3 and found["oscillation_reason"]
        return "none"
    width_s = float(case.queue[case.queue["link"] == link.name]["interval_s"].max())
    assert shown == pytest.approx([right[0] * width_s, *right[1:]], rel=1e-6)
    assert found["oscillation_reason"] is None
    return "swings"


def _loss_synchronization(case: Case, link: Link, flows: list[Flow]) -> str:
    """The part of the flows that loses in an episode, on average over several."""
    section, common = case.link(link.name), together(case, flows, link.name)
    assert section is not None
    found = section["dynamics"]["loss_synchronization"]
    hit = hit_in_episodes(case, link.name, common) if len(flows) > 1 and common is not None else []
    if not hit:
        assert found is None
        return "none"
    assert found == pytest.approx(fmean(hit) / len(flows))
    return "alike" if len(set(hit)) == 1 else "now these, now those"


def _rate_synchronization(case: Case, link: Link, flows: list[Flow]) -> str:
    """Pearson's correlation of the changes of the rates of each pair of flows, and the mean of that."""
    section, common = case.link(link.name), together(case, flows, link.name)
    assert section is not None
    found, width = section["dynamics"]["rate_synchronization"], case.width_ns
    if len(flows) < 2 or common is None or common[1] - common[0] < 3 * width:
        assert found is None
        return "alone"
    changes = []
    for flow in flows:
        left = departed(case.of(flow.name, link.name))
        rates = [
            sum(life.length for life in left if at <= (life.started or 0) < at + width)
            for at in range(*common, width)
        ]  # fmt: skip
        changes.append([after - before for before, after in pairwise(rates)])
    changes = [one for one in changes if len(set(one)) > 1]
    pairs = [(one, other) for at, one in enumerate(changes) for other in changes[at + 1 :]]
    if not pairs:
        assert found is None
        return "steady"
    assert found == pytest.approx(fmean(correlation(*pair) for pair in pairs), abs=1e-9)
    return "together" if found > 0 else "in turn"


def correlation(one: list[int], other: list[int]) -> float:
    """Pearson's."""
    means = fmean(one), fmean(other)
    shared = sum((a - means[0]) * (b - means[1]) for a, b in zip(one, other, strict=True))
    spread = [math.sqrt(sum((a - mean) ** 2 for a in ones)) for ones, mean in zip((one, other), means, strict=True)]
    return shared / (spread[0] * spread[1])


test_fairness_of_all_and_of_the_second_half = over_links(_fairness)
test_settling = over_links(_convergence)
test_losses_in_several_episodes = over_links(_loss_synchronization)
test_oscillation = over_links(_oscillation)
test_flows_that_move_together = over_links(_rate_synchronization)
