# SPDX-License-Identifier: Apache-2.0
"""Differences traced to the terms of BBR's window."""

from __future__ import annotations

from typing import Literal

import pytest
from narrows_analysis.study_results import MeasuredPoint
from narrows_studies.checks import Check, Compare, Pick, Within
from narrows_studies.explain import explain, loss_by_pacing, loss_by_window
from narrows_studies.model import Statement

BUFFER = "bottleneck.buffer"
WINDOW = {
    "bbr_window_sum_bdp": 2.75, "bbr_model_window_bdp": 2.05, "bbr_budget_bdp": 0.2, "bbr_aggregation_bdp": 0.5,
}  # fmt: skip


def statement(check: Check, by: Literal["", "window", "loss", "model"] = "") -> Statement:
    return Statement(id="s", says="says", source="figure 1", agrees_if="if", check=check, explained_by=by)


def points(**more: float) -> list[MeasuredPoint]:
    return [
        MeasuredPoint("e", {BUFFER: buffer}, 1, {**WINDOW, "queue_bdp": 1.7, "m": 1.7, **more})
        for buffer in ("1bdp", "8bdp")
    ]


def test_a_queue_is_explained_by_the_windows() -> None:
    wanted = statement(Within(pick=Pick("m", {BUFFER: "8bdp"}), high=1), "window")
    (sentence,) = explain(wanted, points(), True)
    assert sentence.startswith("buffer 8bdp: BBR's windows add up to 2.75 BDP: 2.05 gain x bandwidth x min RTT")
    assert "this is 1.75 BDP; the queue held 1.70." in sentence
    assert sentence.endswith("since 5.1; this kernel's BBR has it) it would be 1.25 BDP.")
    assert "this kernel's BBR does not have it" in explain(wanted, points(), False)[0]
    assert "this kernel" not in explain(wanted, points(), None)[0]


def test_a_loss_at_every_setting_that_is_compared() -> None:
    check = Compare(left=Pick("m", {BUFFER: "1bdp"}), right=Pick("m", {BUFFER: "8bdp"}), high=1)
    found = explain(
        statement(check, "loss"),
        points(bbr_pacing_sum=1.25, loss_ratio=0.19, buffer_bdp=1.0),
    )
    assert [sentence.partition(":")[0] for sentence in found] == ["buffer 1bdp", "buffer 8bdp"]
    assert "path and buffer of 2.00 BDP they allow a loss of up to 27.3%" in found[0]
    assert "of 11.1%; pacing rates that add up to 1.25 of the link's allow 20.0%. The loss was 19.0%." in found[0]


def test_nothing_without_the_measures_or_the_wish() -> None:
    check = Within(pick=Pick("m"), high=1)
    assert explain(statement(check, "loss"), points()) == []
    assert explain(statement(check), points()) == []


def test_loss_is_what_exceeds_window_or_rate() -> None:
    assert loss_by_window(3.0, 1.0) == pytest.approx(1 / 3)
    assert loss_by_window(2.0, 1.5) == 0
    assert loss_by_pacing(1.25) == pytest.approx(0.2)
    assert loss_by_pacing(0.9) == 0


def test_a_model_and_its_premises() -> None:
    measures = {
        "bbr_window_sum_bdp": 2.0, "bbr_min_rtt_s": 0.06, "model_min_rtt_s": 0.18, "queue_fill": 0.9, "queue_bdp": 4.0,
        "model_share": 0.55, "goodput_fraction.bbr": 0.35, "goodput_first_half.bbr": 0.3,
        "goodput_second_half.bbr": 0.4, "bbr_inflight_sum_bdp": 1.95, "socket_rtt_s.bbr": 0.12,
    }  # fmt: skip
    wanted = statement(Within(pick=Pick("goodput_fraction.bbr"), high=1), "model")
    (sentence,) = explain(wanted, [MeasuredPoint("e", {BUFFER: "8bdp"}, 1, measures)])
    assert "min RTT of 180 ms; the queue was 90% full and BBR's estimate 60 ms." in sentence
    assert "2.00 BDP of the 5.00 BDP in path and queue, 40%." in sentence
    assert sentence.endswith("(30% in the first half of the window, 40% in the second), the model's 55%.")
    assert "40%. Goodput" in sentence
    # What is not as the model has it is named.
    (paced,) = explain(wanted, [MeasuredPoint("e", {BUFFER: "8bdp"}, 1, {**measures, "bbr_inflight_sum_bdp": 1.5})])
    assert "40%. It had 1.50 BDP of its window in flight: it was limited by its pacing rate" in paced
    (late,) = explain(wanted, [MeasuredPoint("e", {BUFFER: "8bdp"}, 1, {**measures, "socket_rtt_s.bbr": 0.15})])
    assert "is at most twice the estimate, 120 ms here; it was 150 ms. Goodput" in late
