# SPDX-License-Identifier: Apache-2.0
"""Made-up results that must and must not agree."""

from __future__ import annotations

import pytest
from narrows_analysis.metrics.confidence import estimate, holm
from narrows_analysis.study_results import MeasuredPoint
from narrows_studies.checks import (
    AtOneOf,
    Check,
    Compare,
    Crossing,
    Every,
    Extreme,
    Farthest,
    MedianError,
    Model,
    Nearest,
    Pick,
    Sometimes,
    Spread,
    Straight,
    Trend,
    Within,
    picks,
    within,
)
from narrows_studies.decision import Decision, every, simes, some, whichever
from narrows_studies.evaluate import Finding, evaluate, evaluate_all, evidence, moved, verdict_text
from narrows_studies.judge import crossing
from narrows_studies.model import Statement, Study, says
from narrows_studies.showing import show
from own_studies import STUDIES
from scipy import stats

BUFFER = "bottleneck.buffer"


def point(measure: float | None, repetition: int = 1, name: str = "m", **parameters: str) -> MeasuredPoint:
    return MeasuredPoint("e", {BUFFER: parameters.pop("buffer", "1bdp"), **parameters}, repetition, {name: measure})


def along(**values: float) -> list[MeasuredPoint]:
    """Points of measure m at buffers of b<number> BDP."""
    return [point(value, buffer=f"{name[1:].replace('_', '.')}bdp") for name, value in values.items()]


def statement(check: Check, **more: str) -> Statement:
    return Statement(id="s", says="says", source="figure 1", agrees_if="if", check=check, **more)  # type: ignore[arg-type]


def repeated(points: list[MeasuredPoint], *noise: float) -> list[MeasuredPoint]:
    """Repetitions of each point with these parts added to its measures; without any, three that are alike."""
    return [
        MeasuredPoint(
            one.experiment,
            one.parameters,
            number,
            {name: None if value is None else value * (1 + part) for name, value in one.measures.items()},
        )
        for one in points
        for number, part in enumerate(noise or (0.0, 0.0, 0.0), 1)
    ]


def judged(check: Check, points: list[MeasuredPoint]) -> Finding:
    return evaluate(statement(check), points)


def verdict(check: Check, points: list[MeasuredPoint]) -> str:
    """The verdict where repetitions are all alike, so that nothing is left to doubt."""
    return judged(check, repeated(points)).verdict


HALF = Within(pick=Pick("m", {BUFFER: "0.5bdp"}), low=0.09, high=0.13)
PERIOD = Within(pick=Pick("m", {BUFFER: "0.5bdp"}, absent="differs"), low=15, high=25)
SOME = Within(pick=Pick("m", {BUFFER: (2, 8)}), high=0.9, some=True)
DEEP = Within(pick=Pick("m", {BUFFER: (2, 8)}), low=0.0, high=0.01, each=True)
RATIO = Compare(left=Pick("m", {BUFFER: "0.5bdp"}), right=Pick("m", {BUFFER: "2bdp"}), low=2)
FALLS = Trend(pick=Pick("m"), over=BUFFER, rising=False, least=0.05)
RISES = Trend(pick=Pick("m"), over=BUFFER, rising=True, least=0.05)
CROSS = Crossing(pick=Pick("m"), over=BUFFER, level=0.5, low=3.5, high=6.5)
LEAST = Extreme(pick=Pick("m"), over=BUFFER, at="2bdp", kind="least")
WORST = Extreme(pick=Pick("m"), over=BUFFER, at="0.5bdp", kind="greatest", ends=True)


