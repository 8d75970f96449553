# SPDX-License-Identifier: Apache-2.0
"""``narrows plan``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from narrows.cli import completion
from narrows.errors import InputError
from narrows.targets.registry import TOFINO

if TYPE_CHECKING:
    from narrows_tofino.writes.planned import PlannedWrite
    from rich.console import Console

    from narrows.experiment.model import Experiment
    from narrows.targets.soft.planner import PlannedSetting

EXAMPLES = {"soft": "soft-inventory.example.yaml", TOFINO: "inventory.example.yaml"}
Planned: TypeAlias = "PlannedWrite | PlannedSetting"
# Entries of one table that are shown; the rest of longer ones is counted.
SHOWN = 4


def plan(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
    inventory: Annotated[
        Path | None, typer.Option(help="The testbed (YAML).", show_default="an example with two senders")
    ] = None,
    target: Annotated[
        str, typer.Option(help=f"Switch to plan for: {', '.join(EXAMPLES)}.", autocompletion=completion.of(EXAMPLES))
    ] = TOFINO,
    all_entries: Annotated[bool, typer.Option("--all", help="Show every entry, however many.")] = False,
) -> None:
    """Show every write that a run would make to a switch.

    Nothing is connected to or changed.
    """
    from narrows.experiment.sweep import load_series
    from narrows.paths import data

    if target not in EXAMPLES:
        raise InputError(f"--target {target}: cannot be planned for; allowed: {', '.join(EXAMPLES)}")
    from rich.console import Console

    console = Console()
    if inventory is None:
        inventory = data("deploy") / EXAMPLES[target]
        console.print(f"no --inventory: planned for the example testbed, {inventory}", highlight=False, soft_wrap=True)
    writes_of, switch = _planner(target, inventory)
    series = load_series(file)
    for point in series.points:
        try:
            writes = writes_of(point.experiment)
        except InputError as error:
            raise error.at(point.origin) from None
        if point.directory:
            console.print(f"{point.directory}:", style="bold", highlight=False, markup=False)
        _show(writes, console, len(writes) if all_entries else SHOWN)
        console.print(f"{len(writes)} writes to a {switch}", highlight=False)


def _planner(target: str, inventory: Path) -> tuple[Callable[[Experiment], Sequence[Planned]], str]:
    """What plans an experiment in a testbed, and what the switch is called."""
    if target == TOFINO:
        from narrows_tofino.planner import plan as plan_writes
        from narrows_tofino.testbed.inventory import load_inventory

        testbed = load_inventory(inventory)
        return lambda experiment: plan_writes(experiment, testbed), f"{testbed.switch.chip} as its driver leaves it"
    from narrows.targets.soft.inventory import load_inventory as load_lab
    from narrows.targets.soft.planner import plan as plan_settings

    lab = load_lab(inventory)
    return lambda experiment: plan_settings(experiment, lab), "softswitch and the machines around it"


def _show(writes: Sequence[Planned], console: Console, most: int) -> None:
    for _, row in groupby(writes, key=lambda write: (write.operation, write.table)):
        entries = list(row)
        for write in entries[:most]:
            console.print(str(write), highlight=False, markup=False, soft_wrap=True)
            console.print(f"    {write.why}", style="dim", highlight=False, markup=False, soft_wrap=True)
        if len(entries) > most:
            console.print(f"    ... and {len(entries) - most} more", style="dim", highlight=False)
