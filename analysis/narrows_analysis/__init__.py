# SPDX-License-Identifier: Apache-2.0
"""From the telemetry of a bottleneck to metrics, figures and reports.

`analyze_run`, `analyze_source` and `write_report` make the results of a run or a capture; `load` opens them as pandas
frames; the package's modules `metrics`, `gallery` and `sweep` hold the metrics, the figures for a paper, and what
concerns many runs.
"""

from narrows_analysis.errors import AnalysisError
from narrows_analysis.report.page import write_report
from narrows_analysis.run_data import RunData, load
from narrows_analysis.summary.analyze import analyze_run
from narrows_analysis.summary.capture import SourceSettings, analyze_source
from narrows_analysis.summary.sections import Summary
from narrows_analysis.sweep import load_sweep, write_sweep_report

__all__ = [
    "AnalysisError",
    "RunData",
    "SourceSettings",
    "Summary",
    "analyze_run",
    "analyze_source",
    "load",
    "load_sweep",
    "write_report",
    "write_sweep_report",
]
