# SPDX-License-Identifier: Apache-2.0
"""What is in no schedule of the switch nor of a host: changes of links at their times while traffic flows, and what
happens when a condition holds."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from narrows_formats.schedules import DelaySteps, RateSteps
from narrows_formats.units import NANOSECONDS

from narrows.errors import InputError, RunError
from narrows.experiment.comparison import Watcher
from narrows.experiment.plan import Change, Link, Plan, Reaction, ReportedLink
from narrows.run.condition_readings import ConditionReadings, value_of
from narrows.targets.base import Target
from narrows.traffic.traffic import Traffic

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


@dataclass(frozen=True)
class Reacted:
    """An event whose condition held at a reading, in nanoseconds since the experiment's start, and what it changed.

    ``made`` is of a link; ``why_not`` says why it was not done.
    """

    event: int
    at_ns: int
    made: Made | None = None
    why_not: str | None = None


class Changes:
    """The changes of one run: those of set times, and those of conditions."""

    def __init__(self, plan: Plan, target: Target, readings: ConditionReadings, traffic: Traffic) -> None:
        """Nothing is done before `run`."""
        self._plan = plan
        self._target = target
        self._readings = readings
        self._traffic = traffic
        self._links = {link.name: link for link in plan.links}
        self._origin_ns = self._offset_ns = 0
        self.made: list[Made] = []
        """Those of set times that have been made."""
        self.reacted: list[Reacted] = []
        """Conditions that have held."""

    async def run(self, t0_s: float, clock_offset_ns: int | None) -> None:
        """Make all of them, then wait to be cancelled.

        In virtual time each is made at its exact nanosecond, and conditions are evaluated at every multiple of their
        interval. In real time they are evaluated as often as the machine can.

        Args:
            t0_s: monotonic time of the experiment's start.
            clock_offset_ns: the switch's clock minus that clock.

        Raises:
            RunError: the switch refuses one, or its clock cannot be read.
        """
        if clock_offset_ns is None:
            raise RunError("events change a link, and the switch's clock cannot be read")
        self._origin_ns, self._offset_ns = round(t0_s * NANOSECONDS), clock_offset_ns
        timed = deque((at_ns, tuple(one)) for at_ns, one in groupby(self._plan.changes, lambda change: change.at_ns))
        watchers = [(reaction, Watcher(reaction.condition)) for reaction in self._plan.reactions]
        every_ns, reading_ns = self._plan.conditions_every_ns, 0
        try:
            with self._readings:
                while timed or watchers:
                    if timed and (not watchers or timed[0][0] <= reading_ns):
                        at_ns, changes = timed.popleft()
                        await self._reach(at_ns)
                        self.made += [await self._make(change) for change in changes]
                        continue
                    await self._evaluate(reading_ns, watchers)
                    passed_ns = 0 if self._target.pausable else time.monotonic_ns() - self._origin_ns
                    reading_ns = max(reading_ns, passed_ns // every_ns * every_ns) + every_ns
            if self._target.pausable:
                await self._target.pause(None)
            await asyncio.Event().wait()
        finally:
            if self._target.pausable:
                await self._target.pause(None)

    async def _reach(self, at_ns: int) -> None:
        if self._target.pausable:
            await self._target.pause(self._origin_ns + self._offset_ns + at_ns)
        else:
            await sleep_until(self._origin_ns + at_ns)

    async def _make(self, change: Change) -> Made:
        before = self._links[change.link]
        after = change.of(before)
        made_ns = await self._target.change(before, after)
        self._links[change.link] = after
        return Made(change, made_ns - self._offset_ns - self._origin_ns)

    async def _evaluate(self, at_ns: int, watchers: list[tuple[Reaction, Watcher]]) -> None:
        """Read what conditions are about, and do what those that count ask for; ones that are done are removed."""
        if self._target.pausable:
            found = await self._readings.read(self._origin_ns + self._offset_ns + at_ns)
        else:
            await asyncio.sleep(max(0, self._origin_ns + at_ns - time.monotonic_ns()) / NANOSECONDS)
            found = await self._readings.read(None)
            at_ns = time.monotonic_ns() - self._origin_ns
        for one in list(watchers):
            reaction, watcher = one
            if watcher.take(at_ns, value_of(found, reaction.condition)):
                self.reacted.append(await self._react(reaction, at_ns))
                if reaction.condition.once:
                    watchers.remove(one)

    async def _react(self, reaction: Reaction, at_ns: int) -> Reacted:
        if reaction.change is not None:
            return Reacted(reaction.event, at_ns, await self._make(replace(reaction.change, at_ns=at_ns)))
        if reaction.application is not None:
            await self._traffic.apply(reaction.group, reaction.application)
            return Reacted(reaction.event, at_ns)
        act = self._traffic.start_flows if reaction.verb == "start" else self._traffic.stop_flows
        try:
            await act(reaction.group, None, at_ns)
        except InputError as error:
            return Reacted(reaction.event, at_ns, why_not=str(error))
        return Reacted(reaction.event, at_ns)


async def sleep_until(monotonic_ns: int) -> None:
    """Sleep until a time of this machine's monotonic clock, as exactly as a machine allows."""
    while (left_ns := monotonic_ns - time.monotonic_ns()) > LOOP_NS:
        await asyncio.sleep((left_ns - LOOP_NS) / NANOSECONDS)
    while time.monotonic_ns() < monotonic_ns:
        pass
