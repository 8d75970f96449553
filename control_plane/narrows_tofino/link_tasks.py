# SPDX-License-Identifier: Apache-2.0
"""What this machine does for links while a run lasts, each link's in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from narrows.experiment.plan import Link, Plan
from narrows.queues.pi2 import DualPi2, Pi2
from narrows.queues.pie import Pie

# Laws whose probability is computed by the control plane, each `tupdate`.
Updated = Pi2 | Pie | DualPi2


def updated_links(plan: Plan) -> list[tuple[Link, Updated]]:
    """The links whose probabilities the control plane keeps up to date."""
    return [(link, link.aqm) for link in plan.links if isinstance(link.aqm, Updated)]


def varying_links(plan: Plan) -> list[Link]:
    """The links whose rates vary."""
    return [link for link in plan.links if link.schedule is not None]


def tasks_of(plan: Plan) -> int:
    """How many tasks a run has, which take turns at the switch's driver: a link may have two."""
    return len(varying_links(plan)) + len(updated_links(plan))


def say_sharing(plan: Plan) -> str:
    """For a message that says how often the driver takes something: how many tasks share it, where it is not one."""
    shared = tasks_of(plan)
    return "" if shared == 1 else f", as {shared} varying rates and managed queues share it"


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
