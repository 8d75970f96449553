# SPDX-License-Identifier: Apache-2.0
"""Two sweeps, or two runs, side by side; and means over the repetitions of one sweep."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic
import yaml
from narrows.batch import sweep_table
from narrows.cli import app
from narrows.cli.sweep_table import closing_table
from narrows_analysis import AnalysisError, analyze_run
from narrows_analysis.comparison.differences import Difference, as_frame, compare, hedges_g, only_in_one
from narrows_analysis.comparison.page import write_comparison
from narrows_analysis.comparison.settings import differing, settings_of
from narrows_analysis.comparison.sides import Side, _in_parts, read_side, read_sides
from narrows_analysis.export import parse_formats, save_table
from narrows_analysis.report import units
from narrows_analysis.sweep import intervals, load_sweep, write_sweep_report
from scipy import stats
from typer.testing import CliRunner

Runs = dict[str, list[dict[str, Any]]]


def write_sweep(directory: Path, runs: Runs) -> Path:
    """A sweep over buffers; each repetition has utilization, Jain's index, and the goodput of a group."""
    rows = []
    for buffer, repetitions in runs.items():
        for number, values in enumerate(repetitions, 1):
            delay = {"mean": 0.01, "p50": 0.01, "p99": 0.02, "max": 0.02}
            none = dict.fromkeys(("drops", "aqm_drops", "policer_drops", "loss_emulation_drops", "ce_marks"))
            bottleneck = {
                **none, "standing_queue_bytes": None,
                "rate_bps": 1e7, "buffer_bytes": 1e4, "utilization": values["utilization"], "loss_ratio": 0.0,
                "queue_bytes": dict.fromkeys(delay, 1.0), "queue_delay_s": delay,
            }  # fmt: skip
            dynamics = dict.fromkeys(("oscillation_period_s", "loss_synchronization", "rate_synchronization"))
            later = dict.fromkeys(("jain_index_steady", "convergence_s"))
            groups = [
                {
                    "name": name,
                    "cca": "bbr",
                    "flows": 1,
                    "goodput_bps": values["goodput"],
                    "share": 0.5,
                    "loss_ratio": 0.0,
                }
                for name in ("a", "b")
            ]
            summary: Any = {
                "bottleneck": bottleneck,
                "fairness": {"jain_index": values.get("jain", 1.0), **later},
                "dynamics": dynamics,
                "telemetry": {"lost": 0},
                "flows": [],
                "links": [{"name": "bottleneck"}],
                "groups": groups,
            }
            name = f"{buffer}-r{number}"
            rows += sweep_table.rows(name, {"bottleneck.buffer": buffer}, number, "complete", summary)
    directory.mkdir(parents=True)
    sweep_table.write(directory, rows)
    manifest = {"name": directory.name, "sweep": {"bottleneck.buffer": list(runs)}, "points": 6, "runs": []}
    (directory / "sweep.json").write_text(json.dumps(manifest))
    return directory


def runs(*utilizations: float, jain: float | None = 1.0) -> list[dict[str, Any]]:
    return [{"utilization": value, "goodput": value * 1e7, "jain": jain} for value in utilizations]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Side, Side]:
    before = write_sweep(tmp_path / "before", {"1bdp": runs(0.80, 0.82, 0.84), "2bdp": runs(0.9, 0.9, 0.9)})
    after = write_sweep(tmp_path / "after", {"1bdp": runs(0.90, 0.92, 0.91), "4bdp": runs(0.9, 0.9)})
    return read_side(before), read_side(after)


def found(differences: list[Difference], column: str, group: str = "") -> Difference:
    (one,) = [one for one in differences if one.place.quantity.column == column and one.place.group == group]
    return one


def test_sweeps_over_several_links_are_compared_at_each(tmp_path: Path) -> None:
    both = []
    for name, used in (("before", (0.80, 0.82, 0.84)), ("after", (0.90, 0.92, 0.91))):
        directory = write_sweep(tmp_path / name, {"1bdp": runs(*used)})
        table = pd.read_parquet(directory / "sweep.parquet")
        # As of several links: each has columns of its own, and none speaks for all.
        at_links = {f"links.{link}.utilization": table["utilization"] * part for link, part in (("a", 1), ("b.c", 0.5))}
        table.assign(utilization=None, **at_links).to_parquet(directory / "sweep.parquet")
        both.append(read_side(directory))
    differences = compare(*both)
    assert found(differences, "links.a.utilization").difference.mean == pytest.approx(0.09)
    assert found(differences, "links.b.c.utilization").difference.mean == pytest.approx(0.045)
    assert not [one for one in differences if one.place.quantity.column == "utilization"]


