# SPDX-License-Identifier: Apache-2.0
"""``narrows plan``."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.targets.tofino.writes.planned import PlannedWrite

TARGET = "tofino"
# So many entries of one table are shown; of longer rows the rest is counted.
SHOWN = 4


def plan(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
    inventory: Annotated[
        Path | None, typer.Option(help="The testbed (YAML).", show_default="an example with two senders")
    ] = None,
    target: Annotated[str, typer.Option(help=f"Switch to plan for: {TARGET}.")] = TARGET,
    all_entries: Annotated[bool, typer.Option("--all", help="Show every entry, however many.")] = False,
) -> None:
    """Show every write that a run would make to a switch.

    Nothing is connected to or changed.
    """
    from narrows.experiment.sweep import load_series
    from narrows.paths import data
    from narrows.targets.tofino.planner import plan as plan_writes
    from narrows.targets.tofino.testbed.inventory import load_inventory

    if target != TARGET:
        raise InputError(f"--target {target}: has no switch to write to; allowed: {TARGET}")
    from rich.console import Console

    console = Console()
    if inventory is None:
        inventory = data("deploy") / "inventory.example.yaml"
        console.print(f"no --inventory: planned for the example testbed, {inventory}", highlight=False, soft_wrap=True)
    testbed = load_inventory(inventory)
    series = load_series(file)
    for point in series.points:
        try:
            writes = plan_writes(point.experiment, testbed)
        except InputError as error:
            raise error.at(point.origin) from None
        if point.directory:
            console.print(f"{point.directory}:", style="bold", highlight=False, markup=False)
        _show(writes, console, len(writes) if all_entries else SHOWN)
        console.print(f"{len(writes)} writes to a {testbed.switch.chip} as its driver leaves it", highlight=False)


def _show(writes: list[PlannedWrite], console: Console, most: int) -> None:
    for _, row in groupby(writes, key=lambda write: (write.operation, write.table)):
        entries = list(row)
        for write in entries[:most]:
            console.print(str(write), highlight=False, markup=False, soft_wrap=True)
            console.print(f"    {write.why}", style="dim", highlight=False, markup=False, soft_wrap=True)
        if len(entries) > most:
            console.print(f"    ... and {len(entries) - most} more", style="dim", highlight=False)
