# SPDX-License-Identifier: Apache-2.0
"""What this machine does for links while a run lasts, each link's in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class LinkTasks:
    """Tasks that go on until they are stopped; what ends one is noticed when it is checked."""

    def __init__(self) -> None:
        """Without tasks."""
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a link's task."""
        self._tasks.append(asyncio.create_task(work))

    def check(self) -> None:
        """Notice early that a task has failed.

        Raises:
            RunError: what was to be done for a link could not be done, or not in time.
        """
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def stop(self) -> None:
        """Leave the links as they are; safe to call at any time, and twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
