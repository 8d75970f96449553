# SPDX-License-Identifier: Apache-2.0
"""The units of a target's telemetry, and what the target can do, as run.json has them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class TargetProfile:
    """Units of a target's telemetry, and what it can do; stored with every run as ``target_profile``.

    ``time_unit_s`` and ``timestamp_bits`` describe the report's times, ``depth_unit`` its depths, and
    ``depth_unit_bytes`` the bytes of one such unit (None where a unit has no fixed size, such as packets).
    """

    name: str
    time_unit_s: float
    timestamp_bits: int
    depth_unit: Literal["bytes", "packets", "cells"]
    depth_unit_bytes: int | None
    rate_unit: Literal["bit/s", "packets/s"]
    rate_layer: Literal["l2", "l1"]
    delay_line: bool
    flow_drop_counters: bool

    def as_json(self) -> dict[str, Any]:
        """The profile as it stands in run.json."""
        return asdict(self)
