# SPDX-License-Identifier: Apache-2.0
"""summary.json as a file: its one writer, and its one reader, which refuses what another version wrote."""

from __future__ import annotations

from pathlib import Path

from narrows_formats import storage
from narrows_formats.decimals import as_decimals
from narrows_formats.files import SUMMARY
from narrows_formats.summary import FORMAT, Summary, check
from narrows_formats.validation import dotted
from pydantic import ValidationError

from narrows_analysis.errors import AnalysisError
from narrows_analysis.records.json_files import read_json


def write_summary(run_dir: Path, summary: Summary) -> Summary:
    """Write summary.json so that a reader sees the old file or the new one, never half of it; give what it has."""
    written = check(as_decimals(summary))
    storage.write_json(run_dir / SUMMARY, written)
    return written


def read_summary(run_dir: Path) -> Summary:
    """Read summary.json.

    Raises:
        AnalysisError: there is none, another version of the analysis wrote it, or it is damaged; the message names
            the command that makes it again.
    """
    path = run_dir / SUMMARY
    remedy = f"'narrows analyze {run_dir}' makes it from the telemetry"
    if not path.exists():
        raise AnalysisError(f"{path}: no such file; analyse the run first: {remedy}")
    summary = read_json(run_dir, SUMMARY)
    found = summary.get("format")
    if found != FORMAT:
        older = "an older" if found is None or (isinstance(found, int) and found < FORMAT) else "another"
        raise AnalysisError(f"{path}: written by {older} version of the analysis; {remedy} again")
    try:
        return check(summary)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise AnalysisError(f"{path}: {dotted(first['loc'])}: {first['msg']}; {remedy} again") from None
