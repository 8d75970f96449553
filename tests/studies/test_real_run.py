# SPDX-License-Identifier: Apache-2.0
"""A small study on the softswitch: real runs, side by side, with trains, a workload and sampled sockets."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.targets.registry import target_factory
from narrows_analysis import RunData
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from narrows_studies.checks import Pick, Within
from narrows_studies.model import Plot, Statement, Study, StudyFigure
from narrows_studies.page import publish
from narrows_studies.probes import read_sockets
from narrows_studies.running.catalogue import study_points
from narrows_studies.running.run import StudyRun
from rich.console import Console

pytestmark = pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)

WORKLOAD: dict[str, Any] = {
    "flows": 6,
    "sizes": {"pareto": {"shape": 1.2, "smallest": "2kB", "largest": "50kB"}},
    "gaps": {"lognormal": {"median": "100ms", "sigma": 0.5}},
}
ONE: dict[str, Any] = {
    "name": "one",
    "bottleneck": {"rate": "10Mbit", "rtt": "20ms", "buffer": "2bdp"},
    "flows": [
        {"name": "large", "cca": "bbr", "size": "2MB"},
        {
            "name": "train",
            "cca": "cubic",
            "size": "50kB",
            "repeat": 100,
            "gap": "200ms",
            "start": "1s",
            "until": "large",
        },
        {"name": "web", "cca": "cubic", "workload": WORKLOAD},
    ],
    "sweep": {"flows.large.cca": ["bbr", "cubic"]},
}
FASTER = Statement(
    id="s",
    says="all trains end",
    source="figure 1",
    agrees_if="0 to 2 s",
    check=Within(pick=Pick("fct_s.train"), low=0, high=2),
)
PLOTS = (Plot(kind="time", title="Over time", panels=("goodput", "delay", "queue", "loss", "cwnd"), group="large"),)
STUDY = Study(
    "tiny",
    "A",
    "B",
    "C",
    (
        StudyFigure(
            id="1",
            experiment="one",
            title="title",
            statements=(FASTER,),
            plots=PLOTS,
            window=(0.0, 1.0),
            life_of="large",
        ),
    ),
)


@pytest.mark.long
def test_a_study_from_start_to_end(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.yaml").write_text(yaml.safe_dump(ONE))
    points = study_points(STUDY, quick=False, root=tmp_path, cards=())
    out = tmp_path / "out"

    def run(at_once: int) -> tuple[StudyRun, str]:
        console = Console(file=io.StringIO(), width=200)
        runner = StudyRun(STUDY, "full", out, "soft", target_factory("soft"), console)
        results = runner.run(points, at_once)
        assert results.skipped == {}
        assert len(results.points) == 2
        page = publish(STUDY, results, out, tmp_path / "page").read_text()
        # One run of each point: nothing is decided yet.
        assert "**undecided**" in page and "means agree; takes 10 repetitions or more): " in page
        assert len(list((tmp_path / "page" / "figures").iterdir())) == 1
        assert isinstance(console.file, io.StringIO)
        return runner, console.file.getvalue()

    _, said = run(2)
    assert "2 of 2 points to run" in said
    _, said = run(1)
    assert "0 of 2 points to run" in said

    data = RunData(out / points[0].directory)
    flows = data.run.raw["flows"]
    assert [flow["bytes_sent"] for flow in flows if flow["group"] == "large"] == [2_000_000]
    trains = [flow for flow in flows if flow["group"] == "train"]
    large = next(flow for flow in flows if flow["group"] == "large")
    # Each 0.2 s after the end of the one before; none starts after the large flow has ended.
    gaps = [after["started_s"] - flow["ended_s"] for flow, after in itertools.pairwise(trains)]
    # A busy machine may have some later, none earlier.
    assert 1.0 <= trains[0]["started_s"] < 2.0
    assert all(gap >= 0.2 for gap in gaps)
    assert all(flow["started_s"] < large["ended_s"] + 0.5 for flow in trains)
    assert len([flow for flow in flows if flow["group"] == "web"]) == 6
    # The switch has seen every byte of every flow.
    for stated, seen in zip(flows, data.summary["flows"], strict=True):
        assert seen["bytes"] == stated["size_bytes"]
        assert seen["fct_s"] is not None
    sockets = read_sockets(data)
    assert sockets is not None
    of_large = sockets[sockets["group"] == "large"]
    assert len(of_large) > 5
    assert of_large["rtt_s"].between(0.015, 0.2).all()
    assert (of_large["cwnd_bytes"] > 0).all()
    assert of_large["bbr_bandwidth_bps"].median() == pytest.approx(10e6, rel=0.5)
