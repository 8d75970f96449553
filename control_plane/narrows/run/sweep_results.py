# SPDX-License-Identifier: Apache-2.0
"""What a sweep's directory holds beside its runs: sweep.json, and the table and page that are made from the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import narrows_analysis
from narrows_analysis.summary.file import read_summary
from narrows_formats import storage
from narrows_formats.summary import Summary

from narrows.errors import InputError
from narrows.run import sweep_table
from narrows.run.results import give_to_user

MANIFEST = "sweep.json"


def is_sweep(directory: Path) -> bool:
    """Whether a directory is that of a sweep or of repetitions, not of a single run."""
    return (directory / MANIFEST).exists()


def write_manifest(directory: Path, data: dict[str, Any]) -> None:
    """Write sweep.json in one step."""
    path = directory / MANIFEST
    storage.write_json(path, data)
    give_to_user(path)


def write_results(directory: Path) -> Path | None:
    """Make sweep.parquet from the summaries of the runs that sweep.json lists, and the sweep's report.html from it.

    Returns:
        The page; None if no run has a summary, or if nothing was swept (repetitions of one experiment).

    Raises:
        InputError: sweep.json or a summary is not what this version reads; the message names the file.
    """
    manifest = _manifest(directory)
    table = [
        row
        for run in manifest["runs"]
        if (directory / run["directory"] / "summary.json").exists()
        for row in sweep_table.rows(
            run["directory"],
            run["parameters"],
            run["repetition"],
            run["status"],
            _summary(directory / run["directory"]),
        )
    ]
    if not table:
        return None
    give_to_user(sweep_table.write(directory, table))
    if not manifest["sweep"]:
        return None
    try:
        page = narrows_analysis.write_sweep_report(directory)
    except narrows_analysis.AnalysisError as error:
        raise InputError(str(error)) from error
    give_to_user(page)
    give_to_user(directory / "intervals.csv")
    return page


def _summary(directory: Path) -> Summary:
    try:
        return read_summary(directory)
    except narrows_analysis.AnalysisError as error:
        raise InputError(str(error)) from error


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from error
    fields = {"directory", "parameters", "repetition", "status"}
    runs = data.get("runs") if isinstance(data, dict) else None
    if (
        not isinstance(runs, list)
        or not isinstance(data.get("sweep"), dict)
        or not all(isinstance(run, dict) and fields <= run.keys() for run in runs)
    ):
        raise InputError(f"{path}: is not a sweep's; allowed: what 'narrows run' wrote")
    return dict(data)
