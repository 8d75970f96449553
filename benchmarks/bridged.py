# SPDX-License-Identifier: Apache-2.0
"""A bridge between the hosts, with qdiscs of Linux on its interface to the receiver, which are read while flows run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pandas as pd
from narrows.hosts.links import call_inside, run
from passage import QUEUE, Place
from pyroute2 import IPRoute

BRIDGE = "bridge"

# A qdisc's netlink message to its values: bytes that wait, bytes and packets sent, drops, and what else is asked of it.
Read = Callable[[Any], Sequence[float]]


@asynccontextmanager
async def bridged(
    place: Place,
    commands: Sequence[str],
    kind: str,
    every_s: float,
    more: Sequence[str] = (),
    read_more: Read = lambda _: (),
) -> AsyncIterator[Callable[[], pd.DataFrame]]:
    """See `passage.Link`.

    Args:
        place: where the link is.
        commands: of tc, without the interface's name, for which ``DEV`` stands.
        kind: of the one qdisc that is read.
        every_s: time between two readings.
        more: columns beside ``passage.QUEUE``.
        read_more: their values, from the qdisc's message.

    Raises:
        RunError: it cannot be made.
    """
    namespace, interface = place.receiver.namespace, place.receiver.interface
    run(["ip", "-n", namespace, "link", "add", "name", BRIDGE, "type", "bridge"])
    for number in (host.port for host in place.plan.end_hosts):
        run(["ip", "-n", namespace, "link", "set", place.ports[number].interface, "master", BRIDGE])
    for command in commands:
        run(["tc", "-n", namespace, *command.replace("DEV", f"dev {interface}").split()])
    run(["ip", "-n", namespace, "link", "set", BRIDGE, "up"])
    found: list[Sequence[float]] = []
    stop = threading.Event()

    def read() -> None:
        with IPRoute() as netlink:
            (index,) = netlink.link_lookup(ifname=interface)
            while not stop.wait(every_s):
                (qdisc,) = [one for one in netlink.get_qdiscs(index=index) if one.get_attr("TCA_KIND") == kind]
                statistics = qdisc.get_attr("TCA_STATS2")
                queue, basic = statistics.get_attr("TCA_STATS_QUEUE"), statistics.get_attr("TCA_STATS_BASIC")
                counted = (queue["backlog"], basic["bytes"], basic["packets"], queue["drops"])
                found.append((time.monotonic(), *counted, *read_more(qdisc)))

    # In a thread: netlink's library has an event loop of its own.
    reader = asyncio.create_task(asyncio.to_thread(call_inside, namespace, read))
    try:
        yield lambda: pd.DataFrame(found, columns=[*QUEUE, *more])
    finally:
        stop.set()
        await reader
