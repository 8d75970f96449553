# SPDX-License-Identifier: Apache-2.0
"""A flow has one name: what run.json calls it, everything else calls it; and what is not a flow of ours shows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from matplotlib.patches import Rectangle
from narrows.cli import app
from narrows.cli.run import show
from narrows.cli.table import bottleneck_lines, summary_table
from narrows.run.runner import Outcome
from narrows_analysis import AnalysisError, analyze_run, load, read_run, write_report
from narrows_analysis.gallery import figure
from narrows_formats.flow_names import OTHER_GROUP
from rich.console import Console
from typer.testing import CliRunner

# As a plan of three groups of one name each makes them, in an order of run.json that is not that of their numbers.
NAMES = ["new-3", "old-1", "new-1", "new-2"]


def written(table: object) -> str:
    console = Console(width=160, record=True)
    console.print(table)
    return console.export_text()


def changed(run_dir: Path, change: Any) -> None:
    record = json.loads((run_dir / "run.json").read_text())
    change(record)
    (run_dir / "run.json").write_text(json.dumps(record))


@pytest.fixture
def four(tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """A run whose flows lose differently, and the drops of each by its name, from the model that made it."""
    senders = [
        synthetic.Sender(
            name.rpartition("-")[0], "reno", 0.2 * number, 3.0, window=12 + 9 * number, aimd=number % 2 == 0
        )
        for number, name in enumerate(NAMES)
    ]
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders))

    def named(record: dict[str, Any]) -> None:
        for flow, name in zip(record["flows"], NAMES, strict=True):
            flow["name"] = name

    changed(tmp_path / "run", named)
    drops = dict(zip(NAMES, truth.drops, strict=True))
    assert len(set(drops.values())) == len(drops), "each flow has a number of drops of its own"
    return tmp_path / "run", drops


def test_results_have_the_name_that_run_json_has(four: tuple[Path, dict[str, int]]) -> None:
    run_dir, drops = four
    summary = analyze_run(run_dir)
    assert {flow["name"]: flow["drops"] for flow in summary["flows"]} == drops
    series = pd.read_parquet(run_dir / "flows.parquet")
    assert series.groupby("name")["drops"].sum().to_dict() == drops
    run = load(run_dir)
    assert run.labels == NAMES
    assert dict(zip(run.table["flow"], run.table["drops"], strict=True)) == drops
    table = written(summary_table(summary, "run"))
    page = write_report(run_dir).read_text()
    for name, count in drops.items():
        (line,) = (line for line in table.splitlines() if f" {name} " in line)
        assert f" {count} " in line
        assert page.count(f"{name}</") > 0


def test_a_run_without_names_counts_them(four: tuple[Path, dict[str, int]]) -> None:
    run_dir, _ = four
    changed(run_dir, lambda record: [flow.pop("name") for flow in record["flows"]])
    assert read_run(run_dir).flow_names == ["new-1", "old-1", "new-2", "new-3"]


def test_connections_that_an_older_version_gave_one_name_are_distinguished(four: tuple[Path, dict[str, int]]) -> None:
    run_dir, _ = four

    def shared(record: dict[str, Any]) -> None:
        for number, flow in enumerate(record["flows"]):
            flow |= {"name": "web-1" if number else "bulk-1", "connection": max(0, number - 1)}

    changed(run_dir, shared)
    assert read_run(run_dir).flow_names == ["bulk-1", "web-1.1", "web-1.2", "web-1.3"]
    changed(run_dir, lambda record: [flow.update(name="a-1", connection=None) for flow in record["flows"]])
    with pytest.raises(AnalysisError, match=r"run\.json: flows: has two flows named 'a-1'; allowed: one name per flow"):
        read_run(run_dir)


def foreign(run_dir: Path) -> synthetic.Truth:
    """Two equal flows, of which the experiment knows only the first."""
    senders = [synthetic.Sender(name, "reno", 0.0, 5.0, window=30, aimd=False) for name in ("mine", "theirs")]
    truth = synthetic.write_run(run_dir, synthetic.Scenario(senders=senders))
    changed(run_dir, lambda record: record["flows"].pop())
    return truth


def test_traffic_of_others_has_its_share(tmp_path: Path) -> None:
    """Of two flows that share alike, one of them not ours, each has half of the bytes that the model delivered."""
    truth = foreign(tmp_path / "run")
    summary = analyze_run(tmp_path / "run")
    ours = truth.unique_bytes[0] / sum(truth.unique_bytes)
    assert ours == pytest.approx(0.5, abs=0.05)
    assert summary["flows"][0]["share"] == pytest.approx(ours, abs=0.01)
    assert summary["groups"][0]["share"] == summary["flows"][0]["share"]
    other = summary["bottleneck"]["other_share"]
    assert other is not None and other + (summary["flows"][0]["share"] or 0) == pytest.approx(1)
    table = written(summary_table(summary, "run"))
    assert f"{other * 100:.2f}" in next(line for line in table.splitlines() if OTHER_GROUP in line)
    page = write_report(tmp_path / "run").read_text()
    assert "Traffic that is not the experiment&#39;s had" in page and f"{OTHER_GROUP}</" in page
    assert list(load(tmp_path / "run").table["flow"]) == ["mine-1", OTHER_GROUP]
    (axes,) = figure(load(tmp_path / "run"), "share").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["mine-1", OTHER_GROUP]
    assert sum(bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)) == pytest.approx(100)


def test_there_is_no_row_for_what_is_not_there(four: tuple[Path, dict[str, int]]) -> None:
    run_dir, _ = four
    summary = analyze_run(run_dir)
    assert summary["bottleneck"]["other_share"] == 0
    assert sum(flow["share"] or 0 for flow in summary["flows"]) == pytest.approx(1)
    assert OTHER_GROUP not in written(summary_table(summary, "run"))
    assert list(load(run_dir).table["flow"]) == NAMES


def test_the_terminal_tells_what_loss_emulation_took(tmp_path: Path) -> None:
    """Half of the packets of a flow that never fills the queue: the ratio of the model's counts."""
    sender = synthetic.Sender("a", "a", 0.0, 3.0, window=4, aimd=False)
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=[sender], loss=0.5))
    summary = analyze_run(tmp_path / "run")
    lost, arrived = truth.loss_drops[0], truth.arrivals[0]
    # What was lost after the last departure stands in no report.
    expected = lost / (lost + arrived)
    assert truth.drops[0] == 0 and expected == pytest.approx(0.5, abs=0.05)
    ratio = summary["bottleneck"]["total_loss_ratio"]
    assert ratio is not None and ratio == pytest.approx(expected, abs=0.01) and summary["bottleneck"]["loss_ratio"] == 0
    (line,) = (line for line in bottleneck_lines(summary) if "lost (" in line)
    count = summary["bottleneck"]["loss_emulation_drops"]
    assert line.endswith(f"{ratio * 100:.2f} % lost ({count} packets by loss emulation, 0 by the queue)")


