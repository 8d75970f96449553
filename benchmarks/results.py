# SPDX-License-Identifier: Apache-2.0
"""What a benchmark hands back, and the two files that a run of benchmarks leaves: JSON and Markdown."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host import Description

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


def write(
    outcomes: dict[str, Outcome], host: Description, command: str, stem: Path, note: str = SPREAD
) -> tuple[Path, Path]:
    """Write ``stem.json`` and ``stem.md``, which says ``note`` at its beginning; returns both paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "format": 1,
        "command": command,
        "host": host,
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
    as_json.write_text(json.dumps(document, indent=1) + "\n")
    as_markdown.write_text(_markdown(outcomes, host, command, note))
    return as_json, as_markdown


def _markdown(outcomes: dict[str, Outcome], host: Description, command: str, note: str) -> str:
    parts = ["# Benchmark results", f"Command: `{command}`", note]
    machine = Table(("Machine", ""), [(key, str(value)) for key, value in host.items()])
    parts.append(machine.markdown())
    for name, outcome in outcomes.items():
        parts += [f"## {outcome.title} (`{name}`)", outcome.conditions]
        parts += [table.markdown() for table in outcome.tables]
        parts += [f"Not run: {line}" for line in outcome.skipped]
        if outcome.commands:
            parts.append("Commands:\n\n```\n" + "\n".join(outcome.commands) + "\n```")
    return "\n\n".join(parts) + "\n"
