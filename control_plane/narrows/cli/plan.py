# SPDX-License-Identifier: Apache-2.0
"""``narrows plan``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli import completion
from narrows.errors import InputError
from narrows.targets.registry import DEFAULT_IN_A_LAB, IN_A_LAB, lab_target, target_factory

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.targets.lab import PlannedWrite

# Entries of one table that are shown; the rest of longer ones is counted.
SHOWN = 4


def plan(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
    inventory: Annotated[
        Path | None, typer.Option(help="The testbed (YAML).", show_default="an example with two senders")
    ] = None,
    target: Annotated[
        str, typer.Option(help=f"Switch to plan for: {', '.join(IN_A_LAB)}.", autocompletion=completion.of(IN_A_LAB))
    ] = DEFAULT_IN_A_LAB,
    all_entries: Annotated[bool, typer.Option("--all", help="Show every entry, however many.")] = False,
) -> None:
    """Show every write that a run would make to a switch.

    Nothing is connected to or changed.
    """
    from narrows.experiment.sweep import load_series
    from narrows.run import runner
    from narrows.terminal import Terminal

    if target not in IN_A_LAB:
        raise InputError(f"--target {target}: cannot be planned for; allowed: {', '.join(IN_A_LAB)}")

    console = Terminal()
    lab = lab_target(target)
    if inventory is None:
        inventory = lab.example_inventory()
        console.print(f"no --inventory: planned for the example testbed, {inventory}", highlight=False, soft_wrap=True)
    planner, make_target = lab.planner(inventory), target_factory(target, inventory=inventory)
    series = load_series(file)
    for point in series.points:
        # What the switch could do is not done where something else keeps the experiment from being run as written.
        _, refused = runner.planned(point.experiment, make_target(point.experiment), point.origin)
        if refused:
            raise InputError("\n".join(refused))
        try:
            writes = planner.writes(point.experiment)
        except InputError as error:
            raise error.at(point.origin) from None
        if point.directory:
            console.print(f"{point.directory}:", style="bold", highlight=False, markup=False)
        _show(writes, console, len(writes) if all_entries else SHOWN)
        console.print(f"{len(writes)} writes to a {planner.switch}", highlight=False)


def _show(writes: Sequence[PlannedWrite], console: Console, most: int) -> None:
    for _, row in groupby(writes, key=lambda write: (write.operation, write.table)):
        entries = list(row)
        for write in entries[:most]:
            console.print(str(write), highlight=False, markup=False, soft_wrap=True)
            console.print(f"    {write.why}", style="dim", highlight=False, markup=False, soft_wrap=True)
        if len(entries) > most:
            console.print(f"    ... and {len(entries) - most} more", style="dim", highlight=False)
