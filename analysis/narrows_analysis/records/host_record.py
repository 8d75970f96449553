# SPDX-License-Identifier: Apache-2.0
"""What a sender says of one connection, as the analysis uses it."""

from __future__ import annotations

from dataclasses import dataclass

from narrows_formats.connection_record import ConnectionRecord


@dataclass(frozen=True)
class HostRecord:
    """A sender's view; RTTs in seconds from TCP_INFO, series as (seconds from the origin, seconds or bytes).

    ``source`` is what the figures are labelled with, ``error`` says why there are none.
    """

    source: str | None = None
    retransmits: int | None = None
    rtt_min_s: float | None = None
    rtt_mean_s: float | None = None
    rtt_series: tuple[tuple[float, float], ...] = ()
    cwnd_series: tuple[tuple[float, float], ...] = ()
    cca: str | None = None
    # Of the data connection.
    local_port: int | None = None
    remote_port: int | None = None
    # What it wrote; of iperf3 nothing.
    record: ConnectionRecord | None = None
    error: str | None = None
