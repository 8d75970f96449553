# SPDX-License-Identifier: Apache-2.0
"""A queue that makes room for what comes by dropping what has waited longest (RFC 7567, section 2.1: drop front)."""

from __future__ import annotations

from models.link import Discipline, Fate, Fifo, Waiting


class HeadDrop(Discipline):
    """One queue of at most ``limit`` bytes; a packet that is longer than that is dropped itself."""

    def __init__(self, limit: int) -> None:
        self._queue, self._limit = Fifo(), limit

    def enqueue(self, packet: Waiting, now: int) -> None:
        if packet.arrival.size > self._limit:
            self.drop(packet, Fate.TAIL_DROP, now)
            return
        self._queue.push(packet)
        while self._queue.bytes > self._limit:
            victim = self._queue.pop()
            assert victim is not None
            self.drop(victim, Fate.TAIL_DROP, now)

    def dequeue(self, now: int) -> Waiting | None:
        return self._queue.pop()