def test_differences_of_sweeps(sides: tuple[Side, Side]) -> None:
    differences = compare(*sides)
    one = found(differences, "utilization")
    assert str(one.place) == "buffer 1bdp"
    assert one.difference.mean == pytest.approx(0.09)
    expected = stats.ttest_ind([0.90, 0.92, 0.91], [0.80, 0.82, 0.84], equal_var=False).confidence_interval()
    assert one.difference.interval == pytest.approx((expected.low, expected.high))
    # Alone it were clear; so likely is it among all, as likely as the goodput of either group, which is ten times it.
    alone = stats.ttest_ind([0.90, 0.92, 0.91], [0.80, 0.82, 0.84], equal_var=False).pvalue
    assert alone < 0.05
    assert one.p_value == pytest.approx(len(differences) * alone)
    assert one.clear is False
    # 0.09 in pooled standard deviations of sqrt((0.0004 + 0.0001) / 2), times 0.8 for four degrees of freedom.
    assert one.effect == pytest.approx(0.09 / np.sqrt(0.00025) * 0.7979, rel=1e-3)
    # A quantity of groups has one value a group, one of the link a single one.
    assert found(differences, "goodput_bps", "a").difference.mean == pytest.approx(9e5)
    assert found(differences, "jain_index").effect is None
    assert found(differences, "jain_index").clear is False


def test_sides_are_named_by_what_tells_their_directories_apart(tmp_path: Path) -> None:
    """Sweeps of one experiment have one name, and so may their directories."""
    values: Runs = {"1bdp": runs(0.8, 0.9)}
    paths = [write_sweep(tmp_path / name, values) for name in ("one", "two", "old/one")]
    assert [side.name for side in read_sides(paths[0], paths[1])] == ["one", "two"]
    assert [side.name for side in read_sides(paths[0], paths[2])] == [f"{tmp_path.name}/one", "old/one"]
    assert [side.name for side in read_sides(paths[0], paths[0])] == ["one", "one"]


def test_a_group_that_one_side_lacks_is_named_once(sides: tuple[Side, Side]) -> None:
    """And not at every setting."""
    values = {place: some for place, some in sides[1].values.items() if place.group != "b"}
    lines = only_in_one(sides[0], replace(sides[1], values=values))
    assert [line for line in lines if line.endswith(" before") and "b:" in line] == ["b: only in before"]


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (83.25, 29.1, "83 ±29"), (6.505, 3.24, "6.5 ±3.2"), (0.0004904, 0.0151, "0.000 ±0.015"),
        (-0.0397, 20.2, "0 ±20"), (99.26, 0.0771, "99.26 ±0.08"), (19.88, 0.0, "19.88 ±0"), (0.0, 0.0, "0 ±0"),
        (0.99, 0.00012, "0.9900 ±0.0001"), (0.99, 1.2e-7, "0.9900 ±0.00000012"), (12345.0, 678.0, "12 345 ±678"),
        (100.0, 4.3e-14, "100 ±0"),
    ],
)  # fmt: skip
def test_a_mean_has_the_digits_that_its_interval_leaves_known(value: float, half: float, text: str) -> None:
    assert units.with_half_width(value, half).replace(units.THIN_SPACE, " ") == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (97.3, 94.9, 99.7, "97.3 ±2.4"), (94.5, 37.3, 100.0, "94 (37 to 100)"),
        (0.9997, 0.9971, 1.0, "0.9997 (0.9971 to 1.0000)"),
        (4.36, 0.0, 13.1, "4.4 (0.0 to 13.1)"), (100.0, 100 - 4e-14, 100.0, "100 ±0"),
    ],
)  # fmt: skip
def test_an_interval_that_a_limit_cuts_has_both_ends(value: float, low: float, high: float, text: str) -> None:
    assert units.with_interval(value, low, high) == text


