# SPDX-License-Identifier: Apache-2.0
"""``narrows study``."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from narrows.cli import completion
from narrows.cli.examples import examples
from narrows.cli.options import AllowMismatch, AnyTarget, Inventory, Mixed, OnCluster, Quiet
from narrows.errors import EXIT_FAILED, EXIT_OK, InputError
from narrows.targets.registry import LOCAL, target_factory

from narrows_studies.names import OFFERS as STUDIES
from narrows_studies.running.processors import CPUS_A_RUN, runs_at_once

if TYPE_CHECKING:
    from narrows_analysis.study_results import Variant
    from rich.console import Console

    from narrows_studies.running.senders import Senders

NEW = "new"
STYLES = {"agrees": "green", "differs": "red", "undecided": "yellow", "not comparable": "yellow", "not run here": "dim"}

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=examples("narrows study claypool2019 --quick", "narrows study claypool2019 --figure 7"))
def study(
    name: Annotated[
        str,
        typer.Argument(
            help=f"Study: {', '.join(STUDIES)}; or `new`, to begin one.",
            show_default=False,
            autocompletion=completion.of(STUDIES),
        ),
    ],
    new_name: Annotated[
        str | None,
        typer.Argument(metavar="[NEW]", help="With `new`: name of the study to begin.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, fewer settings, three repetitions.")] = False,
    controls: Annotated[
        bool,
        typer.Option("--controls", help="Quick points with one thing changed, to find what a difference is due to."),
    ] = False,
    figure: Annotated[
        str | None, typer.Option(help="Only this figure's experiment.", show_default="all figures")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="FIELD=VALUE: only points with that value of a swept field; may be given several times.",
            show_default="all points",
        ),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of each point, at most.", show_default="all")
    ] = None,
    target: AnyTarget = "soft",
    inventory: Inventory = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the results; points that are complete in it are not run again.",
            show_default="results/studies/NAME, NAME-quick or NAME-controls",
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=1, help=f"Runs at once: each takes one processor, or {CPUS_A_RUN} idle ones with --real-time."
        ),
    ] = 1,
    cluster: OnCluster = None,
    real_time: Annotated[
        bool, typer.Option("--real-time", help="In real time, with this machine's kernel; needs root.")
    ] = False,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help="Kernel of hosts; may be given several times.",
            show_default="all that are built",
            autocompletion=completion.kernels,
        ),
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="Figures (svg, pdf, pgf) and the table of claims (csv, tex) in these formats too, with commas.",
            show_default="none",
        ),
    ] = "",
    add: Annotated[
        list[Path] | None,
        typer.Option(
            help="Results of points that were measured elsewhere (results.parquet of another directory, or what "
            "--publish wrote); these are not run again; may be given several times.",
            show_default="none",
        ),
    ] = None,
    allow_mismatch: AllowMismatch = False,
    mixed: Mixed = False,
    publish_to: Annotated[
        Path | None,
        typer.Option(
            "--publish",
            help="Write the comparison page, its plot and the results there too.",
            show_default="only --out",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Repeat a published study, and say how close the results are.

    Continues where it was interrupted. Progress goes to standard error.
    """
    from narrows.batch.cluster import Cluster
    from narrows.cli.machine_readable import results_console
    from narrows.run.results import give_to_user
    from narrows.terminal import Terminal
    from narrows_analysis.study_results import read_results
    from narrows_formats import files
    from rich.table import Table
    from rich.text import Text

    from narrows_studies.evaluate import verdict_text
    from narrows_studies.page import (
        FIGURES,
        control_findings,
        findings,
        keep,
        publish,
        results_path,
        verdict_counts,
    )
    from narrows_studies.running.catalogue import control_points, find_study, select, study_points
    from narrows_studies.running.external_results import most_repetitions, read_external_results
    from narrows_studies.running.nuisances import CARDS
    from narrows_studies.running.run import StudyRun

    progress, console = Terminal(stderr=True, quiet=quiet), results_console()
    if name == NEW:
        _begin(new_name, console)
        return
    if new_name is not None:
        raise InputError(f"{name} {new_name}: one study at a time; allowed: one name, or {NEW} NAME")
    chosen = find_study(name)
    if controls and (quick or figure):
        raise InputError("--controls: together with --quick or --figure; allowed: alone")
    wanted_formats = _formats(formats)
    variant: Variant = "controls" if controls else "quick" if quick else "full"
    virtual = target in LOCAL and not real_time
    cards = {"soft": CARDS, "bmv2": CARDS[:1]}.get(target, ()) if virtual else ()
    directory = out or Path("results") / "studies" / (name if variant == "full" else f"{name}-{variant}")
    if directory.exists() and not directory.is_dir():
        raise InputError(f"--out {directory}: is not a directory; allowed: a directory, or one that does not exist")
    most = max(repeat or 1, most_repetitions([directory / files.STUDY, *(add or ())]))
    everything = (
        control_points(chosen, cards=cards, repetitions=most)
        if controls
        else study_points(chosen, quick, cards=cards, repetitions=most)
    )
    some = everything if figure is None else study_points(chosen, quick, figure, cards=cards, repetitions=most)
    points = select(some, only or (), repeat)
    external = [read_external_results(path, chosen, variant, everything) for path in add or ()]
    senders = _senders(virtual, target, kernel or [], jobs, cluster)
    make_target = target_factory(target, None, inventory, directory, virtual)
    runner = StudyRun(
        chosen, variant, directory, target, make_target, progress, senders, external, allow_mismatch or mixed
    )
    wanted = {point.directory for point in points}
    others = [point for point in everything if point.directory not in wanted]
    with nullcontext() if cluster is None else closing(Cluster(cluster)) as workers:
        results = runner.run(points, jobs, others, workers)
    table = Table(
        "control" if controls else "figure", "published", "ours", "verdict", title=f"{name}, {results.variant}"
    )
    judged = [(one.id, found) for one, found in findings(chosen, results)]
    if controls:
        judged = [(control.change, found) for control, found in control_findings(chosen, results)]
    for title, found in judged:
        if figure is None or title == figure:
            verdict = Text(verdict_text(found), STYLES[found.verdict])
            table.add_row(title, f"{found.statement.says}: {found.statement.agrees_if}", found.ours, verdict)
    console.print(table)
    if not controls:
        of = "" if figure is None else "all figures: "
        console.print(f"{of}{verdict_counts(chosen, results)}", highlight=False)
    # As they are written: with six digits.
    written = read_results(directory / files.STUDY, variant) or results
    pages = {directory: publish(chosen, written, directory, directory, wanted_formats)}
    if publish_to is not None:
        pages[publish_to] = keep(chosen, written, directory, publish_to)
    for place, page in pages.items():
        for made in (page, results_path(chosen, place), place / FIGURES):
            give_to_user(made)
        console.print(f"page: {page}", soft_wrap=True, highlight=False)
    raise typer.Exit(EXIT_FAILED if runner.any_failed else EXIT_OK)


