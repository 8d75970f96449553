# SPDX-License-Identifier: Apache-2.0
"""Windows of Reno and CUBIC under independent losses, round by round: the textbook, without a line of any kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# RFC 9438, sections 4.1 and 4.6.
CUBIC_C, CUBIC_BETA = 0.4, 0.7
RENO_BETA = 0.5


@dataclass
class Reno:
    """RFC 5681: one segment more a round, half after a loss."""

    window: float = 10.0

    def grow(self, part: float) -> None:
        """A part of a round without loss."""
        self.window += part

    def shrink(self) -> None:
        """A loss is seen."""
        self.window = max(2.0, self.window * RENO_BETA)


@dataclass
class Cubic:
    """RFC 9438: section 4.2's function of the time since the last loss, never below Reno's window (4.3), with 4.7."""

    rtt_s: float
    window: float = 10.0
    greatest: float = 10.0
    since_s: float = 0.0
    like_reno: float = 10.0
    start: float = 10.0

    def grow(self, part: float) -> None:
        """A part of a round without loss."""
        self.since_s += part * self.rtt_s
        climb_s = float(np.cbrt((self.greatest - self.start) / CUBIC_C))
        target = CUBIC_C * (self.since_s - climb_s) ** 3 + self.greatest
        self.like_reno += part * 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)
        # Section 4.2: at most half as much again in one round.
        self.window = max(self.like_reno, min(max(target, self.window), (1 + part / 2) * self.window))

    def shrink(self) -> None:
        """A loss is seen; a window that did not recover gives way (fast convergence)."""
        fast = (1 + CUBIC_BETA) / 2 if self.window < self.greatest else 1.0
        self.greatest = self.window * fast
        self.window = self.start = self.like_reno = max(2.0, self.window * CUBIC_BETA)
        self.since_s = 0.0


@dataclass(frozen=True)
class Seen:
    """Packets and losses of some rounds."""

    packets: int
    losses: int
    rounds: int

    def constant(self, exponent: float) -> float:
        """Mean window x loss ratio ^ exponent, which theory says is one number."""
        return float(self.packets / self.rounds * (self.losses / self.packets) ** exponent)


def simulate(sender: Reno | Cubic, loss: float, rounds: int, rng: np.random.Generator) -> Seen:
    """So many rounds, losses independent.

    A loss is seen when what was sent after it is acknowledged, a round later. Until then the window grows, and what is
    sent belongs to the same event; the round that repairs it does not grow (RFC 6675).
    """
    packets = losses = covered = 0
    repairing = False
    for _ in range(rounds):
        sent = int(sender.window)
        lost = np.flatnonzero(rng.random(sent) < loss)
        packets, losses = packets + sent, losses + len(lost)
        new = lost[lost >= covered]
        before = int(new[0]) if len(new) else sent
        if not repairing:
            sender.grow(before / sent)
        if len(new):
            sender.shrink()
        covered, repairing = (before, True) if len(new) else (0, False)
    return Seen(packets, losses, rounds)


def expected(make: Callable[[], Reno | Cubic], loss: float, rounds: int, exponent: float) -> tuple[float, float]:
    """Mean and standard deviation of `Seen.constant` over runs of so many rounds."""
    rng = np.random.default_rng(1)
    constants = []
    for _ in range(200):
        sender = make()
        simulate(sender, loss, 200, rng)
        constants.append(simulate(sender, loss, rounds, rng).constant(exponent))
    return float(np.mean(constants)), float(np.std(constants, ddof=1))