@pytest.mark.parametrize(
    ("check", "points", "expected"),
    [
        (HALF, along(b0_5=0.11, b1=0.9), "agrees"),
        (HALF, along(b0_5=0.05, b1=0.11), "differs"),
        (HALF, along(b1=0.11), "not run here"),
        (HALF, [point(None, buffer="0.5bdp")], "undecided"),
        # It was looked for and is not there, or it was not looked for.
        (PERIOD, [point(None, buffer="0.5bdp")], "differs"),
        (PERIOD, [point(20, buffer="0.5bdp")], "agrees"),
        (PERIOD, along(b1=20), "not run here"),
        (DEEP, along(b1=0.3, b2=0.0, b8=0.009), "agrees"),
        # Each setting counts, although the mean would be in the range.
        (DEEP, along(b2=0.0, b4=0.0, b8=0.02), "differs"),
        # One setting is enough, although the mean would be out of the range.
        (SOME, along(b2=0.99, b8=0.85), "agrees"),
        (SOME, along(b1=0.1, b2=0.95, b8=0.91), "differs"),
        (SOME, along(b1=0.1), "not run here"),
        (RATIO, along(b0_5=0.2, b2=0.09), "agrees"),
        (RATIO, along(b0_5=0.2, b2=0.11), "differs"),
        (RATIO, along(b0_5=0.2, b2=0.0), "agrees"),
        (RATIO, along(b0_5=0.0, b2=0.0), "differs"),
        (RATIO, along(b0_5=0.2), "not run here"),
        (FALLS, along(b0_5=0.11, b1=0.055, b1_5=0.0), "agrees"),
        (FALLS, along(b0_5=0.0, b1=0.055, b1_5=0.11), "differs"),
        (FALLS, along(b0_5=0.11, b1=0.09, b1_5=0.08), "differs"),
        (FALLS, along(b0_5=0.11, b1=0.0, b1_5=0.05), "differs"),
        (FALLS, along(b1=0.1), "not run here"),
        (RISES, along(b0_5=0.0, b1=0.055, b1_5=0.11), "agrees"),
        (RISES, along(b0_5=0.11, b1=0.055, b1_5=0.0), "differs"),
        (RISES, along(b0_5=0.1, b1=0.1, b1_5=0.1), "differs"),
        (CROSS, along(b1=0.9, b4=0.6, b8=0.3), "agrees"),
        (CROSS, along(b1=0.9, b2=0.4, b8=0.3), "differs"),
        (CROSS, along(b1=0.9, b8=0.6), "differs"),
        # Across before, and back.
        (CROSS, along(b1=0.9, b2=0.4, b3=0.6, b8=0.3), "differs"),
        (CROSS, along(b4=0.6, b8=0.3), "not run here"),
        (LEAST, along(b1=0.9, b2=0.8, b4=0.85), "agrees"),
        (LEAST, along(b1=0.9, b2=0.8, b4=0.7), "differs"),
        (LEAST, along(b1=0.9, b2=0.8), "not run here"),
        (LEAST, along(b1=0.9, b4=0.8), "not run here"),
        (WORST, along(b0_5=0.9, b1=0.8, b2=0.85), "agrees"),
        (WORST, along(b0_5=0.8, b1=0.9, b2=0.7), "differs"),
        (Every((HALF, DEEP)), along(b0_5=0.11, b2=0.0), "agrees"),
        (Every((HALF, DEEP)), along(b0_5=0.11, b2=0.02), "differs"),
        (Every((HALF, DEEP)), along(b0_5=0.11), "not run here"),
    ],
)
def test_each_check_has_its_verdict(check: Check, points: list[MeasuredPoint], expected: str) -> None:
    assert verdict(check, points) == expected


def gaps(bbr: dict[str, float], cubic: dict[str, float]) -> list[MeasuredPoint]:
    """Points by the train's algorithm and gap."""
    return [
        MeasuredPoint("e", {"train": train, "gap": gap}, 1, {"m": value})
        for train, line in (("bbr", bbr), ("cubic", cubic))
        for gap, value in line.items()
    ]


@pytest.mark.parametrize(
    ("bbr", "cubic", "expected"),
    [
        ({"100ms": 0.3, "900ms": 0.4}, {"100ms": 0.5, "900ms": 0.8}, "agrees"),
        # Below by more at a shorter gap.
        ({"100ms": 0.1, "900ms": 0.4}, {"100ms": 0.6, "900ms": 0.8}, "differs"),
        ({"100ms": 0.3, "500ms": 0.1, "900ms": 0.4}, {"100ms": 0.5, "500ms": 0.7, "900ms": 0.8}, "differs"),
        # Farthest there, but the wrong way round.
        ({"100ms": 0.9, "900ms": 0.8}, {"100ms": 0.5, "900ms": 0.7}, "differs"),
        ({"900ms": 0.4}, {"100ms": 0.5, "900ms": 0.8}, "not run here"),
    ],
)
def test_farthest_at_the_end(bbr: dict[str, float], cubic: dict[str, float], expected: str) -> None:
    check = Farthest(left=Pick("m", {"train": "cubic"}), right=Pick("m", {"train": "bbr"}), over="gap")
    assert verdict(check, gaps(bbr, cubic)) == expected


