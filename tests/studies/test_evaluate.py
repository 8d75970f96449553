# SPDX-License-Identifier: Apache-2.0
"""Made-up results that must and must not agree."""

from __future__ import annotations

import pytest
from narrows_analysis.metrics.confidence import estimate
from narrows_analysis.studies.catalogue import STUDIES
from narrows_analysis.studies.checks import (
    Check,
    Compare,
    Crossing,
    Every,
    Extreme,
    Farthest,
    Model,
    Pick,
    Spread,
    Trend,
    Within,
    picks,
    within,
)
from narrows_analysis.studies.evaluate import Finding, evaluate, show, verdict_text
from narrows_analysis.studies.judge import crossing
from narrows_analysis.studies.model import Point, Statement, Study, says
from scipy import stats

BUFFER = "bottleneck.buffer"


def point(measure: float | None, repetition: int = 1, name: str = "m", **parameters: str) -> Point:
    return Point("e", {BUFFER: parameters.pop("buffer", "1bdp"), **parameters}, repetition, {name: measure})


def along(**values: float) -> list[Point]:
    """Points of measure m at buffers of b<number> BDP."""
    return [point(value, buffer=f"{name[1:].replace('_', '.')}bdp") for name, value in values.items()]


def statement(check: Check, **more: str) -> Statement:
    return Statement(id="s", says="says", source="figure 1", agrees_if="if", check=check, **more)  # type: ignore[arg-type]


def repeated(points: list[Point], *noise: float) -> list[Point]:
    """Repetitions of each point with these parts added to its measures; without any, three that are alike."""
    return [
        Point(
            one.experiment,
            one.parameters,
            number,
            {name: None if value is None else value * (1 + part) for name, value in one.measures.items()},
        )
        for one in points
        for number, part in enumerate(noise or (0.0, 0.0, 0.0), 1)
    ]


def judged(check: Check, points: list[Point]) -> Finding:
    return evaluate(statement(check), points)


def verdict(check: Check, points: list[Point]) -> str:
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
        # It was looked for and is not there, or nobody has looked.
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
def test_each_check_has_its_verdict(check: Check, points: list[Point], expected: str) -> None:
    assert verdict(check, points) == expected


