# SPDX-License-Identifier: Apache-2.0
"""Laws of what flows have of links: throughput, shares, groups, fairness, marks, retransmissions, limiting links."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from packet_cases import Case, Window, copies, delivered, departed, dropped, hit_in_episodes, law, together, waits_until
from packet_lives import AFTER_WAITING, BY_LINK, LOST, NS, TCP

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]


def whole(case: Case) -> Window:
    """The run at all links."""
    windows = [case.window(link) for link in case.crossed]
    return min(begin for begin, _ in windows), max(end for _, end in windows)


def parts(amounts: Sequence[float]) -> list[object]:
    """Each one's part of the sum."""
    return [pytest.approx(amount / sum(amounts), abs=1e-9) if sum(amounts) else None for amount in amounts]


def _throughput(case: Case) -> None:
    """All bytes that left the path, over the flow's life; marks of each link that it crosses."""
    for flow in case.experiment.flows:
        found, span, out = case.flow(flow.name), case.on_path(flow), departed(case.of(flow.name))
        if span is None or span[1] == span[0]:
            continue
        expected = sum(life.length for life in out) * 8 * NS / (span[1] - span[0])
        assert found["throughput_bps"] == pytest.approx(expected), flow.name
        if all(case.of(flow.name, link) for link in flow.path):
            marked = [life.marked for link in flow.path for life in departed(case.of(flow.name, link))]
            assert found["ce_marks"] == sum(marked), flow.name


def _link_marks(case: Case) -> None:
    """Marks of a link, and what each flow had of it."""
    for link in case.crossed:
        found, left = case.link(link.name), departed(case.lives[link.name])
        if found is None or not left:
            continue
        assert found["ce_marks"] == sum(life.marked for life in left)
        for one in found["flows"]:
            flow = case.experiment.flow(one["name"])
            mine, span = departed(case.of(flow.name, link.name)), case.life(flow, link.name)
            if not mine or span is None:
                continue
            assert one["ce_marks"] == sum(life.marked for life in mine)
            waits = [(life.started or 0) - life.offered for life in mine]
            assert one["queue_delay_mean_s"] == pytest.approx(sum(waits) / len(waits) / NS, abs=1e-9)
            if span[1] > span[0]:
                expected = sum(life.length for life in mine) * 8 * NS / (span[1] - span[0])
                assert one["throughput_bps"] == pytest.approx(expected)


def _retransmissions(case: Case) -> None:
    """Of TCP's packets that left the first link, those with bytes below the highest seen before."""
    for flow in case.experiment.flows:
        found, highest, again = case.flow(flow.name), 0, 0
        out = departed(case.of(flow.name, flow.path[0]))
        for life in sorted(out, key=lambda life: life.started or 0):
            again += life.sent.offset < highest
            highest = max(highest, life.sent.offset + flow.payload)
        expected = pytest.approx(again / len(out)) if out and flow.protocol == TCP else None
        assert found["retransmit_ratio"] == expected, flow.name


def _loss(case: Case) -> None:
    """Of a flow, and of a group, what queues dropped of what came to them and of the copies made on the way."""
    offers: dict[str, list[int]] = {}
    for flow in case.experiment.flows:
        if not all(case.of(flow.name, link) for link in flow.path):
            return
        on_path = [case.of(flow.name, link) for link in flow.path]
        drops = sum(len(dropped(lives, *BY_LINK)) for lives in on_path)
        offered = len(on_path[0]) - len(dropped(on_path[0], LOST))
        for before, lives in pairwise(on_path):
            offered += max(0, len(lives) - len(departed(before)))
        expected = pytest.approx(drops / offered) if offered else None
        assert case.flow(flow.name)["loss_ratio"] == expected, flow.name
        sums = offers.setdefault(flow.group, [0, 0])
        sums[0], sums[1] = sums[0] + drops, sums[1] + offered
    for group in case.summary["groups"]:
        drops, offered = offers[group["name"]]
        assert group["loss_ratio"] == (pytest.approx(drops / offered) if offered else None)


