# SPDX-License-Identifier: Apache-2.0
"""Processes that a run starts."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest
from narrows.hosts.process import spawn


def test_one_that_is_interrupted_in_its_start_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def launch(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*arguments, **options))
        return started[-1]

    async def run() -> None:
        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio.get_running_loop(), "connect_read_pipe", never)
        starting = asyncio.create_task(spawn(["sleep", "600"], "sleeper", launch=launch))
        while not started:
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(run())
    assert started[0].returncode is not None
