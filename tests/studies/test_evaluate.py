# SPDX-License-Identifier: Apache-2.0
"""Made-up results that must and must not agree."""

from __future__ import annotations

import pytest
from narrows_analysis.studies.catalogue import STUDIES
from narrows_analysis.studies.confidence import Estimate, estimate
from narrows_analysis.studies.evaluate import crossing, evaluate, show
from narrows_analysis.studies.model import (
    Check,
    Compare,
    Crossing,
    Dip,
    Farthest,
    Model,
    Pick,
    Point,
    Spread,
    Statement,
    Study,
    Trend,
    Within,
)

BUFFER = "bottleneck.buffer"


def point(measure: float | None, repetition: int = 1, name: str = "m", **parameters: str) -> Point:
    return Point("e", {BUFFER: parameters.pop("buffer", "1bdp"), **parameters}, repetition, {name: measure})


def along(**values: float) -> list[Point]:
    """Points of measure m at buffers of b<number> BDP."""
    return [point(value, buffer=f"{name[1:].replace('_', '.')}bdp") for name, value in values.items()]


def verdict(check: Check, points: list[Point]) -> str:
    return evaluate(Statement("s", "says", "expected", check), points).verdict


HALF = Within(Pick("m", {BUFFER: "0.5bdp"}), 0.09, 0.13)
PERIOD = Within(Pick("m", {BUFFER: "0.5bdp"}), 15, 25, must_exist=True)
SOME = Within(Pick("m", {BUFFER: (2, 8)}), 0.0, 0.9, some=True)
DEEP = Within(Pick("m", {BUFFER: (2, 8)}), 0.0, 0.01, each=True)
RATIO = Compare(Pick("m", {BUFFER: "0.5bdp"}), Pick("m", {BUFFER: "2bdp"}), 2, float("inf"))
FALLS = Trend(Pick("m"), BUFFER, rising=False, least=0.05)
RISES = Trend(Pick("m"), BUFFER, rising=True, least=0.05)
CROSS = Crossing(Pick("m"), BUFFER, 0.5, 3.5, 6.5)


@pytest.mark.parametrize(
    ("check", "points", "expected"),
    [
        (HALF, along(b0_5=0.11, b1=0.9), "agrees"),
        (HALF, along(b0_5=0.05, b1=0.11), "differs"),
        (HALF, along(b1=0.11), "not run here"),
        (HALF, [point(None, buffer="0.5bdp")], "not run here"),
        # It was looked for and is not there, or nobody has looked.
        (PERIOD, [point(None, buffer="0.5bdp")], "differs"),
        (PERIOD, [point(20, buffer="0.5bdp")], "agrees"),
        (PERIOD, along(b1=20), "not run here"),
        # The mean of repetitions counts.
        (HALF, [point(0.08, 1, buffer="0.5bdp"), point(0.12, 2, buffer="0.5bdp")], "agrees"),
        (HALF, [point(0.08, 1, buffer="0.5bdp"), point(0.09, 2, buffer="0.5bdp")], "differs"),
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
    ],
)
def test_verdicts(check: Check, points: list[Point], expected: str) -> None:
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
    check = Farthest(Pick("m", {"train": "cubic"}), Pick("m", {"train": "bbr"}), "gap")
    assert verdict(check, gaps(bbr, cubic)) == expected


def grid(values: dict[str, dict[str, float]]) -> list[Point]:
    """Points by size of the train's flows and rate."""
    return [
        Point("e", {"size": size, "rate": rate}, 1, {"m": value})
        for size, line in values.items()
        for rate, value in line.items()
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (({"10Mbit": 0.95, "20Mbit": 0.8, "40Mbit": 0.9}, {"10Mbit": 0.95, "30Mbit": 0.8, "40Mbit": 0.9}), "agrees"),
        # At the same place.
        (({"10Mbit": 0.95, "20Mbit": 0.8, "40Mbit": 0.9}, {"10Mbit": 0.95, "20Mbit": 0.8, "40Mbit": 0.9}), "differs"),
        # At the edge: no dip.
        (({"10Mbit": 0.95, "20Mbit": 0.9, "40Mbit": 0.8}, {"10Mbit": 0.95, "20Mbit": 0.8, "40Mbit": 0.9}), "differs"),
        # Too shallow.
        (({"10Mbit": 0.95, "20Mbit": 0.94, "40Mbit": 0.95}, {"10Mbit": 0.95, "30Mbit": 0.8, "40Mbit": 0.9}), "differs"),
    ],
)  # fmt: skip
def test_a_dip_must_move(values: tuple[dict[str, float], dict[str, float]], expected: str) -> None:
    assert (
        verdict(Dip(Pick("m"), "rate", "size", 0.02), grid(dict(zip(("500KB", "2MB"), values, strict=True))))
        == expected
    )
    assert verdict(Dip(Pick("m"), "rate", "size", 0.02), grid({"1MB": values[0]})) == "not run here"


