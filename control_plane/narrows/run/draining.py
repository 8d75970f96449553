# SPDX-License-Identifier: Apache-2.0
"""When nothing waits in the bottleneck's queue, and nothing can come any more: only then its counters are final."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from narrows_formats.units import NANOSECONDS

from narrows.errors import RunError
from narrows.experiment.plan import Plan
from narrows.switch.readings import QueueStats

POLL_S = 0.05
GRACE_S = 10.0
Read = Callable[[], Awaitable[QueueStats]]


async def drain(read: Read, plan: Plan) -> None:
    """Wait until nothing waits in the bottleneck's queue.

    Raises:
        RunError: the queue is not empty long after it could have been.
    """
    deadline = time.monotonic() + GRACE_S + plan.bottleneck.limit_bytes * 8 / plan.bottleneck.rate_bps
    # A target that cannot tell a depth says None until it knows that nothing waits.
    while (await read()).depth_packets != 0:
        if time.monotonic() > deadline:
            raise RunError("the bottleneck's queue does not drain")
        await asyncio.sleep(POLL_S)


async def come_to_rest(read: Read, plan: Plan) -> None:
    """Wait until nothing has left the queue for the longest RTT: frames may be on a sender's link or in a ring yet.

    Raises:
        RunError: packets go on coming, though the senders were silenced.
    """
    rtt_s = max(flow.rtt_ns for flow in plan.flows) / NANOSECONDS
    deadline = time.monotonic() + GRACE_S + rtt_s
    departed = None
    while departed != (queue := await read()).dequeued_packets:
        if time.monotonic() > deadline:
            raise RunError("packets go on coming through the bottleneck after its senders were silenced")
        departed = queue.dequeued_packets
        await asyncio.sleep(rtt_s)
        await drain(read, plan)
