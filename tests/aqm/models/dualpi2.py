# SPDX-License-Identifier: Apache-2.0
"""DualPI2 as in RFC 9332, appendix A, with the choices of Linux, whose parameters tc has.

Linux marks and drops at random where the RFC's pseudocode counts up (`recur`), has a step of delay in place of the ramp
and applies it after the coupled probability (RFC: the larger of both), never drops below two frames of backlog, and
shares the link by a credit of bytes. Above a coupled probability of 1 both drop by the classic law.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from models.link import ECT_1, NOT_ECT, NS, Discipline, Draw, Fate, Fifo, Waiting

MS = 1_000_000
CERTAIN = (1 << 32) - 1
# Gains are in 1/256 Hz; inside, a gain is the probability for each 64 ns of delay.
GAIN, UNIT_NS = 256, 64
PERCENT = 100


class DualPi2(Discipline):
    """Two queues, L for ECT(1) and CE, C for the rest; with ``low_latency`` off it is PI2 of one queue."""

    def __init__(
        self,
        draw: Draw,
        target: int = 15 * MS,
        tupdate: int = 16 * MS,
        alpha: int = 41,
        beta: int = 819,
        step: int = MS,
        coupling: int = 2,
        classic_weight: int = 10,
        limit: int = 10000,
        mtu: int = 1514,
        low_latency: bool = True,
    ) -> None:
        self._draw, self._target, self._tupdate, self._step, self._coupling = draw, target, tupdate, step, coupling
        self._alpha, self._beta = (gain * CERTAIN * UNIT_NS // (GAIN * NS) for gain in (alpha, beta))
        self._weight, self._limit, self._mtu, self._low_latency = classic_weight, limit, mtu, low_latency
        self._classic, self._low = Fifo(), Fifo()
        self._first_credit = mtu * (2 * classic_weight - PERCENT)
        self._credit = self._first_credit
        self.probability = self._delay_before = 0

    @property
    def _bytes(self) -> int:
        return self._classic.bytes + self._low.bytes

    def enqueue(self, packet: Waiting, now: int) -> None:
        if len(self._classic.packets) + len(self._low.packets) >= self._limit:
            self.drop(packet, Fate.TAIL_DROP, now)
        else:
            (self._low if self._low_latency and packet.arrival.ecn & ECT_1 else self._classic).push(packet)

    def _roll(self, probability: int) -> bool:
        return self._draw() <= probability

    def _picked(self, packet: Waiting, low: bool) -> bool:
        """Whether it is dropped by the probability; marks it where that serves."""
        if self._bytes < 2 * self._mtu:
            return False
        coupled = self.probability * self._coupling
        overload = coupled > CERTAIN
        if low and not overload:
            if self._roll(coupled):
                packet.mark()
            return False
        if self._roll(self.probability) and self._roll(self.probability):
            if overload or packet.arrival.ecn == NOT_ECT:
                return True
            packet.mark()
        if low:
            packet.mark()
        return False

    def dequeue(self, now: int) -> Waiting | None:
        while True:
            low = bool(self._low.packets) and (not self._classic.packets or self._credit <= 0)
            both = bool(self._low.packets) and bool(self._classic.packets)
            packet = (self._low if low else self._classic).pop()
            if packet is None:
                self._credit = self._first_credit
                return None
            if self._picked(packet, low):
                self.drop(packet, Fate.AQM_DROP, now)
                continue
            if low and now - packet.arrival.time_ns > self._step:
                packet.mark()
            if both:
                self._credit += packet.arrival.size * (self._weight if low else self._weight - PERCENT)
            return packet

    def updates(self) -> Iterator[int]:
        return count(self._tupdate, self._tupdate)

    def update(self, now: int) -> None:
        heads = [queue.packets[0].arrival.time_ns for queue in (self._classic, self._low) if queue.packets]
        delay = now - min(heads) if heads else 0
        step = (delay - self._target) * self._alpha + (delay - self._delay_before) * self._beta
        # Towards zero, as an unsigned division of its size.
        step = step // UNIT_NS if step > 0 else -(-step // UNIT_NS)
        self.probability = max(0, min(CERTAIN, self.probability + step))
        self._delay_before = delay
