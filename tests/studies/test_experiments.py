# SPDX-License-Identifier: Apache-2.0
"""Every experiment of every study loads in both variants, and has the points that its statements speak of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.batch.time_left import TimeLeft
from narrows.errors import InputError
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import make_series
from narrows.field_types import groups_in
from narrows.run.duration import traffic_time_s
from narrows.run.environment import OVERHEAD_S, THIS_MACHINE
from narrows.virtual.environment import BOOT_AND_ANALYSIS_S, PACKETS_PER_S, Guests
from narrows.virtual.kernels import Kernel
from narrows_analysis.study_results import MeasuredPoint
from narrows_formats.units import duration_in_words
from narrows_studies.checks import meets
from narrows_studies.evaluate import evaluate
from narrows_studies.model import Study
from narrows_studies.running.catalogue import (
    CONTROLS,
    QUICK,
    change,
    control_points,
    find_study,
    select,
    study_points,
)
from narrows_studies.running.processors import most_at_once
from own_studies import EXPERIMENTS, STUDIES

STUDY_LIST = list(STUDIES.values())


@pytest.mark.parametrize("study", STUDY_LIST, ids=STUDIES)
def test_every_file_belongs_to_a_figure(study: Study) -> None:
    files = {path.stem for path in (EXPERIMENTS / study.name).glob("*.yaml")} - {Path(QUICK).stem, Path(CONTROLS).stem}
    assert files == set(study.experiments)
    quick = yaml.safe_load((EXPERIMENTS / study.name / QUICK).read_text())
    assert set(quick) == files


@pytest.mark.long
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
@pytest.mark.parametrize("study", STUDY_LIST, ids=STUDIES)
def test_every_point_can_be_planned(study: Study, quick: bool) -> None:
    points = study_points(study, quick)
    directories = [point.directory for point in points]
    assert len(set(directories)) == len(directories)
    plans = [make_plan(point.point.experiment) for point in points]
    assert all(traffic_time_s(plan) > 0 for plan in plans)
    if quick:
        assert TimeLeft([THIS_MACHINE.expected_s(plan) for plan in plans]).seconds < 4 * 3600


@pytest.mark.parametrize("study", [one for one in STUDY_LIST if one.controls], ids=lambda one: one.name)
def test_controls_are_quick_points_with_something_changed(study: Study) -> None:
    overlay = EXPERIMENTS / study.name / CONTROLS
    ours = [control for control in study.controls if control.link is None]
    if not ours:
        assert not overlay.exists()
        with pytest.raises(InputError, match="has none"):
            control_points(study)
        return
    assert set(yaml.safe_load(overlay.read_text())) == {control.id for control in ours}
    points = control_points(study)
    assert {point.experiment for point in points} == {control.id for control in ours}
    quick = [point.point.experiment.as_yaml_data() for point in study_points(study, quick=True)]
    settings = [(point.experiment, point.parameters) for point in points]
    for point, setting in zip(points, settings, strict=True):
        # What is changed may be the number of repetitions, of which the first is the quick one.
        data = point.point.experiment.as_yaml_data()
        assert data not in quick or settings.count(setting) > quick.count(data)


def test_a_control_keeps_what_quick_changes() -> None:
    points = [point for point in control_points(find_study("hock2017")) if point.experiment.startswith("alone")]
    # The full variant has 1 and 10 Gbit/s and five repetitions.
    assert [point.parameters["bottleneck.rate"] for point in points] == ["200Mbit"] * 18 + ["1Gbit"] * 6


def test_a_control_may_replace_an_algorithm() -> None:
    points = [point for point in control_points(find_study("hock2017")) if point.experiment.endswith("before-5.1")]
    assert {group.cca for point in points for group in point.point.experiment.flows} == {"bbr_before_5.1", "cubic"}
    assert {point.parameters["bottleneck.buffer"] for point in points} == {"8bdp"}


@pytest.mark.parametrize("study", STUDY_LIST, ids=STUDIES)
def test_a_control_s_points_are_those_of_its_statements(study: Study) -> None:
    experiments = {
        point.experiment for point in (control_points(study) if (EXPERIMENTS / study.name / CONTROLS).exists() else [])
    }
    measures = _Anything()
    for control in study.controls:
        known = {
            s.id: s for figure in study.figures if figure.experiment == control.experiment for s in figure.statements
        }
        assert set(control.statements) <= set(known)
        if control.id in experiments:
            points = [
                MeasuredPoint(point.experiment, point.parameters, 1, measures)
                for point in control_points(study)
                if point.experiment == control.id
            ]
            for statement in control.statements:
                assert evaluate(known[statement], points).verdict != "not run here", f"{control.id}: {statement}"


@pytest.mark.long
@pytest.mark.parametrize("study", STUDY_LIST, ids=STUDIES)
def test_the_full_variant_has_every_point_that_a_statement_needs(study: Study) -> None:
    """With all measures there, no statement is left without a verdict."""
    measures = _Anything()
    points = [
        MeasuredPoint(point.experiment, point.parameters, point.point.repetition, measures)
        for point in study_points(study, quick=False)
    ]
    for figure in study.figures:
        mine = [point for point in points if point.experiment in figure.experiments]
        for statement in figure.statements:
            assert evaluate(statement, mine).verdict != "not run here", f"{figure.id}: {statement.id}"
        for plot in figure.plots:
            assert any(meets(point, plot.where) for point in mine), f"{figure.id}: {plot.title}"
            for axis in (plot.x, plot.by):
                assert not axis or axis in mine[0].parameters, f"{figure.id}: {axis}"


class _Anything(dict[str, float]):
    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> Any:
        return 1.0


def test_quick_keeps_the_swept_fields_of_the_full_variant() -> None:
    points = [point for point in study_points(find_study("claypool2019"), quick=True) if point.experiment == "loss"]
    assert {point.parameters["bottleneck.rate"] for point in points} == {"80Mbit"}
    assert {point.parameters["flows.bbr.count"] for point in points} == {"2", "4", "8"}


def test_a_figure_alone() -> None:
    chosen = study_points(find_study("claypool2019"), quick=True, figure="4b")
    assert {point.experiment for point in chosen} == {"staggered"}
    with pytest.raises(InputError, match="no such figure"):
        study_points(find_study("claypool2019"), quick=True, figure="2")
    with pytest.raises(InputError, match="did you mean 'claypool2019'"):
        find_study("claypool2018")


def test_every_point_once_before_any_twice() -> None:
    points = study_points(find_study("hock2017"), quick=True)
    repetitions = [point.point.repetition for point in points]
    assert repetitions == sorted(repetitions) and set(repetitions) == {1, 2, 3}
    assert list(dict.fromkeys(point.experiment for point in points)) == ["alone", "against-cubic", "rtt-fairness"]


def test_some_points() -> None:
    points = study_points(find_study("hock2017"), quick=False)
    slow = select(points, ["bottleneck.rate=1Gbit"], repetitions=2)
    assert {point.parameters["bottleneck.rate"] for point in slow} == {"1Gbit"}
    assert {point.point.repetition for point in slow} == {1, 2}
    assert 2 * len([point for point in points if point.point.repetition <= 2]) == 4 * len(slow)
    # Values of one field are alternatives; what an experiment does not sweep, it does not meet.
    some = select(points, ["flows.all.count=1", "flows.all.count=6", "flows.all.cca=bbr"])
    assert {point.experiment for point in some} == {"alone"}
    assert {point.parameters["flows.all.count"] for point in some} == {"1", "6"}
    assert select(points) == points


BASE: dict[str, Any] = {
    "name": "x",
    "bottleneck": {"rate": "10Mbit", "rtt": "10ms", "buffer": "1bdp"},
    "flows": [{"cca": "bbr", "duration": "9s"}, {"cca": "cubic", "duration": "9s"}],
    "repeat": 3,
    "sweep": {"bottleneck.buffer": ["1bdp", "2bdp"]},
}


def test_a_change_reaches_every_group_it_names() -> None:
    changed = change(BASE, {"bottleneck.rate": "1Mbit", "flows.*.duration": "1s", "repeat": 1, "sweep": {}}, "here")
    assert changed["bottleneck"] == {**BASE["bottleneck"], "rate": "1Mbit"}
    assert [group["duration"] for group in groups_in(changed)] == ["1s", "1s"]
    assert (changed["repeat"], changed["sweep"]) == (1, {})
    assert BASE["bottleneck"]["rate"] == "10Mbit"
    with pytest.raises(InputError, match=r"here.*unknown field 'rat'.*did you mean 'rate'"):
        change(BASE, {"bottleneck.rat": "1Mbit"}, "here")


def test_how_many_runs_at_once() -> None:
    assert [most_at_once(cpus, 0.2) for cpus in (1, 2, 4, 8, 16, 64)] == [1, 1, 1, 1, 3, 15]
    assert most_at_once(64, 60.0) == 1


def test_the_time_left_follows_the_runs_so_far() -> None:
    left = TimeLeft([60.0, 30.0, 30.0])
    assert left.seconds == 120
    left.done(60.0, 90.0)
    assert left.seconds == 90
    left.done(30.0, 0.0)
    assert left.seconds == 30
    assert TimeLeft([60.0, 60.0], at_once=2).seconds == 60
    assert [duration_in_words(seconds) for seconds in (5, 600, 12_000)] == ["5 s", "10 min", "3 h 20 min"]


def test_what_a_run_takes_follows_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.virtual.environment.about", lambda _: None)
    guests = Guests(Kernel("any", Path("linux")))
    slow, fast = (make_plan(make_series(change(BASE, {"bottleneck.rate": rate}, "here"), "here").points[0].experiment)
                  for rate in ("12112kbit", "12112Mbit"))  # fmt: skip
    traffic_s = traffic_time_s(slow)
    assert {THIS_MACHINE.expected_s(plan) for plan in (slow, fast)} == {OVERHEAD_S + traffic_s}
    # 1000 full-size frames in a second of traffic, or a million.
    packets_s = [guests.expected_s(plan) - BOOT_AND_ANALYSIS_S for plan in (slow, fast)]
    assert packets_s == pytest.approx([1000 * traffic_s / PACKETS_PER_S, 1_000_000 * traffic_s / PACKETS_PER_S])
