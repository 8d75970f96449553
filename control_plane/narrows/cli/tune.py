# SPDX-License-Identifier: Apache-2.0
"""``narrows tune``."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli import completion
from narrows.cli.options import Jobs, OnCluster, Quiet, SeriesOut, Settings
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, InputError, NarrowsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from narrows.virtual.variants import Variant

REPETITIONS = 3
DEFAULT_BY = "goodput_bps"


def tune(
    file: Annotated[
        str,
        typer.Argument(
            help="Experiment file (YAML), or a suite: its name, or the path of its directory.", show_default=False
        ),
    ],
    cca: Annotated[
        list[Path],
        typer.Option(help="A C file with a congestion control; may be given several times.", show_default=False),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,VALUE",
            help="Values of a constant of the files, a #define or a module parameter; several times: all combinations.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The group of flows that has it.", show_default="the file's first")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="What ranks them, a column of sweep.parquet: the least of delays and losses is best, else the most. "
            "Further ones are shown.",
            show_default=DEFAULT_BY,
        ),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Of a suite, only this case; may be given several times.", show_default="all"),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            help="A congestion control whose cases of the suite apply to the variants, too.", show_default=False
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Of a suite, without the sweeps of settings.")] = False,
    repeat: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of each.", show_default=f"the file's, else {REPETITIONS}, of a suite 1"),
    ] = None,
    out: SeriesOut = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The kernel that the files are added to.", show_default="default", autocompletion=completion.kernels
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the kernel with all variants.", show_default="tune-FILE")
    ] = None,
    jobs: Jobs = None,
    cluster: OnCluster = None,
    settings: Settings = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="The ranking as JSON.")] = False,
) -> None:
    """Run an experiment or a suite with each variant of a congestion control in C, and rank them.

    All variants are built into one kernel of virtual time, and run as a sweep, or as senders of the suite, which are
    ranked by the cases passed. One whose code fails is named, and ranked last.
    """
    from narrows.batch.cluster import Cluster
    from narrows.cli.machine_readable import results_console
    from narrows.cli.tuned_experiment import TunedExperiment
    from narrows.cli.tuned_suite import TunedSuite
    from narrows.terminal import Terminal
    from narrows.virtual import kernels, variants

    console, results = Terminal(stderr=True, quiet=quiet), results_console()
    results.quiet = as_json
    if cluster is not None and jobs is not None:
        raise InputError(f"--cluster {cluster}: workers do not know this machine's --jobs; allowed: without --jobs")
    path = Path(file)
    is_suite = path.is_dir() or not (path.suffix or path.is_file())
    of_other = {"--group": group, "--by": by, "--set": settings} if is_suite else {
        "--case": case, "--like": like, "--quick": quick
    }  # fmt: skip
    if given := [option for option, value in of_other.items() if value]:
        raise InputError(f"{given[0]}: {file} is {'a suite' if is_suite else 'an experiment'}; allowed: without it")
    found = variants.variants(cca, variants.constants(vary or ()))
    labels = {one.cca: one.label for one in found}
    tuned = (
        TunedSuite(file, case or (), like or "", quick, [*labels], repeat)
        if is_suite
        else TunedExperiment(path, settings or (), group, by or [DEFAULT_BY], [*labels], repeat, REPETITIONS)
    )
    directory = tuned.directory(out)
    called, workers = name or f"tune-{cca[0].stem}", None
    with contextlib.ExitStack() as stack:
        if cluster is not None:
            workers = stack.enter_context(contextlib.closing(Cluster(cluster)))
        _build(found, directory, base or kernels.DEFAULT, called, console)
        if not tuned.measure(called, directory, console, jobs, workers):
            raise typer.Exit(EXIT_INTERRUPTED)
    raise typer.Exit(EXIT_OK if tuned.report(directory, labels, results, as_json) else EXIT_FAILED)


def _build(found: Sequence[Variant], directory: Path, base: str, name: str, console: Console) -> None:
    """Build a kernel with the variants, unless it is there already; their C files are kept next to the results."""
    from narrows_formats import storage

    from narrows.virtual import kernels, own_cca

    place = directory.with_name(f"{directory.name}-variants").absolute()
    files = {place / one.file: one.text for one in found}
    if _is_built(files, name, base):
        return
    kernels.find(base)
    place.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        storage.write_text(file, text)

    def say(text: str) -> None:
        console.print(f"kernel {name}: {text}", highlight=False, markup=False, soft_wrap=True)

    say(f"{len(found)} variants, their C files are in {place}")
    try:
        _, about = own_cca.add([*files], base, name, len(os.sched_getaffinity(0)), say)
    except NarrowsError:
        shutil.rmtree(place)
        raise
    if lacks := [one.cca for one in found if one.cca not in about.ccas]:
        kernels.remove(name)
        raise InputError(
            f"kernel {name}: is not kept: it has no {', '.join(lacks)}; allowed: names that the files register"
        )


def _is_built(files: dict[Path, str], name: str, base: str) -> bool:
    """Whether a kernel is one of these files, as they are on disk."""
    from narrows.virtual import kernels, own_cca

    if name not in {one.name for one in kernels.installed()}:
        return False
    command = kernels.command_of(name, own_cca.options([*files], base))
    as_they_are = all(file.is_file() and file.read_text(encoding="utf-8") == text for file, text in files.items())
    return as_they_are and kernels.build_command(kernels.find(name)) == command
