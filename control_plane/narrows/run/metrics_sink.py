# SPDX-License-Identifier: Apache-2.0
"""Shows a run's numbers to other programs while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from narrows.experiment.plan import Plan
from narrows.switch.readings import QueueStats

# The collector shows what it has received within a second; its ring and a busy machine take part of another.
SHOWN_AFTER_S = 1.5


class MetricsSink(Protocol):
    """A page of numbers that other programs can read at any time."""

    def begin(self, plan: Plan, collector: Path | None) -> None:
        """A run begins; ``collector`` is the socket of its collector's own figures, None without."""

    def queues(self, queues: Mapping[str, QueueStats]) -> None:
        """The links' queues, by name, just read."""

    def end(self) -> None:
        """The collector is about to end: what it shows now is kept."""
