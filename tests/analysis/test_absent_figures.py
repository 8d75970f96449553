# SPDX-License-Identifier: Apache-2.0
"""What a link's summary says in place of a figure that it cannot have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import synthetic
from narrows_analysis import analyze_run

Competition = tuple[Path, synthetic.Truth, Any]
MS = 1_000_000


@pytest.mark.parametrize(
    ("schedule", "down_s", "down", "saturated"),
    [
        (None, 0.0, None, None),
        ({"start_ns": [0], "rate_bps": [100_000_000], "period_ns": None}, 0.0, None, "the rate varies"),
        (
            {"opportunities_ns": [MS, 2 * MS], "period_ns": 2 * MS},
            None,
            "delivery opportunities, between which nothing passes anyway",
            "the rate varies",
        ),
    ],
)
def test_a_figure_or_its_reason(
    competition: Competition,
    tmp_path: Path,
    schedule: dict[str, Any] | None,
    down_s: float | None,
    down: str | None,
    saturated: str | None,
) -> None:
    run = tmp_path / "run"
    shutil.copytree(competition[0], run)
    record = json.loads((run / "run.json").read_text())
    links = record["links"] if "links" in record else [record["bottleneck"]]
    links[0]["rate_schedule"] = schedule
    (run / "run.json").write_text(json.dumps(record))
    link = analyze_run(run)["bottleneck"]
    assert (link["down_s"], link["down_reason"], link["saturated_rate_reason"]) == (down_s, down, saturated)
    assert (link["saturated_rate_bps"] is None) == (saturated is not None)


def test_without_reports_nothing_is_known(competition: Competition, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((competition[0] / "run.json").read_bytes())
    (tmp_path / "telemetry").mkdir()
    link = analyze_run(tmp_path)["bottleneck"]
    assert (link["down_reason"], link["saturated_rate_reason"]) == ("no telemetry", "no telemetry")
