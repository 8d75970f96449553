# SPDX-License-Identifier: Apache-2.0
"""Figures of a run's page: bitrate, buffer and stalls of video players above the queue."""

from __future__ import annotations

import numpy as np
from narrows_formats.kinds.video import VideoRecord

from narrows_analysis.records.run_directory import Run
from narrows_analysis.report.charts import Chart, ChartSeries

MBIT = 1e6
STALL_COLOR, STALL_WIDTH = "c1", 5.0


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
        record = host.record
        if not isinstance(record, VideoRecord):
            continue
        stalls = _stalls(record)
        bar = "; the bar at the bottom: stalled" if stalls else ""
        bitrate = Chart(
            f"video-bitrate-{position}", f"Bitrate of {label}",
            f"Of the segment that is being fetched, or was fetched last{bar}.",
            x_range, "Bitrate (Mbit/s)", "bitrate", "Mbit/s", [_bitrate(record, x_range[1]), *stalls], height=220,
            labels=False,
        )  # fmt: skip
        level = Chart(
            f"video-buffer-{position}", f"Buffer of {label}",
            f"Seconds of video that the player holds{bar}.",
            x_range, "Buffer (s)", "buffer", "s", [_buffer(record, x_range[1]), *stalls], height=220, labels=False,
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


def _bitrate(record: VideoRecord, end_s: float) -> ChartSeries:
    """The bitrate from each request on, the last one up to the end."""
    asked = [one for one in record.responses if one.bitrate_bps is not None]
    ends = [one.due_s for one in asked[1:]] + [max(end_s, one.due_s) for one in asked[-1:]]
    times = np.array([time for one, end in zip(asked, ends, strict=True) for time in (one.due_s, end)])
    values = np.repeat([float(one.bitrate_bps or 0.0) / MBIT for one in asked], 2)
    return ChartSeries("bitrate", values, "c0", x=times)


def _buffer(record: VideoRecord, end_s: float) -> ChartSeries:
    """What is held: it falls by a second in a second while it is played, and rises by a segment at once."""
    points: list[tuple[float, float]] = []
    for one in record.responses:
        if one.done_s is not None and one.buffer_s is not None:
            points += [(one.done_s, one.buffer_s - record.video.segment_s), (one.done_s, one.buffer_s)]
    if points and not any(begin > points[-1][0] for begin, _ in record.video.stalls):
        last_s, held_s = points[-1]
        points.append((max(end_s, last_s), max(0.0, held_s - max(0.0, end_s - last_s))))
    points += [(begin, 0.0) for begin, _ in record.video.stalls]
    # A stall ends with a segment: sorted by time, what is held before the segment comes first.
    points.sort(key=lambda point: point[0])
    times, values = np.array(points).T if points else (np.array([]), np.array([]))
    return ChartSeries("buffer", values, "c0", x=times)


def _stalls(record: VideoRecord) -> list[ChartSeries]:
    """A bar at the bottom for each stall; none if there was none."""
    if not record.video.stalls:
        return []
    times = np.array([time for begin, end in record.video.stalls for time in (begin, end, end)])
    values = np.tile([0.0, 0.0, np.nan], len(record.video.stalls))
    return [ChartSeries("stalled", values, STALL_COLOR, x=times, width=STALL_WIDTH)]
