# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of kinds of flows that have more to say: a table for each."""

from __future__ import annotations

from collections.abc import Mapping

from narrows_formats.kinds import KindOfFlow, kinds_of_flows
from narrows_formats.summary import FlowSummary, Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import Table, number, table, text


def kind_tables(summary: Summary) -> list[Table]:
    """A table for each kind, with a row for each of its flows."""
    return [_table(summary, kind) for kind in kinds_of_flows()]


def _table(summary: Summary, kind: KindOfFlow) -> Table:
    columns = kind.columns or tuple(figure.column for figure in kind.figures)
    rows = [
        [
            text(flow["name"]),
            *(number(units.TEXTS[column.unit](value := column.of(found)), value) for column in columns),
        ]
        for flow in summary["flows"]
        if (found := _of(flow, kind)) is not None
    ]
    return table(kind.id, kind.title, ("Flow", *(column.heading for column in columns)), rows, kind.note)


def _of(flow: FlowSummary, kind: KindOfFlow) -> Mapping[str, object] | None:
    """The kind's own part of a flow; None of other kinds."""
    if not kind.figures:
        part: Mapping[str, object] | None = flow[kind.id]  # type: ignore[literal-required]
        return part
    figures = flow.get("figures")
    return figures if figures is not None and list(figures) == [figure.name for figure in kind.figures] else None
