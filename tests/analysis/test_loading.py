# SPDX-License-Identifier: Apache-2.0
"""load() says what a directory holds: a run, a sweep, a study."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import synthetic
from narrows_analysis import AnalysisError, LoadedRun, LoadedStudy, Sweep, load
from narrows_analysis.study_results import MeasuredPoint, Results, write_results
from test_comparison import runs, write_sweep


def test_a_run_is_one_whatever_lies_beside_it(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", synthetic.two_flows(1.0))
    (tmp_path / "run" / "results.parquet").write_text("{}")
    assert isinstance(load(tmp_path / "run"), LoadedRun)


def test_a_sweep_is_its_table(tmp_path: Path) -> None:
    sweep = load(write_sweep(tmp_path / "sweep", {"2bdp": runs(0.9), "1bdp": runs(0.8, 0.7)}))
    assert isinstance(sweep, Sweep) and list(sweep.frame["utilization"]) == [0.9, 0.9, 0.8, 0.8, 0.7, 0.7]
    assert "0.7" in sweep._repr_html_()


def test_a_study_is_its_points(tmp_path: Path) -> None:
    points = (
        MeasuredPoint("figure-3", {"bottleneck.buffer": "1bdp"}, 1, {"utilization": 0.5}, "0001"),
        MeasuredPoint("figure-4", {}, 2, {"loss": None}, "0002"),
    )
    write_results(tmp_path / "results.parquet", Results("ware2019", "quick", points))
    for path in (tmp_path, tmp_path / "results.parquet"):
        study = load(path)
        assert isinstance(study, LoadedStudy) and [one.variant for one in study.results] == ["quick"]
        first, second = study.frame.to_dict("records")
        assert (first["variant"], first["experiment"], first["bottleneck.buffer"]) == ("quick", "figure-3", "1bdp")
        assert first["utilization"] == 0.5
        assert (second["repetition"], second["directory"]) == (2, "0002") and math.isnan(second["loss"])


@pytest.mark.parametrize("name", ["", "results.parquet"])
def test_what_is_none_of_them_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / (name or "other.json")).write_text("[]")
    with pytest.raises(AnalysisError, match=str(tmp_path / (name or "run.json"))):
        load(tmp_path / name)
