# SPDX-License-Identifier: Apache-2.0
"""An experiment's hosts and flows, as a run makes them, around a bottleneck that is the kernel's tc tbf.

    senders -- [softswitch: only the delay, on the way back] -- [bridge] tbf -- receiver

What is measured is what the hosts' sockets and the qdisc say: there is no telemetry.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from narrows.experiment.model import Experiment
from narrows.experiment.plan import FIRST_SENDER_PORT, RECEIVER_PORT, Plan
from narrows.hosts.base import SwitchAttachment
from narrows.hosts.links import call_inside, run
from narrows.hosts.netns import NetnsTestbed
from narrows.hosts.state import RunState
from narrows.targets.bmv2.delay_line import DelayLine
from narrows.traffic import socket_table
from narrows.traffic.connection import Connection
from narrows.traffic.traffic import Traffic
from narrows_formats import files
from pyroute2 import IPRoute

BURST_S = 0.004  # with a burst of one frame tbf loses some of its rate: see the benchmark `accuracy`
READING_S = 0.05
BRIDGE = "bridge"

Reading = tuple[float, int, int, int]  # monotonic time (s), bytes that wait, packets sent and dropped so far


@dataclass(frozen=True)
class Passage:
    """What went through tbf.

    Attributes:
        connections: in the order of the sockets' flow numbers.
        sockets: the state of the senders' sockets over time, as in hosts/sockets.parquet.
        queue: readings of the qdisc: ``time_s`` since the start, ``depth_bytes``, and ``packets`` and ``drops`` so far.
    """

    connections: list[Connection]
    sockets: pd.DataFrame
    queue: pd.DataFrame


async def send_through(experiment: Experiment, plan: Plan) -> Passage:
    """Run an experiment's flows through tbf; nothing is left of the testbed.

    Raises:
        RunError: something cannot be set up, or a flow fails.
    """
    state = RunState.create()
    testbed = NetnsTestbed(plan, state, experiment.mtu)
    try:
        with tempfile.TemporaryDirectory(prefix="narrows-tbf-") as directory:
            results = Path(directory)
            testbed.create()
            async with _path(plan, testbed), _readings(testbed) as readings:
                traffic = Traffic(plan, testbed, results, experiment.telemetry.sockets)
                try:
                    await traffic.start()
                    await traffic.run()
                finally:
                    await traffic.stop()
            queue = pd.DataFrame(readings, columns=["time_s", "depth_bytes", "packets", "drops"])
            queue["time_s"] -= traffic.origin_s
            sockets = results / files.SOCKETS
            socket_table.store(traffic.socket_readings, traffic.connections, traffic.origin_s, sockets)
            return Passage(traffic.connections, pd.read_parquet(sockets), queue)
    finally:
        testbed.remove()
        state.destroy()


@asynccontextmanager
async def _path(plan: Plan, testbed: NetnsTestbed) -> AsyncIterator[None]:
    """The delay line at the senders' ports, a bridge, and tbf on its port to the receiver."""
    ports = {attachment.port: attachment for attachment in testbed.attachments}
    namespace, receiver = ports[RECEIVER_PORT].namespace, ports[RECEIVER_PORT].interface
    line = DelayLine()
    try:
        ends = await line.start(testbed, [found for port, found in ports.items() if port >= FIRST_SENDER_PORT])
        run(["ip", "-n", namespace, "link", "add", "name", BRIDGE, "type", "bridge"])
        for interface in (receiver, *ends.values()):
            run(["ip", "-n", namespace, "link", "set", interface, "master", BRIDGE])
        run(["ip", "-n", namespace, "link", "set", BRIDGE, "up"])
        await line.configure(plan)
        link = plan.bottleneck
        burst = max(1514, round(link.rate_bps / 8 * BURST_S))
        shaper = f"tbf rate {link.rate_bps}bit burst {burst} limit {link.limit_bytes}"
        run(["tc", "-n", namespace, "qdisc", "add", "dev", receiver, "root", *shaper.split()])
        yield
    finally:
        await line.stop()


@asynccontextmanager
async def _readings(testbed: NetnsTestbed) -> AsyncIterator[list[Reading]]:
    """What is read of the receiver's qdisc while the block runs."""
    port = next(attachment for attachment in testbed.attachments if attachment.port == RECEIVER_PORT)
    found: list[Reading] = []
    stop = threading.Event()
    # In a thread: netlink's library has an event loop of its own.
    reader = asyncio.create_task(asyncio.to_thread(call_inside, port.namespace, partial(_read, port, stop, found)))
    try:
        yield found
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
            found.append((time.monotonic(), queue["backlog"], basic["packets"], queue["drops"]))