def test_settings_of_one_side_are_named(sides: tuple[Side, Side]) -> None:
    lines = only_in_one(*sides)
    assert "buffer 2bdp: only in before" in lines
    assert "buffer 4bdp: only in after" in lines
    with pytest.raises(AnalysisError, match="allowed: two runs, or two sweeps"):
        compare(sides[0], replace(sides[1], basis="intervals within one run"))


def test_settings_are_a_line_each(run_directory: Path, tmp_path: Path) -> None:
    """The contents of a trace are among them, thousands of lines."""
    found = []
    for name, text in (("one", "1\n2\n"), ("other", "1\n3\n")):
        shutil.copytree(run_directory, tmp_path / name)
        trace = {"bottleneck": {"rate": {"trace": {"file": "lte", "text": text}}}}
        (tmp_path / name / "experiment.yaml").write_text(yaml.safe_dump(trace))
        found.append(settings_of(tmp_path / name))
    assert found[0]["bottleneck.rate.trace.text"] == "2 lines, SHA-256 a6e2b7a04068"
    assert [name for name, *_ in differing(*found)] == ["bottleneck.rate.trace.text"]


def test_runs_that_something_else_made_are_told_apart(run_directory: Path, tmp_path: Path) -> None:
    """Two runs by what made each; of a sweep's runs, which are taken together, the one that is unlike the first."""
    made = {"narrows-softswitch": "a" * 64, "kernel image": "b" * 64}
    sweep = write_sweep(tmp_path / "sweep", {"1bdp": runs(0.8, 0.9), "2bdp": runs(0.7)})
    for name in ("1bdp-r1", "1bdp-r2", "2bdp-r1"):
        shutil.copytree(run_directory, sweep / name)
        record = json.loads((sweep / name / "run.json").read_text())
        (sweep / name / "run.json").write_text(json.dumps(record | {"programs": made}))
    assert read_side(sweep).mixture == load_sweep(sweep).mixture == ""
    assert "made alike" not in write_sweep_report(sweep).read_text()
    run = sweep / "1bdp-r2" / "run.json"
    run.write_text(json.dumps(json.loads(run.read_text()) | {"programs": {**made, "kernel image": "c" * 64}}))
    one, other = settings_of(sweep / "1bdp-r1"), settings_of(sweep / "1bdp-r2")
    assert differing(one, other) == [("kernel image", "b" * 12, "c" * 12)]
    said = "not all of these runs were made alike: 1bdp-r2 was made by kernel image cccccccccccc, not bbbbbbbbbbbb"
    assert read_side(sweep).mixture == load_sweep(sweep).mixture == said
    assert said in write_sweep_report(sweep).read_text()
    # On the terminal, wrapped, and for programs.
    answer = CliRunner().invoke(app, ["compare", str(sweep), str(sweep)])
    assert f"sweep: {said}" in " ".join(answer.output.split())
    answer = CliRunner().invoke(app, ["compare", str(sweep), str(sweep), "--json"])
    assert json.loads(answer.stdout)["mixture"] == {"first": said, "second": said}
    table = closing_table(sweep)
    assert table is not None and table.caption == said


def test_repetitions_without_a_quantity_are_counted(tmp_path: Path) -> None:
    mixed = [*runs(0.8, 0.82), *runs(0.84, jain=None)]
    before = read_side(write_sweep(tmp_path / "before", {"1bdp": mixed}))
    after = read_side(write_sweep(tmp_path / "after", {"1bdp": runs(0.8, 0.9, 0.85)}))
    one = found(compare(before, after), "jain_index")
    assert (one.first.count, one.first.missing, one.clear) == (2, 1, None)
    # With one repetition there is no interval to hold anything.
    single = read_side(write_sweep(tmp_path / "single", {"1bdp": runs(0.5)}))
    assert found(compare(before, single), "utilization").clear is None


def test_hedges_g_is_corrected_for_small_samples() -> None:
    assert hedges_g([1.0], [1.0, 2.0]) is None
    assert hedges_g([1.0, 1.0], [2.0, 2.0]) is None
    # J(2) = gamma(1) / (sqrt(1) gamma(1/2)) = 0.5642
    assert hedges_g([0.0, 2.0], [1.0, 3.0]) == pytest.approx(0.5642 / np.sqrt(2), rel=1e-3)
    assert hedges_g([1.0, 3.0], [0.0, 2.0]) == pytest.approx(-0.5642 / np.sqrt(2), rel=1e-3)


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "one"
    synthetic.write_run(directory, synthetic.two_flows(8.0))
    analyze_run(directory)
    return directory


