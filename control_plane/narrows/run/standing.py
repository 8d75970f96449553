# SPDX-License-Identifier: Apache-2.0
"""A target that is set up for a plan, for whoever measures the target itself; gone afterwards, whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.hosts.state import RunState
from narrows.targets.base import Target


@asynccontextmanager
async def configured(target: Target, plan: Plan, mtu: int) -> AsyncIterator[tuple[Testbed, RunState]]:
    """A target's own testbed with an adapted plan on it, and the record of what is there.

    Raises:
        RunError: it cannot be set up, or not be taken down.
    """
    state = RunState.create()
    try:
        testbed = target.testbed(plan, state, mtu)
        try:
            if target.switch_is_running:
                await target.start(testbed)
            testbed.create()
            if not target.switch_is_running:
                await target.start(testbed)
            await target.configure(plan)
            yield testbed, state
        finally:
            try:
                await target.stop()
            finally:
                testbed.remove()
    finally:
        state.destroy()
