# SPDX-License-Identifier: Apache-2.0
"""``narrows runs``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from narrows_formats import files

from narrows.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ("rate\nMbit/s", "flows", "utilized\n%", "lost\n%", "queue delay\np99, ms", "Jain")


def runs(
    directory: Annotated[Path, typer.Argument(help="Where results are.")] = Path("results"),
) -> None:
    """List runs and sweeps with their main figures, newest first."""
    from rich.console import Console
    from rich.table import Table

    if not directory.is_dir():
        raise InputError(f"{directory}: is not a directory; allowed: one that has runs in it")
    found = sorted(_rows(directory), key=lambda row: row[0], reverse=True)
    table = Table("started", "run", "status")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for row in found:
        table.add_row(*row)
    console = Console()
    console.print(table if found else f"{directory} has no runs; begin with: narrows run FILE", highlight=False)


def _rows(directory: Path) -> Iterator[tuple[str, ...]]:
    for path in sorted(directory.glob("*/")):
        if path.name.startswith("."):
            continue
        if (path / files.SWEEP).exists():
            sweep = _read(path / files.SWEEP)
            done = sweep.get("runs", [])
            first = _read(path / done[0]["directory"] / files.RUN) if done else {}
            status = "complete" if len(done) == sweep.get("points") else f"{len(done)} of {sweep.get('points')} runs"
            yield _started(first), f"{path.name}/", status, *("" for _ in COLUMNS)
        elif (path / files.RUN).exists():
            run = _read(path / files.RUN)
            yield _started(run), path.name, str(run.get("status", "")), *_figures(_read(path / files.SUMMARY))


def _figures(summary: dict[str, Any]) -> Iterator[str]:
    from narrows.cli.table import scaled

    link, fairness = summary.get("bottleneck", {}), summary.get("fairness", {})
    yield scaled(link.get("rate_bps"), 1e-6)
    yield str(len(summary.get("flows", [])))
    yield scaled(link.get("utilization"), 100)
    yield scaled(link.get("loss_ratio"), 100)
    yield scaled(link.get("queue_delay_s", {}).get("p99"), 1e3)
    yield scaled(fairness.get("jain_index"), 1)


def _read(path: Path) -> dict[str, Any]:
    """A JSON file; empty where it is not there, or is not one."""
    import json

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _started(run: dict[str, Any]) -> str:
    """To the second, in UTC."""
    return str(run.get("started") or "-")[:19].replace("T", " ")
