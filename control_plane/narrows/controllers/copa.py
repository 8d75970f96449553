# SPDX-License-Identifier: Apache-2.0
"""Copa (Arun and Balakrishnan, NSDI 2018), decided once a step instead of at every acknowledgement."""

from __future__ import annotations

import math
from collections import deque

from narrows.api.interval import Interval
from narrows.controllers.base import LEAST_SEGMENTS, Decision

MIN_RTT_WINDOW_S = 10.0


class Copa:
    """Copa in its default mode: the target rate is 1 / (delta d_q), d_q the queueing delay (section 2.1).

    The RTT of a step is the kernel's smoothed one, where the paper takes the least of the last half RTT.
    """

    def __init__(self, delta: float = 0.5) -> None:
        """``delta`` is what a packet's delay is worth: a larger one means a shorter queue."""
        self._delta = delta
        self._window = 0.0
        self._velocity, self._direction, self._same = 1.0, 0, 0
        self._slow_start = True
        self._rtts: deque[tuple[float, float]] = deque()

    def on_step(self, now_s: float, ack: Interval, /) -> Decision | None:
        """Move the window by v / delta segments a round trip towards the target (section 2.1, steps 2 to 4)."""
        if (rtt_s := ack.rtt_s) is None:
            return None
        self._window = self._window or float(ack.now.cwnd)
        standing_s = rtt_s - self._least_rtt(now_s, rtt_s)
        current = self._window / rtt_s
        target = 1 / (self._delta * standing_s) if standing_s > 0 else math.inf
        if self._slow_start and current < target:
            self._window *= 2
        else:
            self._slow_start = False
            self._turn(1 if current <= target else -1)
            self._window += self._direction * self._velocity * ack.delivered / (self._delta * self._window)
        self._window = max(self._window, LEAST_SEGMENTS)
        return Decision(cwnd=round(self._window), pacing_rate_bps=2 * 8 * ack.now.mss * self._window / rtt_s)

    def _turn(self, direction: int) -> None:
        """Velocity doubles once a round trip in one direction, from the third on; a turn resets it (section 2.2)."""
        self._same = self._same + 1 if direction == self._direction else 0
        self._direction = direction
        self._velocity = self._velocity * 2 if self._same > 3 else 1.0

    def _least_rtt(self, now_s: float, rtt_s: float) -> float:
        """The least RTT of the last ten seconds."""
        while self._rtts and self._rtts[-1][1] >= rtt_s:
            self._rtts.pop()
        self._rtts.append((now_s, rtt_s))
        while self._rtts[0][0] < now_s - MIN_RTT_WINDOW_S:
            self._rtts.popleft()
        return self._rtts[0][1]
