# SPDX-License-Identifier: Apache-2.0
"""What happened to a sender between two readings of its socket."""

from __future__ import annotations

from dataclasses import dataclass

from narrows_formats.units import NANOSECONDS

from narrows.api.tcp_info import TcpInfo


@dataclass(frozen=True)
class Interval:
    """From one reading of a connection to a later one; rates in bit/s of TCP payload, times in seconds."""

    before: TcpInfo
    now: TcpInfo

    @property
    def duration_s(self) -> float:
        """How long it was."""
        return (self.now.time_ns - self.before.time_ns) / NANOSECONDS

    @property
    def acked_bytes(self) -> int:
        """Payload that was acknowledged in order."""
        return self.now.bytes_acked - self.before.bytes_acked

    @property
    def delivered(self) -> int:
        """Segments that the receiver said to have received, in order or not (SACK)."""
        return self.now.delivered - self.before.delivered

    @property
    def sent(self) -> int:
        """Segments that were sent, those sent again included."""
        return self.now.segments_sent - self.before.segments_sent

    @property
    def lost(self) -> int:
        """Segments that the kernel took for lost: those that it sent again, or is yet to send again."""
        return max(0, _lost(self.now) - _lost(self.before))

    @property
    def marked(self) -> int:
        """Segments that came to the receiver with CE."""
        return self.now.delivered_ce - self.before.delivered_ce

    @property
    def throughput_bps(self) -> float:
        """Payload delivered by time."""
        return 8 * self.delivered * self.now.mss / self.duration_s if self.duration_s else 0.0

    @property
    def loss_ratio(self) -> float:
        """Of the segments that were delivered or lost, those lost."""
        known = self.delivered + self.lost
        return self.lost / known if known else 0.0

    @property
    def rtt_s(self) -> float | None:
        """Smoothed RTT at its end; None before the first sample."""
        return self.now.rtt_s


def _lost(info: TcpInfo) -> int:
    # Of those that are taken for lost at the moment, the ones under way again are among those sent again already.
    return info.retransmits + max(0, info.lost - info.resent)
