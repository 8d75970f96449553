# SPDX-License-Identifier: Apache-2.0
"""What has to be said of reports that come without a run, and what of it becomes the engine's options."""

from __future__ import annotations

from dataclasses import dataclass

from narrows_analysis.aggregation.engine import duration_argument

FLOWS_INTERVAL_S = 0.1
QUEUE_INTERVAL_S = 1e-3
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
        queue_s = self.queue_interval_s
        if queue_s is None:
            flows_s = self.interval_s
            queue_s = QUEUE_INTERVAL_S if flows_s is None else min(QUEUE_INTERVAL_S, flows_s / QUEUE_INTERVALS)
        options = ["--interval", duration_argument(self.interval_s or FLOWS_INTERVAL_S)]
        options += ["--queue-interval", duration_argument(queue_s)]
        for name, value in (
            ("time-unit-s", self.time_unit_s),
            ("port", self.port),
            ("depth-unit-bytes", self.depth_unit_bytes),
        ):
            options += [] if value is None else [f"--{name}", str(value)]
        return [*options, "--from-reset"] if self.from_reset else options
