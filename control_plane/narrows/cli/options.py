# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, and what they mean together."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from narrows_formats.units import UnitError

from narrows.cli import completion
from narrows.errors import InputError
from narrows.targets.registry import IN_A_LAB, LOCAL, NAMES

if TYPE_CHECKING:
    from narrows.batch.sweep import RunMode

_Parsed = TypeVar("_Parsed")
AnyTarget = Annotated[
    str, typer.Option(help=f"Switch to run on: {', '.join(NAMES)}.", autocompletion=completion.of(NAMES))
]
LocalTarget = Annotated[
    str, typer.Option(help=f"Switch to run on: {', '.join(LOCAL)}.", autocompletion=completion.of(LOCAL))
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Results only, no progress.")]
Virtual = Annotated[bool, typer.Option("--virtual", help="In virtual time: exact at any rate, and without root.")]
KernelName = Annotated[
    str | None,
    typer.Option(
        help="Kernel for --virtual: a name, or the path of its image.",
        show_default="default",
        autocompletion=completion.kernels,
    ),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Runs of --virtual at once, a core each.", show_default="all cores")
]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="HOST:PORT of a Dask scheduler whose workers, with the same kernels, make the runs in virtual time.",
        show_default="this machine",
    ),
]
JunitFile = Annotated[Path | None, typer.Option(help="File for the verdicts as JUnit XML.", show_default=False)]
SeriesOut = Annotated[
    Path | None,
    typer.Option(
        help="Directory for the results; must not exist, unless it has the same sweep, which then continues.",
        show_default="results/NAME-TIME",
    ),
]
Inventory = Annotated[
    Path | None, typer.Option(help=f"The testbed (YAML), for {' or '.join(IN_A_LAB)}.", show_default=False)
]
AllowMismatch = Annotated[
    bool, typer.Option("--allow-mismatch", help="With --add, accept runs of other code or another kernel.")
]
# The former name of --allow-mismatch.
Mixed = Annotated[bool, typer.Option("--mixed", hidden=True)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Override a field of the file: bottleneck.rate=50Mbit; may be given several times.",
        show_default=False,
    ),
]


def mode_of(target: str, virtual: bool, kernel: str | None, jobs: int | None = None) -> RunMode:
    """How runs are to be made.

    Raises:
        InputError: an option needs virtual time, or there is no such kernel.
    """
    from narrows.batch.sweep import RunMode
    from narrows.run.environment import THIS_MACHINE

    if kernel is not None and not virtual:
        raise InputError(f"--kernel {kernel}: senders have this machine's kernel; allowed: with --virtual")
    if jobs is not None and not virtual:
        raise InputError(f"--jobs {jobs}: runs in real time would disturb each other; allowed: with --virtual")
    if not virtual:
        return RunMode(target, THIS_MACHINE)
    from narrows.virtual import kernels
    from narrows.virtual.environment import Guests

    return RunMode(target, Guests(kernels.find(kernel or kernels.DEFAULT)))


def check_new_file(option: str, file: Path | None) -> None:
    """See that a file which is written once all runs are made can be.

    Raises:
        InputError: its directory is missing or may not be written, or it is a link, a directory or a device.
    """
    if file is None:
        return
    # It takes the place of what is there, which /dev/stdout, say, is not to lose.
    is_other = file.is_symlink() or (file.exists() and not file.is_file())
    if is_other or not os.access(file.parent, os.W_OK | os.X_OK):
        raise InputError(f"{option} {file}: cannot be written; allowed: a file in a directory that exists, and may be")


def quantity(option: str, text: str, parse: Callable[[str], _Parsed]) -> _Parsed:
    """The quantity that an option has.

    Raises:
        InputError: it is none; the message names the option and what is allowed.
    """
    try:
        return parse(text)
    except UnitError as error:
        raise InputError(f"{option}: '{text}' {error}; allowed: {error.allowed}") from None
