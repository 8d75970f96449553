# SPDX-License-Identifier: Apache-2.0
"""The probe that a kernel has to pass finds out what it is for."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from narrows import python
from narrows.hosts.users import APPLICATION_ID
from narrows.virtual import kernels
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import MOST_STARTS_NS
from narrows.virtual.probing import MEMORY_BYTES, boot

pytestmark = pytest.mark.needs("programs-kernel", "default-kernel")

# For a process in the group of applications a system call that fails takes a microsecond, as in Linux as it is.
AS_UPSTREAM = f"""
import os
from narrows.virtual import init, probe
try:
    init.prepare()
    channel = init.Channel()
    probe.loopback_up()
    own = probe.starts_ns()
    os.setgroups([{APPLICATION_ID}])
    channel.tell(own=own, upstream=probe.starts_ns())
finally:
    init.power_off()
"""


async def told_by(script: Path, directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    init = python.in_guest(str(script))
    async with await Guest.start(kernels.find(kernels.DEFAULT), MEMORY_BYTES, init, 0, directory) as guest:
        async for line in guest.lines():
            found |= json.loads(line)
    return found


def test_calls_that_take_a_microsecond_are_noticed(tmp_path: Path) -> None:
    script = tmp_path / "upstream.py"
    script.write_text(AS_UPSTREAM)
    found = asyncio.run(told_by(script, tmp_path))
    # A hundred flows, whose connections are refused.
    assert 100_000 <= found["upstream"] < 110_000
    assert found["own"] < 1000 < MOST_STARTS_NS


def test_the_default_kernel_is_exact() -> None:
    found = boot(kernels.find(kernels.DEFAULT))
    assert found.flaws == []
    assert (found.starts_ns < 1000, found.late_ns < 100, found.paced_ratio) == (True, True, 1.0)
