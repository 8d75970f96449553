# SPDX-License-Identifier: Apache-2.0
"""Reads a switch: its clock, the queues of the links, its counters; and notices when it does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Link, Plan
from narrows.run.measured import Counters, LinkCounters
from narrows.run.observer import Observer
from narrows.switch.readings import DIGEST_WAIT_NS, QueueStats, by_queue
from narrows.targets.base import Target

POLL_S = 0.5
# A switch in real time that does not answer for so long, while this process runs, is stopped.
STOPPED_S, TICK_S = 1.0, 0.1
CLOCK_READINGS = 5


async def clock_offset_ns(target: Target) -> int | None:
    """Switch clock minus this host's monotonic clock, from the reading that took least time; None without one."""
    readings = []
    for _ in range(CLOCK_READINGS):
        before = time.monotonic_ns()
        switch = await target.now_ns()
        after = time.monotonic_ns()
        if switch is None:
            return None
        readings.append((after - before, switch - (before + after) // 2))
    return min(readings)[1]


def link_queues(queues: Iterable[QueueStats], plan: Plan) -> dict[str, QueueStats]:
    """The queues of the links, by name, of all that a target lists.

    Raises:
        RunError: it does not list one.
    """
    found = by_queue(queues)
    try:
        return {link.name: found[link.port, link.queue] for link in plan.links}
    except KeyError as error:
        raise RunError(f"the target does not list the queue of a link (port and queue {error})") from error


async def read_counters(target: Target, plan: Plan, observer: Observer) -> Counters:
    """Final state of the switch."""
    # The switch gathers what it reports of new flows for a moment.
    await asyncio.sleep(DIGEST_WAIT_NS / NANOSECONDS)
    await observer.learn()
    queues = await target.queues()
    of_links = link_queues(queues, plan)
    return Counters(
        queues=queues,
        ports=await target.ports(),
        links={link.name: await _link_counters(target, observer, link, of_links[link.name]) for link in plan.links},
        packet_conservation=await target.packet_conservation(plan),
        lost_reports=await target.lost_reports(plan),
        discards=await target.discards(),
    )


async def _link_counters(target: Target, observer: Observer, link: Link, queue: QueueStats) -> LinkCounters:
    drops = await target.flow_drops(queue.port, queue.queue)
    learned = {new.flow for new in observer.learned if new.bottleneck == link.index}
    totals = await target.flow_totals(learned | {drop.flow for drop in drops})
    return LinkCounters(queue.dropped_packets, drops, totals)


def why_lost(losses: list[str], plan: Plan, target: Target) -> str:
    """Why a run has failed that lost packets, or sent them late, where its experiment does not; empty if it has not."""
    if not losses:
        return ""
    where = "packets were lost, or late, where the experiment has neither: " + "; ".join(losses)
    overload = not (plan.in_guest or target.switch_is_running)
    return where + ("; fix: --virtual, exact at any rate, or a lower rate" if overload else "")


class SwitchWatch:
    """Asks a switch for its time, and notes for how long it does not answer while this process runs."""

    def __init__(self, target: Target) -> None:
        """Nothing is asked before `run`."""
        self._target = target
        self._unanswered_s = 0.0

    async def run(self) -> None:
        """Ask until this is cancelled."""
        while True:
            asked, waited_s = asyncio.ensure_future(self._target.now_ns()), 0.0
            try:
                while not (await asyncio.wait((asked,), timeout=TICK_S))[0]:
                    waited_s += TICK_S
                    self._unanswered_s = max(self._unanswered_s, waited_s)
                asked.result()
            finally:
                asked.cancel()
            await asyncio.sleep(POLL_S)

    def why_stopped(self) -> str:
        """Why a run has failed whose switch was stopped, and whose links did what no experiment says; else empty."""
        if self._unanswered_s < STOPPED_S:
            return ""
        return (
            f"the switch did not answer for {self._unanswered_s:.1f} s of traffic: it was stopped, or had "
            "no processor; fix: --virtual, or a machine without other work"
        )
