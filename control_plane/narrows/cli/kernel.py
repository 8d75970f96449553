# SPDX-License-Identifier: Apache-2.0
"""``narrows kernel``: the kernels of virtual time."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli import completion
from narrows.cli.examples import examples_of

if TYPE_CHECKING:
    from narrows.virtual.kernels import Kernel

app = typer.Typer(help="Kernels for virtual time: build, list, remove.", no_args_is_help=True)


@app.command(epilog=examples_of("kernel build"))
def build(
    source: Annotated[
        Path | None,
        typer.Option(help="Linux source, a tree or an archive.", show_default="the distribution's newest"),
    ] = None,
    patch: Annotated[
        list[Path] | None, typer.Option(help="A patch to apply to it; may be given several times.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="An option of its configuration, CONFIG_NAME=VALUE; may be given several times."),
    ] = None,
    cca: Annotated[
        list[Path] | None,
        typer.Option(
            help="A C file with a congestion control of your own, which is added to --base in seconds; several times."
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="The kernel that --cca adds to.", show_default="default", autocompletion=completion.kernels),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the kernel, for --kernel.", show_default="default, with --cca the file's"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Compilers at once.", show_default="all processors")] = None,
) -> None:
    """Build a kernel from any Linux source; takes a few minutes, needs no root, and installs nothing."""
    from narrows.errors import InputError
    from narrows.terminal import Terminal
    from narrows.virtual import kernels, own_cca
    from narrows.virtual.build import build as build_kernel

    if cca and (source or patch or config):
        raise InputError("--cca: adds to a kernel that is built; allowed: without --source, --patch and --config")
    if base and not cca:
        raise InputError("--base: is what --cca adds to; allowed: with --cca")
    console = Terminal()
    called = name or (cca[0].stem if cca else kernels.DEFAULT)

    def say(text: str) -> None:
        console.print(f"kernel {called}: {text}", highlight=False, markup=False, soft_wrap=True)

    if kernels.directory(called).exists():
        say("replaces the one of this name, once it is built")
    compilers = jobs or len(os.sched_getaffinity(0))
    if cca:
        kernel, about = own_cca.add(cca, base or kernels.DEFAULT, called, compilers, say)
    else:
        kernel, about = build_kernel(called, source, patch or [], compilers, say, config or [])
    say(f"Linux {about.release}, its clock jumps; {', '.join(about.cca_names())}")
    for note in about.notes(kernels.build_command(kernel)):
        say(f"note: {note}")
    say(str(kernel.path))


@app.command("list", epilog=examples_of("kernel list"))
def list_kernels(
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON; what was not recorded is null.")] = False,
) -> None:
    """Show the kernels that have been built: algorithms, digests, and the files and commands that they are made of."""
    from narrows.cli.machine_readable import print_json
    from narrows.terminal import Terminal
    from narrows.virtual import kernels, origin

    console = Terminal()
    found = kernels.installed()
    if as_json:
        print_json([_as_json(kernel) for kernel in found])
        return
    if not found:
        console.print("no kernel is built; fix: narrows kernel build")
    for kernel in found:
        about = kernels.remembered(kernel)
        what = "unknown" if about is None else f"Linux {about.release}; {', '.join(about.cca_names())}"
        lines = [f"{kernel.name}: {what}"]
        if about is not None:
            lines += [f"image: SHA-256 {about.image_sha256}", f"configuration: SHA-256 {about.config_sha256}"]
        lines += [f"built by: {kernels.built_by(kernel) or 'not recorded'}", *origin.lines_of(kernel)]
        if about is not None:
            lines += [f"note: {note}" for note in about.notes(kernels.build_command(kernel))]
        console.print("\n  ".join(lines), highlight=False, markup=False, soft_wrap=True)


def _as_json(kernel: Kernel) -> dict[str, object]:
    """A kernel as ``--json`` has it."""
    from narrows.virtual import kernels, origin

    about, built_from = kernels.remembered(kernel), origin.recorded(kernel)
    return {
        "name": kernel.name,
        "path": str(kernel.path),
        "about": None if about is None else asdict(about),
        "built_by": kernels.built_by(kernel),
        "origin": None if built_from is None else asdict(built_from),
        "notes": [] if about is None else about.notes(kernels.build_command(kernel)),
    }


@app.command(epilog=examples_of("kernel remove"))
def remove(
    name: Annotated[str, typer.Argument(help="Kernel.", show_default=False, autocompletion=completion.kernels)],
) -> None:
    """Remove a kernel that was built."""
    from narrows.virtual import kernels

    kernels.remove(name)
