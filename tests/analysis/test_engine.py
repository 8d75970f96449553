# SPDX-License-Identifier: Apache-2.0
"""The engine beside the rest of an analysis: it ends with it, however that ends."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from narrows_analysis import analyze_source
from narrows_analysis.aggregation.engine import aggregating
from narrows_formats.programs import COLLECTOR, find_binary

pytestmark = pytest.mark.needs(COLLECTOR)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "capture.pcap"
    subprocess.run([str(find_binary(COLLECTOR)), "generate", "--reports", "3000", str(path)], check=True)
    return path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """Every program that is started from here on."""
    programs: list[subprocess.Popen[str]] = []

    class Recorded(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            programs.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return programs


def test_the_engine_does_not_outlive_what_goes_wrong_beside_it(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    # A capture that never ends.
    capture = tmp_path / "capture.pcap"
    subprocess.run(["mkfifo", str(capture)], check=True)
    with pytest.raises(KeyboardInterrupt), aggregating(capture, tmp_path / "out"):
        assert started[-1].poll() is None
        raise KeyboardInterrupt
    assert started[-1].returncode is not None


def test_an_interrupted_analysis_leaves_nothing(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("narrows_analysis.summary.capture.finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        analyze_source(capture, tmp_path / "out")
    assert not (tmp_path / "out").exists()