def shares(one: float, sixteen: float, model: float = 0.5) -> list[Point]:
    return [
        Point("e", {BUFFER: "8bdp", "count": count}, 1, {"m": share, "model_share": model})
        for count, share in (("1", one), ("16", sixteen))
    ]


def test_model_and_spread() -> None:
    model, spread = Model(Pick("m"), "model_share", 0.15), Spread(Pick("m"), "count", most=0.1)
    assert verdict(model, shares(0.4, 0.6)) == "agrees"
    assert verdict(model, shares(0.5, 0.3)) == "differs"
    assert verdict(model, [point(0.5)]) == "not run here"
    assert verdict(spread, shares(0.4, 0.48)) == "agrees"
    assert verdict(spread, shares(0.4, 0.55)) == "differs"
    assert verdict(spread, shares(0.4, 0.5)[:1]) == "not run here"


def test_a_difference_shows_its_evidence() -> None:
    statement = Statement("s", "says", "expected", HALF, "%", ("queue",))
    points = [Point("e", {BUFFER: "0.5bdp"}, 1, {"m": 0.05, "queue": 0.25})]
    found = evaluate(statement, points)
    assert (found.verdict, found.ours) == ("differs", "5 %")
    assert found.evidence == (("buffer 0.5bdp", ("0.25",)),)
    assert evaluate(statement, along(b0_5=0.1)).evidence == ()


def test_the_evidence_is_that_of_all_settings_compared() -> None:
    statement = Statement("s", "says", "expected", RATIO, "", ("queue", "fill"))
    points = [
        Point("e", {BUFFER: "0.5bdp"}, 1, {"m": 0.1, "queue": 0.25}),
        Point("e", {BUFFER: "2bdp"}, 1, {"m": 0.1, "queue": 0.75, "fill": 0.5}),
        Point("e", {BUFFER: "4bdp"}, 1, {"m": 0.1, "queue": 3.0}),
    ]
    assert evaluate(statement, points).evidence == (("buffer 0.5bdp", ("0.25", "-")), ("buffer 2bdp", ("0.75", "0.5")))


def test_what_is_missing_is_named() -> None:
    found = evaluate(Statement("s", "says", "expected", HALF), along(b1=0.1))
    assert found.ours == "no point with m at bottleneck.buffer 0.5bdp"


def test_confidence_interval() -> None:
    assert estimate([]) is None
    assert estimate([2.0]) == Estimate(2.0, None, 1)
    found = estimate([1.0, 2.0, 3.0])
    assert found is not None
    # t(0.975, 2) = 4.303; standard error 1 / sqrt(3).
    assert found.half_width == pytest.approx(4.303 / 3**0.5)
    assert show(found, "%") == "200 % (+-248 %, n=3)"


def test_crossing() -> None:
    assert crossing([(1, 0.8), (3, 0.4)], 0.5) == pytest.approx(2.5)
    assert crossing([(1, 0.8), (3, 0.6)], 0.5) is None


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_study_without_points_was_not_run(study: Study) -> None:
    statements = [statement for figure in study.figures for statement in figure.statements]
    assert statements
    assert {evaluate(statement, []).verdict for statement in statements} == {"not run here"}
    # A difference comes with measurements.
    assert [statement.id for statement in statements if not statement.evidence] == []
    for figure in study.figures:
        ids = [statement.id for statement in figure.statements]
        assert len(set(ids)) == len(ids)
    assert len({figure.id for figure in study.figures}) == len(study.figures)


def claypool(buffer: str, count: str, **measures: float) -> Point:
    parameters = {"bottleneck.rate": "80Mbit", BUFFER: buffer, "flows.bbr.count": count}
    return Point("loss", parameters, 1, measures)


@pytest.mark.parametrize(
    ("half", "one", "two", "expected"),
    [
        (0.11, 0.055, 0.0, ["agrees", "agrees", "agrees", "agrees"]),
        (0.02, 0.01, 0.0, ["differs", "differs", "agrees", "differs"]),
        (0.055, 0.11, 0.05, ["differs", "differs", "differs", "differs"]),
    ],
)
def test_claypool_figure_7(half: float, one: float, two: float, expected: list[str]) -> None:
    figure = next(figure for figure in STUDIES["claypool2019"].figures if figure.id == "7")
    losses = {"0.5bdp": half, "1bdp": one, "1.5bdp": two, "2bdp": two}
    points = [claypool(buffer, "4", loss_ratio=loss) for buffer, loss in losses.items()]
    assert [evaluate(statement, points).verdict for statement in figure.statements] == expected