def test_a_run_is_compared_in_parts(run_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(run_directory, tmp_path / "other")
    # The same run with a tenth less goodput all the time.
    flows = pd.read_parquet(tmp_path / "other" / "flows.parquet")
    flows["goodput_bps"] *= 0.9
    flows.to_parquet(tmp_path / "other" / "flows.parquet")
    one, other = read_side(run_directory), read_side(tmp_path / "other")
    assert one.basis == "intervals within one run"
    differences = compare(one, other)
    goodput = found(differences, "goodput_bps", "bbr")
    assert goodput.second.mean == pytest.approx(goodput.first.mean * 0.9)
    assert goodput.first.count > 4
    assert found(differences, "share", "bbr").difference.mean == pytest.approx(0, abs=1e-9)
    assert found(differences, "utilization").difference.mean == 0


def means_of(directory: Path) -> dict[tuple[str, str], float]:
    return {(one.quantity.column, one.group): float(np.mean(v)) for one, v in read_side(directory).values.items()}


def test_a_run_compared_in_parts_has_the_shares_and_losses_of_its_summary(tmp_path: Path) -> None:
    """A third flow is not the experiment's: what it had and lost is in the ratios of the link."""
    senders = [
        synthetic.Sender(name, "reno", 0.0, 6.0, window=window, aimd=False)
        for name, window in (("one", 30), ("two", 20), ("theirs", 30))
    ]
    truth = synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders))
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    del record["flows"][2]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    summary = analyze_run(tmp_path / "run")
    means = {
        (place.quantity.column, place.group): np.mean(v) for place, v in read_side(tmp_path / "run").values.items()
    }
    for group in summary["groups"]:
        assert means["share", group["name"]] == pytest.approx(group["share"], rel=0.02)
    ours = sum(truth.unique_bytes[:2]) / sum(truth.unique_bytes)
    assert sum(means["share", name] for name in ("one", "two")) == pytest.approx(ours, abs=0.02) and ours < 0.9
    assert means["bottleneck_loss_ratio", ""] == pytest.approx(sum(truth.drops) / sum(truth.arrivals), rel=0.05)


def test_all_loss_is_compared_where_loss_emulation_took_packets(tmp_path: Path) -> None:
    """Elsewhere it is the same as the drops, and would only add to what is judged together."""
    told = {}
    for loss in (0.0, 0.02):
        scenario = synthetic.two_flows(4.0)
        scenario.loss = loss
        truth = synthetic.write_run(tmp_path / str(loss), scenario)
        analyze_run(tmp_path / str(loss))
        arrived, dropped, taken = sum(truth.arrivals), sum(truth.drops), sum(truth.loss_drops)
        told[loss] = ((dropped + taken) / (arrived + taken), read_side(tmp_path / str(loss)))
    without, between = compare(told[0.0][1], told[0.0][1]), compare(told[0.0][1], told[0.02][1])
    assert "bottleneck_total_loss_ratio" not in {one.place.quantity.column for one in without}
    (lost,) = (one for one in between if one.place.quantity.column == "bottleneck_total_loss_ratio")
    assert lost.first.mean == pytest.approx(told[0.0][0], rel=0.1, abs=1e-4)
    assert lost.second.mean == pytest.approx(told[0.02][0], rel=0.1) and told[0.02][0] > 0.015


def test_a_short_run_compared_in_parts_has_the_goodputs_of_its_summary(tmp_path: Path) -> None:
    """It has fewer intervals of flows than parts: those of the queue are finer, and have to be the same parts."""
    senders = [synthetic.Sender(name, "reno", 0.0, 2.3, window=20, aimd=False) for name in ("one", "two")]
    synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=senders))
    summary = analyze_run(tmp_path / "run")
    values = {(place.quantity.column, place.group): v for place, v in read_side(tmp_path / "run").values.items()}
    assert len({len(of_parts) for of_parts in values.values()}) == 1
    for group in summary["groups"]:
        assert np.mean(values["goodput_bps", group["name"]]) == pytest.approx(group["goodput_bps"], rel=0.02)


