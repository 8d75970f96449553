# SPDX-License-Identifier: Apache-2.0
"""The link that is the kernel's tc tbf: a bridge between the hosts, and tbf on its interface to the receiver."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pandas as pd
from narrows.hosts.base import SwitchAttachment
from narrows.hosts.links import call_inside, run
from passage import QUEUE, Place, add_qdisc
from pyroute2 import IPRoute

NEEDS = "CONFIG_BRIDGE=y"  # of a kernel
PROGRAMS: tuple[str, ...] = ()  # that are not everywhere
# With fewer it loses more of its rate (virtual-accuracy), with two 0.2 % at 100 Mbit/s. More hide the queue from
# HyStart, which looks at the first packets of a round trip (RFC 9406): with 4 ms CUBIC lost three times as many.
BURST_FRAMES = 2
READING_S = 0.05
BRIDGE = "bridge"

# Monotonic time (s) and bytes that wait; bytes and packets sent, and drops, so far.
Reading = tuple[float, int, int, int, int]


@asynccontextmanager
async def link(place: Place) -> AsyncIterator[Callable[[], pd.DataFrame]]:
    """See `passage.Link`; the queue is what was read of the qdisc.

    Raises:
        RunError: it cannot be made.
    """
    namespace = place.receiver.namespace
    run(["ip", "-n", namespace, "link", "add", "name", BRIDGE, "type", "bridge"])
    for number in (host.port for host in place.plan.end_hosts):
        run(["ip", "-n", namespace, "link", "set", place.ports[number].interface, "master", BRIDGE])
    bottleneck = place.plan.bottleneck
    burst = BURST_FRAMES * place.plan.frame_bytes
    words = f"tbf rate {bottleneck.rate_bps}bit burst {burst} limit {bottleneck.limit_bytes}"
    add_qdisc(namespace, place.receiver.interface, words)
    run(["ip", "-n", namespace, "link", "set", BRIDGE, "up"])
    found: list[Reading] = []
    stop = threading.Event()
    # In a thread: netlink's library has an event loop of its own.
    read = partial(_read, place.receiver, stop, found)
    reader = asyncio.create_task(asyncio.to_thread(call_inside, namespace, read))
    try:
        yield lambda: pd.DataFrame(found, columns=list(QUEUE))
    finally:
        stop.set()
        await reader


def _read(port: SwitchAttachment, stop: threading.Event, found: list[Reading]) -> None:
    """Read the root qdisc of an interface until told to stop."""
    with IPRoute() as netlink:
        (index,) = netlink.link_lookup(ifname=port.interface)
        while not stop.wait(READING_S):
            (qdisc,) = netlink.get_qdiscs(index=index)
            statistics = qdisc.get_attr("TCA_STATS2")
            queue, basic = statistics.get_attr("TCA_STATS_QUEUE"), statistics.get_attr("TCA_STATS_BASIC")
            found.append((time.monotonic(), queue["backlog"], basic["bytes"], basic["packets"], queue["drops"]))
