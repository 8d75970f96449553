# SPDX-License-Identifier: Apache-2.0
"""The device by which guests' kernels take frames ahead of their time (control_plane/narrows/virtual/launch.c)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from narrows import python
from narrows.virtual import kernels
from narrows.virtual.guest import Guest

MEMORY_BYTES = 256 << 20
# No timer of a guest is set for less (docs/virtual-time.md), and reading both clocks takes some nanoseconds.
SHORTEST_TIMER_NS, READINGS_NS = 500, 10


async def told(directory: Path) -> dict[str, Any]:
    """What `launches` tells of a guest."""
    found: dict[str, Any] = {}
    init = python.in_guest(str(Path(__file__).with_name("launches.py")))
    cpu = min(os.sched_getaffinity(0))
    async with await Guest.start(kernels.installed()[0], MEMORY_BYTES, init, cpu, directory) as guest:
        async with asyncio.timeout(60):
            async for line in guest.lines():
                found |= json.loads(line)
    assert "lost" in found, guest.stderr_tail()
    return found


@pytest.mark.needs("seeded-kernel", "ip")
def test_frames_leave_at_their_times(tmp_path: Path) -> None:
    found = asyncio.run(told(tmp_path))
    assert found["refused"] == [
        "ENOTCONN", "EINVAL",
        "EMSGSIZE", "EINVAL", "EINVAL", "EINVAL", "EINVAL", "EINVAL", "EMSGSIZE",
        "EISCONN", "ENOTTY",
    ]  # fmt: skip
    labels = [label for label, _, _ in found["arrived"]]
    # At once; then by time, of equal times as written; more than leave in one turn, all at their instant.
    assert labels == [6, 3, 1, 4, 2, 5, *range(100, 300)]
    assert all(whole for _, _, whole in found["arrived"])
    assert all(-READINGS_NS <= late < SHORTEST_TIMER_NS + READINGS_NS for _, late, _ in found["arrived"])
    # Longer than the interface allows.
    assert found["lost"] == 1
