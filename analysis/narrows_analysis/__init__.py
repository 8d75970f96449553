# SPDX-License-Identifier: Apache-2.0
"""From the telemetry of a bottleneck to metrics, figures and reports."""

from narrows_analysis.analyze import analyze_run
from narrows_analysis.errors import AnalysisError
from narrows_analysis.report.page import write_report
from narrows_analysis.summary import Summary

__all__ = ["AnalysisError", "Summary", "analyze_run", "write_report"]
