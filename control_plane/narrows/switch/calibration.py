# SPDX-License-Identifier: Apache-2.0
"""What a calibration reads from a switch, and what it concludes from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class QueueFacts:
    """What a target says of its bottleneck's queue after the queue was kept full.

    ``shaper_bps`` is the rate that was set in the shaper's own bytes, to each packet of which it adds
    ``compensation_bytes``. ``limit`` and ``deepest`` are in ``depth_unit``. ``moved`` are drop counters that have moved
    and are not the queue's, by name. ``device`` identifies the switch for targets that keep what was measured of it.
    """

    shaper_bps: float
    compensation_bytes: int
    limit: int
    deepest: int
    moved: Mapping[str, int] = field(default_factory=dict)
    depth_unit: str = "B"
    device: Mapping[str, str | int] = field(default_factory=dict)


class MeasuredRate(NamedTuple):
    """A rate in the shaper's own bytes as it was set, and as it was."""

    set_bps: float
    measured_bps: float


@dataclass(frozen=True)
class Findings:
    """What a calibration has found; see `QueueFacts` for the depths and the device."""

    shaper_bytes: int
    rates: tuple[MeasuredRate, ...]
    limit: int
    overshoot: int
    depth_unit: str
    latency_ns: int
    moved: tuple[str, ...]
    rate_step_ns: int | None
    device: Mapping[str, str | int]
