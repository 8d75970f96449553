# SPDX-License-Identifier: Apache-2.0
"""The units of a target's telemetry, and what the target can do, as run.json has them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, MinLen

# Tofino's mirror header has no room for the depth that a packet leaves behind (docs/limitations.md), and of a time only
# for the lower bits: the copy completes it as it leaves.
MIRRORING = ("tofino", "tofino2")
MIRRORED_TIME_BITS = 32


@dataclass(frozen=True, kw_only=True)
class TargetProfile:
    """Units of a target's telemetry, and what it can do; stored with every run as ``target_profile``.

    ``time_unit_s`` and ``timestamp_bits`` describe the report's times, ``depth_unit`` its depths, and
    ``depth_unit_bytes`` the bytes of one such unit (None where a unit has no fixed size, such as packets).
    With ``depth_overhead_bytes`` it is memory, of which each packet takes whole units, for its frame and so many bytes.
    ``empty_queue_delay`` is what reports give as queue delay while nothing waits, in time units; readers take it off.
    ``drop_records`` is whether each dropped packet has a record with its own time, ``random_samples`` whether which
    packets of a sample are reported is drawn: otherwise it is each n-th. ``queue_reported`` is whether reports say what
    the queue did to packets, its waits, depths, drops and marks; if not, they only say which packets left it, and when.
    What follows ``empty_queue_delay`` is None for reports without a target, of a capture.
    """

    name: Annotated[str, MinLen(1)]
    time_unit_s: Annotated[float, Gt(0)]
    timestamp_bits: int = 48
    depth_unit: Annotated[str, MinLen(1)]
    depth_unit_bytes: Annotated[int, Gt(0)] | None = None
    depth_overhead_bytes: Annotated[int, Ge(0)] | None = None
    empty_queue_delay: Annotated[int, Ge(0)] = 0
    rate_unit: Literal["bit/s", "packets/s"] | None = None
    rate_layer: Literal["l2", "l1"] | None = None
    delay_line: bool | None = None
    flow_drop_counters: bool | None = None
    drop_records: bool | None = None
    random_samples: bool | None = None
    queue_reported: bool = True

    @property
    def depth_left_reported(self) -> bool:
        """Whether reports say what a packet leaves behind in the queue."""
        return self.name not in MIRRORING

    @property
    def latest_report_s(self) -> float | None:
        """How long after its packet a report may leave; a later one is dated multiples of it too late. None: any."""
        return (1 << MIRRORED_TIME_BITS) * self.time_unit_s if self.name in MIRRORING else None

    def as_json(self) -> dict[str, object]:
        """The profile as run.json has it."""
        return asdict(self)