def _begin(name: str | None, console: Console) -> None:
    from narrows.run.results import give_to_user

    from narrows_studies.running.beginning import begin

    if name is None:
        raise InputError(f"{NEW}: without a name; allowed: {NEW} NAME, such as {NEW} cardwell2016")
    for path in begin(name):
        give_to_user(path)
        console.print(f"{path}", soft_wrap=True, highlight=False)
    console.print("next steps: make setup, then docs/studies/adding.md", highlight=False)


def _senders(virtual: bool, target: str, kernels: list[str], jobs: int, cluster: str | None) -> list[Senders]:
    """Where hosts are.

    Raises:
        InputError: options that do not go together, or that ask too much of this machine.
    """
    from narrows_studies.running.senders import guests, this_machine

    if virtual:
        return guests(kernels)
    why = "--real-time" if target in LOCAL else f"--target {target}"
    if cluster is not None:
        raise InputError(f"--cluster: {why} needs machines of its own; allowed: in virtual time")
    if kernels:
        raise InputError(f"--kernel {kernels[0]}: {why} has the running kernel's hosts; allowed: in virtual time")
    if jobs > (most := runs_at_once()):
        raise InputError(f"--jobs {jobs}: with {why} runs disturb one another; allowed: 1 to {most} on this machine")
    return [this_machine()]


def _formats(text: str) -> tuple[str, ...]:
    from narrows_analysis.errors import AnalysisError
    from narrows_analysis.export import parse_formats

    try:
        return parse_formats(text)
    except AnalysisError as error:
        raise InputError(f"--format: {error}") from error
