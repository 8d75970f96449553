# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of kinds of flows that have figures of their own: a table for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narrows_formats.kinds import KindOfFlow, kinds_of_flows
from narrows_formats.summary import Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import number, table, text

_SHOWN: dict[str, Callable[[float | int | None], str]] = {
    "rate": units.rate, "ratio": units.percent, "count": units.count, "duration": units.duration, "size": units.count,
}  # fmt: skip


def kind_tables(summary: Summary) -> list[dict[str, Any]]:
    """A table for each kind, with a row for each of its flows."""
    return [_table(summary, name, kind) for name, kind in kinds_of_flows().items()]


def _table(summary: Summary, name: str, kind: KindOfFlow) -> dict[str, Any]:
    wanted = [figure.name for figure in kind.figures]
    rows = [
        [
            text(flow["name"]),
            *(number(_SHOWN[figure.unit](found[figure.name]), found[figure.name]) for figure in kind.figures),
        ]
        for flow in summary["flows"]
        if (found := flow.get("figures")) is not None and list(found) == wanted
    ]
    return table(name, kind.title, ("Flow", *(figure.heading for figure in kind.figures)), rows, kind.note)
