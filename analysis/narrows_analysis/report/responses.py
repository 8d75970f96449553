# SPDX-License-Identifier: Apache-2.0
"""A figure of a run's page: how long the responses to requests took."""

from __future__ import annotations

import numpy as np
from narrows_formats.kinds.requests import RequestsRecord
from narrows_formats.kinds.video import VideoRecord

from narrows_analysis.colors import FlowColor
from narrows_analysis.records.run_directory import Run
from narrows_analysis.report.charts import Chart, ChartSeries, FloatArray


def response_chart(run: Run, labels: list[str], colors: list[FlowColor]) -> Chart | None:
    """Distribution of the times of responses, a line for each flow of requests; None if there is none."""
    found: list[tuple[str, FlowColor, FloatArray]] = []
    for host, label, color in zip(run.host_records, labels, colors, strict=True):
        record = host.record
        if not isinstance(record, RequestsRecord) or isinstance(record, VideoRecord):
            continue
        times = np.sort([one.done_s - one.due_s for one in record.responses if one.done_s is not None])
        if len(times):
            found.append((label, color, times))
    if not found:
        return None
    longest = max(float(times[-1]) for _, _, times in found)
    scale, unit = (1e-3, "ms") if longest < 5 else (1.0, "s")
    series = []
    for label, color, times in found:
        # A step up at each time.
        at = np.repeat(times, 2) / scale
        fraction = np.repeat(np.arange(len(times) + 1) / len(times), 2)[1:-1]
        series.append(ChartSeries(label, fraction, f"c{color.index}", color.tint, x=at))
    return Chart(
        "cdf-responses", "Distribution of response times",
        "Over the responses that are complete, from when each request was to be made to the last byte of its response.",
        (0.0, longest / scale), "Fraction of responses", "fraction", "", series, time=False,
        x_label=f"Response time ({unit})", x_name="response time", x_unit=unit, y_max=1.0, height=240,
    )  # fmt: skip