@pytest.mark.parametrize("alone", [True, False])
def test_the_terminal_tells_what_the_page_warns_of(alone: bool, tmp_path: Path) -> None:
    """A flow that crossed no link is in no figure: who reads only these took the run for one of a single flow."""
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(3.0))

    def elsewhere(record: dict[str, Any]) -> None:
        record["flows"][1]["dst"] = "10.9.9.9"
        record["balances"] = [{"place": "on a cable", "entered": 10, "left": 9, "lost": 1}]

    changed(tmp_path / "run", elsewhere)
    summary = analyze_run(tmp_path / "run")
    messages = {one["code"]: f"{one['severity']}: {one['message']}" for one in summary["warnings"]}
    assert {"flow_unseen", "other_traffic", "lost_elsewhere"} <= messages.keys()
    console = Console(width=60, file=io.StringIO())
    # What was lost on the way is in the notes of the run itself.
    show(Outcome("complete", "", tmp_path / "run", summary, ("1 packet lost on a cable",)), console, alone=alone)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert [code for code, message in messages.items() if message not in printed] == ["lost_elsewhere"]
    analyzed = CliRunner().invoke(app, ["analyze", str(tmp_path / "run")])
    assert all(message in analyzed.output for message in messages.values())


def test_the_page_tells_each_flows_rtt_and_the_program(four: tuple[Path, dict[str, int]]) -> None:
    run_dir, _ = four

    def set_rtts(record: dict[str, Any]) -> None:
        record["flows"][1]["rtt_s"] = 0.08
        record["switch"] = {"program": {"narrows.json": "0123456789abcdef" * 4}, "notes": ["rate rounded"]}

    changed(run_dir, set_rtts)
    analyze_run(run_dir)
    page = write_report(run_dir).read_text()
    assert "20 ms (new); 80 ms (old)" in page and "20 ms to 80 ms RTT" in page
    assert "RTT without queue, old" in page
    assert "narrows.json (SHA-256 0123456789abcdef\u2026); rate rounded" in page


def test_a_sweep_is_not_a_run(tmp_path: Path, four: tuple[Path, dict[str, int]]) -> None:
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "sweep.json").write_text("{}")
    four[0].rename(sweep / "0001-rtt=10ms")
    with pytest.raises(AnalysisError) as caught:
        read_run(sweep)
    assert str(caught.value) == (
        f"{sweep}: holds a sweep, not one run; allowed: the directory of one, such as '0001-rtt=10ms', "
        "or load() for the table of all"
    )
