# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from narrows.errors import InputError
from narrows.experiment.loader import load, validate
from narrows.run.results import RunDirectory, check_free

EXPERIMENT = validate(
    {
        "name": "test",
        "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"},
        "flows": [{"cca": "bbr", "duration": "1s"}],
    },
    "test",
)


def test_results_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    final = tmp_path / "deep" / "result"
    results = RunDirectory(final, "abc")
    results.create(EXPERIMENT)
    results.write_run({"status": "complete"})
    assert not final.exists()
    assert results.publish() == final
    assert json.loads((final / "run.json").read_text()) == {"status": "complete"}
    assert load(final / "experiment.yaml") == EXPERIMENT
    assert yaml.safe_load((final / "experiment.yaml").read_text())["bottleneck"]["buffer"] == "1bdp"
    assert [path.name for path in final.parent.iterdir()] == ["result"]


def test_results_do_not_overwrite(tmp_path: Path) -> None:
    check_free(tmp_path / "new" / "result")
    with pytest.raises(InputError, match="exists already"):
        check_free(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        check_free(tmp_path / "file" / "result")
