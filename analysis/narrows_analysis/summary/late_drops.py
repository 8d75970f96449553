# SPDX-License-Identifier: Apache-2.0
"""Drops after the last report of their flow, which the control plane found by the switch's arrival counters."""

from __future__ import annotations

from typing import Any

from narrows_analysis.records.run_directory import Run


def drops_after_reports(run: Run) -> dict[int, int] | None:
    """Packets of each flow index that were dropped after the last one that was reported.

    None of them where each drop has a record, so that all are in other figures; None where the counters were not
    compared.
    """
    if run.bottleneck.drops_recorded:
        return {}
    checks = run.raw.get("drop_cross_check")
    check = checks.get(run.bottleneck.name) if isinstance(checks, dict) else None
    rows = check.get("flows_with_drops") if isinstance(check, dict) else None
    return counts_by_flow(rows, "after_last_report") if isinstance(rows, list) else None


def counts_by_flow(rows: list[Any], name: str) -> dict[int, int]:
    """A count of each flow index; rows that are none of ours have none."""
    found = [(row.get("flow"), row.get(name, 0)) for row in rows if isinstance(row, dict)]
    return {flow: count for flow, count in found if isinstance(flow, int) and isinstance(count, int)}
