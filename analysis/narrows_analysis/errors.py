# SPDX-License-Identifier: Apache-2.0
"""What bad input to the analysis raises."""

from __future__ import annotations


class AnalysisError(ValueError):
    """A run directory, or a file in it, that cannot be analysed; the message names the file and what is allowed."""


class NoReports(AnalysisError):
    """A capture that has no telemetry report, nor anything that looks like a damaged one."""
