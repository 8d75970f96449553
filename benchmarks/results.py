# SPDX-License-Identifier: Apache-2.0
"""What a benchmark hands back, and the two files that a run of benchmarks leaves: JSON and Markdown."""

from __future__ import annotations

import datetime
import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import host

DIRECTORY = Path(__file__).parent / "results"

SPREAD = "Figures are median (least to greatest) over the runs."


@dataclass
class Table:
    """A table of text for the Markdown file."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    caption: str = ""

    def markdown(self) -> str:
        """The table with its caption before it."""
        lines = [f"| {' | '.join(self.header)} |", f"|{'---|' * len(self.header)}"]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return (f"{self.caption}\n\n" if self.caption else "") + "\n".join(lines)


@dataclass
class Outcome:
    """One benchmark's result.

    Attributes:
        title: heading.
        conditions: one paragraph: what was run, how, and what the figures mean.
        tables: for the Markdown file.
        data: every figure of every run, for the JSON file.
        commands: the commands that were run, as far as they are not this program itself.
        skipped: what could not be run here, one line each.
    """

    title: str
    conditions: str
    tables: list[Table]
    data: dict[str, Any]
    commands: list[str]
    skipped: list[str] = field(default_factory=list)


Benchmark = Callable[[int], Outcome]


def with_programs(title: str, *programs: str) -> Callable[[Benchmark], Benchmark]:
    """Has a benchmark say that it was not run where a program is not installed."""

    def guarded(benchmark: Benchmark) -> Benchmark:
        @wraps(benchmark)
        def run(runs: int) -> Outcome:
            if lacks := [program for program in programs if shutil.which(program) is None]:
                return Outcome(title, "Not run.", [], {}, [], [f"{program} is not installed" for program in lacks])
            return benchmark(runs)

        return run

    return guarded


def write(
    outcomes: dict[str, Outcome],
    machine: host.Description,
    command: Sequence[str],
    stem: Path | None,
    *,
    kind: str = "",
    note: str = SPREAD,
) -> tuple[Path, Path]:
    """Write ``stem.json`` and ``stem.md``; returns both paths.

    Args:
        outcomes: by the benchmark's name.
        machine: as it was found at the start; the load is added as it is now.
        command: what was typed.
        stem: path without suffix; None is ``benchmarks/results/DATE-MACHINE`` with ``kind`` at its end.
        kind: what sort of results, if there is more than one.
        note: what the Markdown file says at its beginning.
    """
    stem = stem or DIRECTORY / "-".join(filter(None, (str(datetime.date.today()), host.kind(), kind)))
    stem.parent.mkdir(parents=True, exist_ok=True)
    machine = {**machine, "load average at end": host.load()}
    document = {
        "format": 1,
        "command": shlex.join(command),
        "host": machine,
        "benchmarks": {
            name: {
                "conditions": outcome.conditions,
                "commands": outcome.commands,
                "skipped": outcome.skipped,
                **outcome.data,
            }
            for name, outcome in outcomes.items()
        },
    }
    as_json, as_markdown = stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.md")
    # The other one is for readers.
    as_json.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    as_markdown.write_text(_markdown(outcomes, machine, shlex.join(command), note))
    return as_json, as_markdown


def _markdown(outcomes: dict[str, Outcome], found: host.Description, command: str, note: str) -> str:
    parts = ["# Benchmark results", f"Command: `{command}`", note]
    machine = Table(("Machine", ""), [(key, str(value)) for key, value in found.items()])
    parts.append(machine.markdown())
    for name, outcome in outcomes.items():
        parts += [f"## {outcome.title} (`{name}`)", outcome.conditions]
        parts += [table.markdown() for table in outcome.tables]
        parts += [f"Not run: {line}" for line in outcome.skipped]
        if outcome.commands:
            parts.append("Commands:\n\n```\n" + "\n".join(outcome.commands) + "\n```")
    return "\n\n".join(parts) + "\n"
