# SPDX-License-Identifier: Apache-2.0
"""Rates that vary on Tofino: this machine sets the shaper anew at each step of a schedule, and stops the queue at 0.

That is timed by software. Each step is read back, and kept with when it was due and between which times it was made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, islice, pairwise

from narrows.errors import InputError, RunError
from narrows.experiment.plan import Link, Plan
from narrows_formats.schedules import RateSteps
from narrows_formats.software_timing import AppliedSteps
from narrows_formats.units import NANOSECONDS, format_size, format_time

from narrows_tofino.link_tasks import LinkTasks, say_sharing, tasks_of, varying_links
from narrows_tofino.testbed.calibration import Calibration
from narrows_tofino.writes.entries import DELAY_BITS

Write = Callable[[Link, int], Awaitable[tuple[int, int, int]]]


def initial_bps(schedule: RateSteps) -> int:
    """The rate that a link has until its schedule begins: the first one above 0, so that hosts reach each other."""
    return next(rate for _, rate in schedule.steps if rate)


def finest_step_ns(plan: Plan, link: Link, step_ns: int) -> int:
    """Time that the driver may need for a link's step, where one write took ``step_ns`` in a run with one task.

    After an outage the queue is given back to the scheduler as well.
    """
    assert isinstance(link.schedule, RateSteps)
    return step_ns * tasks_of(plan) * (1 if link.schedule.span_bps.least else 2)


def changes(schedule: RateSteps) -> Iterator[tuple[int, int]]:
    """Times from the start on and the rates from then on, the initial rate and steps that change nothing left out."""
    rate = initial_bps(schedule)
    for turn in count():
        for start, wanted in schedule.steps:
            if wanted != rate:
                yield start + turn * (schedule.period_ns or 0), wanted
                rate = wanted
        if schedule.period_ns is None or schedule.span_bps.least == schedule.span_bps.most:
            return


def refuse_unless_kept(plan: Plan, calibration: Calibration | None) -> None:
    """Raises InputError if a rate varies in a way that the switch's driver cannot follow, or may not."""
    for link in varying_links(plan):
        if not isinstance(link.schedule, RateSteps):
            raise InputError(
                f"{link.field}.rate: opportunities are not made on Tofino, whose shapers have rates only; allowed: "
                "as: rate with bin, or --target soft"
            )
        wait_ns = link.schedule.longest_wait_ns(link.limit_bytes + plan.frame_bytes)
        if wait_ns >= 1 << DELAY_BITS:
            allowed = "a smaller buffer" if link.schedule.span_bps.least else "a smaller buffer, or shorter outages"
            raise InputError(
                f"{link.field}.buffer: {format_size(link.limit_bytes)} may be a wait of {wait_ns / NANOSECONDS:.6g} s "
                f"as its rate varies, and reports hold less than {(1 << DELAY_BITS) / NANOSECONDS:.6g} s; allowed: "
                f"{allowed}"
            )
        if calibration is None or calibration.rate_step_ns is None:
            raise InputError(
                f"{link.field}.rate: varies, and how fast this switch takes a new rate was never measured; "
                "fix: narrows calibrate; allowed without: a constant rate, or --target soft"
            )
        finest_ns = finest_step_ns(plan, link, calibration.rate_step_ns)
        gap_ns = _least_gap_ns(link.schedule)
        if gap_ns is not None and gap_ns < finest_ns:
            raise InputError(
                f"{link.field}.rate: changes again after {format_time(gap_ns)}, and the driver takes a change every "
                f"{format_time(finest_ns)} (calibration of {calibration.date}{say_sharing(plan)}); allowed: "
                f"{finest_ns}ns or more between changes, or --target soft"
            )


def _least_gap_ns(schedule: RateSteps) -> int | None:
    """Shortest time from one change to the next; None with fewer than two."""
    # The second turn has the change from the last step to the first, and what follows it.
    times = [at for at, _ in islice(changes(schedule), 2 * len(schedule.steps))]
    return min((after - before for before, after in pairwise(times)), default=None)


class RateStepper(LinkTasks):
    """Writes the steps of a run's links, each link's in a task of its own."""

    def __init__(self, write: Write) -> None:
        """``write`` sets a link's rate; it returns when that began and was read back (monotonic ns) and the rate."""
        super().__init__()
        self._write = write
        self.applied: dict[str, AppliedSteps] = {}

    def start(self, plan: Plan, epoch_ns: int, step_ns: int) -> None:
        """Begin at a time of this machine's monotonic clock; ``step_ns``: see `finest_step_ns`."""
        for link in varying_links(plan):
            assert isinstance(link.schedule, RateSteps)
            self.applied[link.name] = AppliedSteps(finest_step_ns=finest_step_ns(plan, link, step_ns))
            self.begin(self._follow(link, link.schedule, epoch_ns))

    async def _follow(self, link: Link, schedule: RateSteps, epoch_ns: int) -> None:
        applied = self.applied[link.name]
        for due_ns, rate_bps in changes(schedule):
            if applied.achieved_ns and applied.achieved_ns[-1] > due_ns:
                raise RunError(
                    f"{link.field}.rate: the step of {format_time(applied.planned_ns[-1])} was made at "
                    f"{format_time(applied.achieved_ns[-1])}, when the next one was due already; fix: longer steps, or "
                    "narrows calibrate"
                )
            await asyncio.sleep(max(0, epoch_ns + due_ns - time.monotonic_ns()) / NANOSECONDS)
            begun_ns, achieved_ns, made_bps = await self._write(link, rate_bps)
            applied.add(due_ns, begun_ns - epoch_ns, achieved_ns - epoch_ns, made_bps)
