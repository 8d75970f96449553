# SPDX-License-Identifier: Apache-2.0
"""``narrows doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli import completion
from narrows.cli.options import Inventory
from narrows.errors import EXIT_FAILED
from narrows.targets.registry import LOCAL, NAMES, check_options, lab_target, target_class

if TYPE_CHECKING:
    from narrows.hosts.diagnosis import Diagnosis


def findings(target: str = "soft") -> list[Diagnosis]:
    """Everything a run with a target on this machine depends on, and which other targets it has."""
    from narrows_formats.programs import COLLECTOR, find_binary, missing_binary

    from narrows.hosts import bpf, machine
    from narrows.hosts.diagnosis import Diagnosis
    from narrows.hosts.state import dead_runs
    from narrows.virtual import kernels

    missing_tools = machine.missing_tools()
    loadable = machine.cca_modules()
    found = [
        Diagnosis("permissions", "root", "; ".join(machine.missing_permissions())),
        *(
            Diagnosis("tool", tool, next((text for text in missing_tools if f"'{tool}'" in text), ""))
            for tool in machine.TOOLS
        ),
        Diagnosis("collector", COLLECTOR, "" if find_binary(COLLECTOR) else missing_binary(COLLECTOR)),
        Diagnosis("CCAs", ", ".join(machine.kernel_ccas())),
    ]
    if loadable:
        found.append(Diagnosis("CCAs to load", ", ".join(loadable) + " (modprobe tcp_NAME)"))
    lacks = "; ".join(bpf.lacking())
    can = f"not in real time: {lacks}" if lacks else "can be registered, in real time"
    found.append(Diagnosis("CCAs in BPF", can, absent=bool(lacks)))
    for name in LOCAL:
        lacks = "; ".join(target_class(name)().missing())
        # Few users need all targets.
        usable = name == target or not lacks
        found.append(
            Diagnosis("target", name, lacks) if usable else Diagnosis("target", f"no {name}: {lacks}", absent=True)
        )
    found += _virtual_time()
    leftover = len(dead_runs()) + len(dead_runs(kernels.runs()))
    found.append(
        Diagnosis("killed runs", "none", f"{leftover} left something behind; fix: narrows clean" if leftover else "")
    )
    return found


def _virtual_time() -> list[Diagnosis]:
    """The kernels that guests can boot; having none is not a fault."""
    from narrows.hosts.diagnosis import Diagnosis
    from narrows.virtual import kernels

    found = []
    for kernel in kernels.installed():
        about = kernels.remembered(kernel)
        known = "never booted" if about is None else f"Linux {about.release}, CCAs {', '.join(about.cca_names())}"
        notes = [] if about is None else about.notes(kernels.build_command(kernel))
        found.append(Diagnosis("virtual time", "; ".join([f"kernel {kernel.name}: {known}", *notes])))
    return found or [Diagnosis("virtual time", "no kernel is built; fix: narrows kernel build", absent=True)]


def doctor(
    target: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(NAMES[:-1])}, or {NAMES[-1]}; with an inventory a testbed instead of this machine.",
            autocompletion=completion.of(NAMES),
        ),
    ] = "soft",
    inventory: Inventory = None,
    as_json: Annotated[bool, typer.Option("--json", help="The findings as JSON.")] = False,
) -> None:
    """Show what this machine or testbed can run.

    And how to fix what is missing. Exit code 1 if anything is wrong.
    """
    from narrows.cli.machine_readable import print_json
    from narrows.terminal import Terminal

    console = Terminal(quiet=as_json)
    check_options(target, None, inventory)
    found = findings(target) if inventory is None else lab_target(target).examine(inventory)
    for finding in found:
        mark, style = ("!!", "red") if finding.problem else ("--", "yellow") if finding.absent else ("ok", "green")
        console.print(f"{mark} ", style=style, end="")
        text = f"{finding.subject}: {finding.problem or finding.found}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if as_json:
        print_json([asdict(one) | {"problem": one.problem or None} for one in found])
    raise typer.Exit(EXIT_FAILED if any(finding.problem for finding in found) else 0)
