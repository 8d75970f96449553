# SPDX-License-Identifier: Apache-2.0
"""``narrows pack``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli import completion
from narrows.plain_text import say


def pack(
    directory: Annotated[
        Path,
        typer.Argument(help="Directory of a run or of a sweep.", show_default=False, autocompletion=completion.results),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The archive; must not exist.", show_default="NAME.tar.gz here")
    ] = None,
) -> None:
    """Pack results into one archive to publish.

    With every file's digest, and how the same runs are made again. The same results give the same bytes.
    """
    import yaml

    from narrows.batch.sweep_file import sweep_experiment
    from narrows.cli.analyze import run_directories
    from narrows.run.artifact import pack as write

    archive = out or Path(f"{directory.resolve().name}.tar.gz")
    runs = run_directories(directory)
    sweep = sweep_experiment(directory, runs)
    text = "" if sweep is None else yaml.safe_dump(sweep, sort_keys=False, allow_unicode=True)
    packed = write(directory, runs, archive, text)
    for path, _, field in packed.absent:
        say(f"not in the archive: {path} ({field})")
    say(f"{archive}: {archive.stat().st_size} bytes, SHA-256 {packed.digest}")
