# SPDX-License-Identifier: Apache-2.0
"""One reading of a switch: counters of its queues, ports and flows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from narrows_formats.units import NANOSECONDS

# A digest is sent when it has this many records, or this long after the first of them.
DIGEST_RECORDS = 64
DIGEST_WAIT_NS = 100_000_000


@dataclass(frozen=True)
class QueueStats:
    """One reading of a queue: counters since the target started, and what waits in it now.

    None: the target cannot tell. ``aqm_dropped_packets`` are the part of ``dropped_packets`` that queue
    management dropped. ``waited_ns`` is how long the packet has waited that has waited longest; 0: nothing waits.
    """

    port: int
    queue: int
    rate_bps: int
    limit_bytes: int
    limit_packets: int
    delay_ns: int
    epoch: int
    enqueued_packets: int | None
    enqueued_bytes: int | None
    dequeued_packets: int
    dequeued_bytes: int | None
    dropped_packets: int | None
    dropped_bytes: int | None
    depth_packets: int | None
    depth_bytes: int | None
    peak_depth_bytes: int | None
    duplicated_packets: int | None = None
    aqm_dropped_packets: int | None = None
    waited_ns: int | None = None

    @property
    def by_name(self) -> dict[str, int | float | None]:
        """What drivers of a run and the conditions of events see of a queue, by the names that they have for it."""
        return {
            "queue_bytes": self.depth_bytes,
            "queue_packets": self.depth_packets,
            "queue_delay_s": None if self.waited_ns is None else self.waited_ns / NANOSECONDS,
            "departed_bytes": self.dequeued_bytes,
            "departed_packets": self.dequeued_packets,
            "dropped_packets": self.dropped_packets,
        }


class _Placed(Protocol):
    @property
    def port(self) -> int: ...

    @property
    def queue(self) -> int: ...


_Queue = TypeVar("_Queue", bound=_Placed)


def by_queue(queues: Iterable[_Queue]) -> dict[tuple[int, int], _Queue]:
    """Queues by port and number: where a link's is found."""
    return {(queue.port, queue.queue): queue for queue in queues}


@dataclass(frozen=True)
class FlowDrops:
    """The traffic manager's own count of what one flow index lost at one queue."""

    flow: int
    packets: int
    bytes: int


@dataclass(frozen=True)
class QueueReading:
    """Queues, and what flow indices lost at some of them, by port and queue; of one instant where time stands still."""

    queues: list[QueueStats]
    drops: dict[tuple[int, int], list[FlowDrops]]


@dataclass(frozen=True)
class FlowTotals:
    """The program's own count of one flow index: packets offered to the queue, and packets that left it."""

    flow: int
    arrivals: int
    departures: int


@dataclass(frozen=True)
class PortStats:
    """Counters of one port; everything that could lose a packet outside the queue is named.

    ``tx_late`` packets left more than 10 ms after their time (in virtual time: at all). ``rx_held`` waited on their
    host for its modelled link, at most ``rx_longest_held_ns``. These and ``rx_ring_drops`` are None where the target
    cannot tell.
    """

    port: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rx_ring_drops: int | None
    rx_errors: int
    tx_drops: int
    link_up: bool
    tx_late: int | None = None
    rx_held: int | None = None
    rx_longest_held_ns: int | None = None


@dataclass(frozen=True)
class Discards:
    """Packets that ended in the switch and at no queue: its programs dropped them in ``ingress`` or ``egress``, or sent
    them to an ``absent_port``, or to a controller that did not get them (``packet_ins``)."""

    ingress: int
    egress: int
    absent_port: int
    packet_ins: int


@dataclass(frozen=True)
class PacketConservation:
    """Packets counted on both sides of a place where a target may lose some without counting them."""

    place: str
    entered: int
    left: int

    @property
    def lost(self) -> int:
        """Packets that went in and did not come out."""
        return self.entered - self.left
