# SPDX-License-Identifier: Apache-2.0
"""PIE as in RFC 8033, with the delay by timestamps (4.3), in the integers of 56 bits that Linux computes with.

Where they differ, the RFC is followed in that the probability stays within 0 and 1 and that the burst allowance shrinks
with the timer (Linux: with departures); Linux in that the delay is the one of the latest departure, 0 where it left
nothing behind, that nothing is dropped below two frames of ``mtu`` (RFC: 2 kB), that an idle queue forgets 1/64 of the
probability at each update (RFC: 2 %), and that the sum which spaces drops goes on after a mark that it made certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from models.link import NS, Discipline, Draw, Fate, Fifo, Waiting

MS = 1_000_000
BITS = 56
CERTAIN = (1 << BITS) - 1
BURST = 150 * MS
# Gains are in sixteenths, as tc has them.
GAIN_SHIFT = 4


class Pie(Discipline):
    """One queue; defaults are tc's."""

    def __init__(
        self,
        draw: Draw,
        target: int = 15 * MS,
        tupdate: int = 15 * MS,
        alpha: int = 2,
        beta: int = 20,
        limit: int = 1000,
        mtu: int = 1514,
        ecn: bool = False,
    ) -> None:
        self._draw, self._target, self._tupdate, self._limit, self._mtu, self._ecn = (
            draw,
            target,
            tupdate,
            limit,
            mtu,
            ecn,
        )
        self._alpha, self._beta = (gain * (CERTAIN // NS) >> GAIN_SHIFT for gain in (alpha, beta))
        self._queue = Fifo()
        self.probability = self._sum = self._delay = self._delay_before = 0
        self.burst = BURST

    def _decide(self) -> bool:
        """Whether the packet that comes is picked; the sum of probabilities keeps picks apart."""
        calm = self._delay < self._target // 2 and self.probability < CERTAIN // 5
        if self.burst > 0 or calm or self._queue.bytes < 2 * self._mtu:
            return False
        self._sum = self._sum + self.probability if self.probability else 0
        if self._sum < CERTAIN // 100 * 85:
            return False
        if self._sum >= CERTAIN // 2 * 17:
            return True
        # The top bits of a draw are those of a fraction.
        if self._draw() << BITS - 32 < self.probability:
            self._sum = 0
            return True
        return False

    def enqueue(self, packet: Waiting, now: int) -> None:
        if len(self._queue.packets) >= self._limit:
            fate = Fate.TAIL_DROP
        elif not self._decide() or (self._ecn and self.probability <= CERTAIN // 10 and packet.mark()):
            self._queue.push(packet)
            return
        else:
            fate = Fate.AQM_DROP
        self._sum = 0
        self.drop(packet, fate, now)

    def dequeue(self, now: int) -> Waiting | None:
        packet = self._queue.pop()
        if packet is not None:
            self._delay = now - packet.arrival.time_ns if self._queue.bytes else 0
        return packet

    def updates(self) -> Iterator[int]:
        return count(self._tupdate, self._tupdate)

    def update(self, now: int) -> None:
        delay, before, old = self._delay, self._delay_before, self.probability
        shift = 0
        if old < CERTAIN // 10:
            shift = 1 + 2 * sum(old < CERTAIN // 10**decade for decade in range(2, 7))
        step = (self._alpha >> shift) * (delay - self._target) + (self._beta >> shift) * (delay - before)
        if old >= CERTAIN // 10:
            step = min(step, CERTAIN // 100 * 2)
        if delay > 250 * MS:
            step += CERTAIN // 50
        self.probability = max(0, min(CERTAIN, old + step))
        if delay == before == 0 and not self._queue.bytes:
            self.probability -= self.probability // 64
        self.burst = max(0, self.burst - self._tupdate)
        if self.probability == 0 and max(delay, before) < self._target // 2:
            self.burst, self._sum = BURST, 0
        self._delay_before = delay
