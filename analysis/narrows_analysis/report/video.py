# SPDX-License-Identifier: Apache-2.0
"""What a run's page shows of video players: a table, and a figure of bitrate, buffer and stalls above the queue."""

from __future__ import annotations

from typing import Any

import numpy as np
from narrows_formats.summary import Summary

from narrows_analysis.records.host_record import HostRecord
from narrows_analysis.records.run_directory import Run
from narrows_analysis.report import units
from narrows_analysis.report.cells import number, table, text
from narrows_analysis.report.charts import Chart, ChartSeries

MBIT = 1e6
STALL_COLOR, STALL_WIDTH = "c1", 5.0
_NAMES = (
    "Flow", "Segments", "Bitrate\nmean", "Switches", "Stalls", "Stalled", "Stalled\n(%)", "First picture\nafter",
)  # fmt: skip
_NOTE = (
    "As the players measured it: bitrate of the segments that were fetched, switches between two of them, stalls (time "
    "without anything to play) and their part of the time since the first picture."
)


def video_table(summary: Summary) -> dict[str, Any]:
    """A row for each player."""
    rows = []
    for flow in summary["flows"]:
        found = flow["video"]
        if found is None:
            continue
        rows.append(
            [
                text(flow["name"]),
                number(units.count(found["segments"]), found["segments"]),
                number(units.rate(found["bitrate_bps"]), found["bitrate_bps"]),
                number(units.count(found["switches"]), found["switches"]),
                number(units.count(found["stalls"]), found["stalls"]),
                number(units.duration(found["stall_s"]), found["stall_s"]),
                number(units.percent(found["stall_ratio"]), found["stall_ratio"]),
                number(units.duration(found["startup_s"]), found["startup_s"]),
            ]
        )
    return table("video", "Video", _NAMES, rows, _NOTE)


def video_charts(run: Run, labels: list[str], x_range: tuple[float, float], delay: Chart | None) -> list[Chart]:
    """Charts of each player, one above the other on one axis of time: its bitrate, its buffer, and the queue's delay.

    Args:
        run: whose players they are.
        labels: names of its flows.
        x_range: of the page's charts, in seconds.
        delay: queue delay over time; None where there is no one queue.
    """
    charts: list[Chart] = []
    for position, (host, label) in enumerate(zip(run.host_records, labels, strict=True)):
        if host.video is None:
            continue
        stalls = _stalls(host)
        bar = "; the bar at the bottom: stalled" if stalls else ""
        bitrate = Chart(
            f"video-bitrate-{position}", f"Bitrate of {label}",
            f"Of the segment that is being fetched, or was fetched last{bar}.",
            x_range, "Bitrate (Mbit/s)", "bitrate", "Mbit/s", [_bitrate(host, x_range[1]), *stalls], height=220,
            labels=False,
        )  # fmt: skip
        level = Chart(
            f"video-buffer-{position}", f"Buffer of {label}",
            f"Seconds of video that the player holds{bar}.",
            x_range, "Buffer (s)", "buffer", "s", [_buffer(host, x_range[1]), *stalls], height=220, labels=False,
        )  # fmt: skip
        charts += [bitrate, level]
        if delay is not None:
            # The queue's own chart again, where stalls and bitrate can be seen with it.
            changed = {
                "id": f"video-delay-{position}", "title": f"Queue delay under {label}", "height": 220,
                "caption": f"Time that packets waited in the switch: mean, shortest and longest{bar}.",
            }  # fmt: skip
            charts.append(Chart(**{**vars(delay), **changed, "series": [*delay.series, *stalls]}))
    return charts


def _bitrate(host: HostRecord, end_s: float) -> ChartSeries:
    """The bitrate from each request on, the last one up to the end."""
    asked = [one for one in host.response_series if one.bitrate_bps is not None]
    ends = [one.due_s for one in asked[1:]] + [max(end_s, one.due_s) for one in asked[-1:]]
    times = np.array([time for one, end in zip(asked, ends, strict=True) for time in (one.due_s, end)])
    values = np.repeat([float(one.bitrate_bps or 0.0) / MBIT for one in asked], 2)
    return ChartSeries("bitrate", values, "c0", x=times)


def _buffer(host: HostRecord, end_s: float) -> ChartSeries:
    """What is held: it falls by a second in a second while it is played, and rises by a segment at once."""
    assert host.video is not None
    points: list[tuple[float, float]] = []
    for one in host.response_series:
        if one.done_s is not None and one.buffer_s is not None:
            points += [(one.done_s, one.buffer_s - host.video.segment_s), (one.done_s, one.buffer_s)]
    if points and not any(begin > points[-1][0] for begin, _ in host.video.stalls):
        last_s, held_s = points[-1]
        points.append((max(end_s, last_s), max(0.0, held_s - max(0.0, end_s - last_s))))
    points += [(begin, 0.0) for begin, _ in host.video.stalls]
    # A stall ends with a segment: sorted by time, what is held before the segment comes first.
    points.sort(key=lambda point: point[0])
    times, values = np.array(points).T if points else (np.array([]), np.array([]))
    return ChartSeries("buffer", values, "c0", x=times)


def _stalls(host: HostRecord) -> list[ChartSeries]:
    """A bar at the bottom for each stall; none if there was none."""
    assert host.video is not None
    if not host.video.stalls:
        return []
    times = np.array([time for begin, end in host.video.stalls for time in (begin, end, end)])
    values = np.tile([0.0, 0.0, np.nan], len(host.video.stalls))
    return [ChartSeries("stalled", values, STALL_COLOR, x=times, width=STALL_WIDTH)]
