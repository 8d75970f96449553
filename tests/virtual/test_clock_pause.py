# SPDX-License-Identifier: Apache-2.0
"""A guest that waits for the outside, for as long as that takes."""

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

pytestmark = pytest.mark.needs("guest-kernel")

INIT = Path(__file__).with_name("clock_pause_guest.py")
MEMORY_BYTES = 256 << 20
WAIT_S = 0.2


async def told(directory: Path) -> dict[str, Any]:
    """What the guest says after it was kept waiting."""
    said: dict[str, Any] = {}
    with core() as cpu:
        init = python.in_guest(str(INIT))
        async with await Guest.start(kernels.installed()[0], MEMORY_BYTES, init, cpu, directory) as guest:
            async for line in guest.lines():
                said = json.loads(line)
                if "waits" in said:
                    await asyncio.sleep(WAIT_S)
                    guest.say("on")
    return said


def test_no_time_passes_for_the_scheduler_either(tmp_path: Path) -> None:
    said = asyncio.run(told(tmp_path))
    # Each reading of the clock takes a nanosecond, and a few are between the two.
    assert said["passed_ns"] < 100
    # What the scheduler's clock says decides which process is next: it may not depend on how long the outside took.
    assert said["charged_s"] == 0
