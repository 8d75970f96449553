# SPDX-License-Identifier: Apache-2.0
"""``narrows tune``."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from narrows.cli import completion
from narrows.cli.options import Jobs, Quiet, SeriesOut, Settings, mode_of
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, InputError, NarrowsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows_analysis.ranking import Ranked
    from narrows_analysis.sweep import Quantity
    from rich.console import Console

    from narrows.experiment.sweep import Series
    from narrows.virtual.variants import Variant

REPETITIONS = 3
DEFAULT_BY = "goodput_bps"
WORSE = {True: "yes", False: "not by more than chance", None: ""}


def tune(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
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
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Runs of each.", show_default=f"the file's, else {REPETITIONS}")
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
    cluster: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT of a Dask scheduler whose workers make the runs; they need that kernel.",
            show_default="this machine",
        ),
    ] = None,
    settings: Settings = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="The ranking as JSON.")] = False,
) -> None:
    """Run an experiment with each variant of a congestion control in C, and rank them.

    All variants are built into one kernel of virtual time, and run as a sweep. One whose code fails is named, and
    ranked last.
    """
    from narrows.batch.cluster import Cluster
    from narrows.batch.sweep import refuse_others, run_series
    from narrows.cli.machine_readable import print_json, results_console
    from narrows.run.results import default_directory
    from narrows.targets.registry import target_factory
    from narrows.terminal import Terminal
    from narrows.virtual import kernels, variants

    console, results = Terminal(stderr=True, quiet=quiet), results_console()
    results.quiet = as_json
    if cluster is not None and jobs is not None:
        raise InputError(f"--cluster {cluster}: workers do not know this machine's --jobs; allowed: without --jobs")
    quantities = _quantities(by or [DEFAULT_BY])
    found = variants.variants(cca, variants.constants(vary or ()))
    series, field, group = _series(file, settings or (), group, [one.cca for one in found], repeat)
    directory = out or default_directory(series.experiment.name)
    refuse_others(series, directory)
    called = name or f"tune-{cca[0].stem}"
    code, workers = EXIT_OK, None
    with contextlib.ExitStack() as stack:
        if cluster is not None:
            workers = stack.enter_context(contextlib.closing(Cluster(cluster)))
        _build(found, directory, base or kernels.DEFAULT, called, console)
        mode = mode_of("soft", True, called, jobs)
        make_target = target_factory("soft", results=directory, virtual=True)
        for outcome in run_series(
            series, make_target, directory, console, None, mode, jobs, workers, (), False, goes_on=True
        ):
            if outcome.interrupted:
                raise typer.Exit(EXIT_INTERRUPTED)
    ranked = _ranked(directory, field, quantities, group)
    labels = {one.cca: one.label for one in found}
    if any(one.found is None for one in ranked[0]):
        code = EXIT_FAILED
    if as_json:
        print_json(_as_json(ranked, quantities, labels))
    _show(ranked, quantities, labels, directory, results)
    raise typer.Exit(code)


def _quantities(columns: Sequence[str]) -> list[Quantity]:
    """The quantities of these columns.

    Raises:
        InputError: there is no such column.
    """
    from narrows_analysis.sweep import QUANTITIES

    known = {one.column: one for one in QUANTITIES}
    if unknown := [column for column in columns if column not in known]:
        raise InputError(f"--by {unknown[0]}: allowed: {', '.join(known)}")
    return [known[column] for column in columns]


def _series(
    file: Path, settings: Sequence[str], group: str | None, ccas: list[str], repeat: int | None
) -> tuple[Series, str, str]:
    """The experiment as a sweep over a group's congestion control, the name of that field, and that of the group.

    Raises:
        InputError: the file is not valid, or there is no such group.
    """
    from narrows.experiment.loader import read_experiment, validate
    from narrows.experiment.sweep import make_series

    data = read_experiment(file, settings)
    names = [one.name for one in validate(data, str(file)).flows]
    chosen = names[0] if group is None else group
    if chosen not in names:
        raise InputError(f"--group {chosen}: {file} has no such group; allowed: {', '.join(names)}")
    own = data["flows"][names.index(chosen)]
    if "cca" not in own:
        raise InputError(f"--group {chosen}: its flows have no congestion control; allowed: a group with cca")
    field = f"flows.{chosen}.cca"
    # It keeps its name, whatever its congestion control.
    own["name"] = chosen
    data["repeat"] = repeat or data.get("repeat", REPETITIONS)
    data["sweep"] = {field: ccas, **(data.get("sweep") or {})}
    return make_series(data, str(file)), field, chosen


def _build(found: Sequence[Variant], directory: Path, base: str, name: str, console: Console) -> None:
    """Build a kernel with the variants, unless it is there already; their C files are kept next to the results."""
    from narrows.virtual import kernels, own_cca

    place = directory.with_name(f"{directory.name}-variants").absolute()
    files = {place / one.file: one.text for one in found}
    if _is_built(files, name, base):
        return
    kernels.find(base)
    place.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")

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


def _ranked(directory: Path, field: str, quantities: Sequence[Quantity], group: str) -> list[list[Ranked]]:
    """The ranking by the first quantity; by each of the others in the same order.

    Raises:
        InputError: no run is complete.
    """
    from narrows_analysis import AnalysisError
    from narrows_analysis.ranking import ranking
    from narrows_analysis.sweep import load_sweep

    try:
        sweep = load_sweep(directory)
    except AnalysisError as error:
        raise InputError(str(error)) from error
    first, *others = [ranking(sweep, field, one, group) for one in quantities]
    order = [one.value for one in first]
    return [first, *(sorted(one, key=lambda ranked: order.index(ranked.value)) for one in others)]


def _show(
    ranked: Sequence[Sequence[Ranked]], quantities: Sequence[Quantity], labels: dict[str, str], directory: Path,
    console: Console,
) -> None:  # fmt: skip
    from rich.table import Table

    from narrows.cli.table import NOT_KNOWN

    table = Table(title="means and 95 % intervals, the best first", title_justify="left")
    for title in ("variant", "cca"):
        table.add_column(title, overflow="fold")
    for quantity in quantities:
        unit = f" ({quantity.unit})" if quantity.unit else ""
        table.add_column(quantity.title + unit, justify="right", overflow="fold")
    table.add_column("worse than the best", overflow="fold")
    for places in zip(*ranked, strict=True):
        first = places[0]
        pairs = zip(places, quantities, strict=True)
        cells = [NOT_KNOWN if one.found is None else quantity.text(one.found) for one, quantity in pairs]
        table.add_row(labels[first.value], first.value, *cells, WORSE[first.is_worse])
    console.print(table)
    console.print(f"results: {directory}", soft_wrap=True, highlight=False)


def _as_json(
    ranked: Sequence[Sequence[Ranked]], quantities: Sequence[Quantity], labels: dict[str, str]
) -> list[dict[str, Any]]:
    return [
        {
            "variant": labels[places[0].value],
            "cca": places[0].value,
            "is_worse": places[0].is_worse,
            **{
                quantity.column: None
                if one.found is None
                else {"mean": one.found.mean, "interval": one.found.interval, "n": one.found.count}
                for one, quantity in zip(places, quantities, strict=True)
            },
        }
        for places in zip(*ranked, strict=True)
    ]
