# SPDX-License-Identifier: Apache-2.0
"""What the SDE's model of a chip has of queues: their settings, which it stores, and no counts."""

from __future__ import annotations

from narrows.errors import RunError
from narrows.switch.entries import EPOCH
from narrows.switch.readings import QueueStats

from narrows_tofino.bfrt.client import Client
from narrows_tofino.readings.counters import Counters
from narrows_tofino.testbed.inventory import Inventory
from narrows_tofino.writes.planned import number
from narrows_tofino.writes.traffic_manager import BottleneckQueue

# What a model answers for each register that it has no contents for, such as all counters of the traffic manager.
UNMODELLED = 0x0BADD3FF
MODEL_NOTE = (
    "warning: the switch is the SDE's model: it neither shapes nor drops, and counts nothing at queues and ports; rate "
    "and buffer are what was asked for, not what packets met"
)


def check_kind(client: Client, inventory: Inventory) -> None:
    """Whether the switch is what the inventory says, a chip or a model.

    Raises:
        RunError: it is the other one.
    """
    switch = inventory.switch
    table = client.schema.table(f"{switch.generation.prefix}.tm.counter.pipe")
    found = number(client.read_default(table, pipe=0), "discard_queue_usage_cells") == UNMODELLED
    if found != switch.model:
        what = "the SDE's model of a chip" if found else "a chip"
        raise RunError(f"the switch is {what}; fix: switch.model: {str(found).lower()} in the inventory")


def uncounted(
    counters: Counters, bottleneck: BottleneckQueue, departed: int, moving: bool, flow_bytes: tuple[int, int] | None
) -> QueueStats:
    """A reading of a model's queue, of which only the program counts anything.

    Args:
        counters: the program's.
        bottleneck: whose queue.
        departed: packets that have left it.
        moving: some have since the last reading. Only while nothing leaves is it known that nothing waits.
        flow_bytes: bytes that its flows offered and that left it; None if they were too many to be read.
    """
    settings, depth = bottleneck.link, bottleneck.depth
    left_bytes = None if flow_bytes is None else flow_bytes[1]
    return QueueStats(
        port=settings.port,
        queue=settings.queue,
        rate_bps=bottleneck.rate_bps,
        limit_bytes=depth.bytes,
        limit_packets=depth.packets,
        delay_ns=0,
        epoch=EPOCH,
        enqueued_packets=None if moving else departed,
        enqueued_bytes=None if moving else left_bytes,
        dequeued_packets=departed,
        dequeued_bytes=left_bytes,
        dropped_packets=None,
        dropped_bytes=None,
        depth_packets=None if moving else 0,
        depth_bytes=None if moving else 0,
        peak_depth_bytes=None,
        aqm_dropped_packets=counters.aqm_drops(settings.index),
    )
