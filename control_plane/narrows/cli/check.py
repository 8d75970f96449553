# SPDX-License-Identifier: Apache-2.0
"""``narrows check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.options import KernelName, LocalTarget, Settings, mode_of
from narrows.errors import InputError
from narrows.plain_text import note_line, say
from narrows.targets.registry import LOCAL, target_factory


def check(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
    target: LocalTarget = "soft",
    virtual: Annotated[bool, typer.Option("--virtual", help="For a run in virtual time.")] = False,
    kernel: KernelName = None,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Check an experiment, and say what its runs will cost here.

    Nothing is run. Every point of a sweep is checked as ``narrows run`` does before its first run.
    """
    from narrows.batch.sweep import cost
    from narrows.cli.machine_readable import print_json
    from narrows.experiment.sweep import load_series

    if target not in LOCAL:
        raise InputError(f"--target {target}: allowed: {', '.join(LOCAL)}")
    mode = mode_of(target, virtual, kernel)
    series = load_series(file, settings or ())
    found = cost(series, target_factory(target, None, None, Path(), virtual), mode)
    if as_json:
        print_json({"file": str(file), **found.as_json()})
        return
    say("\n".join([*map(note_line, found.notes), f"{file}: {found}"]))
