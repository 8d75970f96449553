# SPDX-License-Identifier: Apache-2.0
"""``narrows report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import narrows_analysis
import typer

from narrows.cli.analyze import run_directories
from narrows.errors import RunError
from narrows.results import give_to_user


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a run or of a sweep.", show_default=False)],
) -> None:
    """Write a run's report.html from its analysed results and print its path."""
    for path in run_directories(directory):
        try:
            written = narrows_analysis.write_report(path)
        except narrows_analysis.AnalysisError as error:
            raise RunError(str(error)) from error
        give_to_user(written)
        print(written)
