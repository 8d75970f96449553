# SPDX-License-Identifier: Apache-2.0
"""Every figure of the gallery is drawn, from the run's own data and in the page's colours."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from narrows_analysis import AnalysisError, analyze_run, load
from narrows_analysis.gallery import NAMES, draw, figure, gallery
from narrows_analysis.report import figures
from narrows_analysis.report.charts import Chart, ChartSeries, Mark, Reference, Tick, encode
from narrows_analysis.report.content import parameters, setting
from narrows_analysis.report.figures import RunFigures

# What needs hosts/sockets.parquet, a link that varies, marks, or DualPI2.
ABSENT = {
    "cwnd",
    "inflight",
    "pacing",
    "link_rate",
    "link_delay",
    "marks",
    "delay_by_queue",
    "depth_by_queue",
    "low_latency_delay",
}
Competition = tuple[Path, synthetic.Truth, Any]


def test_every_figure_that_has_data_is_drawn(competition: Competition) -> None:
    figures = gallery(load(competition[0]))
    assert set(figures) == set(NAMES) - ABSENT
    for name, drawn in figures.items():
        buffer = io.BytesIO()
        drawn.savefig(buffer, format="pdf")
        assert len(buffer.getvalue()) > 3000, name
        for axes in drawn.axes:
            assert axes.get_xlabel() and (axes.get_ylabel() or name == "share"), name


def test_events_are_marked_and_named(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0), files=1)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    event = {"at_ns": 1_500_000_000, "achieved_ns": 1_500_000_007, "timed_by": "software", "asked_by": "experiment"}
    names = ("bottleneck: rate 10Mbit", "late starts")
    record["events"] = [event | {"what": what} for what in names]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    analyze_run(tmp_path / "run")
    run = load(tmp_path / "run")
    for name in ("goodput", "queue_delay"):
        (axes,) = figure(run, name).axes
        assert [one.get_text().strip() for one in axes.texts if one.get_rotation() == 90] == list(names)
        marks = [line for line in axes.get_lines() if np.array_equal(np.asarray(line.get_ydata()), [0, 1])]
        assert [np.asarray(line.get_xdata()).tolist() for line in marks] == [[1.500000007] * 2] * 2


def test_lines_are_the_series(competition: Competition) -> None:
    run = load(competition[0])
    lines = figure(run, "goodput").axes[0].get_lines()
    for number in (0, 1):
        mine = run.flows[run.flows["flow"] == number]
        # The last interval is not a whole one.
        mine = mine[mine["time_s"] + mine["interval_s"] <= max(flow["end_s"] or 0.0 for flow in run.summary["flows"])]
        assert 0 < len(mine) < len(run.flows[run.flows["flow"] == number])
        drawn = np.asarray(lines[number].get_ydata())
        np.testing.assert_allclose(drawn[np.isfinite(drawn)] * 1e6, mine["goodput_bps"])
        assert to_hex(lines[number].get_color()) == run.colors[number].hex
    depth = figure(run, "queue_depth").axes[0].get_lines()[0]
    assert np.nanmax(np.asarray(depth.get_ydata())) * 1e3 == run.queue["depth_mean_bytes"].max()


def test_a_chart_is_drawn_as_it_says() -> None:
    """Each part of the specification is shown; a reference that must not stretch the axis is not."""
    x = np.array([0.0, 1.0, 4.0])
    lines = [
        ChartSeries("stepped", np.array([1.0, 2.0, 3.0]), "c1", x=x, step=True),
        ChartSeries("even", np.array([2.0, np.nan, 1.0]), "c2", 40, x0=0.5, dx=2.0, lo=np.zeros(3), hi=np.full(3, 3.0)),
    ]
    references = [Reference(5.0, "buffer"), Reference(50.0, "far", fit=False)]
    chart = Chart(
        "id", "title", "caption", (0.0, 6.0), "Depth (kB)", "depth", "kB", lines, references, [Mark(3.0, "e")]
    )
    (axes,) = draw(chart).axes
    stepped, even, *others = axes.get_lines()
    assert (stepped.get_drawstyle(), even.get_drawstyle()) == ("steps-post", "default")
    np.testing.assert_array_equal(np.asarray(even.get_xdata()), [0.5, 2.5, 4.5])
    assert to_hex(even.get_color()) != to_hex(stepped.get_color()) == "#d55e00"
    assert len(axes.collections) == 1
    assert sorted(float(np.asarray(line.get_ydata())[0]) for line in others) == [0.0, 5.0]
    assert axes.get_xlim() == (0.0, 6.0) and axes.get_ylim()[0] == 0.0 and 5.0 < axes.get_ylim()[1] < 10.0
    assert {text.get_text().strip() for text in axes.texts} == {"stepped", "even", "buffer", "e"}


def test_points_have_whiskers_and_their_own_ticks() -> None:
    mean = np.array([1.0, 2.0])
    line = ChartSeries("bbr", mean, "c0", x=mean, lo=mean - 0.5, hi=mean + 0.5, points=True)
    ticks = [Tick(1.0, "1bdp"), Tick(2.0, "2bdp")]
    (axes,) = draw(Chart("id", "title", "", (0.9, 2.1), "Share", "share", "", [line], time=False, x_ticks=ticks)).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1bdp", "2bdp"]
    (whiskers,) = axes.collections
    assert isinstance(whiskers, LineCollection)
    assert [segment.tolist() for segment in whiskers.get_segments()] == [
        [[1.0, 0.5], [1.0, 1.5]], [[2.0, 1.5], [2.0, 2.5]],
    ]  # fmt: skip


def test_intervals_at_one_place_stand_side_by_side() -> None:
    """Around it, with their points, wherever the axis begins."""
    x, mean = np.array([1.0, 2.0]), np.array([5.0, 6.0])
    lines = [ChartSeries(name, mean, "c0", x=x, lo=mean - 1, hi=mean + 1, points=True) for name in ("a", "b", "c")]
    (axes,) = draw(Chart("id", "title", "", (0.9, 2.1), "Share", "share", "", lines, time=False)).axes
    place = axes.transData.transform((1.0, 5.0))[0]
    for drawn in (axes.get_lines(), axes.collections):
        offsets = [one.get_transform().transform((1.0, 5.0))[0] - place for one in drawn]
        assert offsets[1] == pytest.approx(0) and -offsets[0] == pytest.approx(offsets[2]) and offsets[2] > 2
    assert axes.get_xlim() == (0.9, 2.1) and axes.get_ylim()[1] > 7


def test_loss_over_a_long_window_is_the_loss_so_far(competition: Competition) -> None:
    run_dir, truth, _ = competition
    chart = RunFigures(load(run_dir)).loss(window_s=1000)
    assert chart is not None
    line = draw(chart).axes[0].get_lines()[1]
    drawn = np.asarray(line.get_ydata())
    assert drawn[np.isfinite(drawn)][-1] / 100 == pytest.approx(truth.drops[1] / truth.arrivals[1])


def test_loss_is_drawn_when_the_window_that_it_is_of_ends(of_link: Callable[..., RunFigures]) -> None:
    build = of_link()
    chart = build.loss(window_s=0.2)
    assert chart is not None
    for number, line in enumerate(chart.series):
        mine = build.flows[build.flows["flow"] == number]
        ends = mine["time_s"].to_numpy() + mine["interval_s"].to_numpy()
        for at, percent in [point for point in zip(line.at(), line.y, strict=True) if np.isfinite(point[1])]:
            past = mine[(ends > at - 0.2 + 1e-6) & (ends <= at + 1e-6)]
            assert percent == pytest.approx(100 * past["drops"].sum() / past["arrivals"].sum())


def test_groups_of_many_flows_have_all_that_short_ones_carried(
    competition: Competition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow that is over within an interval has no whole one; its group carried its payload all the same."""
    monkeypatch.setattr(figures, "MAX_LINES", 1)
    run = load(competition[0])
    for flow in run.summary["flows"]:
        flow["start_s"], flow["end_s"] = 1.11, 1.19
    drawn = {line.name: line.y for line in RunFigures(run).throughput().series}
    total = drawn.pop("all flows")
    assert np.isfinite(total).any()
    np.testing.assert_allclose(np.nansum(list(drawn.values()), axis=0), np.nan_to_num(total))


