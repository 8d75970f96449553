# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of requests: how long their responses took."""

from __future__ import annotations

from typing import Any

from narrows_formats.summary import Summary

from narrows_analysis.report import units
from narrows_analysis.report.cells import Cell, number

_NAMES = (
    "Flow", "Requests", "Complete", "First byte\nmedian", "Time\nmean", "Time\nmedian", "Time\n99 %", "Time\nmost",
)  # fmt: skip
_NOTE = (
    "Times of responses as those who asked measured them, from when the request was to be made to the last byte of the "
    "response (to the first one in the fourth column)."
)


def response_table(summary: Summary) -> dict[str, Any] | None:
    """A row for each flow of requests; None if there is none."""
    rows = []
    for flow in summary["flows"]:
        found = flow["responses"]
        if found is None:
            continue
        first, whole = found["first_byte_s"], found["time_s"]
        times = (whole["mean"], whole["p50"], whole["p99"], whole["max"]) if whole else (None,) * 4
        counts = [number(units.count(value), value) for value in (found["requests"], found["completed"])]
        rows.append(
            [
                Cell(flow["name"], flow["name"], text_column=True),
                *counts,
                *(number(units.duration(value), value) for value in (first["p50"] if first else None, *times)),
            ]
        )
    if not rows:
        return None
    columns = [{"name": name, "text": name == "Flow"} for name in _NAMES]
    return {"id": "responses", "title": "Responses", "columns": columns, "rows": rows, "note": _NOTE}