def test_a_comparison_at_each_value_of_a_parameter() -> None:
    check = Compare(left=Pick("m", {"cca": "bbr"}), right=Pick("m", {"cca": "cubic"}), high=1.0, by="rate")

    def at(bbr: tuple[float, float], cubic: tuple[float, float]) -> list[MeasuredPoint]:
        return [
            MeasuredPoint("e", {"cca": cca, "rate": rate}, 1, {"m": value})
            for cca, values in (("bbr", bbr), ("cubic", cubic))
            for rate, value in zip(("5Mbit", "70Mbit"), values, strict=True)
        ]

    assert verdict(check, at((1.0, 0.1), (2.0, 0.2))) == "agrees"
    # On average it would be less.
    assert verdict(check, at((1.0, 0.3), (2.0, 0.2))) == "differs"
    assert verdict(check, at((1.0, 0.1), (2.0, 0.2))[:1]) == "not run here"


def shares(one: float, sixteen: float, model: float = 0.5) -> list[MeasuredPoint]:
    return [
        MeasuredPoint("e", {BUFFER: "8bdp", "count": count}, 1, {"m": share, "model_share": model})
        for count, share in (("1", one), ("16", sixteen))
    ]


def test_model_and_spread() -> None:
    model = Model(pick=Pick("m"), expected="model_share", tolerance=0.15)
    spread = Spread(pick=Pick("m"), across="count", most=0.1)
    relative = Spread(pick=Pick("m"), across="count", most=0.1, relative=True)
    assert verdict(model, shares(0.4, 0.6)) == "agrees"
    assert verdict(model, shares(0.5, 0.3)) == "differs"
    assert verdict(model, [point(0.5)]) == "not run here"
    assert verdict(spread, shares(0.4, 0.48)) == "agrees"
    assert verdict(spread, shares(0.4, 0.55)) == "differs"
    assert verdict(spread, shares(0.4, 0.5)[:1]) == "not run here"
    assert verdict(relative, shares(0.44, 0.48)) == "agrees"
    assert verdict(relative, shares(0.4, 0.48)) == "differs"


def test_a_difference_shows_its_evidence() -> None:
    check = statement(Within(pick=Pick("loss_ratio"), low=0.09), evidence=("queue",))  # type: ignore[arg-type]
    points = repeated([MeasuredPoint("e", {BUFFER: "0.5bdp"}, 1, {"loss_ratio": 0.05, "queue": 0.25})])
    found = evaluate(check, points)
    assert (found.verdict, found.ours, found.differs) == ("differs", "5 % (±0 %, n=3)", True)
    assert evidence(check, points) == (("buffer 0.5bdp", ("0.25 (±0, n=3)",)),)
    assert not evaluate(check, repeated([point(0.1, name="loss_ratio")])).differs
    # What only looks like a difference is one to explain, too.
    assert evaluate(check, points[:1]).differs
    assert evidence(check, points[:1]) == (("buffer 0.5bdp", ("0.25",)),)


def test_of_several_settings_those_that_do_not_meet_it_are_listed() -> None:
    def ours(values: list[float], check: Check) -> str:
        points = [
            MeasuredPoint("x", {"bottleneck.buffer": f"{buffer}bdp"}, number, {"jain": value})
            for buffer, value in enumerate(values, 1)
            for number in (1, 2, 3)
        ]
        statement = says("figure 1", "id", "it is fair").agrees_if("at each buffer", check)
        return evaluate(statement, points).ours

    fair = within("jain", low=0.9, each=True)
    text = ours([0.91, 0.99, 0.95, 0.5, 0.96, 0.97, 0.98], fair)
    assert text == (
        "0.5 (±0, n=3) to 0.99 (±0, n=3) at 7 settings, of which 6 meet it; not: buffer 4bdp: 0.5 (±0, n=3)"
    )
    assert ours([0.99] * 7, fair) == "0.99 (±0, n=3) to 0.99 (±0, n=3) at 7 settings, of which 7 meet it"
    assert ours([0.5] * 9, fair).endswith("buffer 6bdp: 0.5 (±0, n=3), and 3 more")
    assert ours([0.5, 0.95, 0.5], fair).startswith(
        "0.5 (±0, n=3) to 0.95 (±0, n=3) at 3 settings, of which 1 meets it; "
    )
    assert ours([0.91, 0.5], fair) == "buffer 1bdp: 0.91 (±0, n=3); buffer 2bdp: 0.5 (±0, n=3)"


