# SPDX-License-Identifier: Apache-2.0
"""``narrows analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import narrows_analysis
import typer
from rich.console import Console

from narrows.errors import RunError
from narrows.results import RUN_FILE, give_to_user
from narrows.table import bottleneck_lines, summary_table


def run_directories(directory: Path) -> list[Path]:
    """The run directory itself, or those of a sweep.

    Raises:
        RunError: it is neither.
    """
    if (directory / RUN_FILE).exists():
        return [directory]
    found = sorted(path.parent for path in directory.glob(f"*/{RUN_FILE}") if not path.parent.name.startswith("."))
    if not found:
        raise RunError(f"{directory}: is not a run's directory (no {RUN_FILE}) and holds none")
    return found


def analyze(
    directory: Annotated[Path, typer.Argument(help="Directory of a run or of a sweep.", show_default=False)],
) -> None:
    """Work out a run's metrics and report again, from the telemetry on disk."""
    console = Console()
    for path in run_directories(directory):
        try:
            summary = narrows_analysis.analyze_run(path)
            report = narrows_analysis.write_report(path)
        except narrows_analysis.AnalysisError as error:
            raise RunError(str(error)) from error
        give_to_user(path)
        console.print(summary_table(summary, path.name))
        for line in bottleneck_lines(summary):
            console.print(line, highlight=False)
        console.print(f"report: {report}", soft_wrap=True, highlight=False)
