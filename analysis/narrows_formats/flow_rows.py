# SPDX-License-Identifier: Apache-2.0
"""The table of flows: its columns and rows, of which page, terminal and notebooks show what they need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from narrows_formats.flow_names import OTHER_GROUP
from narrows_formats.summary import FlowSummary, Summary, is_nearly_the_run, shown_other_share

Value = float | int | None
# Of a kind of value: the unit of a plain number, and its size.
UNITS = {
    "rate": ("Mbit/s", 1e6), "ratio": ("%", 0.01), "count": ("", 1), "duration": ("ms", 1e-3), "size": ("kB", 1e3),
}  # fmt: skip


def decimals(value: float) -> int:
    """Digits after the point of a number in a table: two, or as many as show two that are not 0."""
    return 2 if not value or abs(value) >= 0.0995 else 1 - math.floor(math.log10(abs(value)))


@dataclass(frozen=True)
class Column:
    """A column of numbers: `of` gives a flow's in SI units; `brief`: the terminal and notebooks have it too."""

    name: str
    kind: str
    of: Callable[[FlowSummary], Value]
    brief: bool = False
    # Left out where no flow has a value but 0.
    optional: bool = False
    # Left out where it is nearly the same as the share.
    of_run: bool = False

    @property
    def unit(self) -> str:
        """Of `exact` and `plain`."""
        return UNITS[self.kind][0]

    def exact(self, value: Value) -> Value:
        """A value in `unit`."""
        return value if value is None or self.kind == "count" else value / UNITS[self.kind][1]

    def plain(self, value: Value) -> Value:
        """The same to two digits after the point, or to two that are not 0."""
        exact = self.exact(value)
        return exact if exact is None or self.kind == "count" else round(exact, decimals(exact))


def _rtt(name: str) -> Callable[[FlowSummary], Value]:
    return lambda flow: (flow["rtt_s"] or {}).get(name)  # type: ignore[return-value]


SHARE = Column("share", "ratio", lambda flow: flow["share"], brief=True)
SHARE_OF_RUN = Column(
    "share of run", "ratio", lambda flow: flow["share_of_run"], brief=True,
    of_run=True,
)  # fmt: skip
COLUMNS = (
    Column("goodput", "rate", lambda flow: flow["goodput_bps"], brief=True),
    SHARE,
    SHARE_OF_RUN,
    Column("drops", "count", lambda flow: flow["drops"], brief=True),
    # Of the queue alone; "lost" is with loss emulation everywhere.
    Column("dropped", "ratio", lambda flow: flow["loss_ratio"], brief=True),
    Column("policed", "count", lambda flow: flow["policer_drops"], optional=True),
    Column("thinned", "count", lambda flow: flow["ack_filter_drops"], optional=True),
    Column("lost by emulation", "count", lambda flow: flow["loss_emulation_drops"], optional=True),
    Column("retransmitted", "ratio", lambda flow: flow["retransmit_ratio"]),
    Column("RTT mean", "duration", _rtt("mean"), brief=True),
    Column("RTT min", "duration", _rtt("min"), brief=True),
    Column("delivered", "size", lambda flow: flow["bytes"]),
    Column("in flight mean", "size", lambda flow: flow["inflight_bytes"]["mean"], optional=True),
    Column("ACKs compressed", "ratio", lambda flow: flow["ack_compression"], optional=True),
    Column("CE marks", "count", lambda flow: flow["ce_marks"], optional=True),
)


@dataclass(frozen=True)
class FlowRow:
    """A flow's name, CCA and values in the order of the columns; the traffic of others has no flow."""

    name: str
    cca: str | None
    values: list[Value]
    flow: FlowSummary | None


def flow_rows(summary: Summary, columns: tuple[Column, ...]) -> list[FlowRow]:
    """A row for each flow; traffic that is not the experiment's is last."""
    rows = [
        FlowRow(flow["name"], flow["cca"], [column.of(flow) for column in columns], flow) for flow in summary["flows"]
    ]
    link = summary["bottleneck"]
    if (other := shown_other_share(link["other_share"])) is not None:
        others = {SHARE: other, SHARE_OF_RUN: link["other_share_of_run"]}
        rows.append(FlowRow(OTHER_GROUP, "", [others.get(column) for column in columns], None))
    return rows


def plain_values(row: FlowRow, columns: tuple[Column, ...]) -> list[Value]:
    """A row's values in the columns' units."""
    return [column.plain(value) for column, value in zip(columns, row.values, strict=True)]


BRIEF = tuple(column for column in COLUMNS if column.brief)


def _needed(column: Column, summary: Summary) -> bool:
    return not (column.of_run and is_nearly_the_run(summary))


def shown_columns(summary: Summary) -> tuple[Column, ...]:
    """All columns that are needed, but of the optional ones those of which no flow has a value but 0."""
    return tuple(
        column
        for column in COLUMNS
        if _needed(column, summary) and (not column.optional or any(column.of(flow) for flow in summary["flows"]))
    )


def brief_columns(summary: Summary) -> tuple[Column, ...]:
    """Those of `BRIEF` that are needed."""
    return tuple(column for column in BRIEF if _needed(column, summary))