def test_the_evidence_is_that_of_all_settings_compared() -> None:
    check = statement(RATIO, evidence=("queue", "fill"))  # type: ignore[arg-type]
    points = [
        MeasuredPoint("e", {BUFFER: "0.5bdp"}, 1, {"m": 0.1, "queue": 0.25}),
        MeasuredPoint("e", {BUFFER: "2bdp"}, 1, {"m": 0.1, "queue": 0.75, "fill": 0.5}),
        MeasuredPoint("e", {BUFFER: "4bdp"}, 1, {"m": 0.1, "queue": 3.0}),
    ]
    assert evidence(check, points) == (("buffer 0.5bdp", ("0.25", "-")), ("buffer 2bdp", ("0.75", "0.5")))


@pytest.mark.parametrize(
    ("values", "expected", "leaning"),
    [
        # All of the interval is inside, or outside.
        ((0.1095, 0.110, 0.1105), "agrees", True),
        ((0.0495, 0.050, 0.0505), "differs", False),
        # Some of it is on the other side: 0.125 +- 0.0248 of [0.09, 0.13].
        ((0.115, 0.125, 0.135), "undecided", True),
        ((0.135, 0.14, 0.145), "undecided", False),
        # 0.108 to 0.112 is inside at 95 %, but near the limit for three repetitions: the bound at 0.13 is 17 standard
        # errors away, which with two degrees of freedom is p = 0.0033.
        ((0.108, 0.110, 0.112), "agrees", True),
        # 0.0145 +- 0.0052 above the bound, p = 0.0069, and 0.0145 +- 0.0124, p = 0.037.
        ((0.1425, 0.1445, 0.1465), "differs", False),
        ((0.1395, 0.1445, 0.1495), "undecided", False),
        # The same doubt in ten repetitions, p = 0.037, is little enough.
        ((0.12,) * 5 + (0.109,) * 5, "agrees", True),
        # One run has no interval.
        ((0.11,), "undecided", True),
        ((0.5,), "undecided", False),
    ],
)
def test_the_interval_decides(values: tuple[float, ...], expected: str, leaning: bool) -> None:
    found = judged(HALF, [point(value, number, buffer="0.5bdp") for number, value in enumerate(values, 1)])
    assert (found.verdict, found.leaning) == (expected, leaning)
    assert found.count == len(values)


def test_the_p_value_is_that_of_a_t_test() -> None:
    values = [0.1395, 0.1445, 0.1495]
    found = judged(Within(pick=Pick("m"), high=0.13), [point(value) for value in values])
    assert found.p_value == pytest.approx(stats.ttest_1samp(values, 0.13).pvalue)
    left, right = [10.0, 12.0, 14.0], [5.0, 5.5, 6.0, 6.5]
    apart = estimate(left, [-value for value in right])
    assert apart is not None
    assert apart.p_value == pytest.approx(stats.ttest_ind(left, right, equal_var=False).pvalue)


def test_verdicts_in_words() -> None:
    def words(*values: float) -> str:
        return verdict_text(judged(HALF, [point(value, buffer="0.5bdp") for value in values]))

    assert words(0.11, 0.11) == "agrees (n=2)"
    assert words(0.5, 0.5, 0.5) == "differs (n=3)"
    assert words(0.11) == "undecided (n=1; means agree; takes 10 repetitions or more)"
    assert words(*(0.12, 0.14) * 5) == "undecided (n=10; means agree)"
    assert words() == "not run here"


def test_what_decides_alone_need_not_decide_among_many() -> None:
    """By chance one of twenty statements whose means are the bound itself is outside of its 95 % interval."""
    values = [0.1375] * 5 + [0.1255] * 5
    near = Within(pick=Pick("m"), high=0.1265)
    points = [point(value) for value in values]
    alone = evaluate(statement(near), points)
    assert alone.verdict == "differs" and 0.01 < alone.p_value < 0.05
    nothing = Within(pick=Pick("m"), high=0.1315)
    among = evaluate_all([(statement(near), points), *[(statement(nothing), points)] * 19])
    assert [one.verdict for one in among] == ["undecided"] * 20
    assert among[0].p_value == pytest.approx(20 * alone.p_value)
    # What is not run is not one of them.
    with_one = evaluate_all([(statement(near), points), (statement(HALF), [])])
    assert [one.verdict for one in with_one] == ["differs", "not run here"]


