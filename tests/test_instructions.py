# SPDX-License-Identifier: Apache-2.0
"""What a packet and a report cost, in instructions, against what was recorded last: other work does not change it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Two counts of a case have differed by up to 0.7 %.
MARGIN = 0.03


@pytest.mark.long
@pytest.mark.needs("counted-instructions")
@pytest.mark.parametrize("case", ["BASE", "STORED", "SUMMED"])
def test_a_packet_and_a_report_cost_no_more_than_recorded(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    instructions = importlib.import_module("instructions")
    counts, source = instructions.recorded()
    name = getattr(instructions, case)
    found = instructions.per_packet(instructions.CASES[name])
    assert found <= counts[name] * (1 + MARGIN), (
        f"{name}: {found:,.0f} instructions, {counts[name]:,.0f} in {source['name']}; if that is as it has to be: "
        "benchmarks/run.py instructions, and commit its results"
    )
