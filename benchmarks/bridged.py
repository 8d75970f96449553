# SPDX-License-Identifier: Apache-2.0
"""A bridge between the hosts, with qdiscs of Linux on its interface to the receiver, which are read while flows run."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import pandas as pd
from narrows.hosts.links import call_inside, run
from passage import QUEUE, Place

BRIDGE = "bridge"
ROOT = 0xFFFFFFFF  # parent of an interface's root qdisc

# Netlink, as include/uapi/linux/{netlink,rtnetlink,gen_stats}.h have it. A message is a header and struct tcmsg.
MESSAGE = struct.Struct("=IHHIIBBHiIII")
NLMSG_ERROR, NLM_F_REQUEST, NLM_F_ECHO, RTM_GETQDISC = 2, 1, 8, 38
ATTRIBUTE, TYPE_MASK = struct.Struct("=HH"), 0x3FFF
TCA_STATS2, TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP = 7, 1, 3, 4
BASIC, QUEUED = struct.Struct("=QI"), struct.Struct("=5I")

# What a qdisc says of itself beside its queue, as words of 32 bits, to values.
Read = Callable[[Sequence[int]], Sequence[float]]


@asynccontextmanager
async def bridged(
    place: Place,
    commands: Sequence[str],
    parent: int,
    every_s: float,
    more: Sequence[str] = (),
    read_more: Read = lambda _: (),
) -> AsyncIterator[Callable[[], pd.DataFrame]]:
    """See `passage.Link`.

    Args:
        place: where the link is.
        commands: of tc, without the interface's name, in place of which is ``DEV``.
        parent: of the one qdisc that is read.
        every_s: time between two readings.
        more: columns beside ``passage.QUEUE``.
        read_more: their values.

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
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
            netlink.bind((0, 0))
            index = socket.if_nametoindex(interface)
            while not stop.wait(every_s):
                counted, more_words = statistics(netlink, index, parent)
                found.append((time.monotonic(), *counted, *read_more(more_words)))

    # In a thread, which waits while the hosts' flows go on.
    reader = asyncio.create_task(asyncio.to_thread(call_inside, namespace, read))
    try:
        yield lambda: pd.DataFrame(found, columns=[*QUEUE, *more])
    finally:
        stop.set()
        await reader


def statistics(netlink: socket.socket, index: int, parent: int) -> tuple[Sequence[int], Sequence[int]]:
    """A qdisc's bytes that wait, bytes and packets sent, and drops; and what else it says, as words of 32 bits.

    By a message and its answer alone: a library that takes all of it apart costs a guest more than the flows do.

    Raises:
        OSError: there is none.
    """
    flags = NLM_F_REQUEST | NLM_F_ECHO
    netlink.send(MESSAGE.pack(MESSAGE.size, RTM_GETQDISC, flags, 0, 0, 0, 0, 0, index, 0, parent, 0))
    answer = netlink.recv(1 << 16)
    length, kind, *_ = MESSAGE.unpack_from(answer)
    if kind == NLMSG_ERROR:
        (error,) = struct.unpack_from("=i", answer, 16)
        raise OSError(-error, f"qdisc of {parent:#x}: {os.strerror(-error)}")
    about = dict(_attributes(dict(_attributes(answer[MESSAGE.size : length]))[TCA_STATS2]))
    sent_bytes, packets = BASIC.unpack_from(about[TCA_STATS_BASIC])
    _, waiting_bytes, drops, *_ = QUEUED.unpack_from(about[TCA_STATS_QUEUE])
    more = about.get(TCA_STATS_APP, b"")
    return (waiting_bytes, sent_bytes, packets, drops), struct.unpack_from(f"={len(more) // 4}I", more)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        yield kind & TYPE_MASK, data[at + ATTRIBUTE.size : at + length]
        # Each begins at a multiple of four.
        at += -(-length // 4) * 4
