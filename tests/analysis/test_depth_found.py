# SPDX-License-Identifier: Apache-2.0
"""Targets that do not report the depth that a packet leaves behind (Tofino): the one that it found takes its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import synthetic
from narrows_analysis import analyze_run, analyze_source, load
from narrows_formats.programs import COLLECTOR

pytestmark = pytest.mark.needs(COLLECTOR)
CELL_BYTES = 80


@pytest.fixture(params=["tofino", "tofino2"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, synthetic.Truth, np.ndarray]:
    """A run as Tofino reports it: depths in cells, what was left is 0; its truth, and the depths found in bytes."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0), files=1)
    path = tmp_path / "run" / "telemetry" / "reports-00000.parquet"
    columns = {name: pq.read_table(path)[name].to_numpy() for name in synthetic.REPORT_TYPES}
    columns["enqueue_depth"] = columns["enqueue_depth"] // CELL_BYTES
    columns["dequeue_depth"] = np.zeros(len(columns["flow"]), np.int64)
    synthetic.write_reports(path, columns)
    described = tmp_path / "run" / "run.json"
    document: dict[str, Any] = json.loads(described.read_text())
    profile = {"name": request.param, "time_unit_s": 1e-9, "depth_unit": "cells", "depth_unit_bytes": CELL_BYTES}
    described.write_text(json.dumps(document | {"target_profile": profile}))
    return tmp_path / "run", truth, columns["enqueue_depth"].astype(np.int64) * CELL_BYTES


def test_summary_and_series_show_the_depth_found(run: tuple[Path, synthetic.Truth, np.ndarray]) -> None:
    directory, truth, found = run
    queue: Any = analyze_run(directory)["bottleneck"]["queue_bytes"]
    assert found.mean() > 5 * CELL_BYTES, "or the test would show nothing"
    assert queue["mean"] == pytest.approx(found.mean())
    assert queue["p50"] == np.sort(found)[-(-len(found) // 2) - 1]
    # The peak counts the arriving packet in, in whole cells.
    assert truth.peak_bytes - 2 * CELL_BYTES < queue["max"] < truth.peak_bytes + 2 * CELL_BYTES
    series = pd.read_parquet(directory / "queue.parquet")
    assert series["depth_min_bytes"].min() == found.min()
    assert (series["depth_mean_bytes"] > 0).mean() > 0.5
    distribution = pd.read_parquet(directory / "distributions.parquet")
    depths = distribution[distribution["quantity"] == "queue_bytes"]
    assert depths["value"].max() >= found.max()


def test_cells_are_bytes_of_the_frames_that_fill_them(tmp_path: Path) -> None:
    """A frame of 1514 B and 18 B beside it take 20 cells of 80 B, which are 1600 B of memory and 1514 B of a buffer."""
    truth = synthetic.write_run(tmp_path / "run", synthetic.two_flows(2.0), files=1)
    path = tmp_path / "run" / "telemetry" / "reports-00000.parquet"
    columns = {name: pq.read_table(path)[name].to_numpy() for name in synthetic.REPORT_TYPES}
    frames = columns["enqueue_depth"].astype(np.int64) // 1514
    columns["enqueue_depth"] = frames * 20
    columns["dequeue_depth"] = np.zeros(len(frames), np.int64)
    synthetic.write_reports(path, columns)
    described = tmp_path / "run" / "run.json"
    document: dict[str, Any] = json.loads(described.read_text())
    profile = {"name": "tofino", "time_unit_s": 1e-9, "depth_unit": "cells", "depth_unit_bytes": CELL_BYTES}
    profile["depth_overhead_bytes"] = 18
    described.write_text(json.dumps(document | {"target_profile": profile}))
    summary = analyze_run(tmp_path / "run")
    queue: Any = summary["bottleneck"]["queue_bytes"]
    assert queue["mean"] == pytest.approx(frames.mean() * 1514)
    assert truth.peak_bytes - 3 * 1514 < queue["max"] <= truth.peak_bytes
    assert "queue_above_buffer" not in {one["code"] for one in summary["warnings"]}
    np.testing.assert_allclose(load(tmp_path / "run").reports()["enqueue_depth_bytes"], frames * 1514)


def test_frames_show_the_depth_found(run: tuple[Path, synthetic.Truth, np.ndarray]) -> None:
    directory, _, found = run
    reports = load(directory).reports()
    np.testing.assert_allclose(reports["dequeue_depth_bytes"], found)


def test_telemetry_without_a_run_shows_the_depth_found(
    run: tuple[Path, synthetic.Truth, np.ndarray], tmp_path: Path
) -> None:
    """Nothing says which target it was: that no packet ever left one behind, though packets waited, does."""
    directory, truth, found = run
    queue: Any = analyze_source(directory / "telemetry", tmp_path / "found")["bottleneck"]["queue_bytes"]
    assert queue["mean"] == pytest.approx(found.mean() / CELL_BYTES)
    path = directory / "telemetry" / "reports-00000.parquet"
    synthetic.write_reports(path, truth.rows)
    queue = analyze_source(directory / "telemetry", tmp_path / "left")["bottleneck"]["queue_bytes"]
    assert queue["mean"] == pytest.approx(truth.depths_bytes.mean())
