# SPDX-License-Identifier: Apache-2.0
"""What a released version wrote stays readable: a run of each is kept here, and analysed anew it says the same.

To add a version: its directory with a short run that it has made, without the page. What is there is never made again.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from narrows import __version__
from narrows.experiment.loader import load
from narrows_analysis import analyze_run, write_report
from narrows_analysis.summary.file import read_summary

HERE = Path(__file__).parent
VERSIONS = sorted(path.parent for path in HERE.glob("*/run"))


# What has another meaning since, and how far that moves it in these runs. Format 4 of summary.json: shares are of all
# goodput through the link, of which iperf3's control connections have about a millionth. Percentiles are ends of their
# bins, which were the middles. In a standing queue windows without a departure count, and a short last one counts less:
# one window of some twenty in these runs.
REDEFINED = {"share": 1e-5, "p50": 2**-14, "p99": 2**-14, "standing_queue_bytes": 0.05, "standing_queue_bdp": 0.05}


def same(kept: Any, now: Any, place: str = "summary") -> None:
    """Whatever was said is said again; fields may have been added, and floats differ in the last digits."""
    if isinstance(kept, dict):
        for key, value in kept.items():
            if key not in ("format", "versions", "narrows_version"):
                assert key in now, f"{place}.{key} is gone"
                same(value, now[key], f"{place}.{key}")
    elif isinstance(kept, list):
        assert len(kept) == len(now), place
        for number, (one, other) in enumerate(zip(kept, now, strict=True)):
            same(one, other, f"{place}[{number}]")
    elif isinstance(kept, float) and isinstance(now, float | int):
        tolerance = REDEFINED.get(place.rpartition(".")[2], 1e-9)
        assert math.isclose(kept, now, rel_tol=tolerance, abs_tol=1e-12), place
    else:
        assert kept == now, place


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_a_run_of_this_version_is_read_and_says_the_same(version: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(version / "run", run)
    kept = json.loads((run / "summary.json").read_text())
    tables = {name: pd.read_parquet(run / name) for name in ("flows.parquet", "queue.parquet")}
    now = analyze_run(run)
    same(kept, json.loads(json.dumps(now)))
    for name, table in tables.items():
        again = pd.read_parquet(run / name)
        assert set(table.columns) <= set(again.columns)
        pd.testing.assert_frame_equal(table, again[list(table.columns)], check_exact=False)
    assert read_summary(run)["bottleneck"] == now["bottleneck"]
    assert write_report(run).stat().st_size > 10_000
    assert load(run / "experiment.yaml").name == "demo"


def test_every_version_is_kept() -> None:
    assert [path.name for path in VERSIONS] == ["0.1.0", __version__]
