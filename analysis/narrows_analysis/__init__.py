# SPDX-License-Identifier: Apache-2.0
"""From the telemetry of a bottleneck to metrics, figures and reports.

`analyze_run`, `analyze_source` and `write_report` make the results of a run or a capture; `load` opens them as pandas
frames; the package's modules `metrics`, `gallery` and `sweep` hold the metrics, the figures for a paper, and what
concerns many runs. What these names stand for is imported when one is used: pandas takes a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows_formats.summary import Summary

    from narrows_analysis.errors import AnalysisError
    from narrows_analysis.interchange.either_side import analyze_captures
    from narrows_analysis.loaded_sweep import LoadedSweep
    from narrows_analysis.loading import LoadedRun, LoadedStudy, load
    from narrows_analysis.records.run_directory import read_run
    from narrows_analysis.report.page import write_report
    from narrows_analysis.run_data import RunData
    from narrows_analysis.summary.analyze import analyze_run
    from narrows_analysis.summary.source import analyze_source
    from narrows_analysis.summary.source_settings import SourceSettings
    from narrows_analysis.sweep import Sweep, load_sweep, write_sweep_report

__all__ = [
    "AnalysisError",
    "LoadedRun",
    "LoadedStudy",
    "LoadedSweep",
    "NoReports",
    "RunData",
    "SourceSettings",
    "Summary",
    "Sweep",
    "analyze_captures",
    "analyze_run",
    "analyze_source",
    "load",
    "load_sweep",
    "read_run",
    "write_report",
    "write_sweep_report",
]

_MODULES = {
    "AnalysisError": "errors",
    "NoReports": "errors",
    "RunData": "run_data",
    "SourceSettings": "summary.source_settings",
    "Sweep": "sweep",
    "analyze_captures": "interchange.either_side",
    "analyze_run": "summary.analyze",
    "analyze_source": "summary.source",
    "LoadedRun": "loading",
    "LoadedStudy": "loading",
    "LoadedSweep": "loaded_sweep",
    "load": "loading",
    "load_sweep": "sweep",
    "read_run": "records.run_directory",
    "write_report": "report.page",
    "write_sweep_report": "sweep",
}


def __getattr__(name: str) -> Any:
    if name == "Summary":
        return import_module("narrows_formats.summary").Summary
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
