# SPDX-License-Identifier: Apache-2.0
"""RED as in Floyd and Jacobson 1993, section 4, with the parameters of tc.

The average is of the bytes that wait, taken at each arrival before that is queued, and has Linux's fixed point: scaled
by the inverse of its weight, a power of two. The paper is followed where Linux differs: an idle time decays it by its
length in packets of ``avpkt`` bytes, a linear function of it, without a table; and from one mark or drop to the next
the n-th packet is picked with p / (1 - n p), where Linux draws once for each such interval. ``harddrop`` and ``nodrop``
are tc's.
"""

from __future__ import annotations

from models.link import NS, Discipline, Draw, Fate, Fifo, Waiting

DRAWN_BITS = 32


class Red(Discipline):
    """One queue; ``limit``, ``low`` and ``high`` (tc: min, max) in bytes, ``probability`` at ``high`` in 2^-32.

    The newest arrival has the weight 2^-``weight_log``; ``rate_bps`` (tc: bandwidth) is for idle times.
    """

    def __init__(
        self,
        draw: Draw,
        limit: int,
        low: int,
        high: int,
        probability: int,
        weight_log: int,
        avpkt: int,
        rate_bps: int,
        ecn: bool = False,
        harddrop: bool = False,
        nodrop: bool = False,
    ) -> None:
        self._draw, self._limit, self._probability, self._log, self._ecn = draw, limit, probability, weight_log, ecn
        self._harddrop, self._nodrop = harddrop, nodrop
        self._low, self._high = low << weight_log, high << weight_log
        self._packet_ns = avpkt * 8 * NS / rate_bps
        self._queue = Fifo()
        self._average = 0
        # Packets since the last pick; before the first one of a time above ``low`` there is none.
        self._since = -1
        self._idle_from: int | None = 0

    @property
    def average(self) -> int:
        """Bytes."""
        return self._average >> self._log

    def _take_average(self, now: int) -> None:
        if self._idle_from is None:
            self._average += self._queue.bytes - (self._average >> self._log)
            return
        packets = (now - self._idle_from) / self._packet_ns
        self._average = int(self._average * (1 - 2**-self._log) ** packets)
        self._idle_from = None

    def _picked(self) -> bool:
        if self._average < self._low:
            self._since = -1
            return False
        if self._average < self._high:
            self._since += 1
            # p = part / whole, and p / (1 - n p) = part / (whole - n part).
            part = self._probability * (self._average - self._low)
            whole = (self._high - self._low) << DRAWN_BITS
            left = whole - self._since * part
            if left > 0 and self._draw() * left >= part << DRAWN_BITS:
                return False
        self._since = 0
        return True

    def _spared(self, packet: Waiting) -> bool:
        """Whether a picked packet is queued: marked, or because it cannot be."""
        if not self._ecn or (self._harddrop and self._average >= self._high):
            return False
        return packet.mark() or self._nodrop

    def enqueue(self, packet: Waiting, now: int) -> None:
        self._take_average(now)
        if self._picked() and not self._spared(packet):
            self.drop(packet, Fate.AQM_DROP, now)
        elif self._queue.bytes + packet.arrival.size > self._limit:
            self.drop(packet, Fate.TAIL_DROP, now)
        else:
            self._queue.push(packet)

    def dequeue(self, now: int) -> Waiting | None:
        packet = self._queue.pop()
        if packet is None:
            self._idle_from = now
        return packet
