# SPDX-License-Identifier: Apache-2.0
"""Sweeps: pivots, heat maps and the page, over runs of known truth written as `narrows run` writes them."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic
from narrows.batch import sweep_table
from narrows.cli.sweep_table import closing_table
from narrows_analysis import AnalysisError, analyze_run, write_report
from narrows_analysis.sweep import (
    Sweep,
    heat_map,
    intervals,
    load_sweep,
    mixed_windows,
    pivot,
    quantities,
    write_sweep_report,
)
from test_report import Opened, needs_browser

BUFFERS = {"0.5bdp": 25_000, "1bdp": 50_000, "2bdp": 100_000}
RTTS = {"10ms": 0.01, "20ms": 0.02}
Swept = tuple[Path, dict[tuple[str, str], Any]]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Buffer by RTT, two flows each; one point is missing."""
    directory = tmp_path_factory.mktemp("sweeps") / "buffer-sweep"
    summaries: dict[tuple[str, str], Any] = {}
    rows: list[dict[str, Any]] = []
    for buffer, rtt in itertools.product(BUFFERS, RTTS):
        if (buffer, rtt) == ("2bdp", "20ms"):
            continue
        name = f"{buffer}-{rtt}"
        scenario = synthetic.two_flows(3.0)
        scenario.buffer_bytes, scenario.rtt_s, scenario.name = BUFFERS[buffer], RTTS[rtt], name
        synthetic.write_run(directory / name, scenario)
        summary = summaries[buffer, rtt] = analyze_run(directory / name)
        write_report(directory / name)
        parameters = {"bottleneck.buffer": buffer, "bottleneck.rtt": rtt}
        rows += sweep_table.rows(name, parameters, 1, "complete", summary)
    sweep_table.write(directory, rows)
    sweep = {"bottleneck.buffer": list(BUFFERS), "bottleneck.rtt": list(RTTS)}
    manifest = {"name": "buffer-sweep", "sweep": sweep, "repeat": 1, "points": 6, "runs": []}
    (directory / "sweep.json").write_text(json.dumps(manifest))
    return directory, summaries


def test_pivot_has_every_point_in_order(swept: Swept) -> None:
    directory, summaries = swept
    table = pivot(load_sweep(directory), "utilization", "bottleneck.buffer", "bottleneck.rtt", {})
    assert list(table.index) == list(BUFFERS) and list(table.columns) == list(RTTS)
    for (buffer, rtt), summary in summaries.items():
        assert table.loc[buffer, rtt] == summary["bottleneck"]["utilization"]
    assert np.isnan(table.to_numpy()[2, 1])


def test_a_directorys_name_is_no_program(swept: Swept, tmp_path: Path) -> None:
    """Whatever a run's directory is called, its link is to a page below the sweep's."""
    directory = tmp_path / "sweep"
    shutil.copytree(swept[0], directory)
    frame = pd.read_parquet(directory / "sweep.parquet")
    names = {"0.5bdp-20ms": "javascript:alert(1)//", "0.5bdp-10ms": "javascript:alert(1)", "1bdp-20ms": ".."}
    assert set(names) <= set(frame["directory"])
    (directory / "javascript:alert(1)").mkdir()
    for place in (directory / "javascript:alert(1)", tmp_path):
        (place / "report.html").write_text("")
    frame["directory"] = frame["directory"].replace(names)
    frame.to_parquet(directory / "sweep.parquet", index=False)
    page = write_sweep_report(directory).read_text()
    links = re.findall(r'<a href="([^"]*)"', page)
    assert "./javascript%3Aalert%281%29/report.html" in links
    assert all(link.startswith("./") for link in links) and "./../report.html" not in links


def test_pivot_of_a_group_and_of_one_field(swept: Swept) -> None:
    directory, summaries = swept
    sweep = load_sweep(directory)
    fixed = {"group": "cubic", "bottleneck.rtt": "10ms"}
    table = pivot(sweep, "share", "bottleneck.buffer", None, fixed)
    expected = [summaries[buffer, "10ms"]["groups"][1]["share"] for buffer in BUFFERS]
    assert table[""].tolist() == pytest.approx(expected)
    assert sweep.frame.attrs["units"]["share"] == "1"
    with pytest.raises(AnalysisError, match="no column delay"):
        pivot(sweep, "delay", "bottleneck.buffer", None, {})


def header(directory: Path) -> str:
    found = re.search(r'class="setting">([^<]*)<', write_sweep_report(directory).read_text())
    assert found is not None
    return html.unescape(found[1])


