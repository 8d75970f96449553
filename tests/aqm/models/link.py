# SPDX-License-Identifier: Apache-2.0
"""A queue before a link of one rate, packet by packet: what the models of queue management have in common.

Written from the RFCs, apart from the switch and its P4, to be compared with them. Times are whole nanoseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

NS = 1_000_000_000
# The two bits of RFC 3168: in a packet that can be marked at least one is set.
NOT_ECT, ECT_1, ECT_0, CE = 0, 1, 2, 3

# A random number of 32 bits; models draw only where their RFC does, so that two of them can share a sequence.
Draw = Callable[[], int]


class Fate(Enum):
    """What becomes of a packet."""

    SENT = "sent"
    MARKED = "marked"
    TAIL_DROP = "tail drop"
    AQM_DROP = "aqm drop"


@dataclass(frozen=True)
class Arrival:
    """A packet as it comes: when, of which flow, its size and its ECN field."""

    time_ns: int
    flow: int
    size: int
    ecn: int = NOT_ECT


@dataclass(frozen=True)
class Outcome:
    """A packet's fate, and when it began to leave or was dropped."""

    fate: Fate
    time_ns: int


@dataclass
class Waiting:
    """A packet in a queue; ``number`` is its place in the list of arrivals."""

    number: int
    arrival: Arrival
    marked: bool = False

    def mark(self) -> bool:
        """Mark it if its sender allows that; returns whether it is marked now."""
        self.marked = self.marked or self.arrival.ecn != NOT_ECT
        return self.marked


class Fifo:
    """Packets in their order, with their bytes."""

    def __init__(self) -> None:
        self.packets: deque[Waiting] = deque()
        self.bytes = 0

    def push(self, packet: Waiting) -> None:
        self.packets.append(packet)
        self.bytes += packet.arrival.size

    def pop(self) -> Waiting | None:
        if not self.packets:
            return None
        packet = self.packets.popleft()
        self.bytes -= packet.arrival.size
        return packet


class Discipline(ABC):
    """A queue with its management, which gives each packet that it drops to ``drop``; `run` sets that."""

    drop: Callable[[Waiting, Fate, int], None]

    @abstractmethod
    def enqueue(self, packet: Waiting, now: int) -> None:
        """Take a packet in, or drop it."""

    @abstractmethod
    def dequeue(self, now: int) -> Waiting | None:
        """The next packet to leave; None if there is none."""

    def updates(self) -> Iterator[int]:
        """Times at which ``update`` is called, without end; none where nothing is periodic."""
        return iter(())

    def update(self, now: int) -> None:  # noqa: B027
        """What the management does periodically."""


def run(queue: Discipline, arrivals: Sequence[Arrival], rate_bps: int) -> list[Outcome]:
    """Send packets through a queue and a link.

    A packet that meets an idle link passes the queue at once. The link is free again after size * 8 / rate; fractions
    of a nanosecond are kept from one packet to the next while it is busy. At one instant the link comes first, then an
    update, then arrivals.

    Args:
        queue: fresh.
        arrivals: in the order of their times.
        rate_bps: of the link.

    Returns:
        An outcome for each arrival.
    """
    outcomes: list[Outcome | None] = [None] * len(arrivals)

    def settle(packet: Waiting, fate: Fate, now: int) -> None:
        assert outcomes[packet.number] is None, "a packet has one fate"
        outcomes[packet.number] = Outcome(fate, now)

    queue.drop = settle
    ticks = queue.updates()
    tick = next(ticks, None)
    # Of the link: when it is free in nanoseconds times the rate; None while it is idle.
    free: int | None = None

    def leave(now: int, exact: int) -> int | None:
        packet = queue.dequeue(now)
        if packet is None:
            return None
        settle(packet, Fate.MARKED if packet.marked else Fate.SENT, now)
        return exact + packet.arrival.size * 8 * NS

    def advance(until: int | None) -> None:
        nonlocal free, tick
        while free is not None:
            ends = -(-free // rate_bps)
            if tick is not None and tick < ends and (until is None or tick <= until):
                queue.update(tick)
                tick = next(ticks, None)
            elif until is None or ends <= until:
                free = leave(ends, free)
            else:
                return
        while tick is not None and until is not None and tick <= until:
            queue.update(tick)
            tick = next(ticks, None)

    for number, arrival in enumerate(arrivals):
        advance(arrival.time_ns)
        queue.enqueue(Waiting(number, arrival), arrival.time_ns)
        if free is None:
            free = leave(arrival.time_ns, arrival.time_ns * rate_bps)
    advance(None)
    assert None not in outcomes, "every packet has a fate"
    return [outcome for outcome in outcomes if outcome is not None]