def test_corrections_of_several_p_values() -> None:
    # Worked out by hand: 3 x 0.01; then 2 x 0.02; then 0.03, which may not be less than the one before.
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([]) == []
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    # min(3 x 0.01, 3 x 0.02 / 2, 3 x 0.06 / 3)
    assert simes([0.06, 0.02, 0.01]) == pytest.approx(0.03)
    fails, holds = Decision(1.0, 0.02, False), Decision(0.03, 1.0, True)
    assert every([fails, holds]) == Decision(1.0, 0.04, False)
    assert some([fails, holds]) == Decision(0.06, 1.0, True)
    # Of a condition that is not known only what is said by all of them.
    assert whichever([fails, holds]).void and not whichever([holds, holds]).void


def test_measures_of_one_run_are_compared_within_it() -> None:
    check = Compare(left=Pick("a"), right=Pick("b"), low=1.0)

    def runs(*pairs: tuple[float, float]) -> list[MeasuredPoint]:
        return [MeasuredPoint("e", {}, number, {"a": a, "b": b}) for number, (a, b) in enumerate(pairs, 1)]

    # a is always 0.1 above b, although both differ much from run to run.
    assert judged(check, runs((0.3, 0.2), (0.9, 0.8), (0.6, 0.5))).verdict == "agrees"
    # The other way round in one of them.
    assert judged(check, runs((0.3, 0.2), (0.9, 0.2), (0.5, 0.6))).verdict == "undecided"


def test_repetitions_without_the_measure_count() -> None:
    have, lack = point(20.0, 1, buffer="0.5bdp"), point(None, 2, buffer="0.5bdp")
    assert judged(PERIOD, [have, have, have]).verdict == "agrees"
    # Two of three have it: that is not what is published, nor its contrary.
    assert judged(PERIOD, [have, have, lack]).verdict == "undecided"
    assert judged(PERIOD, [have, have, lack]).ours == "20 (±0, n=2, 1 without it)"
    # One run does not show that there is none.
    assert judged(PERIOD, [lack]).verdict == "undecided"
    assert judged(PERIOD, [lack, lack]).verdict == "differs"
    # Where absence says nothing, it leaves open.
    unknown = Within(pick=Pick("m"), low=15, high=25)
    assert judged(unknown, [have, have, lack]).verdict == "undecided"


def test_a_run_with_too_few_of_what_is_averaged_says_nothing() -> None:
    check = Within(pick=Pick("m", needs=("completions", 3.0)), low=0, high=1)
    runs = [MeasuredPoint("e", {}, number, {"m": 0.5, "completions": 10.0}) for number in (1, 2, 3)]
    assert judged(check, runs).verdict == "agrees"
    assert judged(check, [*runs, MeasuredPoint("e", {}, 4, {"m": 0.5, "completions": 2.0})]).verdict == "undecided"


def test_never_is_later_than_the_end() -> None:
    def runs(*times: float | None) -> list[MeasuredPoint]:
        return [MeasuredPoint("e", {}, n, {"m": time, "end": 285.0}) for n, time in enumerate(times, 1)]

    late = Within(pick=Pick("m", absent="end"), low=240)
    assert judged(late, runs(None, None, None)).verdict == "agrees"
    assert judged(late, runs(None, None, None)).ours == "at least 285 (±0, n=3)"
    assert judged(late, runs(100.0, 110.0, 105.0)).verdict == "differs"
    # That it was not before 285 s does not say whether it would be before 300 s.
    assert judged(Within(pick=Pick("m", absent="end"), low=300), runs(None, None, None)).verdict == "undecided"
    assert judged(Within(pick=Pick("m", absent="end"), high=300), runs(None, None, None)).verdict == "undecided"


def test_what_is_missing_is_named() -> None:
    found = judged(HALF, along(b1=0.1))
    assert found.ours == "no point with m at bottleneck.buffer 0.5bdp"


def test_a_confidence_interval_needs_two_values() -> None:
    assert estimate([]) is None
    single = estimate([2.0])
    assert single is not None
    assert (single.mean, single.half_width, single.count) == (2.0, None, 1)
    found = estimate([1.0, 2.0, 3.0])
    assert found is not None
    # t(0.975, 2) = 4.303; standard error 1 / sqrt(3).
    assert found.half_width == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert show(found, "throughput_difference") == "200 % (±248 %, n=3)"