@pytest.fixture
def of_link(tmp_path: Path) -> Callable[..., RunFigures]:
    """Figures of a short run whose link has these settings."""

    def made(**settings: Any) -> RunFigures:
        run_dir = tmp_path / f"run-{len(settings)}"
        synthetic.write_run(run_dir, synthetic.two_flows(1.5))
        record = json.loads((run_dir / "run.json").read_text())
        record["bottleneck"] |= settings
        (run_dir / "run.json").write_text(json.dumps(record))
        analyze_run(run_dir)
        return RunFigures(load(run_dir))

    return made


def test_a_delay_that_changes_within_an_interval_is_drawn(of_link: Callable[..., RunFigures]) -> None:
    """10 and 30 ms in turn, 50 ms each: samples every 100 ms would all be 10 ms."""
    steps = {"steps": [[0, 10_000_000], [50_000_000, 30_000_000]], "period_ns": 100_000_000}
    chart = of_link(delay_steps=steps).link_delay()
    assert chart is not None
    (line,) = chart.series
    np.testing.assert_allclose(line.at()[:6], [0, 0.05, 0.1, 0.15, 0.2, 0.25])
    np.testing.assert_allclose(line.y[:6], [10, 30, 10, 30, 10, 30])
    assert line.at()[-1] == pytest.approx(chart.x_range[1])