def gaps(bbr: dict[str, float], cubic: dict[str, float]) -> list[Point]:
    """Points by the train's algorithm and gap."""
    return [
        Point("e", {"train": train, "gap": gap}, 1, {"m": value})
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

    def at(bbr: tuple[float, float], cubic: tuple[float, float]) -> list[Point]:
        return [
            Point("e", {"cca": cca, "rate": rate}, 1, {"m": value})
            for cca, values in (("bbr", bbr), ("cubic", cubic))
            for rate, value in zip(("5Mbit", "70Mbit"), values, strict=True)
        ]

    assert verdict(check, at((1.0, 0.1), (2.0, 0.2))) == "agrees"
    # On average it would be less.
    assert verdict(check, at((1.0, 0.3), (2.0, 0.2))) == "differs"
    assert verdict(check, at((1.0, 0.1), (2.0, 0.2))[:1]) == "not run here"


def shares(one: float, sixteen: float, model: float = 0.5) -> list[Point]:
    return [
        Point("e", {BUFFER: "8bdp", "count": count}, 1, {"m": share, "model_share": model})
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
    points = repeated([Point("e", {BUFFER: "0.5bdp"}, 1, {"loss_ratio": 0.05, "queue": 0.25})])
    found = evaluate(check, points)
    assert (found.verdict, found.ours) == ("differs", "5 % (+-0 %, n=3)")
    assert found.evidence == (("buffer 0.5bdp", ("0.25 (+-0, n=3)",)),)
    assert evaluate(check, repeated([point(0.1, name="loss_ratio")])).evidence == ()
    # What only looks like a difference shows it too.
    assert evaluate(check, points[:1]).evidence == (("buffer 0.5bdp", ("0.25",)),)


def test_of_many_settings_those_that_do_not_meet_it_are_listed() -> None:
    def ours(values: list[float], check: Check) -> str:
        points = [
            Point("x", {"bottleneck.buffer": f"{buffer}bdp"}, number, {"jain": value})
            for buffer, value in enumerate(values, 1)
            for number in (1, 2, 3)
        ]
        statement = says("figure 1", "id", "it is fair").agrees_if("at each buffer", check)
        return evaluate(statement, points).ours

    fair = within("jain", low=0.9, each=True)
    text = ours([0.91, 0.99, 0.95, 0.5, 0.96, 0.97, 0.98], fair)
    assert text == (
        "0.5 (+-0, n=3) to 0.99 (+-0, n=3) at 7 settings, of which 6 meet it; not: buffer 4bdp: 0.5 (+-0, n=3)"
    )
    assert ours([0.99] * 7, fair) == "0.99 (+-0, n=3) to 0.99 (+-0, n=3) at 7 settings, of which 7 meet it"
    assert ours([0.5] * 9, fair).endswith("buffer 6bdp: 0.5 (+-0, n=3), and 3 more")
    assert ours([0.91, 0.5], fair) == "buffer 1bdp: 0.91 (+-0, n=3); buffer 2bdp: 0.5 (+-0, n=3)"


def test_the_evidence_is_that_of_all_settings_compared() -> None:
    check = statement(RATIO, evidence=("queue", "fill"))  # type: ignore[arg-type]
    points = [
        Point("e", {BUFFER: "0.5bdp"}, 1, {"m": 0.1, "queue": 0.25}),
        Point("e", {BUFFER: "2bdp"}, 1, {"m": 0.1, "queue": 0.75, "fill": 0.5}),
        Point("e", {BUFFER: "4bdp"}, 1, {"m": 0.1, "queue": 3.0}),
    ]
    assert evaluate(check, points).evidence == (("buffer 0.5bdp", ("0.25", "-")), ("buffer 2bdp", ("0.75", "0.5")))


@pytest.mark.parametrize(
    ("values", "expected", "leaning", "more"),
    [
        # All of the interval is inside, or outside.
        ((0.108, 0.110, 0.112), "agrees", True, None),
        ((0.048, 0.050, 0.052), "differs", False, None),
        # Some of it is on the other side: 0.125 +- 0.0248 of [0.09, 0.13].
        ((0.115, 0.125, 0.135), "undecided", True, 15),
        ((0.135, 0.14, 0.145), "undecided", False, 1),
        # One run has no interval.
        ((0.11,), "undecided", True, 2),
        ((0.5,), "undecided", False, 2),
        # No number of such runs tells the mean from the bound.
        ((0.12, 0.13, 0.14), "undecided", True, None),
    ],
)
def test_the_interval_decides(values: tuple[float, ...], expected: str, leaning: bool, more: int | None) -> None:
    found = judged(HALF, [point(value, number, buffer="0.5bdp") for number, value in enumerate(values, 1)])
    assert (found.verdict, found.leaning, found.more) == (expected, leaning, more)
    assert found.count == len(values)


def test_the_number_of_repetitions_that_would_decide_does() -> None:
    # Of the same mean and variance.
    values = [0.115, 0.125, 0.135]
    more = judged(HALF, [point(value, buffer="0.5bdp") for value in values]).more
    assert more is not None

    def again(count: int) -> str:
        spread = 0.01 * ((count - 1) / count) ** 0.5
        halves = [0.125 + spread] * (count // 2) + [0.125 - spread] * (count // 2)
        return judged(HALF, [point(value, buffer="0.5bdp") for value in halves]).verdict

    assert again(3 + more + (3 + more) % 2) == "agrees"
    assert again(3 + more - 2 - (3 + more) % 2) == "undecided"


def test_verdicts_in_words() -> None:
    def words(*values: float) -> str:
        return verdict_text(judged(HALF, [point(value, buffer="0.5bdp") for value in values]))

    assert words(0.11, 0.11) == "agrees (n=2)"
    assert words(0.5, 0.5, 0.5) == "differs (n=3)"
    assert words(0.11) == "undecided (n=1; means agree; at least 2 more repetitions)"
    assert words(0.135, 0.14, 0.145) == "undecided (n=3; means differ; about 1 more repetition would decide)"
    assert words() == "not run here"


def test_measures_of_one_run_are_compared_within_it() -> None:
    check = Compare(left=Pick("a"), right=Pick("b"), low=1.0)

    def runs(*pairs: tuple[float, float]) -> list[Point]:
        return [Point("e", {}, number, {"a": a, "b": b}) for number, (a, b) in enumerate(pairs, 1)]

    # a is always 0.1 above b, although both differ much from run to run.
    assert judged(check, runs((0.3, 0.2), (0.9, 0.8), (0.6, 0.5))).verdict == "agrees"
    # The other way round in one of them.
    assert judged(check, runs((0.3, 0.2), (0.9, 0.2), (0.5, 0.6))).verdict == "undecided"


def test_repetitions_without_the_measure_count() -> None:
    have, lack = point(20.0, 1, buffer="0.5bdp"), point(None, 2, buffer="0.5bdp")
    assert judged(PERIOD, [have, have, have]).verdict == "agrees"
    # Two of three have it: that is not what is published, nor its contrary.
    assert judged(PERIOD, [have, have, lack]).verdict == "undecided"
    assert judged(PERIOD, [have, have, lack]).ours == "20 (+-0, n=2, 1 without it)"
    # Nobody can say of one run that there is none.
    assert judged(PERIOD, [lack]).verdict == "undecided"
    assert judged(PERIOD, [lack, lack]).verdict == "differs"
    # Where absence says nothing, it leaves open.
    unknown = Within(pick=Pick("m"), low=15, high=25)
    assert judged(unknown, [have, have, lack]).verdict == "undecided"


def test_a_run_with_too_few_of_what_is_averaged_says_nothing() -> None:
    check = Within(pick=Pick("m", needs=("completions", 3.0)), low=0, high=1)
    runs = [Point("e", {}, number, {"m": 0.5, "completions": 10.0}) for number in (1, 2, 3)]
    assert judged(check, runs).verdict == "agrees"
    assert judged(check, [*runs, Point("e", {}, 4, {"m": 0.5, "completions": 2.0})]).verdict == "undecided"


def test_never_is_later_than_the_end() -> None:
    def runs(*times: float | None) -> list[Point]:
        return [Point("e", {}, n, {"m": time, "end": 285.0}) for n, time in enumerate(times, 1)]

    late = Within(pick=Pick("m", absent="end"), low=240)
    assert judged(late, runs(None, None, None)).verdict == "agrees"
    assert judged(late, runs(None, None, None)).ours == "at least 285 (+-0, n=3)"
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
    assert show(found, "%") == "200 % (+-248 %, n=3)"


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
