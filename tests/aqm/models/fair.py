# SPDX-License-Identifier: Apache-2.0
"""Fair queues with CoDel in each, as RFC 8290 describes them.

A queue is served while it has credit left; as in Linux one without any, not only one below zero, waits for its next
turn (the RFC says both). Only packets that are sent cost credit. CoDel's test of a frame of backlog is of its own
queue, as RFC 8289 has it, or with ``whole_backlog`` of all queues, as in Linux.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from models.codel import MS, Control, ExactRoot, LinuxRoot
from models.link import Discipline, Fate, Fifo, Waiting


class Queue(Fifo):
    """One of the queues, with its credit in bytes; ``control`` is None where packets only take turns."""

    def __init__(self, control: Control | None) -> None:
        super().__init__()
        self.control, self.credit = control, 0


class Fair(Discipline):
    """Queues of flows; ``limit`` is packets of all.

    A packet too many makes the queue with most bytes (the first of several) lose its oldest packets: half of them, at
    most ``batch``, at least one.
    """

    def __init__(
        self,
        queues: int = 1024,
        quantum: int = 1514,
        limit: int = 10240,
        batch: int = 64,
        make_control: Callable[[], Control] | None = None,
        whole_backlog: bool = False,
    ) -> None:
        self._quantum, self._limit, self._batch, self._whole = quantum, limit, batch, whole_backlog
        self._queues = [Queue(make_control() if make_control else None) for _ in range(queues)]
        self._new: deque[Queue] = deque()
        self._old: deque[Queue] = deque()
        self._waiting = 0

    def enqueue(self, packet: Waiting, now: int) -> None:
        queue = self._queues[packet.arrival.flow % len(self._queues)]
        queue.push(packet)
        self._waiting += 1
        if queue not in self._new and queue not in self._old:
            queue.credit = self._quantum
            self._new.append(queue)
        if self._waiting > self._limit:
            longest = max(self._queues, key=lambda one: one.bytes)
            for _ in range(max(1, min(len(longest.packets) // 2, self._batch))):
                victim = longest.pop()
                assert victim is not None
                self._waiting -= 1
                self.drop(victim, Fate.TAIL_DROP, now)

    def dequeue(self, now: int) -> Waiting | None:
        while turn := self._new or self._old:
            queue = turn[0]
            if queue.credit <= 0:
                queue.credit += self._quantum
                self._old.append(turn.popleft())
                continue
            packet = self._sent_by(queue, now)
            if packet is not None:
                queue.credit -= packet.arrival.size
                return packet
            # A new queue that is empty has its turn among the old ones first: else it would always be new again.
            turn.popleft()
            if turn is self._new:
                self._old.append(queue)
        return None

    def _sent_by(self, queue: Queue, now: int) -> Waiting | None:
        dropped: list[Waiting] = []
        if queue.control is None:
            packet = queue.pop()
        else:
            others = sum(one.bytes for one in self._queues) - queue.bytes if self._whole else 0
            packet, dropped = queue.control.dequeue(queue, now, others)
        for victim in dropped:
            self.drop(victim, Fate.AQM_DROP, now)
        self._waiting -= len(dropped) + (packet is not None)
        return packet


def fq_codel(
    target: int = 5 * MS,
    interval: int = 100 * MS,
    mtu: int = 1514,
    ecn: bool = True,
    root: Callable[[], ExactRoot | LinuxRoot] = ExactRoot,
    queues: int = 1024,
    quantum: int = 1514,
    limit: int = 10240,
    whole_backlog: bool = False,
) -> Fair:
    """FQ-CoDel with tc's defaults."""
    make = lambda: Control(target, interval, mtu, ecn, root())  # noqa: E731
    return Fair(queues, quantum, limit, make_control=make, whole_backlog=whole_backlog)