@pytest.mark.parametrize(
    ("values", "measure", "expected"),
    [
        # 0.98 +- 0.0430, and 0.01 +- 0.0430: what is a part of a whole is in it.
        ([0.96, 0.98, 1.0], "share.bbr", "98 % (93 % to 100 %, n=3)"),
        ([0.0, 0.0, 0.03], "loss_ratio", "1 % (0 % to 5.3 %, n=3)"),
        ([0.96, 0.98, 1.0], "jain", "0.98 (0.93 to 1, n=3)"),
        ([0.5, 0.52, 0.51], "share.bbr", "51 % (±2.48 %, n=3)"),
        # What is not a ratio, or is one of something else, may be more.
        ([0.96, 0.98, 1.0], "queue_bdp", "0.98 BDP (±0.0497 BDP, n=3)"),
    ],
)
def test_the_interval_of_a_ratio_is_one_of_ratios(values: list[float], measure: str, expected: str) -> None:
    assert show(estimate(values), measure) == expected
    # A difference of two ratios may be less than 0.
    assert "to" not in show(estimate(values), measure, is_mean=False)


def test_rules_of_other_kinds() -> None:
    """Each with what is on the other side of it."""
    near = Nearest(left=Pick("m", {"train": "cubic"}), right=Pick("m", {"train": "bbr"}), over="gap", at="500ms")
    cubic = {"100ms": 0.5, "500ms": 0.7, "900ms": 0.8}
    assert verdict(near, gaps({"100ms": 0.3, "500ms": 0.6, "900ms": 0.95}, cubic)) == "agrees"
    # Nearer at another one, whichever is ahead.
    assert verdict(near, gaps({"100ms": 0.55, "500ms": 0.6, "900ms": 0.95}, cubic)) == "differs"
    assert verdict(near, gaps({"100ms": 0.3, "900ms": 0.95}, cubic)) == "not run here"
    straight = Straight(pick=Pick("m"), over=BUFFER, tolerance=0.02)
    assert verdict(straight, along(b0_5=0.12, b1=0.07, b1_5=0.0)) == "agrees"
    assert verdict(straight, along(b0_5=0.12, b1=0.1, b1_5=0.0)) == "differs"
    assert verdict(straight, along(b0_5=0.12, b1_5=0.0)) == "not run here"
    at = Farthest(left=Pick("m", {"train": "cubic"}), right=Pick("m", {"train": "bbr"}), over="gap", at="100ms")
    assert verdict(at, gaps({"100ms": 0.1, "900ms": 0.7}, cubic)) == "agrees"
    assert verdict(at, gaps({"100ms": 0.4, "900ms": 0.4}, cubic)) == "differs"
    far = Within(pick=Pick("m", absolute=True), low=0.5)
    assert verdict(far, [point(-0.9)]) == "agrees"
    assert verdict(far, [point(-0.3)]) == "differs"


def test_a_median_of_errors() -> None:
    rule = MedianError(pick=Pick("m"), expected="model_share", most=0.05)

    def runs(*shares: float) -> list[MeasuredPoint]:
        return [
            MeasuredPoint("e", {BUFFER: f"{number}bdp"}, 1, {"m": share, "model_share": 0.5})
            for number, share in enumerate(shares, 1)
        ]

    # One of three is far off, which a rule of every setting would not allow.
    assert verdict(rule, runs(0.52, 0.46, 0.9)) == "agrees"
    assert verdict(rule, runs(0.52, 0.40, 0.9)) == "differs"
    assert verdict(rule, [point(0.5)]) == "not run here"


def test_what_is_said_of_runs_is_no_mean() -> None:
    rule = Sometimes(pick=Pick("m"), high=0.9)
    fair = [point(0.99, number) for number in range(1, 4)]
    assert judged(rule, [*fair, point(0.7, 4)]).verdict == "agrees"
    # Three fair runs do not say that one of ten would not be unfair: 0.9 ** 3 is 73 %.
    assert judged(rule, fair).verdict == "undecided"
    assert judged(rule, fair).p_value == pytest.approx(0.9**3)
    many = [point(0.99, number) for number in range(1, 51)]
    assert judged(rule, many).verdict == "differs"


def test_a_condition_that_is_not_known() -> None:
    rule = AtOneOf(over=BUFFER, check=Within(pick=Pick("m"), low=0.8))
    assert verdict(rule, along(b0_8=0.9, b8=0.95)) == "agrees"
    assert verdict(rule, along(b0_8=0.3, b8=0.4)) == "differs"
    # It depends on what is not said.
    assert verdict(rule, along(b0_8=0.9, b8=0.4)) == "not comparable"
    assert verdict(rule, []) == "not run here"


