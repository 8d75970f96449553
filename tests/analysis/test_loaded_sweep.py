# SPDX-License-Identifier: Apache-2.0
"""A sweep in a notebook: its order, its figures and its values, against its table of intervals."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from narrows_analysis import AnalysisError, load
from narrows_analysis.loaded_sweep import LoadedSweep
from narrows_analysis.sweep import intervals, write_sweep_report

# As text 16bdp comes before 2bdp.
BUFFERS = ["16bdp", "0.5bdp", "2bdp"]
ORDER = ["0.5bdp", "2bdp", "16bdp"]
LAWS = ["codel", "pie"]
GROUPS = ["bbr", "cubic"]


def write(directory: Path, sweep: dict[str, list[str]], repeat: int = 3) -> LoadedSweep:
    """A sweep of random results."""
    chance, rows = np.random.default_rng(1), []
    for number, (*values, repetition) in enumerate(itertools.product(*sweep.values(), range(1, repeat + 1))):
        of_run = {"directory": f"{number}", "status": "complete", "repetition": repetition}
        of_run |= dict(zip(sweep, values, strict=True)) | {"utilization": chance.random(), "jain_index": 1.0}
        shares = chance.dirichlet([1, 1])
        rows += [{**of_run, "group": name, "share": share} for name, share in zip(GROUPS, shares, strict=True)]
    directory.mkdir()
    pd.DataFrame(rows).to_parquet(directory / "sweep.parquet", index=False)
    runs = len(rows) // len(GROUPS)
    manifest = {"name": "buffers", "sweep": sweep, "repeat": repeat, "points": runs, "runs": []}
    (directory / "sweep.json").write_text(json.dumps(manifest))
    found = load(directory)
    assert isinstance(found, LoadedSweep)
    return found


@pytest.fixture
def sweep(tmp_path: Path) -> LoadedSweep:
    return write(tmp_path / "sweep", {"buffer": BUFFERS, "queue": LAWS})


def test_values_that_are_numbers_are_in_their_order(sweep: LoadedSweep) -> None:
    found = sweep.frame.sort_values("buffer")["buffer"]
    assert found.drop_duplicates().tolist() == ORDER and found.cat.ordered
    assert sweep.frame["queue"].cat.categories.tolist() == LAWS and not sweep.frame["queue"].cat.ordered
    assert repr(sweep) == "Sweep buffers: 18 of 18 runs; buffer (3), queue (2)"


@pytest.mark.parametrize(
    ("arguments", "at"),
    [
        ({"metric": "utilization"}, "queue"),
        ({"metric": "utilization", "x": "buffer", "hue": "queue"}, "queue"),
        ({"metric": "share", "at": {"queue": "pie"}}, "group"),
        ({"metric": "share", "hue": "queue", "at": {"group": "bbr"}}, "queue"),
    ],
)
def test_a_figure_has_the_means_and_their_intervals(sweep: LoadedSweep, arguments: dict[str, Any], at: str) -> None:
    (axes,) = sweep.figure(**arguments).axes
    expected = intervals(sweep)
    expected = expected[expected["quantity"] == arguments["metric"]]
    for name, value in arguments.get("at", {}).items():
        expected = expected[expected[name] == value]
    lines = {str(one.get_label()): one for one in axes.containers}
    assert list(lines) == (GROUPS if at == "group" else LAWS)
    for name, line in lines.items():
        mine = 100 * expected[expected[at] == name].set_index("buffer").loc[ORDER, ["mean", "low", "high"]]
        drawn: Any = line[0]
        assert drawn.get_ydata() == pytest.approx(mine["mean"].to_numpy(dtype=float))
        # 0.5, 2 and 16 are more even as powers.
        assert drawn.get_xdata() == pytest.approx(np.log10([0.5, 2, 16]) + (drawn.get_xdata()[0] - np.log10(0.5)))
        ends = np.array([[low, high] for (_, low), (_, high) in line[2][0].get_segments()])
        assert ends == pytest.approx(mine[["low", "high"]].to_numpy(dtype=float))
    assert [one.get_text() for one in axes.get_xticklabels()] == ORDER
    fixed = "\nat queue = pie" if "queue" in arguments.get("at", {}) else ""
    assert axes.get_xlabel() == "buffer (logarithmic)" + fixed
    whose = " of bbr" if "group" in arguments.get("at", {}) else ""
    titles = {"share": f"Share of goodput{whose} (%)", "utilization": "Link used (%)"}
    assert axes.get_ylabel() == titles[arguments["metric"]]
    legend = axes.get_legend()
    assert legend is not None and legend.get_title().get_text() == at


def test_two_swept_fields_and_groups_are_axis_color_and_style(tmp_path: Path) -> None:
    """As seaborn has them. The field of numbers is the axis, wherever it stands."""
    sweep = write(tmp_path / "sweep", {"queue": LAWS, "buffer": BUFFERS})
    (axes,) = sweep.figure("share").axes
    assert axes.get_xlabel() == "buffer (logarithmic)"
    legend = axes.get_legend()
    assert legend is not None and legend.get_title().get_text() == "group, queue"
    lines = {str(one.get_label()): one for one in axes.containers}
    assert list(lines) == ["bbr, codel", "bbr, pie", "cubic, codel", "cubic, pie"]
    looks = {}
    means = 100 * sweep.frame.groupby(["group", "queue", "buffer"], observed=True)["share"].mean()
    for (name, drawn), at in zip(lines.items(), itertools.product(GROUPS, LAWS), strict=True):
        line: Any = drawn[0]
        assert line.get_ydata() == pytest.approx(means.loc[at].loc[ORDER].to_numpy())
        looks[name] = line.get_color(), line.get_linestyle(), line.get_marker()
    assert len(set(looks.values())) == 4
    assert looks["bbr, codel"][0] == looks["bbr, pie"][0] != looks["cubic, pie"][0]
    assert looks["bbr, codel"][1:] == looks["cubic, codel"][1:] != looks["cubic, pie"][1:]


def test_three_swept_fields_and_groups_are_too_many(tmp_path: Path) -> None:
    sweep = write(tmp_path / "sweep", {"buffer": BUFFERS, "queue": LAWS, "loss": ["0", "1%"]})
    with pytest.raises(AnalysisError, match="queue, loss: several values each; allowed: x, hue, style, and at="):
        sweep.figure("share")
    (axes,) = sweep.figure("share", at={"loss": "1%"}).axes
    assert axes.get_xlabel() == "buffer (logarithmic)\nat loss = 1%"
    # Without groups each field has its place.
    (axes,) = sweep.figure("utilization").axes
    legend = axes.get_legend()
    assert legend is not None and legend.get_title().get_text() == "queue, loss"


def test_all_that_was_measured_can_be_drawn_by_the_names_of_a_runs_figures(sweep: LoadedSweep) -> None:
    chance = np.random.default_rng(2)
    for column in ("rtt_mean_s", "queue_bytes_mean", "retransmits", "links.cell.bottleneck_ce_marks"):
        sweep.frame[column] = chance.random(len(sweep.frame))
    sweep.frame["convergence_s"] = None
    drawn = {name: sweep.figure(name, x="buffer").axes[0] for name in ("rtt", "rtt_mean_s", "queue_depth", "jain")}
    labels = {name: axes.get_ylabel() for name, axes in drawn.items()}
    assert labels == {
        "rtt": "Mean RTT (ms)", "rtt_mean_s": "Mean RTT (ms)", "queue_depth": "Mean queue depth (kB)",
        "jain": "Jain's index",
    }  # fmt: skip
    lines = {str(one.get_label()): one for one in drawn["rtt"].containers}
    means = 1e3 * sweep.frame.groupby(["group", "queue", "buffer"], observed=True)["rtt_mean_s"].mean()
    one: Any = lines["cubic, pie"][0]
    assert one.get_ydata() == pytest.approx(means.loc["cubic", "pie"].loc[ORDER].to_numpy())
    marks = sweep.figure("links.cell.bottleneck_ce_marks").axes[0].get_ylabel()
    assert marks == "CE marks at the link, cell (packets)"
    tidy = sweep.tidy()
    assert {"rtt_mean_s", "retransmits", "links.cell.bottleneck_ce_marks"} < set(tidy["quantity"])
    # What no run has is no measurement.
    assert "convergence_s" not in set(tidy["quantity"])
    with pytest.raises(AnalysisError, match="figure convergence_s: no complete run has it"):
        sweep.figure("convergence_s")
    with pytest.raises(AnalysisError, match="figure rtts: is not known, did you mean 'rtt'"):
        sweep.figure("rtts")


def test_figures_are_drawn_where_the_caller_wants_them(sweep: LoadedSweep, tmp_path: Path) -> None:
    figure = Figure()
    axes = figure.add_subplot()
    assert sweep.figure("utilization", x="queue", at={"buffer": "2bdp"}, ax=axes) is figure
    assert [one.get_text() for one in axes.get_xticklabels()] == LAWS
    figure.savefig(str(tmp_path / "x.pdf"))
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda sweep: sweep.figure("shares"), "figure shares: is not known, did you mean 'share'"),
        (lambda sweep: sweep.figure("share", x="rate"), "figure: rate was not swept; allowed: buffer, queue, group"),
        (lambda sweep: sweep.figure("utilization", hue="group"), "figure: group is for metrics of groups, and"),
        (lambda sweep: sweep.figure("utilization", at={"queue": "red"}), "figure: queue was never red; allowed"),
        (
            lambda sweep: sweep.figure("rtt"),
            "figure rtt: sweep.parquet does not have it; 'narrows analyze .*' makes it",
        ),
    ],
)
def test_what_cannot_be_drawn_is_named(sweep: LoadedSweep, draw: Callable[[LoadedSweep], Any], message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        draw(sweep)


def test_each_value_has_a_row(sweep: LoadedSweep) -> None:
    tidy = sweep.tidy()
    assert tidy.columns.tolist() == [
        "buffer", "queue", "repetition", "status", "directory", "group", "quantity", "value",
    ]  # fmt: skip
    # Of each run its own two, and a share of each group.
    assert len(tidy) == 18 * (2 + 2)
    for (directory, group), rows in sweep.frame.groupby(["directory", "group"]):
        mine = tidy[tidy["directory"] == directory]
        share = mine.loc[(mine["quantity"] == "share") & (mine["group"] == group), "value"]
        assert share.tolist() == rows["share"].tolist()
        assert mine.loc[mine["quantity"] == "utilization", "value"].tolist() == rows["utilization"].tolist()
    assert set(tidy.loc[tidy["quantity"] != "share", "group"]) == {""}


def test_repetitions_have_a_page_of_their_means(tmp_path: Path) -> None:
    sweep = write(tmp_path / "runs", {})
    page = write_sweep_report(sweep.path).read_text()
    means = pd.read_csv(sweep.path / "intervals.csv").set_index("quantity")
    assert means.loc["utilization", "mean"] == pytest.approx(sweep.frame["utilization"].mean())
    assert f'data-value="{sweep.frame["utilization"][::2].mean():.15g}"' in page
    assert 'id="part-maps"' not in page and repr(sweep) == "Sweep buffers: 3 of 3 runs; repetitions"
    with pytest.raises(AnalysisError, match="figure: nothing was swept, and utilization is one value of each run"):
        sweep.figure("utilization")
    (axes,) = sweep.figure("share").axes
    assert ([one.get_text() for one in axes.get_xticklabels()], axes.get_xlabel()) == (GROUPS, "group")
    drawn: Any = axes.containers[0]
    by_group = 100 * sweep.frame.groupby("group")["share"].mean()
    assert drawn[0].get_ydata() == pytest.approx(by_group[GROUPS].to_numpy())
    # Nothing is between two groups.
    assert drawn[0].get_linestyle() == "None" and axes.get_legend() is None
