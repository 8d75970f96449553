# SPDX-License-Identifier: Apache-2.0
"""A controller, and the loop that lets controllers drive the senders of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from narrows_formats.units import NANOSECONDS

from narrows.api.interval import Interval
from narrows.api.sender import Sender
from narrows.api.session import Session
from narrows.api.tcp_info import TcpInfo
from narrows.errors import InputError

# With one, each acknowledgement waits for the timer of delayed ones (RFC 1122, section 4.2.3.2).
LEAST_SEGMENTS = 2


@dataclass(frozen=True)
class Decision:
    """What a controller sets: a window in segments, a pacing rate in bit/s; None: as it is."""

    cwnd: int | None = None
    pacing_rate_bps: float | None = None


class Controller(Protocol):
    """A congestion control in Python."""

    def on_step(self, now_s: float, ack: Interval, /) -> Decision | None:
        """Decide, at the end of a step.

        Args:
            now_s: seconds since the experiment's start.
            ack: what was acknowledged, lost and marked since the step before, and the state of the socket.

        Returns:
            What is set from now on; None: nothing changes.
        """


class _Driven:
    """One sender with its controller."""

    def __init__(self, sender: Sender, controller: Controller) -> None:
        self._sender, self._controller = sender, controller
        self._before: TcpInfo | None = None

    def step(self) -> float | None:
        """Have the controller decide; returns its smoothed RTT, None without a connection or a first sample."""
        now = self._sender.info()
        if now is None or now.rtt_s is None:
            return None
        before, self._before = self._before, now
        if before is not None and now.time_ns > before.time_ns:
            decision = self._controller.on_step(now.time_ns / NANOSECONDS, Interval(before, now))
            if decision is not None and decision != Decision():
                self._sender.set(cwnd=decision.cwnd, pacing_rate=decision.pacing_rate_bps)
        return now.rtt_s


def drive(bed: Session, controllers: Mapping[str, Controller], step: float | None = None) -> None:
    """Let controllers drive their senders until the traffic ends.

    Args:
        bed: a run under way (`narrows.api.testbed`).
        controllers: by the names of flows, each of the congestion control ``external``.
        step: seconds from one decision to the next; None: the shortest smoothed RTT of these flows, or their RTT
            without queue before there is one.

    Raises:
        InputError: there is no such flow.
    """
    flows = bed.flows
    if unknown := [name for name in controllers if name not in flows]:
        raise InputError(f"flow '{unknown[0]}': there is no such flow; allowed: {', '.join(flows)}")
    driven = [_Driven(flows[name], one) for name, one in controllers.items()]
    wait_s = min(flows[name].base_rtt_s for name in controllers) if step is None else step
    while not bed.step(wait_s).over:
        try:
            rtts_s = [rtt_s for one in driven if (rtt_s := one.step()) is not None]
        except InputError:
            # In real time the traffic may end meanwhile.
            if bed.over:
                return
            raise
        if step is None and rtts_s:
            wait_s = min(rtts_s)
