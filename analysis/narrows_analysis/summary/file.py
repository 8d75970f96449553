# SPDX-License-Identifier: Apache-2.0
"""summary.json as a file: which version of its fields it has, and that it is what this version of the package reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narrows_formats import storage

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.run_directory import read_json

NAME = "summary.json"
# To be raised whenever a field is added to summary.json, renamed or given another meaning.
FORMAT = 3


def write_summary(run_dir: Path, summary: dict[str, Any]) -> None:
    """Write summary.json so that a reader sees the old file or the new one, never half of it."""
    storage.write_json(run_dir / NAME, summary)


def read_summary(run_dir: Path) -> dict[str, Any]:
    """Read summary.json.

    Raises:
        AnalysisError: there is none, or another version of the analysis wrote it; the message names the command that
            makes it again.
    """
    path = run_dir / NAME
    remedy = f"'narrows analyze {run_dir}' makes it from the telemetry"
    if not path.exists():
        raise AnalysisError(f"{path}: no such file; analyse the run first: {remedy}")
    summary = read_json(path)
    found = summary.get("format")
    if found != FORMAT:
        older = "an older" if found is None or (isinstance(found, int) and found < FORMAT) else "another"
        raise AnalysisError(f"{path}: written by {older} version of the analysis; {remedy} again")
    return summary
