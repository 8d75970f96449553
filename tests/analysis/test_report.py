# SPDX-License-Identifier: Apache-2.0
"""report.html in a real browser: no error, no network, figures drawn, numbers equal to summary.json."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic
from narrows_analysis import AnalysisError, analyze_run, write_report

needs_browser = pytest.mark.needs("chromium")

Competition = tuple[Path, synthetic.Truth, Any]


class Opened:
    """A page that collects what must not happen."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, **context: Any) -> None:
        self.problems: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **context)
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._request)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]", state="attached", timeout=10_000)

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.problems.append(f"network: {request.url}")

    def numbers(self, selector: str) -> list[float]:
        script = "nodes => nodes.map(node => parseFloat(node.dataset.value))"
        return list(self.page.eval_on_selector_all(selector, script))

    def x_ticks(self, figure: str) -> list[str]:
        return list(
            self.page.eval_on_selector_all(f"#{figure} text[text-anchor=middle]", "n => n.map(x => x.textContent)")
        )


@pytest.fixture
def opened(browser: Any, competition: Competition) -> Iterator[Opened]:
    page = Opened(browser, write_report(competition[0]))
    yield page
    assert page.problems == []
    page.page.close()


@pytest.mark.long
@needs_browser
def test_numbers_equal_the_summary(opened: Opened, competition: Competition) -> None:
    summary = json.loads((competition[0] / "summary.json").read_text())
    tiles = opened.page.eval_on_selector_all("[data-key]", "n => n.map(x => [x.dataset.key, x.dataset.value])")
    assert len(tiles) == 5
    for key, value in tiles:
        assert float(value) == reduce(lambda node, name: node[name], key.split("."), summary)
    for column, name in ((3, "goodput_bps"), (4, "share"), (5, "drops"), (6, "loss_ratio"), (7, "retransmit_ratio")):
        shown = opened.numbers(f"#flows tbody td:nth-child({column})")
        assert shown == [flow[name] for flow in summary["flows"]]
    assert opened.numbers("#shares [data-value]") == [flow["share"] for flow in summary["flows"]]
    assert json.loads(opened.page.text_content("#summary")) == summary


@needs_browser
def test_every_figure_is_drawn(opened: Opened) -> None:
    ids = [chart["id"] for chart in json.loads(opened.page.text_content("#charts"))]
    assert ids == ["goodput", "jain", "depth", "delay", "drops", "loss", "cdf-queue-delay-s", "cdf-queue-bytes", "rtt"]
    for name in ids:
        paths = opened.page.eval_on_selector_all(f"#{name} path.line", "n => n.map(x => x.getAttribute('d'))")
        assert len(paths) == {"goodput": 3, "drops": 2, "loss": 2, "rtt": 2}.get(name, 1), name
        assert all(path.count("L") > 5 and "NaN" not in path for path in paths), name
        assert opened.page.locator(f"#{name} svg").bounding_box()["height"] > 150


@needs_browser
def test_a_flow_has_one_colour_everywhere(opened: Opened) -> None:
    stroke = "n => n.map(x => getComputedStyle(x).stroke)"
    lines = {
        name: opened.page.eval_on_selector_all(f"#{name} path.line", stroke)
        for name in ("goodput", "drops", "loss", "rtt")
    }
    *lines["goodput"], total = lines["goodput"]
    assert total not in lines["goodput"]
    assert len(set(map(tuple, lines.values()))) == 1 and len(set(lines["rtt"])) == 2
    swatches = opened.page.eval_on_selector_all(
        "#flows .swatch", "n => n.map(x => getComputedStyle(x).backgroundColor)"
    )
    assert swatches == lines["goodput"]


@needs_browser
def test_dragging_zooms_all_time_series(opened: Opened) -> None:
    before = {name: opened.x_ticks(name) for name in ("goodput", "delay", "cdf-queue-delay-s")}
    opened.page.locator("#depth .plot").scroll_into_view_if_needed()
    box = opened.page.locator("#depth .plot").bounding_box()
    opened.page.mouse.move(box["x"] + 300, box["y"] + 80)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + 400, box["y"] + 80, steps=4)
    opened.page.mouse.up()
    assert opened.x_ticks("goodput") != before["goodput"] and opened.x_ticks("delay") != before["delay"]
    assert opened.x_ticks("cdf-queue-delay-s") == before["cdf-queue-delay-s"]
    assert opened.page.locator("#drops .reset").is_visible()
    opened.page.locator("#goodput .plot").dblclick(position={"x": 300, "y": 100})
    assert opened.x_ticks("goodput") == before["goodput"]
    opened.page.locator("#goodput svg").press("+")
    assert opened.x_ticks("delay") != before["delay"]


