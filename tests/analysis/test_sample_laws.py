# SPDX-License-Identifier: Apache-2.0
"""Laws of samples: counts are exact, and estimates within two standard errors of what packets' lives say, in 19 of 20
cases or more."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import packet_lives as truth
import pytest
from narrows_analysis import analyze_run
from packet_cases import CASES, departed
from packet_lives import NS, Experiment, Life
from steady_traffic import LINK, drawn

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]


@pytest.mark.long
def test_estimates_are_within_their_standard_errors() -> None:
    judged, within = Counter[str](), Counter[str]()
    for number in range(CASES):
        experiment = drawn(number)
        lives = truth.lives(experiment)[LINK]
        with tempfile.TemporaryDirectory() as place:
            directory = Path(place, "run")
            truth.write(experiment, {LINK: lives}, directory, sample_shift=1 + number % 2, draws=number)
            summary: Any = analyze_run(directory)
        for name, estimate, error, right in estimates(experiment, lives, summary):
            judged[name] += 1
            within[name] += abs(estimate - right) <= 2 * error + 1e-6 * abs(right)
        for flow in summary["flows"]:
            # Counted up to the last report, and recorded.
            mine = [life for life in lives if life.flow == flow["name"]]
            assert flow["drops"] == sum(life.cause is not None for life in mine)
            assert 0 <= len(departed(mine)) - flow["departures"] < 60
    assert min(judged.values()) >= 0.9 * CASES and sum(within.values()) >= 0.95 * sum(judged.values()), (judged, within)
    for name, count in judged.items():
        # Fewer than one case in ten, where one in twenty is what may be.
        assert within[name] >= 0.9 * count - 1, (name, judged, within)


def estimates(experiment: Experiment, lives: list[Life], summary: Any) -> list[tuple[str, float, float, float]]:
    """Name, estimate, standard error and right value of each figure that is estimated."""
    link, out = summary["bottleneck"], departed(lives)
    begin, end = min(life.offered for life in lives), max(2 * NS, *(life.finished or 0 for life in lives))
    used = sum(life.length for life in out) * 8 / experiment.links[0].bits(begin, end)
    waits = [((life.started or 0) - life.offered) / NS for life in out]
    errors = link["standard_errors"]
    found = [
        ("utilization", link["utilization"], errors["utilization"], used),
        (
            "queue_bytes.mean",
            link["queue_bytes"]["mean"],
            errors["queue_bytes_mean"],
            mean([life.left for life in out]),
        ),
        ("queue_delay_s.mean", link["queue_delay_s"]["mean"], errors["queue_delay_mean_s"], mean(waits)),
        ("ce_marks", link["ce_marks"], errors["ce_marks"], sum(life.marked for life in out)),
    ]
    for flow in experiment.flows:
        shown = next(one for one in summary["flows"] if one["name"] == flow.name)
        if shown["goodput_bps"] is None:
            # Of too few reports, or of too little of its time.
            continue
        mine = [life for life in lives if life.flow == flow.name]
        since = min(life.offered for life in mine)
        until = max(2 * NS, *(life.started or life.dropped or 0 for life in mine))
        left = departed(mine)
        for name, size in (("goodput_bps", flow.payload), ("throughput_bps", flow.payload + truth.HEADERS)):
            right = len(left) * size * 8 * NS / (until - since)
            found.append((f"flows.{name}", shown[name], shown["standard_errors"][name], right))
        error = shown["standard_errors"]["ce_marks"]
        found.append(("flows.ce_marks", shown["ce_marks"], error, sum(life.marked for life in left)))
    begin_s, end_s = summary["share_window_s"]
    for group in (one for one in summary["groups"] if one["goodput_bps"] is not None):
        inside = [
            experiment.flow(life.flow).payload
            for life in out
            if experiment.flow(life.flow).group == group["name"] and begin_s <= (life.started or 0) / NS < end_s
        ]
        error = group["standard_errors"]["goodput_bps"]
        found.append(("groups.goodput_bps", group["goodput_bps"], error, sum(inside) * 8 / (end_s - begin_s)))
    return found


def mean(ones: list[float] | list[int]) -> float:
    """Of numbers, of which there is one at least."""
    return sum(ones) / len(ones)
