# SPDX-License-Identifier: Apache-2.0
"""``narrows doctor``."""

from __future__ import annotations

from dataclasses import dataclass

import typer
from rich.console import Console

from narrows import machine
from narrows.errors import EXIT_FAILED
from narrows.paths import COLLECTOR, find_binary, missing_binary
from narrows.state import dead_runs
from narrows.targets.registry import TARGETS


@dataclass(frozen=True)
class Finding:
    """One thing looked at; ``problem`` says what is wrong and how to fix it, empty when nothing is."""

    subject: str
    found: str
    problem: str = ""


def findings() -> list[Finding]:
    """Everything a run on this machine depends on."""
    missing_tools = machine.missing_tools()
    loadable = machine.cca_modules()
    found = [
        Finding("permissions", "root", "; ".join(machine.missing_permissions())),
        *(
            Finding("tool", tool, next((text for text in missing_tools if f"'{tool}'" in text), ""))
            for tool in machine.TOOLS
        ),
        Finding("collector", COLLECTOR, "" if find_binary(COLLECTOR) else missing_binary(COLLECTOR)),
        Finding("CCAs", ", ".join(machine.kernel_ccas())),
    ]
    if loadable:
        found.append(Finding("CCAs to load", ", ".join(loadable) + " (modprobe tcp_NAME)"))
    for name, make in TARGETS.items():
        found.append(Finding("target", name, "; ".join(make(1).missing())))
    leftover = len(dead_runs())
    found.append(
        Finding("killed runs", "none", f"{leftover} left something behind; fix: narrows clean" if leftover else "")
    )
    return found


def doctor() -> None:
    """Show what this machine can run, and how to fix what it cannot. Exit code 1 if anything is wrong."""
    console = Console()
    wrong = False
    for finding in findings():
        wrong |= bool(finding.problem)
        mark, style = ("!!", "red") if finding.problem else ("ok", "green")
        console.print(f"{mark} ", style=style, end="")
        text = f"{finding.subject}: {finding.problem or finding.found}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(EXIT_FAILED if wrong else 0)
