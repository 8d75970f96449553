# SPDX-License-Identifier: Apache-2.0
"""64 TCP flows for an hour, a report on each packet; ``make stress`` runs it (NARROWS_SOAK_S says for how long)."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SECONDS = int(os.environ.get("NARROWS_SOAK_S", "60"))


@pytest.fixture(name="soak")
def _soak() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    return importlib.import_module("soak")


@pytest.mark.needs("root", "stress", SOFTSWITCH, COLLECTOR, "iperf3")
def test_every_counter_balances_and_nothing_grows(tmp_path: Path, soak: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Packets, drops and reports to the packet; memory and open files stay; the switch's clock goes as the host's."""
    # In this process, so that a test that is ended removes the soak's network.
    exit_code = soak.main(["--seconds", str(SECONDS), "--out", str(tmp_path / "soak")])
    said = capfd.readouterr().out
    assert exit_code == 0, said
    assert "All balances hold." in said
    with capfd.disabled():
        print(f"cases: {SECONDS} seconds of 64 flows")


@pytest.mark.parametrize(
    ("clock_ns", "holds"),
    [
        # Answers come after the time that they have: 0.2 ms at best, 40 ms on a busy machine.
        (lambda time_s: -200_000 - (time_s % 7) * 6_000_000, True),
        # 2 ppm fast: 7.2 ms in an hour, and ahead of the host from the second minute on.
        (lambda time_s: -200_000 + time_s * 2_000, False),
        # 2 ppm slow: 5.4 ms behind when the last quarter begins.
        (lambda time_s: -200_000 - time_s * 2_000, False),
        # A step of 10 ms back in the second quarter, and one forth in the third.
        (lambda time_s: -200_000 - (10_000_000 if 900 <= time_s < 1800 else 0), False),
        (lambda time_s: -200_000 + (10_000_000 if 2000 <= time_s < 2010 else 0), False),
    ],
)
def test_a_clock_that_drifts_or_steps_is_found(soak: Any, clock_ns: Callable[[int], int], holds: bool) -> None:
    samples = [soak.Sample(time_s, clock_ns(time_s), *[0] * 8) for time_s in range(0, 3605, 5)]
    assert soak.clock(samples).holds is holds
