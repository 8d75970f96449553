# SPDX-License-Identifier: Apache-2.0
"""Lines of a sweep's page: which fields have an axis, of which kind, and what a line goes through."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrows_analysis.metrics.confidence import Estimate, estimate
from narrows_analysis.sweep import load_sweep, write_sweep_report
from narrows_analysis.sweep_lines import axis, in_order, line_charts
from test_comparison import runs, write_sweep
from test_report import Opened, needs_browser

TITLES = ("Link used", "%", "")


@pytest.mark.parametrize(
    ("values", "log", "positions"),
    [
        # Powers of two are evenly spaced by their logarithms, and tens by themselves.
        (["4bdp", "0.5bdp", "1bdp", "2bdp"], True, [math.log10(x) for x in (0.5, 1, 2, 4)]),
        (["1Gbit", "10Mbit", "100Mbit"], True, [7, 8, 9]),
        (["10ms", "20ms", "30ms"], False, [0.01, 0.02, 0.03]),
        (["1MB", "900kB", "0.8MB"], False, [8e5, 9e5, 1e6]),
        # Zero has no logarithm.
        (["0%", "1%", "10%"], False, [0, 1, 10]),
        (["1", "2", "4"], True, [math.log10(x) for x in (1, 2, 4)]),
    ],
)
def test_numbers_of_one_kind_have_an_axis(values: list[str], log: bool, positions: list[float]) -> None:
    found = axis("field", values)
    assert found is not None and found.log == log and sorted(found.values) == sorted(values)
    assert found.positions == pytest.approx(positions)
    assert in_order(values) == found.values


@pytest.mark.parametrize(
    "values",
    [
        ["bbr", "cubic", "reno"],
        ["10ms", "20ms"],
        ["1bdp", "20packets", "2bdp"],
        ["1s", "1000ms", "2s"],
        ["1", "x", "3"],
    ],
)
def test_what_has_no_axis(values: list[str]) -> None:
    assert axis("field", values) is None


def test_what_is_no_number_keeps_its_order() -> None:
    assert in_order(["reno", "bbr", "1bdp"]) == ["reno", "bbr", "1bdp"]


def test_lines_go_through_means_and_whiskers_are_the_intervals() -> None:
    buffers, rtts = {"1bdp": 1.0, "2bdp": 2.0, "4bdp": 4.0}, {"10ms": 1.0, "20ms": 10.0}
    samples = {(b, r): [buffers[b] * rtts[r], buffers[b] * rtts[r] + 2] for b, r in product(buffers, rtts)}
    samples["2bdp", "20ms"] = [7.0]

    def found(at: dict[str, str]) -> Estimate | None:
        return estimate(samples[at["buffer"], at["rtt"]]) if at != {"buffer": "4bdp", "rtt": "10ms"} else None

    fields = {"rtt": ["10ms", "20ms"], "buffer": ["1bdp", "2bdp", "4bdp"]}
    (chart,) = line_charts("used", TITLES, 0.01, fields, [], found)
    assert [tick.label for tick in chart.x_ticks] == ["1bdp", "2bdp", "4bdp"]
    assert chart.x_label == "buffer (logarithmic)" and "A line for each rtt." in chart.caption
    near, far = chart.series
    assert (near.name, far.name) == ("10ms", "20ms")
    np.testing.assert_allclose(near.y, [200, 300, math.nan])
    np.testing.assert_allclose(far.y, [1100, 700, 4100])
    # Two values 2 apart: the half width is t(0.975, 1) = 12.706 times their standard error, 1.
    assert far.lo is not None and far.hi is not None
    np.testing.assert_allclose(far.hi - far.y, [1270.6, 0, 1270.6], rtol=1e-4)
    np.testing.assert_allclose(far.y - far.lo, [1270.6, 0, 1270.6], rtol=1e-4)


def test_each_combination_of_further_fields_has_a_chart() -> None:
    fields = {"loss": ["0%", "1%", "2%"], "cca": ["bbr", "cubic"], "rtt": ["1ms", "2ms"]}
    charts = line_charts("share", TITLES, 1, fields, ["a", "b"], lambda at: estimate([float(at["group"] == "a")]))
    captions = [chart.caption for chart in charts]
    assert captions == [
        f"A line for each cca. With rtt = {rtt}, group = {group}." for rtt in ("1ms", "2ms") for group in "ab"
    ]
    assert len({chart.id for chart in charts}) == 4
    assert charts[0].series[0].lo is None, "one repetition has no interval"
    assert not any("side by side" in caption for caption in captions)


def _sweep(directory: Path) -> Path:
    values = {"2bdp": runs(0.9, 0.92), "1bdp": runs(0.80, 0.82, 0.84), "4bdp": runs(0.97)}
    return write_sweep(directory, values)


def test_rows_are_in_the_order_of_the_values(tmp_path: Path) -> None:
    directory = _sweep(tmp_path / "sweep")
    sweep = load_sweep(directory)
    (values,) = sweep.fields.values()
    assert values == ["1bdp", "2bdp", "4bdp"]
    page = write_sweep_report(directory).read_text()
    assert page.index(">1bdp<") < page.index(">2bdp<") < page.index(">4bdp<")


@pytest.mark.long
@needs_browser
def test_the_page_draws_them(tmp_path: Path, browser: Any) -> None:
    opened = Opened(browser, write_sweep_report(_sweep(tmp_path / "sweep")))
    figure = opened.page.locator("figure", has=opened.page.locator("h3:text-is('Link used (%)')")).first
    assert figure.locator(".plot circle").count() == 3
    heights = [float(line.get_attribute("y1")) - float(line.get_attribute("y2"))
               for line in figure.locator(".whisker").all()]  # fmt: skip
    assert len(heights) == 3 and heights[0] > 1 and heights[1] > 1 and heights[2] == pytest.approx(0)
    assert {"1bdp", "2bdp", "4bdp"} <= set(figure.locator("text").all_text_contents())
    for link in opened.page.locator("a[download]").all():
        assert (tmp_path / "sweep" / str(link.get_attribute("href"))).is_file()
    assert opened.problems == []
    opened.page.close()


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_intervals_at_one_value_hide_none(tmp_path: Path, browser: Any, width: int) -> None:
    """Two groups with the same figures: side by side around the value, on a logarithmic axis, and nearer to it than to
    the next one."""
    path = write_sweep_report(_sweep(tmp_path / "sweep"))
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    figure = page.locator("figure", has=page.locator("h3:text-is('Goodput (Mbit/s)')")).first
    assert "drawn side by side" in figure.inner_text()
    places = sorted(float(line.get_attribute("x1")) for line in figure.locator(".whisker").all())
    ticks = [float(text.get_attribute("x")) for text in figure.locator("text:text-matches('bdp$')").all()]
    assert len(places) == 6 and len(ticks) == 3
    for tick, left, right in zip(sorted(ticks), places[::2], places[1::2], strict=True):
        assert tick - left == pytest.approx(right - tick, abs=0.1)
        assert 2 < right - left < (max(ticks) - min(ticks)) / 4
    page.close()
