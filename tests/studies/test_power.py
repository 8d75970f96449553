# SPDX-License-Identifier: Apache-2.0
"""How many repetitions decide a statement, and what its runs exclude, against SciPy's distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from narrows_analysis.metrics.confidence import estimate
from narrows_analysis.study_results import MeasuredPoint
from narrows_studies.checks import MORE, Check, Compare, Every, MedianError, Pick, Sometimes, within
from narrows_studies.evaluate import Finding, evaluate, evaluate_all
from narrows_studies.model import says
from narrows_studies.power import NOTHING, POWER, SIZES, costs, excluded, queue, repetitions_needed
from scipy import stats

BUFFER = "bottleneck.buffer"


def points(values: Sequence[float], buffer: str = "1bdp", cpu_s: float | None = None) -> list[MeasuredPoint]:
    return [
        MeasuredPoint("e", {BUFFER: buffer}, number, {"loss_ratio": value, "cpu_s": cpu_s})
        for number, value in enumerate(values, 1)
    ]


def above(values: Sequence[float], low: float, buffer: str = "1bdp") -> Finding:
    rule = within("loss_ratio", {BUFFER: buffer}, low=low)
    return evaluate(says("here", "more", "more is lost").agrees_if("more", rule), points(values, buffer))


def by_hand(mean: float, variance: float, size: int, level: float) -> int:
    """The least of the numbers that are tried at which a t-test of a mean is below a level with enough power."""
    largest = variance * (size - 1) / stats.chi2.ppf(1 - POWER, size - 1)
    for count in SIZES:
        if count <= size:
            continue
        error = math.sqrt(largest / count)
        reached = abs(mean) / error - stats.t.ppf(POWER, count - 1)
        p = 2 * stats.t.sf(max(0.0, reached), count - 1)
        if p <= level and (count >= 10 or p <= 0.01):
            return count
    raise AssertionError("more than are tried")


@pytest.mark.parametrize(
    ("values", "low"), [((0.09, 0.1, 0.11), 0.05), ((0.03, 0.06, 0.09), 0.02), ((0.02, 0.06, 0.1, 0.09), 0.02)]
)
def test_repetitions_that_decide(values: tuple[float, ...], low: float) -> None:
    found = above(values, low)
    mean, variance = sum(values) / len(values) - low, float(stats.tvar(values))
    assert found.verdict == "undecided"
    assert repetitions_needed(found, points(values)) == by_hand(mean, variance, len(values), 0.05)
    # Among ten undecided statements it takes more.
    ten = replace(found, level=0.005)
    assert repetitions_needed(ten, points(values)) == by_hand(mean, variance, len(values), 0.005)


def test_what_no_number_decides() -> None:
    values = (0.03, 0.05, 0.07)
    assert repetitions_needed(above(values, low=0.05), points(values)) is None
    assert repetitions_needed(above((0.2, 0.2, 0.2), low=0.05), points((0.2, 0.2, 0.2))) is None
    assert repetitions_needed(above((0.2,), low=0.05), points((0.2,))) is None


def test_more_values_do_not_change_a_mean_that_they_are_sure_of() -> None:
    found = estimate([0.2, 0.2, 0.2])
    assert found is not None and found.projected(10, POWER).mean == pytest.approx(0.2)


def half_width(values: Sequence[float], level: float) -> float:
    """Of the interval that a mean is outside of with that probability."""
    return float(stats.t.ppf(1 - level / 2, len(values) - 1) * stats.tstd(values) / math.sqrt(len(values)))


def judged_by(rule: Check, measured: Sequence[MeasuredPoint]) -> str:
    """What runs exclude about a rule that is the only one of its study."""
    return excluded(evaluate(says("here", "rule", "some rule").agrees_if("it holds", rule), measured), measured)


@pytest.mark.parametrize(("values", "verb"), [((0.43, 0.46, 0.49), "misses"), ((0.41, 0.44, 0.47), "meets")])
def test_the_effect_that_is_excluded(values: tuple[float, ...], verb: str) -> None:
    found = above(values, low=0.45)
    # The mean is a point from the limit. Of fewer than ten repetitions a verdict asks for 99 %.
    most = 100 * (half_width(values, 0.01) - 0.01)
    assert excluded(found, points(values)) == f"excluded: that it {verb} its limit by more than {most:.3g} %"
    # With the confidence of all undecided statements together.
    ten = 100 * (half_width(values, 0.005) - 0.01)
    assert excluded(replace(found, level=0.005), points(values)).endswith(f"more than {ten:.3g} %")
    many = (*values, *values, *values, *values)
    assert excluded(above(many, low=0.45), points(many)).endswith(f"{100 * (half_width(many, 0.05) - 0.01):.3g} %")
    assert excluded(above((0.2, 0.2, 0.2), low=0.05), points((0.2, 0.2, 0.2))) == ""


@pytest.mark.parametrize(
    ("values", "low", "high"),
    # A loss of 0 % misses 50 % by 50 points and one of 100 % meets it by 50; what is more than that is not an effect.
    [((0.2, 0.9, 1.0), 0.5, MORE), ((0.8, 0.1, 0.0), 0.5, MORE), ((0.2, 0.9, 0.1), -MORE, 0.5)],
)
def test_an_effect_that_no_value_has_is_not_excluded(values: tuple[float, ...], low: float, high: float) -> None:
    part = within("loss_ratio", low=low, high=high)
    for rule in (part, Every((part,))):
        assert judged_by(rule, points(values)) == NOTHING
    # A time has no such end.
    timed = [replace(one, measures={"fct_s.train": one.measures["loss_ratio"]}) for one in points(values)]
    assert judged_by(within("fct_s.train", low=low, high=high), timed).endswith(" s")


def test_what_is_excluded_where_several_sums_decide() -> None:
    near, far = (0.02, 0.04, 0.06), (0.0, 0.01, 0.05)
    both = [*points(near), *points(far, "2bdp")]

    def ends(level: float) -> list[float]:
        return [mean - 0.05 + half_width(values, level) for mean, values in ((0.04, near), (0.02, far))]

    # Where each has to hold, one that fails with half the p-value is enough, or both with all of it (Simes).
    least = 100 * min(min(ends(0.01 / 2)), max(ends(0.01)))
    each = judged_by(within("loss_ratio", low=0.05, each=True), both)
    assert each.endswith(f"meets its limit by more than {least:.3g} %")
    # Where one is enough, all have to fail: the one that comes nearest decides.
    some = judged_by(within("loss_ratio", low=0.05, some=True), both)
    assert some.endswith(f"meets its limit by more than {100 * max(ends(0.01)):.3g} %")


def test_what_is_excluded_about_runs_of_which_some_would_have_it() -> None:
    measured = points((0.2, 0.2, 0.3, 0.3, 0.25, 0.2))
    # None of six, with 99 %: (1 - share) ** 6 = 0.01.
    share = 100 * (1 - 0.01 ** (1 / 6))
    rule = Sometimes(pick=Pick("loss_ratio"), high=0.1)
    assert judged_by(rule, measured) == f"excluded: that more than {share:.3g} % of all runs have it"


def test_what_is_excluded_about_the_error_of_a_formula() -> None:
    errors = (0.01, 0.03, 0.05)
    measured = [replace(one, measures={**one.measures, "model_share": 0.0}) for one in points(errors)]
    rule = MedianError(pick=Pick("loss_ratio"), expected="model_share", most=0.04)
    assert judged_by(rule, measured).endswith(
        f"misses its limit by more than {100 * (half_width(errors, 0.01) - 0.01):.3g} %"
    )


def test_limits_in_two_units_are_not_moved_by_one_number() -> None:
    measured = [replace(one, measures={**one.measures, "fct_s.train": 1.0}) for one in points((0.03, 0.06, 0.09))]
    loss = within("loss_ratio", low=0.05)
    assert judged_by(Every((loss, within("loss_ratio", high=1.0))), measured) != ""
    assert judged_by(Every((loss, within("fct_s.train", low=0.5))), measured) == ""


def test_what_nothing_can_decide_counts_among_what_is_judged() -> None:
    values = (0.03, 0.06, 0.09, 0.05) * 3
    measured = points(values)
    pick = Pick("loss_ratio")
    void = Compare(left=pick, right=pick, low=0.9, resolution=1.0)
    rules = (void, within("loss_ratio", low=0.05))
    compared, found = evaluate_all([(says("here", "a", "b").agrees_if("c", rule), measured) for rule in rules])
    assert (compared.verdict, found.verdict) == ("not comparable", "undecided")
    # Holm asks for half of 5 % of the first of two that chance may explain.
    most = 100 * (half_width(values, 0.025) - (sum(values) / len(values) - 0.05))
    assert excluded(found, measured).endswith(f"misses its limit by more than {most:.3g} %")


def test_the_queue_begins_with_what_decides_most_for_its_time() -> None:
    near, far = (0.09, 0.1, 0.11), (0.03, 0.06, 0.09)
    undecided = {
        "1/dear": (above(near, 0.05, "8bdp"), points(near, "8bdp", cpu_s=100.0)),
        "1/cheap": (above(near, 0.05), points(near, cpu_s=1.0)),
        "2/more": (above(far, 0.02), points(far, cpu_s=1.0)),
    }
    needed = {name: repetitions_needed(*of) for name, of in undecided.items()}
    steps = queue(undecided, costs([one for _, of in undecided.values() for one in of]))
    assert [step.statement for step in steps] == ["1/cheap", "2/more", "1/dear"]
    assert [step.repetitions for step in steps] == [needed[step.statement] for step in steps]
    few, many = needed["1/cheap"], needed["2/more"]
    assert few is not None and many is not None and 3 < few < many
    # What is here, and what a step before has run, costs nothing.
    assert [step.cost_s for step in steps] == [few - 3, many - few, 100.0 * (few - 3)]


def test_what_a_run_takes_is_known_from_others() -> None:
    known, unknown = points((0.1, 0.1), cpu_s=4.0), points((0.1,), "8bdp")
    other = replace(points((0.1,), cpu_s=10.0)[0], experiment="f")
    # Of its experiment, if there are any, and else of all.
    assert costs([*known, other, *unknown])[unknown[0].setting] == 4.0
    assert costs([other, *unknown])[unknown[0].setting] == 10.0
    # No time is known: none is made up.
    assert costs(unknown) == {}
    near = (0.09, 0.1, 0.11)
    assert queue({"1/more": (above(near, 0.05), points(near))}, costs(points(near))) == []
