# SPDX-License-Identifier: Apache-2.0
"""Requests, a video player and settings of TCP in real time: processes on their hosts, as an ordinary user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from narrows.experiment.loader import load
from narrows.run.runner import check, execute
from narrows.targets.registry import target_factory
from narrows_formats.programs import COLLECTOR, SOFTSWITCH
from rich.console import Console

RTT_S = 0.04
EXPERIMENT = """
name: responses
bottleneck: {rate: 50Mbit, buffer: 1bdp, rtt: 40ms}
flows:
  - {name: paced, cca: cubic, duration: 3s, rate: 4Mbit, tcp: {initial_window: 4, rto_min: 300ms}}
  - {name: kept, cca: reno, duration: 3s, requests: {size: 100kB, think: 500ms}}
  - name: new
    cca: cubic
    duration: 3s
    tcp: {initial_window: 5, ecn: true}
    requests: {size: 100kB, gaps: 400ms, users: 2, connections: new}
  - {name: film, cca: cubic, duration: 3s, video: {bitrates: [1Mbit, 2Mbit], segment: 1s, buffer: 4s}}
"""


@pytest.mark.needs("root", SOFTSWITCH, COLLECTOR)
def test_responses_take_no_less_than_slow_start_lets_them(tmp_path: Path) -> None:
    """100 kB are 70 segments: three rounds from a window of 10; four from one of 5, and a handshake."""
    file = tmp_path / "experiment.yaml"
    file.write_text(EXPERIMENT)
    experiment = load(file)
    run = check(experiment, target_factory("soft", results=tmp_path)(experiment), str(file))
    outcome = execute(run, tmp_path / "result", Console(quiet=True), "responses")
    assert outcome.status == "complete", outcome.reason
    summary = json.loads((outcome.directory / "summary.json").read_text())
    flows = {flow["name"]: flow for flow in summary["flows"]}
    kept, new = (flows[f"{name}-1"]["responses"] for name in ("kept", "new"))
    assert kept["completed"] == kept["requests"] >= 3 and kept["time_s"]["min"] > 3 * RTT_S
    assert new["completed"] == new["requests"] == 2 * 7 and new["time_s"]["min"] > (1 + 4) * RTT_S
    assert len(flows["new-1"]["connections"]) == 14
    # Ten segments are not paced.
    assert flows["paced-1"]["bytes"] < 4e6 / 8 * 3 + 10 * 1448
    film = flows["film-1"]["video"]
    assert film["segments"] >= 4 and film["stalls"] == 0
