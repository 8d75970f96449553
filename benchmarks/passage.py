# SPDX-License-Identifier: Apache-2.0
"""An experiment's hosts and flows, as a run makes them, in a guest, around a bottleneck that is not ours.

    senders -- netem, the delay -- the link -- receiver

What is measured is what the hosts' sockets and the link itself say: there is no telemetry, and nothing of our data
path.
"""

from __future__ import annotations

import importlib
import pickle
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from narrows import python
from narrows.errors import RunError
from narrows.experiment.model import Experiment
from narrows.experiment.plan import Plan
from narrows.hosts.base import SwitchAttachment
from narrows.hosts.links import run
from narrows.hosts.netns import NIC_CHECKSUM_OFFLOADS, NetnsTestbed
from narrows.hosts.state import RunState
from narrows.targets.soft.virtual_time import adapted, settings
from narrows.traffic import socket_table
from narrows.traffic.connection import Connection
from narrows.traffic.traffic import Traffic
from narrows.virtual import guest_memory
from narrows.virtual.cores import core
from narrows.virtual.guest import Guest
from narrows.virtual.kernels import Kernel
from narrows.virtual.measurement import needed_directories
from narrows.virtual.task import TASK_FILE
from narrows_formats import files
from passage_guest import FOUND_FILE

INIT = Path(__file__).with_name("passage_guest.py")
DELAYED_PACKETS = 10_000_000  # that netem may hold; nothing is lost in it
SEGMENTING_RATE = "1000gbit"  # so much that it delays nothing
QUEUE = ("time_s", "depth_bytes", "bytes", "packets", "drops")


@dataclass(frozen=True)
class Passage:
    """What went through a link.

    Attributes:
        connections: in the order of the sockets' flow numbers.
        sockets: the state of the senders' sockets over time, as in hosts/sockets.parquet.
        queue: of the link: ``time_s`` since the start, ``depth_bytes``, and ``bytes``, ``packets`` and ``drops`` so
            far; bytes are those of Ethernet frames, as everywhere.
    """

    connections: list[Connection]
    sockets: pd.DataFrame
    queue: pd.DataFrame


@dataclass(frozen=True)
class Place:
    """Where a link is made: the plan, the run's record, and the switch's ends of the hosts' cables."""

    plan: Plan
    state: RunState
    ports: dict[int, SwitchAttachment]

    @property
    def receiver(self) -> SwitchAttachment:
        """The end of the receiver's cable."""
        (receiver,) = self.plan.receivers
        return self.ports[receiver.port]


# Makes a link for as long as the block runs. What it gives is called when the flows are over, and tells the link's
# queue over monotonic time, as the columns ``QUEUE`` and perhaps more. Some take options.
Link = Callable[..., AbstractAsyncContextManager[Callable[[], pd.DataFrame]]]


async def send_through(link: str, experiment: Experiment, plan: Plan, kernel: Kernel, *options: object) -> Passage:
    """Run an experiment's flows through a link, in a guest of its own.

    Args:
        link: name of a module that has a `Link` of the name ``link``.
        experiment: with the kernel's names of algorithms.
        plan: of it.
        kernel: of the guest.
        options: of the link.

    Raises:
        RunError: something cannot be set up in it, or a flow fails.
    """
    with core() as cpu, tempfile.TemporaryDirectory(prefix="narrows-passage-") as scratch:
        directory = Path(scratch)
        needed = (INIT.parent, *needed_directories(), directory)
        (directory / TASK_FILE).write_bytes(pickle.dumps((link, options, experiment, plan, needed)))
        memory_bytes = guest_memory.memory_bytes(plan)
        async with await Guest.start(kernel, memory_bytes, python.in_guest(str(INIT)), cpu, directory) as guest:
            async for _ in guest.lines():
                return pickle.loads((directory / FOUND_FILE).read_bytes())  # type: ignore[no-any-return]
        raise RunError(f"{experiment.name}: the guest ended{guest.stderr_tail()}")


async def measure(link: str, options: Sequence[object], experiment: Experiment, plan: Plan) -> Passage:
    """The guest's part.

    Raises:
        RunError: something cannot be set up, or a flow fails.
    """
    make_link: Link = importlib.import_module(link).link
    state = RunState.create()
    # Hosts and flows are those of a run in virtual time; the delay is made in one place, and not split.
    hosts = adapted(plan)
    testbed = NetnsTestbed(hosts, state, experiment.mtu, NIC_CHECKSUM_OFFLOADS)
    try:
        with tempfile.TemporaryDirectory(prefix="narrows-passage-") as directory:
            results = Path(directory)
            testbed.create()
            place = Place(plan, state, {attachment.port: attachment for attachment in testbed.attachments})
            _delay(place, testbed)
            async with make_link(place, *options) as read_queue:
                traffic = Traffic(hosts, testbed, results, experiment.telemetry.sockets)
                try:
                    await traffic.start()
                    await traffic.run()
                finally:
                    await traffic.stop()
                queue = read_queue()
            queue["time_s"] -= traffic.t0_s
            sockets = results / files.SOCKETS
            socket_table.store(traffic.socket_readings, traffic.connections, traffic.t0_s, sockets)
            return Passage(traffic.connections, pd.read_parquet(sockets), queue)
    finally:
        testbed.remove()
        state.destroy()


def _delay(place: Place, testbed: NetnsTestbed) -> None:
    """Netem on the senders' interfaces, with the hosts' links and jitter too: where it has a rate, it keeps the order.

    The delay is before the queue: netem makes a sender's socket forget a packet, which a bridge does not. The socket
    would otherwise hold back what it sends (TCP small queues) until the packet has left the bottleneck.

    Netem takes what a socket sends at once for one packet, and would send it at once; tbf cuts it into segments first,
    by a burst of one frame.
    """
    delays = {port.number: port.delay_ns for port in place.plan.ports}
    hosts = settings(adapted(place.plan))
    frame = place.plan.frame_bytes
    # The limit, of bytes, is that of a queue in whose place netem comes.
    segments = f"root handle 1: tbf rate {SEGMENTING_RATE} burst {frame} limit {frame}"
    for sender in place.plan.senders:
        # It varies by its second figure both ways.
        spread = hosts.jitter_ns.get(sender.port, 0) / 2
        delay = f"parent 1: netem delay {(delays[sender.port] + spread) / 1000}us {spread / 1000}us "
        delay += f"rate {hosts.access_rate_bps}bit limit {DELAYED_PACKETS}"
        for qdisc in (segments, delay):
            add_qdisc(place.state.namespace(sender.name), testbed.interface(sender.name), qdisc)


def add_qdisc(namespace: str, interface: str, words: str) -> None:
    """Give an interface a qdisc, as `tc` words it from its place on.

    Raises:
        RunError: the kernel refuses.
    """
    run(["tc", "-n", namespace, "qdisc", "add", "dev", interface, *words.split()])
