# SPDX-License-Identifier: Apache-2.0
"""``narrows report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli import completion
from narrows.errors import InputError
from narrows.plain_text import say


def report(
    directory: Annotated[
        Path,
        typer.Argument(help="Directory of a run or of a sweep.", show_default=False, autocompletion=completion.results),
    ],
    open_report: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Write report.html again, and print its path.

    Of a run, or of a sweep and all its runs, from analysed results.
    """
    import narrows_analysis

    from narrows.batch import sweep_results
    from narrows.cli.analyze import run_directories
    from narrows.cli.browser import open_page
    from narrows.run.results import give_to_user

    for path in run_directories(directory):
        try:
            written = narrows_analysis.write_report(path)
        except narrows_analysis.AnalysisError as error:
            raise InputError(str(error)) from error
        give_to_user(written)
        say(written)
    if sweep_results.is_sweep(directory) and (page := sweep_results.write_results(directory)) is not None:
        say(page)
        written = page
    if open_report:
        open_page(written)