def test_what_is_not_resolved_cannot_be_compared() -> None:
    rule = Compare(left=Pick("m", {"cca": "bbr3"}), right=Pick("m", {"cca": "bbr"}), high=1.0, resolution=1.0)

    def times(later: float, former: float) -> list[MeasuredPoint]:
        return [
            MeasuredPoint("e", {"cca": "bbr3"}, 1, {"m": later}),
            MeasuredPoint("e", {"cca": "bbr"}, 1, {"m": former}),
        ]

    assert verdict(rule, times(0.0, 0.0)) == "not comparable"
    assert verdict(rule, times(0.0, 20.0)) == "agrees"
    assert verdict(rule, times(20.0, 0.0)) == "differs"


def test_a_difference_that_stays_may_be_another_one() -> None:
    rule = statement(Within(pick=Pick("convergence_s"), low=240))

    def runs(experiment: str, *times: float) -> list[MeasuredPoint]:
        return [
            MeasuredPoint(experiment, {BUFFER: "16bdp"}, n, {"convergence_s": time}) for n, time in enumerate(times, 1)
        ]

    ours, tbf = runs("staggered", 49.0, 55.0, 56.0), runs("through-tbf", 11.0, 11.5, 10.8)
    assert {evaluate(rule, ours).verdict, evaluate(rule, tbf).verdict} == {"differs"}
    assert moved(rule, ours, tbf).startswith("buffer 16bdp: convergence_s 53.3 s")
    assert moved(rule, ours, runs("through-tbf", 50.0, 53.0, 57.0)) == ""


def test_the_interval_of_a_difference_is_welch_s() -> None:
    left, right = [10.0, 12.0, 14.0], [5.0, 5.5, 6.0, 6.5]
    found = estimate(left, [-value for value in right])
    expected = stats.ttest_ind(left, right, equal_var=False).confidence_interval()
    assert found is not None
    assert found.interval == pytest.approx((expected.low, expected.high))


def test_a_crossing_is_interpolated() -> None:
    assert crossing([(1, 0.3), (3, -0.1)]) == pytest.approx(2.5)
    assert crossing([(1, 0.3), (3, 0.1)]) is None


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_study_without_points_was_not_run(study: Study) -> None:
    statements = [statement for figure in study.figures for statement in figure.statements]
    assert statements
    assert {evaluate(statement, []).verdict for statement in statements} == {"not run here"}
    # A difference comes with measurements.
    assert [statement.id for statement in statements if not statement.evidence] == []
    assert all(statement.source for statement in statements)
    for figure in study.figures:
        # Where a figure looks at several experiments, each pick says at which.
        named = ["experiment" in pick.where for statement in figure.statements for pick in picks(statement.check)]
        assert all(named) if figure.beside else not any(named)
        ids = [statement.id for statement in figure.statements]
        assert len(set(ids)) == len(ids)
    assert len({figure.id for figure in study.figures}) == len(study.figures)


def test_one_run_under_two_settings_is_one() -> None:
    """With one seed, two buffers that never fill have the same run: it was counted twice, as if it were two."""
    others = {f"m{number}": float(number) for number in range(30)}
    values = (0.0, 0.1, 0.23)

    def runs(buffer: str, twin: bool, provenance: dict[str, int]) -> list[MeasuredPoint]:
        return [
            MeasuredPoint(
                "e",
                {BUFFER: buffer},
                n,
                {**others, "m": value if twin else value + n / 1e3, "queue_fill": 1 / n},
                "",
                provenance,
            )
            for n, value in enumerate(values, 1)
        ]

    rule = Within(pick=Pick("m"), low=0.0)
    once = judged(rule, runs("1bdp", True, {})).p_value
    twice = judged(rule, runs("1bdp", True, {}) + runs("2bdp", True, {})).p_value
    assert twice == pytest.approx(once)
    # Runs that differ are two, and so are those of two seeds.
    assert judged(rule, runs("1bdp", True, {}) + runs("2bdp", False, {})).p_value < 0.8 * once
    assert judged(rule, runs("1bdp", True, {"seed": 1}) + runs("2bdp", True, {"seed": 2})).p_value < 0.8 * once
