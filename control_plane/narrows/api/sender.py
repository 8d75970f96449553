# SPDX-License-Identifier: Apache-2.0
"""A sender whose window and pacing rate a driver sets: of the congestion control `external`."""

from __future__ import annotations

import math
from collections.abc import Callable

from narrows_formats.units import UnitError, parse_rate

from narrows.api.tcp_info import TcpInfo, tcp_info
from narrows.errors import InputError
from narrows.run.driver import SenderAnswer, SetSender

MOST_SEGMENTS = (1 << 31) - 1
# What the kernel's field holds, less its value for no limit.
MOST_BPS = 8 * ((1 << 63) - 1)
LEAST_BPS = 8


class Sender:
    """One flow of a run that is driven; made by `Session.flows`.

    Attributes:
        name: of the flow.
        base_rtt_s: its RTT without queue, in seconds.
    """

    def __init__(self, name: str, base_rtt_s: float, ask: Callable[[SetSender], SenderAnswer]) -> None:
        """Take its name and RTT, and what asks the run."""
        self.name = name
        self.base_rtt_s = base_rtt_s
        self._ask = ask

    def set(self, *, cwnd: int | None = None, pacing_rate: float | str | None = None) -> TcpInfo | None:
        """Set its congestion window and its pacing rate, from now on.

        What is left out stays as it is. Until the first setting a flow has its initial window and is not paced. The
        kernel sends at once what a larger window allows; a smaller one takes nothing back.

        Args:
            cwnd: segments.
            pacing_rate: bit/s of TCP payload, which is what Linux paces, or with a unit: ``"12Mbit"``.

        Returns:
            The state of its socket just after that, with the time at which it was done; None before its connection
            begins and after it has ended: then nothing is set.

        Raises:
            InputError: it has another congestion control or several connections, or a value is not in its range.
            RunError: the kernel refuses.
        """
        if cwnd is None and pacing_rate is None:
            raise InputError(f"flow {self.name}: nothing is set; allowed: cwnd, pacing_rate")
        return self._steer(None if cwnd is None else self._window(cwnd), self._rate(pacing_rate))

    def info(self) -> TcpInfo | None:
        """The state of its socket now, of any congestion control; None when it has no connection."""
        return self._steer(None, None)

    def _steer(self, window: int | None, rate_bps: int | None) -> TcpInfo | None:
        answer = self._ask(SetSender(self.name, window, rate_bps))
        return None if answer.tcp_info is None else tcp_info(answer.made_ns, bytes.fromhex(answer.tcp_info))

    def _window(self, cwnd: int) -> int:
        if isinstance(cwnd, bool) or not isinstance(cwnd, int) or not 1 <= cwnd <= MOST_SEGMENTS:
            raise InputError(f"flow {self.name}: cwnd {cwnd!r}: allowed: a whole number from 1 to {MOST_SEGMENTS}")
        return cwnd

    def _rate(self, rate: float | str | None) -> int | None:
        if rate is None:
            return None
        try:
            bps = float(parse_rate(rate)) if isinstance(rate, str) else float(rate)
        except UnitError as error:
            raise InputError(f"flow {self.name}: pacing_rate {error}; allowed: {error.allowed}") from None
        except (TypeError, ValueError):
            bps = math.nan
        if not LEAST_BPS <= bps <= MOST_BPS:
            raise InputError(
                f"flow {self.name}: pacing_rate {rate!r}: allowed: from {LEAST_BPS} bit/s to {MOST_BPS:.3g} bit/s"
            )
        return int(bps)
