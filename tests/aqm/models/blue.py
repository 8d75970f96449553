# SPDX-License-Identifier: Apache-2.0
"""BLUE as in Feng, Shin, Kandlur and Saha, IEEE/ACM Transactions on Networking 10(4), 2002, figure 1.

When a packet is lost because the queue overflows, and when the link falls idle, the probability changes, unless it has
changed within ``freeze`` nanoseconds. A packet that finds room is dropped, or marked, with that probability.
"""

from __future__ import annotations

from models.link import Discipline, Draw, Fate, Fifo, Waiting

CERTAIN = (1 << 32) - 1


class Blue(Discipline):
    """One queue; ``limit`` in bytes, probabilities in units of 2^-32."""

    def __init__(self, draw: Draw, limit: int, increment: int, decrement: int, freeze: int, ecn: bool = False) -> None:
        self._draw, self._limit, self._freeze, self._ecn = draw, limit, freeze, ecn
        self._increment, self._decrement = increment, decrement
        self._queue = Fifo()
        self._last_update = 0
        # Nothing has left the link yet that it could be idle after.
        self._idle = True
        self.probability = 0

    def _change(self, by: int, now: int) -> None:
        if now - self._last_update > self._freeze:
            self.probability = min(max(self.probability + by, 0), CERTAIN)
            self._last_update = now

    def enqueue(self, packet: Waiting, now: int) -> None:
        if self._queue.bytes + packet.arrival.size > self._limit:
            self._change(self._increment, now)
            self.drop(packet, Fate.TAIL_DROP, now)
        elif self.probability and self._draw() < self.probability and not (self._ecn and packet.mark()):
            self.drop(packet, Fate.AQM_DROP, now)
        else:
            self._queue.push(packet)

    def dequeue(self, now: int) -> Waiting | None:
        packet = self._queue.pop()
        # A packet that is dropped on arrival at an idle link ends no idle time.
        if packet is None and not self._idle:
            self._change(-self._decrement, now)
        self._idle = packet is None
        return packet
