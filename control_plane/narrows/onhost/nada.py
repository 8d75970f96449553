# SPDX-License-Identifier: Apache-2.0
"""NADA, a congestion control of interactive media: RFC 8698. Only the standard library of Python 3.8 is used.

The receiver makes one signal of delay, loss and marks, the aggregate congestion signal, and says it to the sender ten
times a second; the sender's rate follows it. Times are seconds, rates bit/s. Names and values are those of the RFC's
figure 3.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

# Reference congestion level, and the time over which the rate follows the signal.
XREF_S, TAU_S = 0.010, 0.5
KAPPA, ETA = 0.5, 2.0
# Between two reports of the receiver, and the window that it looks back on.
DELTA_S, LOGWIN_S = 0.1, 0.5
# Ramp-up: the queue that ends it, the delay of the receiver's filter, and the bounds of an increase.
QEPS_S, DFILT_S, GAMMA_MAX, QBOUND_S = 0.010, 0.120, 0.5, 0.050
# Where a loss is recent, a long queue counts for less: TCP that fills the buffer makes one anyway.
MULTILOSS, QTH_S, LAMBDA = 7.0, 0.050, 0.5
# What losses and marks count for at their reference ratios.
PLRREF, DLOSS_S, PMRREF, DMARK_S = 0.01, 0.010, 0.01, 0.002
# Smoothing of the ratios, and the samples of which the least delay counts (section 5.1.1).
ALPHA, TAPS = 0.1, 15


@dataclass(frozen=True)
class Report:
    """What a receiver says: the aggregate congestion signal, the rate that arrives, and whether the sender may ramp
    up."""

    signal_s: float
    received_bps: float
    ramp_up: bool


class Receiver:
    """The receiver's half (sections 4.2 and 5.1). Its clock may differ from the sender's by a constant."""

    def __init__(self) -> None:
        """Nothing has arrived yet."""
        self._base_s = math.inf
        self._filter: deque[float] = deque(maxlen=TAPS)
        # Time of arrival, bits, one-way delay, packets lost before it: of the window that is looked back on.
        self._window: deque[tuple[float, int, float, int]] = deque()
        self._next_number = 0
        self._loss_ratio = self._mark_ratio = 0.0
        # Packets from one loss event to the next, smoothed, and since the last one.
        self._loss_interval = 0.0
        self._since_loss: int | None = None
        self._reported_s = -math.inf
        self._arrived = self._lost = self._marked = 0

    def take(self, number: int, sent_s: float, now_s: float, size_bytes: int, marked: bool) -> Report | None:
        """Take in a packet; what is to be said to the sender, if it is time for a report."""
        one_way_s = now_s - sent_s
        self._base_s = min(self._base_s, one_way_s)
        self._filter.append(one_way_s)
        lost = max(0, number - self._next_number)
        self._next_number = max(self._next_number, number + 1)
        self._window.append((now_s, 8 * size_bytes, one_way_s, lost))
        self._arrived, self._lost, self._marked = self._arrived + 1, self._lost + lost, self._marked + marked
        self._note_loss(lost)
        if now_s - self._reported_s < DELTA_S:
            return None
        self._reported_s = now_s
        return self._report(now_s)

    def _note_loss(self, lost: int) -> None:
        if self._since_loss is not None:
            self._since_loss += 1
        if lost:
            if self._since_loss is not None:
                before = self._loss_interval or self._since_loss
                self._loss_interval = ALPHA * self._since_loss + (1 - ALPHA) * before
            self._since_loss = 0

    def _report(self, now_s: float) -> Report:
        while self._window[0][0] <= now_s - LOGWIN_S:
            self._window.popleft()
        self._loss_ratio += ALPHA * (self._lost / (self._arrived + self._lost) - self._loss_ratio)
        self._mark_ratio += ALPHA * (self._marked / self._arrived - self._mark_ratio)
        self._arrived = self._lost = self._marked = 0
        signal_s = (
            warped(min(self._filter) - self._base_s, self._is_loss_recent)
            + DLOSS_S * (self._loss_ratio / PLRREF) ** 2
            + DMARK_S * (self._mark_ratio / PMRREF) ** 2
        )
        quiet = all(one_way_s - self._base_s < QEPS_S and not lost for _, _, one_way_s, lost in self._window)
        return Report(signal_s, sum(bits for _, bits, _, _ in self._window) / LOGWIN_S, quiet)

    @property
    def _is_loss_recent(self) -> bool:
        """Whether the last loss is less than `MULTILOSS` times as far back as losses are apart."""
        if self._since_loss is None:
            return False
        return not self._loss_interval or self._since_loss < MULTILOSS * self._loss_interval


def warped(queue_s: float, is_loss_recent: bool) -> float:
    """A queueing delay as it counts for the signal (section 4.2, equation 1)."""
    if queue_s < QTH_S or not is_loss_recent:
        return queue_s
    return QTH_S * math.exp(-LAMBDA * (queue_s - QTH_S) / QTH_S)


class Sender:
    """The sender's half (section 4.3): its reference rate, between a least and a most one."""

    def __init__(self, least_bps: float, most_bps: float) -> None:
        """It begins with the least rate."""
        self.rate_bps = least_bps
        self._least_bps, self._most_bps = least_bps, most_bps
        self._signal_s = 0.0
        self._updated_s: float | None = None

    def take(self, report: Report, rtt_s: float, now_s: float) -> None:
        """Follow a report that has just come."""
        rate = self.rate_bps
        # As long as a report was on the way, not longer, if some were lost.
        passed_s = DELTA_S if self._updated_s is None else min(now_s - self._updated_s, TAU_S)
        if report.ramp_up:
            gamma = min(GAMMA_MAX, QBOUND_S / (rtt_s + DELTA_S + DFILT_S))
            rate = max(rate, (1 + gamma) * report.received_bps)
        else:
            offset_s = report.signal_s - XREF_S * self._most_bps / rate
            change_s = report.signal_s - self._signal_s
            rate -= rate * KAPPA * (passed_s / TAU_S * offset_s / TAU_S + ETA * change_s / TAU_S)
        self.rate_bps = min(max(rate, self._least_bps), self._most_bps)
        self._signal_s, self._updated_s = report.signal_s, now_s
