# SPDX-License-Identifier: Apache-2.0
"""64 TCP flows for an hour, a report on each packet; ``make stress`` runs it (NARROWS_SOAK_S says for how long)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from narrows_formats.programs import COLLECTOR, SOFTSWITCH

pytestmark = pytest.mark.needs("root", "stress", SOFTSWITCH, COLLECTOR, "iperf3")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SECONDS = int(os.environ.get("NARROWS_SOAK_S", "60"))


def test_every_counter_balances_and_nothing_grows(tmp_path: Path) -> None:
    """Packets, drops and reports to the packet; memory and open files stay; the switch's clock goes as the host's."""
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--seconds", str(SECONDS), "--out", str(tmp_path / "soak")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All balances hold." in done.stdout
    print(f"cases: {SECONDS} seconds of 64 flows")
