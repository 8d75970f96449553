# SPDX-License-Identifier: Apache-2.0
"""The date is changed during a run in real time, in a guest, so that nothing else here sees it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from narrows import python
from narrows.virtual import kernels
from narrows.virtual.cores import core
from narrows.virtual.guest import Guest
from narrows.virtual.measurement import needed_directories
from narrows_formats.programs import COLLECTOR, SOFTSWITCH, find_binary
from test_in_a_guest import script

pytestmark = [pytest.mark.needs("guest-kernel", "narrows-softswitch", "narrows-collector", "ip"), pytest.mark.long]

INIT = Path(__file__).with_name("clock_steps_guest.py")
MEMORY_BYTES = 1536 << 20
DATE_S = 1_800_000_000
RATE_BPS, BUFFER_BYTES, SECONDS = 1_000_000, 10_000, 5
EXPERIMENT = f"""
name: steps
bottleneck: {{rate: {RATE_BPS}bit, rtt: 20ms, buffer: {BUFFER_BYTES}B}}
flows: [{{cca: cubic, duration: {SECONDS}s}}]
"""


async def told(directory: Path) -> list[dict[str, Any]]:
    """What the guest says until it ends."""
    with core() as cpu:
        init = python.in_guest(str(INIT))
        async with await Guest.start(kernels.installed()[0], MEMORY_BYTES, init, cpu, directory) as guest:
            return [json.loads(line) async for line in guest.lines()]


@pytest.mark.fault("date changed", "traffic", "real")
@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 0.5, -0.5])
def test_a_date_that_is_changed_changes_no_figure(tmp_path: Path, step_s: float) -> None:
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    # Spinning until a packet is due is slow in a guest, where each reading of a clock takes a quarter of a microsecond.
    for name, options in ((SOFTSWITCH, "--spin-us 0"), (COLLECTOR, "")):
        (tmp_path / "programs").mkdir(exist_ok=True)
        script(tmp_path / "programs" / name, f'exec {find_binary(name)} "$@" {options}')
    needed = [str(path) for path in (INIT.parent, *needed_directories(), tmp_path)]
    (tmp_path / "task.json").write_text(json.dumps({"needed": needed, "date_s": DATE_S, "step_s": step_s}))
    assert asyncio.run(told(tmp_path)) == [{"ended": 0}], (tmp_path / "said").read_text()
    run, summary = (json.loads((tmp_path / "out" / name).read_text()) for name in ("run.json", "summary.json"))
    assert run["status"] == "complete" and run["drop_cross_check"]["bottleneck"]["holds"]
    assert summary["telemetry"]["lost"] == 0
    link, (flow,) = summary["bottleneck"], summary["flows"]
    assert link["utilization"] > 0.95
    # A full queue, and the frame that is under way.
    assert link["queue_delay_s"]["max"] <= (BUFFER_BYTES + 1514) * 8 / RATE_BPS
    assert flow["rtt_s"]["min"] >= 0.02
    assert abs(flow["end_s"] - flow["start_s"] - SECONDS) < 0.3
    print(f"cases: 1 step of {step_s:g} s")
