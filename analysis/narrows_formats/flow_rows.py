# SPDX-License-Identifier: Apache-2.0
"""The table of flows that a run ends with, the same at the terminal and in a notebook: its columns, units and rows."""

from __future__ import annotations

from narrows_formats.flow_names import OTHER_GROUP
from narrows_formats.summary import Summary, shown_other_share

# Name and unit of each column of numbers; before them are the flow's name and its CCA.
NUMBERS = (
    ("goodput", "Mbit/s"),
    ("share", "%"),
    ("drops", ""),
    ("loss", "%"),
    ("RTT mean", "ms"),
    ("RTT min", "ms"),
)

FlowRow = tuple[str, str | None, list[float | int | None]]


def flow_rows(summary: Summary) -> list[FlowRow]:
    """Name, CCA and numbers, in the units of `NUMBERS`, of each flow; traffic that is not the experiment's is last."""
    rows: list[FlowRow] = []
    for flow in summary["flows"]:
        rtt = flow["rtt_s"] or {"mean": None, "min": None}
        numbers: list[float | int | None] = [
            scaled(flow["goodput_bps"], 1e-6),
            scaled(flow["share"], 100),
            flow["drops"],
            scaled(flow["loss_ratio"], 100),
            scaled(rtt["mean"], 1e3),
            scaled(rtt["min"], 1e3),
        ]
        rows.append((flow["name"], flow["cca"], numbers))
    if (other := shown_other_share(summary["bottleneck"]["other_share"])) is not None:
        rows.append((OTHER_GROUP, "", [None, scaled(other, 100), None, None, None, None]))
    return rows


def scaled(value: float | None, factor: float) -> float | None:
    """A number times ``factor`` to two digits after the point; None stays None."""
    return None if value is None else round(value * factor, 2)