@needs_browser
def test_pointing_tells_the_values(opened: Opened) -> None:
    opened.page.locator("#goodput .plot").hover(position={"x": 400, "y": 100})
    text = opened.page.locator("#goodput .tip").inner_text()
    assert "bbr" in text and "Mbit/s" in text and "time" in text
    visible = opened.page.eval_on_selector_all(".cursor[visibility=visible]", "n => n.length")
    assert visible == 7


@needs_browser
def test_the_table_sorts(opened: Opened) -> None:
    cells = "n => n.map(x => x.textContent.trim())"
    opened.page.click("#flows th:nth-child(5) button")
    assert opened.page.eval_on_selector_all("#flows tbody td:first-child", cells) == ["cubic-1", "bbr-1"]
    opened.page.click("#flows th:nth-child(5) button")
    assert opened.page.eval_on_selector_all("#flows tbody td:first-child", cells) == ["bbr-1", "cubic-1"]


@needs_browser
def test_a_spike_of_one_point_in_a_million_is_drawn(opened: Opened) -> None:
    highest = opened.page.evaluate(
        """() => {
          const y = new Float32Array(1e6).fill(1);
          y[654321] = 50; y[123456] = -30;
          const spec = {id: "spike", title: "", x_range: [0, 1e6], series: [], references: [], y_min: null, y_max: null,
            height: 270, labels: false, time: false, x_label: "", y_label: ""};
          const figure = document.getElementById("jain").cloneNode(true);
          document.querySelector("main").appendChild(figure);
          const chart = new Chart(figure, spec, null), series = new Series({x0: 0, dx: 1, color: "c0"});
          series.y = y;
          chart.series = [series];
          chart.draw();
          const d = chart.svg.querySelector("path.line").getAttribute("d");
          const ys = d.match(/[ML][^ML]+/g).map((p) => Number(p.split(" ")[1]));
          return [Math.min(...ys) - chart.py(50), Math.max(...ys) - chart.py(-30), ys.length];
        }"""
    )
    assert highest[0] == pytest.approx(0, abs=0.1) and highest[1] == pytest.approx(0, abs=0.1)
    assert highest[2] < 4000


@needs_browser
def test_a_figures_data_can_be_downloaded(opened: Opened) -> None:
    with opened.page.expect_download() as event:
        opened.page.click("#goodput .tools button:has-text('CSV')")
    text = Path(event.value.path()).read_text()
    assert text.startswith("series,time (s),goodput (Mbit/s)") and text.count("\n") > 100
    with opened.page.expect_download() as event:
        opened.page.click("#depth .tools button:has-text('SVG')")
    svg = Path(event.value.path()).read_text()
    assert svg.startswith("<svg") and "var(--" not in svg