def test_the_page_says_what_all_runs_were_made_with(swept: Swept, tmp_path: Path) -> None:
    """As the page of a run does; what runs differ in is among the swept fields, or in the warnings."""
    directory = tmp_path / "sweep"
    shutil.copytree(swept[0], directory)

    def made_by(release: str, run: Path) -> None:
        (run / "run.json").write_text(
            json.dumps(json.loads((run / "run.json").read_text()) | {"virtual_time": {"release": release}})
        )

    runs = sorted(path.parent for path in directory.glob("*/run.json"))
    for run in runs:
        made_by("7.3.4", run)
    swept_fields = "bottleneck.buffer (3) × bottleneck.rtt (2) · 5 runs"  # noqa: RUF001
    common = "20 Mbit/s · 2 flows from 2 hosts · target soft · virtual time"
    assert header(directory) == f"{swept_fields} · {common} · Linux 7.3.4"
    made_by("7.3.5", runs[-1])
    assert header(directory) == f"{swept_fields} · {common}"
    # One that cannot be read says nothing of the others.
    (runs[-1] / "run.json").write_text("{}")
    assert header(directory) == f"{swept_fields} · {common} · Linux 7.3.4"


def test_each_repetition_can_be_reached(swept: Swept, tmp_path: Path) -> None:
    directory = tmp_path / "sweep"
    shutil.copytree(swept[0], directory)
    frame = pd.read_parquet(directory / "sweep.parquet")
    again = frame.assign(repetition=2, directory=frame["directory"] + "-r2")
    pd.concat([frame, again]).to_parquet(directory / "sweep.parquet", index=False)
    for name in frame["directory"].unique():
        shutil.copytree(directory / name, directory / f"{name}-r2")
    links = re.findall(r'<a href="\./([^/"]*)/report.html">(\d)</a>', write_sweep_report(directory).read_text())
    names = frame["directory"].unique()
    assert set(links) == {(f"{name}{end}", number) for name in names for end, number in (("", "1"), ("-r2", "2"))}


def test_repetitions_are_averaged(swept: Swept, tmp_path: Path) -> None:
    directory = tmp_path / "sweep"
    shutil.copytree(swept[0], directory)
    frame = pd.read_parquet(directory / "sweep.parquet")
    again = frame.assign(repetition=2, utilization=0.0)
    pd.concat([frame, again]).to_parquet(directory / "sweep.parquet", index=False)
    half = pivot(load_sweep(directory), "utilization", "bottleneck.buffer", "bottleneck.rtt", {})
    whole = pivot(load_sweep(swept[0]), "utilization", "bottleneck.buffer", "bottleneck.rtt", {})
    pd.testing.assert_frame_equal(half * 2, whole)


def test_only_complete_runs_are_in_means(swept: Swept, tmp_path: Path) -> None:
    """Whatever a run that was interrupted, or not made as written, measured, is not what its setting gives."""
    directory = tmp_path / "sweep"
    shutil.copytree(swept[0], directory)
    frame = pd.read_parquet(directory / "sweep.parquet")
    cut_short = frame.assign(repetition=2, utilization=0.0, status="partial", directory=frame["directory"] + "-r2")
    pd.concat([frame, cut_short]).to_parquet(directory / "sweep.parquet", index=False)
    sweep, clean = load_sweep(directory), load_sweep(swept[0])
    fields = ("utilization", "bottleneck.buffer", "bottleneck.rtt")
    pd.testing.assert_frame_equal(pivot(sweep, *fields, {}), pivot(clean, *fields, {}))
    found, expected = intervals(sweep), intervals(clean)
    pd.testing.assert_series_equal(found["mean"], expected["mean"])
    assert (found["n"] == 1).all() and (found["missing"] == 1).all() and (expected["missing"] == 0).all()
    page = write_sweep_report(directory).read_text()
    assert "1bdp-10ms-r2: the run is partial; no mean includes its results." in page


def test_what_loss_emulation_took_is_told_beside_the_drops(swept: Swept, tmp_path: Path) -> None:
    """RFC 7680 counts a packet that did not arrive, whatever took it; without loss emulation both are the same."""
    columns = [quantity.column for quantity in quantities(load_sweep(swept[0]).frame)]
    assert "bottleneck_loss_ratio" in columns and "bottleneck_total_loss_ratio" not in columns
    scenario = synthetic.two_flows(3.0)
    scenario.loss = 0.05
    truth = synthetic.write_run(tmp_path / "lossy" / "run", scenario)
    rows = sweep_table.rows("run", {"loss": "0.05"}, 1, "complete", analyze_run(tmp_path / "lossy" / "run"))
    sweep_table.write(tmp_path / "lossy", rows)
    manifest = {"name": "lossy", "sweep": {"loss": ["0.05"]}, "repeat": 1, "points": 1, "runs": []}
    (tmp_path / "lossy" / "sweep.json").write_text(json.dumps(manifest))
    found = intervals(load_sweep(tmp_path / "lossy")).set_index("quantity")["mean"]
    arrived, dropped, taken = sum(truth.arrivals), sum(truth.drops), sum(truth.loss_drops)
    assert found["bottleneck_loss_ratio"] == pytest.approx(dropped / arrived)
    assert found["bottleneck_total_loss_ratio"] == pytest.approx((dropped + taken) / (arrived + taken), abs=1e-3)
    assert taken > dropped
    assert "Packets lost (%)" in write_sweep_report(tmp_path / "lossy").read_text()