@pytest.mark.parametrize(("begin", "intervals", "parts"), [(11, 14, 7), (3, 27, 9), (0, 59, 19), (7, 40, 20)])
def test_parts_of_a_run_are_equally_long(begin: int, intervals: int, parts: int) -> None:
    frames = [pd.DataFrame({"time_s": np.arange(8 / s) * s, "interval_s": s}) for s in (0.1, 0.005)]
    window = (begin * 0.1, (begin + intervals) * 0.1)
    for frame, each in zip(_in_parts(frames, window), (1, 20), strict=True):
        assert list(frame.groupby("part").size()) == [intervals // parts * each] * parts
        assert frame["time_s"].iloc[0] == pytest.approx(window[0])


def test_a_flow_alone_has_the_goodput_of_its_whole_intervals(tmp_path: Path) -> None:
    only = synthetic.Sender("bbr", "bbr", 0.15, 1.0, window=60, aimd=False)
    synthetic.write_run(tmp_path / "run", synthetic.Scenario(senders=[only]))
    summary = analyze_run(tmp_path / "run")
    goodput = summary["groups"][0]["goodput_bps"]
    assert goodput is not None and means_of(tmp_path / "run")["goodput_bps", "bbr"] == pytest.approx(goodput, rel=0.01)


def test_parts_of_a_run_whose_rate_varies_are_of_what_it_offered(run_directory: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(run_directory, directory)
    before = means_of(directory)["utilization", ""]
    record = json.loads((directory / "run.json").read_text())
    link = record["bottleneck"]
    link["rate_schedule"] = {"start_ns": [0], "rate_bps": [2 * link["rate_bps"]], "period_ns": None}
    (directory / "run.json").write_text(json.dumps(record))
    assert means_of(directory)["utilization", ""] == pytest.approx(before / 2, rel=1e-6)


def test_parts_have_the_mean_delay_of_their_packets(run_directory: Path, tmp_path: Path) -> None:
    """Not of their intervals: where there is a queue more packets leave in an interval than where there is none."""
    directory = tmp_path / "run"
    shutil.copytree(run_directory, directory)
    queue = pd.read_parquet(directory / "queue.parquet")
    full = queue.index % 2 == 0
    changed = queue.assign(delay_mean_s=np.where(full, 0.03, 0.01), departures=np.where(full, 9, 1))
    changed.loc[queue.index % 4 == 3, ["delay_mean_s", "departures"]] = np.nan, 0
    changed.to_parquet(directory / "queue.parquet")
    # Of each four intervals two have 9 packets of 30 ms, one has a packet of 10 ms, and in one nothing left.
    assert means_of(directory)["queue_delay_mean_s", ""] == pytest.approx((18 * 0.03 + 0.01) / 19, rel=0.01)


def test_runs_of_a_single_flow(tmp_path: Path) -> None:
    windows = {"small": 10, "large": 45}
    for name, window in windows.items():
        only = synthetic.Sender("bbr", "bbr", 0.0, 4.0, window=window, aimd=False)
        synthetic.write_run(tmp_path / name, synthetic.Scenario(senders=[only], name=name))
        analyze_run(tmp_path / name)
    differences = compare(*(read_side(tmp_path / name) for name in windows))
    queue = found(differences, "queue_delay_mean_s")
    assert queue.first.count > 4 and queue.difference.mean > 0
    # One flow has all of what is sent, and no other flow to be fair to.
    assert {one.place.quantity.column for one in differences}.isdisjoint({"share", "jain_index"})


def test_why_a_run_cannot_be_compared_is_said(run_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(run_directory, tmp_path / "run")
    summary = analyze_run(tmp_path / "run")
    # The flows ran together all the same.
    summary["fairness"] |= {"window_s": None, "reason": "more than 1% of the telemetry reports are missing"}
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(AnalysisError, match="run: more than 1% of the telemetry reports are missing; nothing can be"):
        read_side(tmp_path / "run")


def test_a_run_that_was_cut_short_is_refused(run_directory: Path, tmp_path: Path) -> None:
    shutil.copytree(run_directory, tmp_path / "cut")
    data = json.loads((tmp_path / "cut" / "run.json").read_text())
    (tmp_path / "cut" / "run.json").write_text(json.dumps({**data, "status": "partial"}))
    with pytest.raises(AnalysisError, match="the run is partial; allowed: a complete one"):
        read_side(tmp_path / "cut")


@pytest.mark.long
def test_page_tables_and_figures(sides: tuple[Side, Side], tmp_path: Path) -> None:
    differences = compare(*sides)
    written = write_comparison(*sides, differences, tmp_path / "out", ("csv", "tex", "svg", "pdf"))
    assert all(path.stat().st_size for path in written)
    page = written[0].read_text()
    assert "after against before" in page
    assert "buffer 4bdp: only in after" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    table = pd.read_csv(tmp_path / "out" / "comparison.csv")
    row = table[table["quantity"] == "utilization"].iloc[0]
    assert (row["first_n"], row["second_n"]) == (3, 3)
    assert row["difference"] == pytest.approx(0.09)
    assert r"\toprule" in (tmp_path / "out" / "comparison.tex").read_text()
    assert (tmp_path / "out" / "comparison-utilization.svg").read_text().lstrip().startswith("<?xml")
    assert (tmp_path / "out" / "comparison-utilization.pdf").read_bytes().startswith(b"%PDF")
    assert len(as_frame(differences)) == len(table)


def test_many_repetitions_make_a_difference_clear(run_directory: Path, tmp_path: Path) -> None:
    """What was set otherwise stands on top, and in each format what is clear is the same."""
    for name, seed, buffer in (("before", 1, "25kB"), ("after", 2, "50kB")):
        rng = np.random.default_rng(seed)
        sweep = write_sweep(tmp_path / name, {"1bdp": runs(*(0.6 + 0.1 * seed + 0.01 * rng.standard_normal(8)))})
        shutil.copytree(run_directory, sweep / "1bdp-r1")
        experiment = {"name": name, "bottleneck": {"buffer": buffer, "rate": "20Mbit"}, "seed": seed}
        (sweep / "1bdp-r1" / "experiment.yaml").write_text(yaml.safe_dump(experiment))
    before, after = (read_side(tmp_path / name) for name in ("before", "after"))
    assert differing(before.settings, after.settings) == []
    assert "bottleneck.rate" in before.settings and "seed" not in before.settings
    # The swept one is not a setting of its own.
    (tmp_path / "after" / "1bdp-r1" / "experiment.yaml").write_text("bottleneck: {buffer: 50kB, rate: 10Mbit}")
    after = read_side(tmp_path / "after")
    assert differing(before.settings, after.settings) == [("bottleneck.rate", "20Mbit", "10Mbit")]
    clear = {(one.place.quantity.column, one.place.group) for one in compare(before, after) if one.clear}
    assert clear == {("utilization", ""), ("goodput_bps", "a"), ("goodput_bps", "b")}
    words = ["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*words, "--format", "tex"], env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.stdout.startswith("bottleneck.rate: 20Mbit -> 10Mbit\n")
    assert "3 of 11 differences are clear" in result.stdout and "Jain" not in result.stdout
    assert "\N{HORIZONTAL ELLIPSIS}" not in result.stdout
    page = (tmp_path / "out" / "comparison.html").read_text()
    assert page.index("bottleneck.rate") < page.index("Clear differences") < page.index("All differences")
    assert page.count('class="bars forest"') == 2
    assert r"Link used (\%)" in (tmp_path / "out" / "comparison.tex").read_text()


def test_only_clear_differences_have_filled_dots(tmp_path: Path) -> None:
    """Of two buffers, one of which makes a difference, in one plot."""
    rng = np.random.default_rng(3)
    for name, more in (("before", 0.0), ("after", 0.1)):
        noise = 0.01 * rng.standard_normal((2, 8))
        write_sweep(tmp_path / name, {"1bdp": runs(*(0.6 + more + noise[0])), "2bdp": runs(*(0.8 + noise[1]))})
    before, after = (read_side(tmp_path / name) for name in ("before", "after"))
    differences = compare(before, after)
    (page,) = write_comparison(before, after, differences, tmp_path / "out", ())
    plotted = {one.place.quantity for one in differences if one.clear}
    for clear, dot in ((True, '<u class="clear"'), (False, '<u class=""')):
        expected = sum(one.place.quantity in plotted and bool(one.clear) == clear for one in differences)
        assert page.read_text().count(dot) == expected > 0


def test_no_name_is_taken_for_tex(tmp_path: Path) -> None:
    """Per cent signs in a heading hid the rest of its line, and so the end of the row."""
    frame = pd.DataFrame({"95 % from": [0.5], "a&b_$": ["{5%}"]})
    text = save_table(frame, tmp_path / "table", "tex").read_text()
    assert r"95 \% from & a\&b \$ \\" in text and r"0.5 & \{5\%\} \\" in text


def test_an_unknown_format_is_refused_with_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert parse_formats("csv, svg,csv") == ("csv", "svg")
    with pytest.raises(AnalysisError, match="format bmp: is not known; allowed: csv, tex, png, svg, pdf, pgf"):
        parse_formats("bmp")
    with pytest.raises(AnalysisError, match="needs xelatex"):
        parse_formats("pgf")


def test_the_command_compares_two_sweeps(tmp_path: Path) -> None:
    before = write_sweep(tmp_path / "before", {"1bdp": runs(0.80, 0.82, 0.84)})
    after = write_sweep(tmp_path / "after", {"1bdp": runs(0.90, 0.92, 0.91)})
    result = CliRunner().invoke(app, ["compare", str(before), str(after), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "Link used" not in result.output
    assert "0 of 11 differences are clear" in result.output and "--all shows the others" in result.output
    result = CliRunner().invoke(app, ["compare", str(before), str(after), "--all"])
    assert "used" in result.output and "--all" not in result.output
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".html", ".csv", ".svg"}


def test_the_command_gives_differences_as_json(tmp_path: Path) -> None:
    before = write_sweep(tmp_path / "before", {"1bdp": runs(0.80, 0.82, 0.84)})
    after = write_sweep(tmp_path / "after", {"1bdp": runs(0.90, 0.92, 0.91)})
    result = CliRunner().invoke(app, ["compare", str(before), str(after), "--json"], catch_exceptions=False)
    found = {one["quantity"]: one for one in json.loads(result.stdout)["differences"]}["utilization"]
    welch = stats.ttest_ind([0.90, 0.92, 0.91], [0.80, 0.82, 0.84], equal_var=False).confidence_interval()
    assert (found["setting"], found["group"], found["clear"]) == ({"bottleneck.buffer": "1bdp"}, None, False)
    assert found["difference"]["mean"] == pytest.approx(0.09)
    assert found["difference"]["interval"] == pytest.approx([welch.low, welch.high])
    assert (found["first"]["n"], found["first"]["missing"]) == (3, 0)


def test_no_interval_of_a_sweep_holds_what_cannot_be(tmp_path: Path) -> None:
    """Of 90 and 99 % a t interval is 94.5 +- 57.2 %."""
    directory = write_sweep(tmp_path / "one", {"1bdp": runs(0.90, 0.99)})
    table = intervals(load_sweep(directory)).set_index("quantity")
    expected = stats.ttest_1samp([0.90, 0.99], 0).confidence_interval()
    assert expected.high > 1
    ends = (table.loc["utilization", "low"], table.loc["utilization", "high"])
    assert ends == pytest.approx((expected.low, 1))
    assert ">94 (37 to 100)<" in write_sweep_report(directory).read_text()


def test_means_over_the_repetitions_of_a_sweep(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "one", {"1bdp": [*runs(0.80, 0.82), *runs(0.84, jain=None)], "2bdp": runs(0.9)})
    table = intervals(load_sweep(directory))
    used = table[table["quantity"] == "utilization"].set_index("bottleneck.buffer")
    expected = stats.ttest_1samp([0.80, 0.82, 0.84], 0).confidence_interval()
    assert used.loc["1bdp", "mean"] == pytest.approx(0.82)
    assert (used.loc["1bdp", "low"], used.loc["1bdp", "high"]) == pytest.approx((expected.low, expected.high))
    assert (used.loc["1bdp", "n"], used.loc["2bdp", "n"]) == (3, 1)
    assert used["low"].isna().to_dict() == {"1bdp": False, "2bdp": True}
    fair = table[table["quantity"] == "jain_index"].set_index("bottleneck.buffer")
    assert (fair.loc["1bdp", "n"], fair.loc["1bdp", "missing"]) == (2, 1)
    assert set(table.loc[table["quantity"] == "goodput_bps", "group"]) == {"a", "b"}
    page = write_sweep_report(directory).read_text()
    assert "82.0 ±5.0<" in page
    assert "1 ±0 (1 without)" in page
    written = pd.read_csv(directory / "intervals.csv")
    assert len(written) == len(table)
