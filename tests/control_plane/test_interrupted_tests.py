# SPDX-License-Identifier: Apache-2.0
"""``narrows test`` and ``narrows run`` when a signal ends a run: nothing follows it, and the exit code says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from narrows.batch import sweep as sweep_module
from narrows.cli import app
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED
from narrows.experiment.sweep import Series
from narrows.run.runner import Outcome
from typer.testing import CliRunner

LINK = {"rate": "10Mbit", "buffer": "100packets", "rtt": "20ms"}
EXPERIMENT = {"bottleneck": LINK, "flows": [{"cca": "reno", "duration": "1s"}], "expect": ["bottleneck.drops >= 0"]}


@pytest.mark.parametrize(
    ("outcome", "code", "begun"),
    [
        (Outcome("partial", "why", Path(), None, ()), EXIT_INTERRUPTED, ["first"]),
        (Outcome("complete", "", Path(), None, (), analysis_interrupted=True), EXIT_INTERRUPTED, ["first"]),
        (Outcome("failed", "partial data", Path(), None, ()), EXIT_FAILED, ["first", "second"]),
    ],
    ids=["traffic", "analysis", "failed"],
)
def test_what_follows_a_run_that_is_not_complete(
    outcome: Outcome, code: int, begun: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def run_series(series: Series, *_: object) -> Iterator[Outcome]:
        ran.append(series.experiment.name)
        yield outcome

    monkeypatch.setattr(sweep_module, "run_series", run_series)
    files = [tmp_path / "first.yaml", tmp_path / "second.yaml"]
    for file in files:
        file.write_text(yaml.safe_dump({"name": file.stem, **EXPERIMENT}))
    ended = CliRunner().invoke(app, ["test", *map(str, files), "--out", str(tmp_path / "out")])
    assert (ended.exit_code, ran) == (code, begun)
    ended = CliRunner().invoke(app, ["run", str(files[0]), "--out", str(tmp_path / "run")])
    assert ended.exit_code == code
