# SPDX-License-Identifier: Apache-2.0
"""What rules that were not run lack, the cheapest first, and the commands that run it."""

from __future__ import annotations

import pytest
from narrows_analysis.study_results import MeasuredPoint, Results
from narrows_studies.page import findings
from narrows_studies.running.catalogue import select, study_points
from narrows_studies.running.remaining import conditions, lacks
from own_studies import STUDIES

CLAYPOOL, ZEYNALI = STUDIES["claypool2019"], STUDIES["zeynali2024"]
CPU_S = 8.0  # of a run of 40 s at 80 Mbit/s


def test_what_was_not_run_and_what_it_takes() -> None:
    points = study_points(CLAYPOOL, quick=True)
    here = [
        MeasuredPoint(one.experiment, one.parameters, one.point.repetition, {"queue_bdp": 1.1, "cpu_s": CPU_S})
        for one in points
        if one.experiment == "deep-buffer"
    ]
    results = Results("claypool2019", "quick", tuple(here), machine={}, experiments={})
    steps = lacks(findings(CLAYPOOL, results), points, results)
    found = {step.rule: step for step in steps}
    # It is judged, and so is not among them.
    assert "5/bbr-queue" not in found
    # Runs that are here and lack the measure have to be made again, once for all rules.
    assert sum(step.runs for step in steps if step.figure == "5") == len(here)
    # Three runs of 90 s at the rate of those that are here, whose cost is known; the other rule then has them.
    first, second = (step for step in steps if step.figure == "8")
    assert (first.runs, second.runs, second.cost_s) == (3, 0, 0.0)
    assert first.cost_s == pytest.approx(3 * CPU_S * 90 / 40, rel=0.01)
    # The command has these runs, and no other.
    chosen = select(study_points(CLAYPOOL, quick=True, figure="8"), first.only)
    assert len(chosen) == 3 and {one.parameters["bottleneck.buffer"] for one in chosen} == {"0.5bdp"}
    costs = [step.cost_s for step in steps if step.runs]
    assert None not in costs and costs[:2] == sorted(costs[:2], key=lambda cost: cost or 0.0)


def test_a_variant_may_have_none_of_a_rule_s_settings() -> None:
    points = study_points(ZEYNALI, quick=True, figure="5-6")
    nothing = Results("zeynali2024", "quick", (), machine={}, experiments={})
    steps = lacks(findings(ZEYNALI, nothing), points, nothing)
    found = {step.rule: step for step in steps if step.figure == "5-6"}
    # BBRv3 at 16 BDP is in the full variant only.
    assert (found["5-6/v3-slow"].runs, found["5-6/v3-slow"].has_settings) == (0, False)
    # It has BBRv2 and BBRv3 at the other buffers, which alone say nothing.
    assert not found["5-6/v3-fairer-than-v2"].has_settings
    # Whichever rule is first has the three versions of BBR, three times each; none looks at CUBIC alone.
    assert sum(step.runs for step in steps) == 9
    # No run says what one takes: none is made up.
    assert {step.cost_s for step in steps} == {None}
    with_settings = [step.has_settings for step in steps]
    assert with_settings == sorted(with_settings, reverse=True)


def test_conditions_name_what_is_a_part_only() -> None:
    among = [{"rate": rate, "cca": cca} for rate in ("1", "2", "3") for cca in ("bbr", "cubic")]
    assert conditions([one for one in among if one["rate"] != "3"], among) == ("rate=1", "rate=2")
    assert conditions(among, among) == ()
    assert conditions([among[0]], among) == ("rate=1", "cca=bbr")
