# SPDX-License-Identifier: Apache-2.0
"""What a sweep's directory holds beside its runs: sweep.json, and the table and page that are made from the runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import narrows_analysis
from narrows_analysis.summary.file import read_summary
from narrows_formats import files, storage
from narrows_formats.sweep_record import SweepRecord, check

from narrows.batch import sweep_table
from narrows.errors import InputError
from narrows.run.results import give_to_user

Read = TypeVar("Read")


def is_sweep(directory: Path) -> bool:
    """Whether a directory is that of a sweep or of repetitions, not of a single run."""
    return (directory / files.SWEEP).exists()


def write_manifest(directory: Path, record: SweepRecord) -> None:
    """Write sweep.json in one step."""
    path = directory / files.SWEEP
    storage.write_json(path, check(record))
    give_to_user(path)


def read_manifest(directory: Path) -> SweepRecord:
    """Read sweep.json.

    Raises:
        InputError: it is not what this version reads; the message names the file.
    """
    # Needs what takes long to import.
    from narrows_analysis.sweep import read_record

    return _read(read_record, directory)


def write_results(directory: Path) -> Path | None:
    """Make sweep.parquet from the summaries of the runs that sweep.json lists, and the sweep's report.html from it.

    Returns:
        The page; None if no run has a summary.

    Raises:
        InputError: sweep.json or a summary is not what this version reads; the message names the file.
    """
    record = read_manifest(directory)
    table = [
        row
        for run in record["runs"]
        if (directory / run["directory"] / files.SUMMARY).exists()
        for row in sweep_table.rows(
            run["directory"],
            run["parameters"],
            run["repetition"],
            run["status"],
            _read(read_summary, directory / run["directory"]),
        )
    ]
    if not table:
        return None
    give_to_user(sweep_table.write(directory, table))
    try:
        page = narrows_analysis.write_sweep_report(directory)
    except narrows_analysis.AnalysisError as error:
        raise InputError(str(error)) from error
    give_to_user(page)
    give_to_user(directory / files.INTERVALS)
    return page


def _read(read: Callable[[Path], Read], directory: Path) -> Read:
    try:
        return read(directory)
    except narrows_analysis.AnalysisError as error:
        raise InputError(str(error)) from error
