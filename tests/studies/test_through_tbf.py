# SPDX-License-Identifier: Apache-2.0
"""The control that replaces the emulator: what is counted of iperf3's intervals, and which studies it takes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def script() -> Any:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("through_tbf")


def interval(start: float, end: float, size: int) -> dict[str, Any]:
    return {"sum": {"start": start, "end": end, "bytes": size}}


@pytest.mark.parametrize(
    ("begin", "end", "bits"),
    [
        (0.0, 3.0, 8 * 600),
        (1.0, 3.0, 8 * 500),
        # Half of the second interval, a quarter of the third.
        (1.5, 2.25, 8 * (100 + 75)),
        (5.0, 6.0, 0.0),
    ],
)
def test_what_was_received_in_a_time(script: Any, begin: float, end: float, bits: float) -> None:
    result = {"intervals": [interval(0, 1, 100), interval(1, 2, 200), interval(2, 3, 300), interval(3, 3, 50)]}
    assert script.received(result, begin, end) == pytest.approx(bits)


def test_a_study_without_the_control_is_refused(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script.host, "is_fit", lambda: True)
    assert script.main(["miyazawa2018", "--publish", str(tmp_path)]) == 2
    assert "miyazawa2018: has no control through-tbf" in capsys.readouterr().err
