# SPDX-License-Identifier: Apache-2.0
"""An experiment's hosts and flows, as a run makes them, in a guest, around a bottleneck that is the kernel's tc tbf.

    senders -- netem, the delay -- bridge -- tbf -- receiver

What is measured is what the hosts' sockets and the qdisc say: there is no telemetry, and nothing of the data path.
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import RECEIVER_PORT, Plan
from narrows.hosts.base import SwitchAttachment
from narrows.hosts.links import call_inside, run
from narrows.hosts.netns import CARD, NetnsTestbed
from narrows.hosts.state import RunState
from narrows.targets.soft.virtual_time import VirtualTime, adapted, settings
from narrows.traffic import socket_table
from narrows.traffic.connection import Connection
from narrows.traffic.traffic import Traffic
from narrows.virtual import room
from narrows.virtual.cores import core
from narrows.virtual.guest import Guest, python
from narrows.virtual.kernels import Kernel
from narrows.virtual.task import TASK_FILE
from narrows_formats import files
from pyroute2 import IPRoute
from tbf_guest import FOUND_FILE

INIT = Path(__file__).with_name("tbf_guest.py")
# With fewer it loses more of its rate (virtual-accuracy), with two 0.2 % at 100 Mbit/s. More hide the queue from
# HyStart, which looks at the first packets of a round trip (RFC 9406): with 4 ms CUBIC lost three times as many.
BURST_FRAMES = 2
READING_S = 0.05
BRIDGE = "bridge"
DELAYED_PACKETS = 10_000_000  # that netem may hold; nothing is lost in it

# Monotonic time (s) and bytes that wait; bytes and packets sent, and drops, so far.
Reading = tuple[float, int, int, int, int]


@dataclass(frozen=True)
class Passage:
    """What went through tbf.

    Attributes:
        connections: in the order of the sockets' flow numbers.
        sockets: the state of the senders' sockets over time, as in hosts/sockets.parquet.
        queue: readings of the qdisc: ``time_s`` since the start, ``depth_bytes``, and ``bytes``, ``packets`` and
            ``drops`` so far.
    """

    connections: list[Connection]
    sockets: pd.DataFrame
    queue: pd.DataFrame


async def send_through(experiment: Experiment, plan: Plan, kernel: Kernel) -> Passage:
    """Run an experiment's flows through tbf, in a guest of its own.

    Raises:
        RunError: something cannot be set up in it, or a flow fails.
    """
    with core() as cpu, tempfile.TemporaryDirectory(prefix="narrows-tbf-") as scratch:
        directory = Path(scratch)
        (directory / TASK_FILE).write_bytes(pickle.dumps((experiment, plan)))
        guest = await Guest.start(kernel, room.memory_bytes(plan), python(str(INIT)), cpu, directory)
        try:
            async for _ in guest.lines():
                return pickle.loads((directory / FOUND_FILE).read_bytes())  # type: ignore[no-any-return]
        finally:
            guest.kill()
            await guest.wait()
        raise RunError(f"{experiment.name}: the guest ended{guest.last_words()}")


async def measure(experiment: Experiment, plan: Plan) -> Passage:
    """The guest's part.

    Raises:
        RunError: something cannot be set up, or a flow fails.
    """
    state = RunState.create()
    # Hosts and flows are those of a run in virtual time; the delay is made in one place, and not split.
    hosts = adapted(plan)
    testbed = NetnsTestbed(hosts, state, experiment.mtu, CARD)
    try:
        with tempfile.TemporaryDirectory(prefix="narrows-tbf-") as directory:
            results = Path(directory)
            testbed.create()
            _make_path(plan, settings(hosts), testbed, state)
            async with _readings(testbed) as readings:
                traffic = Traffic(hosts, testbed, results, experiment.telemetry.sockets)
                try:
                    await traffic.start()
                    await traffic.run()
                finally:
                    await traffic.stop()
            queue = pd.DataFrame(readings, columns=["time_s", "depth_bytes", "bytes", "packets", "drops"])
            queue["time_s"] -= traffic.origin_s
            sockets = results / files.SOCKETS
            socket_table.store(traffic.socket_readings, traffic.connections, traffic.origin_s, sockets)
            return Passage(traffic.connections, pd.read_parquet(sockets), queue)
    finally:
        testbed.remove()
        state.destroy()


def _make_path(plan: Plan, hosts: VirtualTime, testbed: NetnsTestbed, state: RunState) -> None:
    """Netem on the senders' interfaces, a bridge of the switch's ends of them, and tbf on the one to the receiver.

    Netem has the hosts' links and jitter too: where it has a rate, it keeps packets in order.

    The delay is before the queue: netem makes a sender's socket forget a packet, which a bridge does not. The socket
    would otherwise hold back what it sends (TCP small queues) until the packet has left the bottleneck.
    """
    ports = {attachment.port: attachment for attachment in testbed.attachments}
    namespace, receiver = ports[RECEIVER_PORT].namespace, ports[RECEIVER_PORT].interface
    delays = {port.number: port.delay_ns for port in plan.ports}
    run(["ip", "-n", namespace, "link", "add", "name", BRIDGE, "type", "bridge"])
    for number in (RECEIVER_PORT, *(sender.port for sender in plan.senders)):
        run(["ip", "-n", namespace, "link", "set", ports[number].interface, "master", BRIDGE])
    for sender in plan.senders:
        # It varies by its second figure both ways.
        spread = hosts.jitter_ns / 2
        delay = f"netem delay {(delays[sender.port] + spread) / 1000}us {spread / 1000}us "
        delay += f"rate {hosts.access_rate_bps}bit limit {DELAYED_PACKETS}"
        _add_qdisc(state.namespace(sender.name), testbed.interface(sender.name), delay)
    link = plan.bottleneck
    burst = BURST_FRAMES * plan.frame_bytes
    _add_qdisc(namespace, receiver, f"tbf rate {link.rate_bps}bit burst {burst} limit {link.limit_bytes}")
    run(["ip", "-n", namespace, "link", "set", BRIDGE, "up"])


def _add_qdisc(namespace: str, interface: str, words: str) -> None:
    run(["tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", *words.split()])


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
            found.append((time.monotonic(), queue["backlog"], basic["bytes"], basic["packets"], queue["drops"]))
