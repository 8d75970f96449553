# SPDX-License-Identifier: Apache-2.0
"""Additive increase, multiplicative decrease: Reno's window, decided once a step (RFC 5681)."""

from __future__ import annotations

from narrows.api.interval import Interval
from narrows.controllers.base import LEAST_SEGMENTS, Decision


class Aimd:
    """With a step of one RTT the window grows by a segment a step, doubles in slow start, and halves after a loss."""

    def __init__(self) -> None:
        """Begin in slow start, with the window that the socket has."""
        self._window = 0.0
        self._threshold = float("inf")
        self._recovers = False

    def on_step(self, _now_s: float, ack: Interval, /) -> Decision | None:
        """Grow by what was acknowledged in this step, or halve once in each recovery."""
        self._window = self._window or float(ack.now.cwnd)
        recovers, self._recovers = self._recovers, ack.now.ca_state in ("recovery", "loss")
        # What is found lost in a recovery that a step before saw is one loss with that (RFC 5681, section 3.2).
        if ack.lost and not recovers:
            self._threshold = self._window = max(self._window / 2, LEAST_SEGMENTS)
        elif self._recovers:
            return None
        elif self._window < self._threshold:
            self._window = min(self._window + ack.delivered, self._threshold)
        else:
            # A window that is acknowledged in full in this step adds one segment (RFC 5681, section 3.1).
            self._window += ack.delivered / self._window
        return Decision(cwnd=int(self._window))
