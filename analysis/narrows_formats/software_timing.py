# SPDX-License-Identifier: Apache-2.0
"""What software did to links at times of its own, where a switch has no schedules; run.json has both as here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(kw_only=True)
class AppliedSteps:
    """Steps of a link's rate: times in ns from the experiment's start on.

    A step that was due at ``planned_ns`` was made between ``begun_ns`` and ``achieved_ns``, when it had been read back;
    ``largest_error_ns`` is how late the latest was, None without any.
    """

    timed_by: Literal["software"] = "software"
    finest_step_ns: int
    planned_ns: list[int] = field(default_factory=list)
    begun_ns: list[int] = field(default_factory=list)
    achieved_ns: list[int] = field(default_factory=list)
    rate_bps: list[int] = field(default_factory=list)
    largest_error_ns: int | None = None

    def add(self, planned_ns: int, begun_ns: int, achieved_ns: int, rate_bps: int) -> None:
        """Note a step that was made."""
        self.planned_ns.append(planned_ns)
        self.begun_ns.append(begun_ns)
        self.achieved_ns.append(achieved_ns)
        self.rate_bps.append(rate_bps)
        late_ns = achieved_ns - planned_ns
        self.largest_error_ns = late_ns if self.largest_error_ns is None else max(self.largest_error_ns, late_ns)


@dataclass(kw_only=True)
class AppliedUpdates:
    """Updates of a queue's probability: how many were made, how many left out, and how late the latest was."""

    timed_by: Literal["software"] = "software"
    period_ns: int
    made: int = 0
    missed: int = 0
    largest_error_ns: int = 0
    largest_probability: float = 0.0
