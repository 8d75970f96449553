# SPDX-License-Identifier: Apache-2.0
"""What a kernel is, and whether it works here, found out by booting it."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from narrows_formats.file_digest import file_digest

from narrows import python
from narrows.errors import RunError
from narrows.virtual import probe
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import About, Kernel, config_digest, remember, remembered

MEMORY_BYTES = 256 << 20
# A boot takes less than a second of an idle processor.
PATIENCE_S = 60.0
# Of a sleep of ten seconds; a busy machine may take some time for nothing.
WALL_S = 5.0
TOLERANCE_S = 0.01


def about(kernel: Kernel) -> About:
    """What a kernel is; it is booted if that has not been done before.

    Raises:
        RunError: it does not boot, or its clock does not jump.
    """
    known = remembered(kernel)
    if known is None:
        known = boot(kernel)
        remember(kernel, known)
    return known


def boot(kernel: Kernel) -> About:
    """Boot a kernel, see that it keeps time, ask what it is, and see whether it does the same when booted again.

    Raises:
        RunError: it does not boot, or its clock does not jump.
    """
    (found, numbers), (_, again) = (asyncio.run(_boot(kernel)) for _ in range(2))
    return replace(found, repeatable=numbers == again)


async def _boot(kernel: Kernel) -> tuple[About, str]:
    """What it says of itself, and the random numbers that it makes of a seed."""
    reported: dict[str, Any] = {}
    at: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch:
        init = python.in_guest("-m", probe.__name__)
        cpu = min(os.sched_getaffinity(0))
        async with await Guest.start(kernel, MEMORY_BYTES, init, cpu, Path(scratch)) as guest:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    async for line in guest.lines():
                        event = json.loads(line)
                        reported |= event
                        at |= dict.fromkeys(event, time.monotonic())
            except TimeoutError:
                raise RunError(
                    f"kernel {kernel.name}: does not boot within {PATIENCE_S:g} s{guest.stderr_tail()}"
                ) from None
        if missing := next((name for name in ("about", "slept_s", "times") if name not in reported), ""):
            where = {"about": "does not boot", "slept_s": "does not wake up", "times": "has no network"}[missing]
            raise RunError(f"kernel {kernel.name}: {where}{guest.stderr_tail()}")
    wall = at["slept_s"] - at["about"]
    if wall > WALL_S or abs(reported["slept_s"] - probe.SLEEP_S) > TOLERANCE_S:
        raise RunError(
            f"kernel {kernel.name}: its clock does not jump: {probe.SLEEP_S:g} s of sleep were "
            f"{reported['slept_s']:.3f} s inside and took {wall:.1f} s"
        )
    found = reported["about"]
    ccas = tuple(found["ccas"])
    known = About(
        found["release"],
        file_digest(kernel.path),
        config_digest(kernel),
        ccas,
        found["versions"],
        found["clock_step_ns"],
        found["failed_call_ns"],
        **reported["times"],
        launches=found["launches"],
    )
    return known, reported["random"]