def shown(chart: Chart | None) -> Chart:
    assert chart is not None
    return chart


def test_lines_of_a_link_that_changes_are_of_what_it_was(of_link: Callable[..., RunFigures]) -> None:
    build = of_link(
        rate_schedule={"start_ns": [0, 500_000_000], "rate_bps": [20_000_000, 4_000_000], "period_ns": None},
        later_buffers_bytes=[30_000, 70_000],
    )
    mean_bps = build.summary["bottleneck"]["rate_mean_bps"]
    assert mean_bps is not None and mean_bps < 12e6
    (fair,) = build.throughput().references
    assert fair.y == pytest.approx(mean_bps * 1448 / 1514 / 2 / 1e6)
    lines = [(line.label, line.y) for line in shown(build.depth()).references if "buffer" in line.label]
    assert lines == [("buffer at first", 50.0), ("buffer later", 30.0), ("buffer later", 70.0)]
    assert dict(parameters(build.run, build.summary))["Buffer"] == "50 kB, later 30 kB to 70 kB"
    assert "50 kB buffer (1 BDP at 20 Mbit/s), later 30 kB to 70 kB" in setting(build.run)


def test_drops_of_a_managed_queue_did_not_find_it_full(of_link: Callable[..., RunFigures]) -> None:
    assert "that the full queue dropped" in shown(of_link().drops()).caption
    assert "that the queue (codel) dropped" in shown(of_link(queue_management={"kind": "codel"}).drops()).caption


def test_drops_of_a_policer_did_not_find_the_queue_full(of_link: Callable[..., RunFigures]) -> None:
    policer = {"rate_bps": 1_000_000, "burst_bytes": 3_000, "peak_rate_bps": None, "peak_burst_bytes": None}
    assert "that the policer or the full queue dropped" in shown(of_link(policer=policer).drops()).caption


@pytest.mark.parametrize(("loop", "words"), [(True, "by a"), (False, "of the first 20 packets by a")])
def test_a_pattern_that_ends_is_no_loss_of_the_whole_run(
    of_link: Callable[..., RunFigures], loop: bool, words: str
) -> None:
    build = of_link(loss=0.05, loss_model={"runs": [[3, 3]], "packets": 20, "loop": loop})
    assert dict(parameters(build.run, build.summary))["Random loss set"] == f"5 % {words} recorded pattern"
    assert f"5 % random loss {words} recorded pattern" in setting(build.run)


def test_figures_without_data_are_left_out(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5))
    for path in (tmp_path / "run" / "hosts").iterdir():
        path.unlink()
    for path in (tmp_path / "run" / "telemetry").glob("reports*"):
        path.unlink()
    analyze_run(tmp_path / "run")
    run = load(tmp_path / "run")
    assert gallery(run) == {}
    with pytest.raises(AnalysisError, match="no telemetry to draw"):
        figure(run, "goodput")


def test_what_a_page_cannot_hold_is_missing() -> None:
    most = float(np.finfo(np.float32).max)
    sent = np.frombuffer(base64.b64decode(encode([1.5, most, 1e308, -1e308, np.inf, np.nan])), "<f4")
    assert sent.tolist()[:2] == [1.5, most] and np.isnan(sent[2:]).all()
