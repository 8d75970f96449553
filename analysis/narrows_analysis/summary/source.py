# SPDX-License-Identifier: Apache-2.0
"""Reports without a run: from a capture, or a telemetry directory by itself, to a summary."""

from __future__ import annotations

import shutil
from pathlib import Path

from narrows_formats.files import REPORT_FILES
from narrows_formats.summary import Summary

from narrows_analysis.aggregation.engine import aggregating
from narrows_analysis.records.json_files import only_files
from narrows_analysis.summary.source_settings import SourceSettings


def analyze_source(source: Path, out: Path, settings: SourceSettings | None = None) -> Summary:
    """Analyse a capture or a telemetry directory: every table of the engine, flows.parquet, queue.parquet,
    distributions.parquet, summary.json and the run.json that they refer to, in `out`.

    Memory does not grow with the length of the source. Flows are those that carry data, in the order of their arrival,
    grouped by source address.

    Raises:
        AnalysisError: the source cannot be read, holds no report or more than one run.

    Nothing is left in a new `out` then, or when it is interrupted.
    """
    settings = settings or SourceSettings()
    only_files(source)
    made = not out.exists()
    unreadable = _unreadable(source)
    options = settings.engine_options() + [word for name in unreadable for word in ("--skip", name)]
    try:
        with aggregating(source, out, *options) as tables:
            # What reads the tables takes a second to import, in which the engine has read millions of reports.
            from narrows_analysis.summary.capture import summarise

            return summarise(source, out, settings, tables(), unreadable, options)
    except BaseException:
        if made:
            shutil.rmtree(out, ignore_errors=True)
        raise


def _unreadable(source: Path) -> list[str]:
    """Names of the report files in a directory that were not finished."""
    if not source.is_dir():
        return []
    import pyarrow.parquet as pq

    names = []
    for path in sorted(source.glob(REPORT_FILES)):
        try:
            pq.read_schema(path)
        except (OSError, ValueError):
            names.append(path.name)
    return names
