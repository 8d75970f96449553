# SPDX-License-Identifier: Apache-2.0
"""CoDel as in the pseudocode of RFC 8289.

Where Linux differs the RFC is followed, except for marks, which its pseudocode does not have: a marked packet leaves at
once, and that ends this dequeue, as in Linux. Linux asks whether first_above_time is *past*, the RFC whether it is
reached. 1/sqrt(count) is either exact, as the RFC has it, or Linux's iterate of 16 bits.
"""

from __future__ import annotations

from math import isqrt

from models.link import Discipline, Fate, Fifo, Waiting

MS = 1_000_000
# The drop count of the last cycle is remembered so many intervals.
REMEMBERED = 16
ONE = 1 << 16


class ExactRoot:
    """interval / sqrt(count), rounded down."""

    def set(self, count: int, fresh: bool) -> None:
        self._count = count

    def of(self, interval: int) -> int:
        return isqrt(interval * interval // self._count)


class LinuxRoot:
    """interval / sqrt(count) by one Newton step of 16 bits for each change of count, as Linux keeps it."""

    _inverse = 0

    def set(self, count: int, fresh: bool) -> None:
        if fresh:
            self._inverse = ONE - 1
            return
        wide = self._inverse << 16
        value = (3 << 32) - count * (wide * wide >> 32)
        self._inverse = ((value >> 2) * wide >> 31) >> 16

    def of(self, interval: int) -> int:
        return interval * (self._inverse << 16) >> 32


class Control:
    """CoDel's state and its law, for any queue that it is given: FQ-CoDel has one for each of its queues."""

    def __init__(self, target: int, interval: int, mtu: int, ecn: bool, root: ExactRoot | LinuxRoot) -> None:
        self.target, self.interval, self.mtu, self.ecn, self.root = target, interval, mtu, ecn, root
        self.dropping = False
        self.first_above = self.next_drop = self.count = self.count_at_entry = 0

    def _take(self, queue: Fifo, now: int, others: int) -> tuple[Waiting | None, bool]:
        """The head, and whether it may be dropped."""
        packet = queue.pop()
        if packet is None or now - packet.arrival.time_ns < self.target or queue.bytes + others <= self.mtu:
            self.first_above = 0
            return packet, False
        if self.first_above == 0:
            self.first_above = now + self.interval
            return packet, False
        return packet, now >= self.first_above

    def dequeue(self, queue: Fifo, now: int, others: int = 0) -> tuple[Waiting | None, list[Waiting]]:
        """The packet that leaves, and those dropped before it; ``others`` are bytes of backlog elsewhere."""
        dropped: list[Waiting] = []
        packet, may_drop = self._take(queue, now, others)
        if self.dropping:
            self.dropping = may_drop
            while self.dropping and now >= self.next_drop:
                self.count += 1
                self.root.set(self.count, fresh=False)
                assert packet is not None
                if self.ecn and packet.mark():
                    self.next_drop += self.root.of(self.interval)
                    break
                dropped.append(packet)
                packet, self.dropping = self._take(queue, now, others)
                if self.dropping:
                    self.next_drop += self.root.of(self.interval)
        elif may_drop:
            assert packet is not None
            if not (self.ecn and packet.mark()):
                dropped.append(packet)
                packet, _ = self._take(queue, now, others)
            self.dropping = True
            since = self.count - self.count_at_entry
            again = since > 1 and now - self.next_drop < REMEMBERED * self.interval
            self.count = since if again else 1
            self.root.set(self.count, fresh=not again)
            self.next_drop = now + self.root.of(self.interval)
            self.count_at_entry = self.count
        return packet, dropped


class CoDel(Discipline):
    """One queue. ``limit`` in packets; tc's defaults, ``mtu`` with its Ethernet header."""

    def __init__(
        self,
        target: int = 5 * MS,
        interval: int = 100 * MS,
        limit: int = 1000,
        mtu: int = 1514,
        ecn: bool = False,
        root: ExactRoot | LinuxRoot | None = None,
    ) -> None:
        self._queue, self._limit = Fifo(), limit
        self._control = Control(target, interval, mtu, ecn, root or ExactRoot())

    def enqueue(self, packet: Waiting, now: int) -> None:
        if len(self._queue.packets) >= self._limit:
            self.drop(packet, Fate.TAIL_DROP, now)
        else:
            self._queue.push(packet)

    def dequeue(self, now: int) -> Waiting | None:
        packet, dropped = self._control.dequeue(self._queue, now)
        for victim in dropped:
            self.drop(victim, Fate.AQM_DROP, now)
        return packet