def _shares(case: Case) -> None:
    """Parts of all goodput: of the time in which all flows were running, and of the run; sums are 1."""
    flows = list(case.experiment.flows)
    ends = {case.experiment.flow(flow.name).path[-1] for flow in flows}
    if not all(departed(case.lives[end]) for end in ends):
        return
    run = whole(case)
    assert case.summary["run_window_s"] == pytest.approx([time / NS for time in run], abs=2e-9)
    of_run = parts([delivered(case, flow) for flow in flows])
    assert [case.flow(flow.name)["share_of_run"] for flow in flows] == of_run
    common = together(case, flows) if len(flows) > 1 else None
    if common is None:
        assert case.summary["share_window_s"] == case.summary["run_window_s"]
    else:
        assert case.summary["share_window_s"] == pytest.approx([time / NS for time in common], abs=2e-9)
        if any(copies(case, link, flows) for link in case.crossed):
            return
    had = [delivered(case, flow, window=common) if common else delivered(case, flow) for flow in flows]
    assert [case.flow(flow.name)["share"] for flow in flows] == parts(had)
    begin, end = common or run
    for group in case.summary["groups"]:
        sums = [size for flow, size in zip(flows, had, strict=True) if flow.group == group["name"]]
        assert group["flows"] == len(sums)
        assert group["goodput_bps"] == pytest.approx(sum(sums) * 8 * NS / (end - begin))
        assert group["share"] == (pytest.approx(sum(sums) / sum(had)) if sum(had) else None)


def _fairness(case: Case) -> None:
    """Jain's index at a link, of all of the time in which its flows were running and of the second half."""
    for link in case.crossed:
        flows = [flow for flow in case.experiment.flows if link.name in flow.path]
        found, common = case.link(link.name), together(case, flows, link.name)
        if found is None or not departed(case.lives[link.name]) or copies(case, link, flows):
            continue
        fair = found["fairness"]
        shared = common if common is not None and len(flows) > 1 else case.window(link)
        assert found["share_window_s"] == pytest.approx([time / NS for time in shared], abs=2e-9)
        if len(flows) < 2 or common is None:
            assert fair["jain_index"] is fair["window_s"] is None and fair["reason"]
            continue
        assert fair["window_s"] == pytest.approx([time / NS for time in common], abs=2e-9)
        bins = (common[1] - common[0]) // case.width_ns
        middle = common[0] + bins // 2 * case.width_ns
        for name, window in (("jain_index", common), ("jain_index_steady", (middle, common[1]))):
            rates = [delivered(case, flow, link.name, window) for flow in flows]
            squares = len(rates) * sum(rate**2 for rate in rates)
            assert fair[name] == (pytest.approx(sum(rates) ** 2 / squares) if squares else None), (link.name, name)


def _synchronization(case: Case) -> None:
    """Of the flows at a link, the part that loses in an episode: intervals with drops that follow one another."""
    for link in case.crossed:
        flows = [flow for flow in case.experiment.flows if link.name in flow.path]
        found, common = case.link(link.name), together(case, flows, link.name)
        if found is None or not departed(case.lives[link.name]) or len(flows) < 2 or common is None:
            continue
        hit = hit_in_episodes(case, link.name, common)
        expected = sum(hit) / len(hit) / len(flows) if hit else None
        assert found["dynamics"]["loss_synchronization"] == (expected and pytest.approx(expected)), link.name


def _limits(case: Case) -> None:
    """Of the intervals of a flow's life, those in which its packets waited longest at each link of its path."""
    width = case.width_ns
    for flow in case.experiment.flows:
        on_path = {link.name: case.of(flow.name, link.name) for link in case.experiment.links if link.name in flow.path}
        if len(on_path) < 2 or not all(departed(case.lives[name]) for name in on_path):
            continue
        spans = [span for name in on_path if (span := case.life(flow, name)) is not None]
        if not spans:
            continue
        begin, end = min(span[0] for span in spans) // width, max(span[1] for span in spans) // width
        counts = dict.fromkeys(on_path, 0)
        stuck = dict.fromkeys(on_path, 0)
        for at in range(begin, end + 1):
            waits: dict[str, float] = {}
            for link in (one for one in case.experiment.links if one.name in on_path):
                lives = on_path[link.name]
                left = [life for life in departed(lives) if (life.started or 0) // width == at]
                end_ns = (at + 1) * width
                inside = [
                    life
                    for life in lives
                    if life.cause in (None, *AFTER_WAITING) and life.offered < end_ns <= waits_until(life)
                ]
                stuck[link.name] = 0 if left or not inside else stuck[link.name] + 1
                wait = sum((life.started or 0) - life.offered for life in left) / len(left) if left else 0.0
                wait = max(wait, float(stuck[link.name] * width))
                if wait > 1514 * 8 * NS / link.rate_bps:
                    waits[link.name] = wait
            if waits:
                counts[max(waits, key=lambda name: waits[name])] += 1
        expected = {name: pytest.approx(count / (end + 1 - begin)) for name, count in counts.items()}
        assert case.flow(flow.name)["limited_by"] == expected, flow.name


test_throughputs_and_marks = law(_throughput)
test_marks_of_links = law(_link_marks)
test_retransmissions = law(_retransmissions)
test_losses_of_flows_and_groups = law(_loss)
test_shares = law(_shares)
test_fairness = law(_fairness)
test_loss_synchronization = law(_synchronization)
test_limiting_links = law(_limits)
