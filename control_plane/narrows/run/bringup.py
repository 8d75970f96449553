# SPDX-License-Identifier: Apache-2.0
"""A target that is set up for a plan, to measure the target itself; removed afterwards even after an error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from narrows.experiment.plan import Plan
from narrows.hosts.base import Testbed
from narrows.hosts.state import RunState
from narrows.targets.base import AppliedSettings, Target


async def set_up(
    target: Target,
    testbed: Testbed,
    plan: Plan,
    phase: Callable[[str], None] = lambda _name: None,
    piped: bool = False,
) -> AppliedSettings:
    """From nothing to hosts and a switch that is configured for an adapted plan; ``phase`` is called for each step.

    ``piped`` as for `Target.start`.

    Raises:
        RunError: it cannot be set up.
    """
    # A switch that is there is asked before any machine is touched.
    if target.switch_is_running:
        phase("connecting to the switch")
        await target.start(testbed, piped)
    phase("making the testbed")
    testbed.create()
    if not target.switch_is_running:
        phase("starting the switch")
        await target.start(testbed, piped)
    return await target.configure(plan)


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
            await set_up(target, testbed, plan)
            yield testbed, state
        finally:
            try:
                await target.stop()
            finally:
                testbed.remove()
    finally:
        state.destroy()
