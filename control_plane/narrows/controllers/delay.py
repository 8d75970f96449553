# SPDX-License-Identifier: Apache-2.0
"""A controller that keeps a queue of a given delay: twenty lines to begin from."""

from __future__ import annotations

from narrows.api.interval import Interval
from narrows.controllers.base import LEAST_SEGMENTS, Decision


class DelayTarget:
    """Moves its window towards the one with which the queue delays packets by ``target_s`` seconds."""

    def __init__(self, target_s: float = 0.005, gain: float = 0.5) -> None:
        """``gain`` is the part of the distance that one step covers, above 0 and at most 1."""
        self._target_s, self._gain = target_s, gain
        self._window = 0.0

    def on_step(self, _now_s: float, ack: Interval, /) -> Decision | None:
        """A window W has an RTT of base + queue; one of W (base + target) / RTT would have the target (Little)."""
        rtt_s, base_s = ack.rtt_s, ack.now.min_rtt_s
        if rtt_s is None or base_s is None:
            return None
        self._window = self._window or float(ack.now.cwnd)
        wanted = self._window * (base_s + self._target_s) / rtt_s
        self._window = max(LEAST_SEGMENTS, (1 - self._gain) * self._window + self._gain * wanted)
        return Decision(cwnd=round(self._window))
