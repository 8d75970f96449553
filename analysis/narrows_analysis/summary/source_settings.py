# SPDX-License-Identifier: Apache-2.0
"""What has to be said of reports that come without a run, and what of it becomes the engine's options."""

from __future__ import annotations

from dataclasses import dataclass

from narrows_formats.units import FULL_FRAME_BYTES

from narrows_analysis.aggregation.engine import duration_argument
from narrows_analysis.aggregation.interval_lengths import queue_interval

FLOWS_INTERVAL_S = 0.1
# Intervals of the queue's series in one of the flows', where only the latter is given.
QUEUE_INTERVALS = 10


@dataclass(frozen=True)
class SourceSettings:
    """What the reports do not say; None leaves out what needs it.

    Rate in L2 bit/s, RTT without queue in seconds, buffer in bytes. `bottleneck` is the index that is analysed: the one
    with the most reports by default.
    """

    rate_bps: float | None = None
    rtt_s: float | None = None
    buffer_bytes: float | None = None
    mtu_frame_bytes: int | None = None
    bottleneck: int | None = None
    interval_s: float | None = None
    queue_interval_s: float | None = None
    time_unit_s: float | None = None
    depth_unit_bytes: int | None = None
    port: int | None = None
    from_reset: bool = False

    def engine_options(self) -> list[str]:
        """Arguments of `narrows_analysis.aggregation.engine.aggregating`."""
        flows_s = self.interval_s or max(FLOWS_INTERVAL_S, self.rtt_s or 0.0)
        options = ["--interval", duration_argument(flows_s)]
        options += ["--queue-interval", duration_argument(self.queue_interval_s or self._queue_s())]
        for name, value in (
            ("time-unit-s", self.time_unit_s),
            ("port", self.port),
            ("depth-unit-bytes", self.depth_unit_bytes),
        ):
            options += [] if value is None else [f"--{name}", str(value)]
        return [*options, "--from-reset"] if self.from_reset else options

    def _queue_s(self) -> float:
        frame_bits = 8 * (self.mtu_frame_bytes or FULL_FRAME_BYTES)
        queue_s = queue_interval(frame_bits / self.rate_bps if self.rate_bps else 0.0)
        return queue_s if self.interval_s is None else min(queue_s, self.interval_s / QUEUE_INTERVALS)