@pytest.mark.parametrize(("share", "expected"), [(0.55, "agrees"), (0.2, "differs")])
def test_ware(share: float, expected: str) -> None:
    statement = STUDIES["ware2019"].figures[0].statements[0]
    measures = {"goodput_fraction.bbr": share, "model_share": 0.55}
    assert evaluate(statement, [Point("sweep", {BUFFER: "8bdp"}, 1, measures)]).verdict == expected


def found(study: str, figure: str, statement: str, *points: tuple[dict[str, str], dict[str, float]]) -> str:
    """The verdict on a statement of a study by made-up parameters and measures."""
    checked = next(one for one in STUDIES[study].figures if one.id == figure)
    wanted = next(one for one in checked.statements if one.id == statement)
    return evaluate(wanted, [Point(checked.experiment, where, 1, measures) for where, measures in points]).verdict


@pytest.mark.parametrize(
    ("small", "large", "expected"),
    [
        (0.85, 0.99, "agrees"),
        (0.99, 0.85, "agrees"),
        # What the other studies' rules call fair, at both buffers, is consistently fair.
        (0.95, 0.98, "differs"),
    ],
)
def test_hock_no_consistent_fairness(small: float, large: float, expected: str) -> None:
    six = {"flows.all.cca": "bbr", "flows.all.count": "6"}
    points = [({**six, BUFFER: "0.8bdp"}, {"jain": small}), ({**six, BUFFER: "8bdp"}, {"jain": large})]
    assert found("hock2017", "several", "intra", *points) == expected


@pytest.mark.parametrize(("four", "six", "expected"), [(1.2, 1.4, "agrees"), (0.2, 2.0, "differs")])
def test_hock_each_number_of_flows_has_the_queue(four: float, six: float, expected: str) -> None:
    points = [
        ({BUFFER: "8bdp", "flows.all.cca": "bbr", "flows.all.count": count}, {"queue_bdp": depth})
        for count, depth in (("4", four), ("6", six))
    ]
    assert found("hock2017", "several", "queue", *points) == expected


@pytest.mark.parametrize(
    ("bbr", "cubic", "expected"),
    [
        # (mean, standard deviation) of the completion times
        ((4.0, 2.4), (2.0, 0.8), "agrees"),
        # A greater deviation of times that are longer in the same measure is no greater variability.
        ((4.0, 2.0), (2.0, 1.1), "differs"),
        ((4.0, 1.2), (2.0, 1.0), "differs"),
    ],
)
def test_hurtig_variable(bbr: tuple[float, float], cubic: tuple[float, float], expected: str) -> None:
    points = [
        (
            {BUFFER: "0.5bdp", "flows.rival.cca": rival},
            {"fct_s.subject": mean, "fct_sd_s.subject": deviation, "fct_cv.subject": deviation / mean},
        )
        for rival, (mean, deviation) in (("bbr", bbr), ("cubic", cubic))
    ]
    assert found("hurtig2018", "9", "variable", *points) == expected


@pytest.mark.parametrize(("one", "two", "expected"), [(0.95, 0.88, "agrees"), (0.88, 0.95, "differs")])
def test_hurtig_pacing(one: float, two: float, expected: str) -> None:
    points = [
        # The median does not count.
        ({BUFFER: buffer, "flows.large.cca": "bbr"}, {"pacing_fraction.large": rate, "pacing_median.large": 1 - rate})
        for buffer, rate in (("1bdp", one), ("2bdp", two))
    ]
    assert found("hurtig2018", "10-12", "pacing", *points) == expected


@pytest.mark.parametrize(("two", "five", "expected"), [(0.7, 0.9, "agrees"), (0.7, 0.4, "differs")])
def test_zeynali_cubic_with_more_flows(two: float, five: float, expected: str) -> None:
    point = ({"flows.all.cca": "cubic"}, {"jain_of_2": two, "jain_of_5": five})
    assert found("zeynali2024", "7-9", "cubic-many", point) == expected


@pytest.mark.parametrize(("near", "far", "expected"), [(0.2, 0.6, "agrees"), (0.6, 0.2, "differs")])
def test_zeynali_gap(near: float, far: float, expected: str) -> None:
    points = [
        ({"flows.*.cca": "bbr", "flows.short.rtt": rtt}, {"throughput_difference": difference, "share.long": 0.6})
        for rtt, difference in (("80ms", near), ("10ms", far))
    ]
    assert found("zeynali2024", "10-12", "gap", *points) == expected


@pytest.mark.parametrize(("peak", "expected"), [(0.06, "agrees"), (0.087, "differs"), (0.01, "differs")])
def test_claypool_loss_peaks(peak: float, expected: str) -> None:
    point = ({BUFFER: "1.75bdp", "flows.*.count": "2"}, {"loss_max": peak})
    assert found("claypool2019", "9", "loss-peaks", point) == expected