def test_a_heat_map_has_a_cell_a_setting(swept: Swept) -> None:
    figure = heat_map(load_sweep(swept[0]), "utilization", "bottleneck.buffer", "bottleneck.rtt")
    assert np.asarray(figure.axes[0].images[0].get_array()).shape == (3, 2)
    assert len(figure.axes[0].texts) == 5


@pytest.mark.long
@needs_browser
def test_the_page_shows_what_the_summaries_say(swept: Swept, browser: Any) -> None:
    directory, summaries = swept
    opened = Opened(browser, write_sweep_report(directory))
    titles = opened.page.locator("figure h3").all_inner_texts()
    assert "Share of goodput, bbr (%)" in titles and "Jain's index" in titles
    figure = opened.page.locator("figure", has=opened.page.locator("h3:text-is('Link used (%)')"))
    cells = figure.locator("tbody td")
    shown = [cells.nth(i).get_attribute("data-value") for i in range(cells.count())]
    expected = [summaries.get(point) for point in itertools.product(BUFFERS, RTTS)]
    assert shown == ["" if s is None else str(s["bottleneck"]["utilization"]) for s in expected]
    assert "1 of 6 runs have no results" in opened.page.inner_text(".warnings")
    cells.nth(0).locator("a").click()
    opened.page.wait_for_selector("html[data-ready=yes]", state="attached")
    assert opened.page.inner_text("h1") == "0.5bdp-10ms"
    assert opened.problems == []
    opened.page.close()


def test_broken_sweeps_are_named(swept: Swept, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"sweep\.json: no such file"):
        load_sweep(tmp_path)
    (tmp_path / "sweep.json").write_text('{"sweep": {}}')
    with pytest.raises(AnalysisError, match=r"sweep\.json: name: Field required; allowed: what 'narrows run' wrote"):
        load_sweep(tmp_path)
    record = {"name": "rates", "sweep": {"bottleneck.rate": ["1Mbit"]}, "points": 1, "runs": []}
    (tmp_path / "sweep.json").write_text(json.dumps(record))
    with pytest.raises(AnalysisError, match="no run of the sweep has a summary yet"):
        load_sweep(tmp_path)
    shutil.copy(swept[0] / "sweep.parquet", tmp_path)
    with pytest.raises(AnalysisError, match=r"no column bottleneck\.rate"):
        load_sweep(tmp_path)


def test_a_value_named_twice_and_a_row_without_one_are_named(swept: Swept, tmp_path: Path) -> None:
    record = json.loads((swept[0] / "sweep.json").read_text())
    record["sweep"]["bottleneck.rtt"] = ["10ms", "10ms"]
    (tmp_path / "sweep.json").write_text(json.dumps(record))
    shutil.copy(swept[0] / "sweep.parquet", tmp_path)
    with pytest.raises(AnalysisError, match=r"sweep\.json: sweep\.bottleneck\.rtt: names a value twice"):
        load_sweep(tmp_path)
    shutil.copy(swept[0] / "sweep.json", tmp_path)
    table = pd.read_parquet(tmp_path / "sweep.parquet")
    table.loc[0, "bottleneck.rtt"] = None
    table.to_parquet(tmp_path / "sweep.parquet")
    with pytest.raises(AnalysisError, match=r"sweep\.parquet: bottleneck\.rtt: a row has no value"):
        load_sweep(tmp_path)


def _two_runs(directory: Path, alone: bool) -> Sweep:
    """Two groups in two repetitions, of whose flows those of the first run were never all running, or of both."""
    rows = [
        {"directory": run, "status": "complete", "repetition": number, "group": group, "share": share,
         **({"share_of_run": share, "jain_index": None} if alone or number == 1 else
            {"share_of_run": 0.5, "jain_index": 1.0})}
        for number, run in enumerate(("0001-r1", "0002-r2"), 1)
        for group, share in (("short", 0.2), ("long", 0.8))
    ]  # fmt: skip
    directory.mkdir()
    pd.DataFrame(rows).to_parquet(directory / "sweep.parquet", index=False)
    record = {"name": "short", "sweep": {}, "repeat": 2, "points": 2, "runs": []}
    (directory / "sweep.json").write_text(json.dumps(record))
    return load_sweep(directory)


def test_shares_of_different_times_are_not_mixed_without_a_word(tmp_path: Path) -> None:
    mixed, same = _two_runs(tmp_path / "mixed", alone=False), _two_runs(tmp_path / "same", alone=True)
    assert mixed_windows(mixed).startswith("0001-r1: the flows were never all running") and not mixed_windows(same)
    said = ["never all running, so" in write_sweep_report(one.path).read_text() for one in (mixed, same)]
    table = closing_table(mixed.path)
    assert said == [True, False] and table is not None and table.caption == mixed_windows(mixed)
