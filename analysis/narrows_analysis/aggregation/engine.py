# SPDX-License-Identifier: Apache-2.0
"""narrows-collector as the engine of the analysis: one streaming pass over reports to tables of sums and extremes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from narrows_formats.files import REPORT_FILES
from narrows_formats.programs import COLLECTOR, find_binary, missing_binary
from narrows_formats.units import NANOSECONDS

from narrows_analysis.errors import AnalysisError

ACCOUNT = "aggregate.json"
PREFIX = "error: "
# Shows the depth that packets found: for targets that do not report what they leave behind.
DEPTH_FOUND = "--depth-found"


def duration_argument(seconds: float) -> str:
    """A length of time as the engine takes it."""
    return f"{round(seconds * NANOSECONDS)}ns"


def aggregate_tables(source: Path, out: Path, *options: str) -> dict[str, Any]:
    """Aggregate `source` (a capture, a telemetry directory or a run) into tables in `out`; answer aggregate.json.

    Args:
        source: where the reports are.
        out: directory for the tables.
        options: further arguments of ``narrows-collector aggregate``.

    Raises:
        AnalysisError: narrows-collector is not built, or it refuses the source; the message is its own.
    """
    _run("aggregate", str(source), "--out", str(out), *options)
    account: dict[str, Any] = json.loads((out / ACCOUNT).read_text(encoding="utf-8"))
    return account


def store_reports(capture: Path, out: Path, *options: str) -> list[Path]:
    """Write the reports of a capture as a collector would have; answer their files, in order.

    Args:
        capture: pcap or pcapng.
        out: directory for the files; it must not exist.
        options: further arguments of ``narrows-collector convert``.

    Raises:
        AnalysisError: as `aggregate_tables`.
    """
    _run("convert", str(capture), "--out", str(out), *options)
    return sorted(out.glob(REPORT_FILES))


def _run(*arguments: str) -> None:
    program = find_binary(COLLECTOR)
    if program is None:
        raise AnalysisError(missing_binary(COLLECTOR))
    result = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        last = result.stderr.strip().splitlines()[-1:] or [f"narrows-collector ended with code {result.returncode}"]
        raise AnalysisError(last[0].removeprefix(PREFIX))