@needs_browser
@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_a_phone(browser: Any, competition: Competition, width: int) -> None:
    opened = Opened(browser, write_report(competition[0]), width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.problems == []
    assert ("bbr" in opened.page.inner_text("#goodput .legend")) if width < 560 else True
    opened.page.close()


@needs_browser
def test_dark_and_print(browser: Any, competition: Competition) -> None:
    opened = Opened(browser, write_report(competition[0]), color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert opened.page.evaluate(background) == "rgb(20, 22, 26)"
    opened.page.click("#theme")
    assert opened.page.evaluate(background) == "rgb(253, 253, 252)"
    opened.page.click("#theme")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate(background) == "rgb(255, 255, 255)"
    assert not opened.page.locator("#theme").is_visible()
    opened.page.set_viewport_size({"width": 680, "height": 900})  # A4 within its margins
    # Two figures side by side, as on a wide screen; what tells how to scroll is of no use.
    pair = [box["y"] for figure in opened.page.locator(".pair figure").all()[:2] if (box := figure.bounding_box())]
    assert len(pair) == 2 and pair[0] == pair[1]
    assert not any(hint.is_visible() for hint in opened.page.locator(".hint").all())
    assert opened.page.locator("#flows").bounding_box()["width"] <= 680 - 2 * 20
    assert opened.problems == []
    opened.page.close()


@needs_browser
def test_a_run_without_telemetry_says_so(browser: Any, tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0))
    shutil.rmtree(tmp_path / "run" / "telemetry")
    raw = json.loads((tmp_path / "run" / "run.json").read_text())
    raw |= {"status": "failed", "reason": "</script><b>boom</b>", "name": "<i>x</i>"}
    (tmp_path / "run" / "run.json").write_text(json.dumps(raw))
    analyze_run(tmp_path / "run")
    opened = Opened(browser, write_report(tmp_path / "run"))
    first = opened.page.inner_text(".warnings li.error")
    assert "The run failed: </script><b>boom</b>" in first
    assert opened.page.inner_text("h1") == "<i>x</i>"
    assert opened.page.locator("figure").count() == 0
    assert opened.problems == []
    opened.page.close()


def test_the_page_refers_to_nothing_outside(competition: Competition) -> None:
    html = write_report(competition[0]).read_text()
    for forbidden in ("http://", "https://", "src=", "@import", "url(h", 'url("', "url('"):
        assert forbidden not in html.replace("http://www.w3.org/2000/svg", ""), forbidden


def test_figures_hold_the_series(competition: Competition) -> None:
    """Goodput as in flows.parquet without partial intervals; the depth's envelope reaches the true extremes."""
    run_dir, truth, _ = competition
    html = write_report(run_dir).read_text()
    raw = html.split('id="charts">')[1].split("</script>")[0].replace("\\u003c", "<")
    charts = {chart["id"]: chart for chart in json.loads(raw)}
    flows = pd.read_parquet(run_dir / "flows.parquet")
    *of_flows, total = charts["goodput"]["series"]
    sums = flows[flows["flow"] >= 0].groupby("time_s")["goodput_bps"].sum().to_numpy() / 1e6
    drawn = np.frombuffer(base64.b64decode(total["y"]), dtype="<f4")
    assert total["name"] == "all flows" and len(sums) - 1 <= len(drawn) <= len(sums)
    np.testing.assert_allclose(drawn, sums[: len(drawn)], rtol=1e-6)
    for number, series in enumerate(of_flows):
        drawn = np.frombuffer(base64.b64decode(series["y"]), dtype="<f4")
        mine = flows[flows["flow"] == number].set_index("time_s")["goodput_bps"]
        kept = drawn[~np.isnan(drawn)]
        assert len(mine) - 3 <= len(kept) < len(mine)
        offset = int(np.flatnonzero(~np.isnan(drawn))[0]) - round(mine.index[0] / series["dx"])
        np.testing.assert_allclose(kept, mine.to_numpy()[offset : offset + len(kept)] / 1e6, rtol=1e-6)
    envelope = np.frombuffer(base64.b64decode(charts["depth"]["series"][0]["hi"]), dtype="<f4")
    assert np.nanmax(envelope) * 1e3 == pytest.approx(truth.peak_bytes, rel=1e-6)


def test_a_run_that_was_not_analysed(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.5))
    with pytest.raises(AnalysisError, match="analyse the run first"):
        write_report(tmp_path / "run")


def test_marks_have_one_column_and_only_where_there_are_any(competition: Competition, tmp_path: Path) -> None:
    """Whose numbers are the summary's."""
    run = tmp_path / "run"
    shutil.copytree(competition[0], run)
    assert "CE\nmarks" not in write_report(run).read_text()
    summary = json.loads((run / "summary.json").read_text())
    for number, flow in enumerate(summary["flows"]):
        flow["ce_marks"] = 4321 + number
    (run / "summary.json").write_text(json.dumps(summary))
    html = write_report(run).read_text()
    assert html.count("CE\nmarks") == 1
    assert re.findall(r'data-value="(43\d\d)"', html) == [str(4321 + number) for number in range(len(summary["flows"]))]
