# SPDX-License-Identifier: Apache-2.0
"""Changes of links that are in no schedule of the switch: each is made at its time while traffic flows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from narrows_formats.schedules import DelaySteps, RateSteps
from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Change, Link, Plan, ReportedLink
from narrows.targets.base import Target

# In real time the last of the wait is a loop: sleeping takes longer than asked for.
LOOP_NS = 2_000_000


@dataclass(frozen=True)
class Made:
    """A change, and when it was made, in nanoseconds since the experiment's start."""

    change: Change
    achieved_ns: int


def varied(link: ReportedLink, made: Iterable[Made]) -> ReportedLink:
    """A link whose rates and delays that were changed are schedules: of two at one time the later one holds.

    Its limits that were changed are its later ones.
    """
    mine = [one for one in made if one.change.link == link.name]
    rates = {one.achieved_ns: rate for one in mine if (rate := one.change.rate_bps) is not None}
    delays = {one.achieved_ns: delay for one in mine if (delay := one.change.delay_ns) is not None}
    if delays:
        link = replace(link, delay_steps=DelaySteps(tuple(({0: link.delay_ns} | delays).items())))
    if isinstance(link, Link):
        if rates:
            link = replace(link, schedule=RateSteps(tuple(({0: link.rate_bps} | rates).items())))
        limits = tuple(one.change.limit for one in mine if one.change.limit is not None)
        link = replace(link, later_limits=link.later_limits + limits)
    return link


class Changes:
    """The changes of one run."""

    def __init__(self, plan: Plan, target: Target) -> None:
        """Nothing is done before `run`."""
        self._plan = plan
        self._target = target
        self.made: list[Made] = []
        """Those that have been made."""

    async def run(self, t0_s: float, clock_offset_ns: int | None) -> None:
        """Make all of them, then wait to be cancelled.

        In virtual time each is made at its exact nanosecond.

        Args:
            t0_s: monotonic time of the experiment's start.
            clock_offset_ns: the switch's clock minus that clock.

        Raises:
            RunError: the switch refuses one, or its clock cannot be read.
        """
        if clock_offset_ns is None:
            raise RunError("events change a link, and the switch's clock cannot be read")
        origin_ns = round(t0_s * NANOSECONDS)
        links = {link.name: link for link in self._plan.links}
        try:
            for at_ns, changes in groupby(self._plan.changes, lambda change: change.at_ns):
                if self._target.pausable:
                    await self._target.pause(origin_ns + clock_offset_ns + at_ns)
                else:
                    await sleep_until(origin_ns + at_ns)
                for change in changes:
                    before, after = links[change.link], change.of(links[change.link])
                    made_ns = await self._target.change(before, after)
                    links[change.link] = after
                    self.made.append(Made(change, made_ns - clock_offset_ns - origin_ns))
            if self._target.pausable:
                await self._target.pause(None)
            await asyncio.Event().wait()
        finally:
            if self._target.pausable:
                await self._target.pause(None)


async def sleep_until(monotonic_ns: int) -> None:
    """Sleep until a time of this machine's monotonic clock, as exactly as a machine allows."""
    while (left_ns := monotonic_ns - time.monotonic_ns()) > LOOP_NS:
        await asyncio.sleep((left_ns - LOOP_NS) / NANOSECONDS)
    while time.monotonic_ns() < monotonic_ns:
        pass
