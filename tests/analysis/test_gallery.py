# SPDX-License-Identifier: Apache-2.0
"""Every figure of the gallery is drawn, from the run's own data and in the page's colours."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from matplotlib.colors import to_hex
from narrows_analysis import AnalysisError, analyze_run, load
from narrows_analysis.gallery import FIGURES, gallery, goodput, loss, queue_depth

# What needs hosts/sockets.parquet.
OF_SOCKETS = {"cwnd", "inflight", "pacing"}
Competition = tuple[Path, synthetic.Truth, Any]


def test_every_figure_that_has_data_is_drawn(competition: Competition) -> None:
    figures = gallery(load(competition[0]))
    assert set(figures) == set(FIGURES) - OF_SOCKETS
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="pdf")
        assert len(buffer.getvalue()) > 3000, name
        for axes in figure.axes:
            assert axes.get_xlabel() and (axes.get_ylabel() or name == "shares"), name


def test_lines_are_the_series(competition: Competition) -> None:
    run = load(competition[0])
    lines = goodput(run).axes[0].get_lines()
    for number in (0, 1):
        mine = run.flows[run.flows["flow"] == number]
        # The last interval is not a whole one.
        mine = mine[mine["time_s"] + mine["interval_s"] <= max(flow["end_s"] or 0.0 for flow in run.summary["flows"])]
        assert 0 < len(mine) < len(run.flows[run.flows["flow"] == number])
        np.testing.assert_allclose(np.asarray(lines[number].get_ydata()) * 1e6, mine["goodput_bps"])
        assert to_hex(lines[number].get_color()) == run.colors[number].hex
    depth = queue_depth(run).axes[0].get_lines()[0]
    assert np.nanmax(np.asarray(depth.get_ydata())) * 1e3 == run.queue["depth_mean_bytes"].max()


def test_loss_over_a_long_window_is_the_loss_so_far(competition: Competition) -> None:
    run_dir, truth, _ = competition
    line = loss(load(run_dir), window_s=1000).axes[0].get_lines()[1]
    assert np.asarray(line.get_ydata())[-1] / 100 == pytest.approx(truth.drops[1] / truth.arrivals[1])


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
        goodput(run)
