# SPDX-License-Identifier: Apache-2.0
"""Waits until the links' queues are empty and no more packets can arrive: only then are their counters final."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.switch.readings import QueueStats

POLL_S = 0.05
GRACE_S = 10.0
# The queues of the links, by name.
Read = Callable[[], Awaitable[Mapping[str, QueueStats]]]


async def drain(read: Read, plan: Plan) -> None:
    """Wait until nothing waits in a link's queue.

    Raises:
        RunError: a queue is not empty long after it could have been.
    """
    deadline = time.monotonic() + GRACE_S + max(map(plan.queueing_s, plan.flows))
    # A target that cannot tell a depth says None until it knows that nothing waits.
    while waiting := [name for name, queue in (await read()).items() if queue.depth_packets != 0]:
        if time.monotonic() > deadline:
            raise RunError(f"the queue of {', '.join(waiting)} does not drain")
        await asyncio.sleep(POLL_S)


async def wait_for_datagrams(read: Read, plan: Plan) -> None:
    """Let datagrams that are on their way arrive where they are counted.

    What a probe's sender gets back, and what hosts get that send themselves, would be lost once their links are down.
    """
    if any(not flow.has_tcp for flow in plan.flows):
        # Where other packets do not end either, `wait_for_quiescence` says so.
        await _is_quiet(read, plan)


async def wait_for_quiescence(read: Read, plan: Plan) -> None:
    """Wait until nothing has left a queue for the longest RTT and what a sender may take for a frame.

    Frames may be on a sender's link or in a ring yet, and where the RTT is 0 they are there for some time all the same.

    Raises:
        RunError: packets still arrive, though the senders were taken down.
    """
    if not await _is_quiet(read, plan):
        raise RunError("packets still cross the links after the senders were taken down")


async def _is_quiet(read: Read, plan: Plan) -> bool:
    """Whether nothing has left a queue for so long, which is waited for; False if packets came without an end."""
    frame_s = max(link.longest_s(plan.frame_bytes) for link in plan.links)
    held_s = max(POLL_S, frame_s, (plan.jitter_ns or 0) / NANOSECONDS)
    longest_ns = max(flow.rtt_ns for flow in plan.flows) + plan.extra_delay_ns
    # The NICs of both ends may hold a packet, and what answers it.
    moderated_s = 0.0 if plan.coalescing is None else 2 * plan.coalescing.usecs / 1e6
    rest_s = longest_ns / NANOSECONDS + held_s + moderated_s
    # What comes meanwhile may fill the queues once more.
    deadline = time.monotonic() + GRACE_S + rest_s + max(map(plan.queueing_s, plan.flows))
    departed = None
    while departed != (left := [queue.dequeued_packets for queue in (await read()).values()]):
        if time.monotonic() > deadline:
            return False
        departed = left
        await asyncio.sleep(rest_s)
        await drain(read, plan)
    return True
