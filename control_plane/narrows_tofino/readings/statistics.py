# SPDX-License-Identifier: Apache-2.0
"""One reading of a bottleneck's queue, or of a port, from what the chip and the program count."""

from __future__ import annotations

from narrows.switch.entries import EPOCH
from narrows.switch.readings import PortStats, QueueStats

from narrows_tofino.bfrt.client import Client
from narrows_tofino.readings.checks import DropGuard
from narrows_tofino.readings.counters import Counters
from narrows_tofino.writes.planned import number
from narrows_tofino.writes.traffic_manager import BottleneckQueue


def queue_stats(
    client: Client,
    counters: Counters,
    guard: DropGuard,
    prefix: str,
    bottleneck: BottleneckQueue,
    departed: int,
    flow_bytes: tuple[int, int] | None,
) -> QueueStats:
    """A bottleneck's queue now; of two queues what both hold together.

    Args:
        client: the switch.
        counters: the program's.
        guard: knows the drop count at the start of the run.
        prefix: of the generation's tables.
        bottleneck: whose queue.
        departed: packets that have left it.
        flow_bytes: bytes that its flows offered and that left it; None if they were too many to be read.
    """
    settings, depth, place = bottleneck.link, bottleneck.depth, bottleneck.counter
    entry = client.read(client.schema.table(f"{prefix}.{place.table}"), place.key, pipe=place.pipe)
    # Rounded up: a queue that holds anything is not empty.
    waiting = -(-number(entry, "usage_cells") // depth.cells_per_frame)
    depth_bytes = waiting * depth.frame_bytes
    enqueued_bytes: int | None = None
    departed_bytes: int | None = None
    dropped_bytes: int | None = None
    if flow_bytes is not None:
        arrived_bytes, departed_bytes = flow_bytes
        enqueued_bytes = departed_bytes + depth_bytes
        dropped_bytes = max(0, arrived_bytes - enqueued_bytes)
    tail_drops, aqm = guard.egress_drops(bottleneck), counters.aqm_drops(settings.index)
    return QueueStats(
        port=settings.port,
        queue=settings.queue,
        rate_bps=bottleneck.rate_bps,
        limit_bytes=depth.bytes,
        limit_packets=depth.packets,
        delay_ns=0,
        epoch=EPOCH,
        enqueued_packets=departed + waiting,
        enqueued_bytes=enqueued_bytes,
        dequeued_packets=departed,
        dequeued_bytes=departed_bytes,
        dropped_packets=tail_drops + (aqm or 0),
        dropped_bytes=dropped_bytes,
        depth_packets=waiting,
        depth_bytes=depth_bytes,
        peak_depth_bytes=number(entry, "watermark_cells") * depth.frame_bytes // depth.cells_per_frame,
        aqm_dropped_packets=aqm,
    )


def port_stats(client: Client, dev_port: int) -> PortStats:
    """MAC counters and link of a port."""
    key = {"$DEV_PORT": dev_port}
    entry = client.read(client.schema.table("$PORT_STAT"), key)
    link = client.read(client.schema.table("$PORT"), key)
    return PortStats(
        port=dev_port,
        rx_packets=number(entry, "$FramesReceivedOK"),
        rx_bytes=number(entry, "$OctetsReceived"),
        tx_packets=number(entry, "$FramesTransmittedOK"),
        tx_bytes=number(entry, "$OctetsTransmittedTotal"),
        rx_ring_drops=number(entry, "$FramesDroppedBufferFull"),
        rx_errors=number(entry, "$FrameswithanyError"),
        tx_drops=number(entry, "$FramesTransmittedwithError"),
        link_up=bool(link.data["$PORT_UP"]),
    )
