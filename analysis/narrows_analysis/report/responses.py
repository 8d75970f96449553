# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of requests: how long their responses took."""

from __future__ import annotations

from typing import Any

import numpy as np
from narrows_formats.summary import Summary

from narrows_analysis.colors import FlowColor
from narrows_analysis.records.run_directory import Run
from narrows_analysis.report import units
from narrows_analysis.report.cells import number, table, text
from narrows_analysis.report.charts import Chart, ChartSeries

_NAMES = (
    "Flow", "Requests", "Complete", "First byte\nmedian", "Time\nmean", "Time\nmedian", "Time\n99 %", "Time\nmost",
)  # fmt: skip
_NOTE = (
    "Times of responses as those who asked measured them, from when the request was to be made to the last byte of the "
    "response (to the first one in the fourth column)."
)


def response_table(summary: Summary) -> dict[str, Any]:
    """A row for each flow of requests."""
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
                text(flow["name"]),
                *counts,
                *(number(units.duration(value), value) for value in (first["p50"] if first else None, *times)),
            ]
        )
    return table("responses", "Responses", _NAMES, rows, _NOTE)


def response_chart(run: Run, labels: list[str], colors: list[FlowColor]) -> Chart | None:
    """Distribution of the times of responses, a line for each flow of requests; None if there is none."""
    series, longest = [], 0.0
    for host, label, color in zip(run.host_records, labels, colors, strict=True):
        times = np.sort([one.done_s - one.due_s for one in host.response_series if one.done_s is not None])
        if host.video is not None or not len(times):
            continue
        # A step up at each time.
        at = np.repeat(times, 2)
        fraction = np.repeat(np.arange(len(times) + 1) / len(times), 2)[1:-1]
        series.append(ChartSeries(label, fraction, f"c{color.index}", color.tint, x=at))
        longest = max(longest, float(times[-1]))
    if not series:
        return None
    scale, unit = (1e-3, "ms") if longest < 5 else (1.0, "s")
    for line in series:
        assert line.x is not None
        line.x = line.x / scale
    return Chart(
        "cdf-responses", "Distribution of response times",
        "Over the responses that are complete, from when each request was to be made to the last byte of its response.",
        (0.0, longest / scale), "Fraction of responses", "fraction", "", series, time=False,
        x_label=f"Response time ({unit})", x_name="response time", x_unit=unit, y_max=1.0, height=240,
    )  # fmt: skip
