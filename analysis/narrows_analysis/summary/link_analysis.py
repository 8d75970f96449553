# SPDX-License-Identifier: Apache-2.0
"""What is known of a run at one link, before it is put into words and sections."""

from __future__ import annotations

from dataclasses import dataclass

from narrows_formats.summary import FlowSummary

from narrows_analysis.aggregation.tables import Aggregation
from narrows_analysis.records.flow_table import FlowTable
from narrows_analysis.records.run_directory import Run
from narrows_analysis.summary.dual_queue import DualQueue


@dataclass(frozen=True)
class LinkAnalysis:
    """A run at one link: its flows there, the sums of their reports, and what those tell of each flow.

    ``dual_queue`` is what they tell of each of its queues, where it has those of DualPI2.
    """

    run: Run
    table: FlowTable
    aggregation: Aggregation | None
    flows: list[FlowSummary]
    dual_queue: DualQueue | None = None

    @property
    def name(self) -> str:
        """Name of the link."""
        return self.run.bottleneck.name
