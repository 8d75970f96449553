# SPDX-License-Identifier: Apache-2.0
"""``narrows suite``: cases of documents, run with one or several congestion controls."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli import completion
from narrows.cli.examples import examples_of
from narrows.cli.options import Jobs, JunitFile, OnCluster, Quiet, check_new_file
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, InputError
from narrows.plain_text import say

if TYPE_CHECKING:
    from narrows_formats.suite_matrix import Cell, Matrix
    from rich.console import Console

    from narrows.batch.cluster import Cluster
    from narrows.suites.running import SuiteRun

STYLES = {"pass": "green", "fail": "red", "not run": "red"}

app = typer.Typer(help="Suites: how a congestion control behaves, case by case.", no_args_is_help=True)

SuiteName = Annotated[str, typer.Argument(help="A suite, or the path of its directory.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


@app.command("list", epilog=examples_of("suite list"))
def list_suites() -> None:
    """List the suites that come with Narrows."""
    from narrows.suites import suite

    for name in suite.built_in():
        found = suite.load(name)
        say(f"{name}: {found.text.title} ({len(found.cases)} cases)")


@app.command(epilog=examples_of("suite show"))
def show(name: SuiteName) -> None:
    """Show a suite's cases: what each tests and expects; or the matrix of a directory of results."""
    from narrows_formats import files

    from narrows.suites import suite

    if (Path(name) / files.MATRIX).is_file():
        _print_matrix(_read(Path(name)))
        return
    found = suite.load(name)
    say(f"{found.name}: {found.text.title}")
    for case in found.cases:
        say(f"\n{case.name}: {'; '.join(case.sections)}")
        say(f"  {case.text.says}")
        say(f"  rule: {case.text.rule}")
        experiment = case.series((case.text.ccas or found.text.ccas)[0]).experiment
        for text in case.text.given:
            say(f"  given: {text}")
        for text in experiment.expect:
            say(f"  expects: {text}")
        questions = [one.question for one in map(experiment.expectation, (*case.text.given, *experiment.expect))]
        needed = dict.fromkeys("bbr_phase" if one.of_visits else one.reading for one in questions if one is not None)
        if needed:
            say(f"  observes: {', '.join(needed)}")
        for outcome, changes in (("passes", case.text.passes_with), ("fails", case.text.fails_with)):
            for code, instead in changes.items():
                say(f"  {outcome} with: {instead or '(nothing)'} in the place of {code}")
        if case.text.failure:
            say(f"  failure: {case.text.failure} ({found.text.source})")


@app.command(epilog=examples_of("suite run"))
def run(
    name: SuiteName,
    cca: Annotated[
        list[str] | None,
        typer.Option(help="Congestion control; may be given several times.", show_default="the suite's"),
    ] = None,
    program: Annotated[
        list[Path] | None,
        typer.Option(
            help="File of a program that takes the place of the sender (client, server and so on, as a group of flows "
            "has them); may be given several times. Without --cca, only programs are tested.",
            show_default=False,
        ),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help="Kernel of the senders; may be given several times.",
            show_default="default",
            autocompletion=completion.kernels,
        ),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case; may be given several times.", show_default="all")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Without the sweeps of settings.")] = False,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Runs of every point.", show_default="as the files say")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the results; what is complete in it is not run again.",
            show_default="results/suites/NAME, or NAME-quick",
        ),
    ] = None,
    jobs: Jobs = None,
    cluster: OnCluster = None,
    junit: JunitFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a suite in virtual time, and judge each case with each congestion control, or program, and kernel.

    Continues where it was interrupted. Ends with 1 if a case fails, or a run did.
    """
    from narrows.batch.cluster import Cluster
    from narrows.cli.machine_readable import print_json
    from narrows.suites import programs, running, suite
    from narrows.terminal import Terminal

    check_new_file("--junit", junit)
    chosen = suite.load(name)
    some = chosen.only(case or ())
    directory = out or Path("results") / "suites" / (chosen.name + ("-quick" if quick else ""))
    asked = [programs.read_program(file) for file in program or ()]
    names = [one.name for one in asked]
    if repeated := [name for name in names if names.count(name) > 1 or name in (cca or ())]:
        raise InputError(f"--program: two senders are called '{repeated[0]}'; allowed: different names (name: ...)")
    ccas = cca or (() if asked else chosen.text.ccas)
    senders = running.senders(ccas, kernel or (), programs=asked)
    runner = running.SuiteRun(some, senders, directory, quick, repeat)
    with nullcontext() if cluster is None else closing(Cluster(cluster)) as workers:
        matrix, page = measure(runner, directory, Terminal(stderr=True, quiet=quiet), jobs, workers)
    if junit is not None:
        from narrows_formats import storage

        storage.write_bytes(junit, running.junit(matrix))
    if as_json:
        print_json(matrix)
    else:
        _print_matrix(matrix)
        say(f"page: {page}")
    if runner.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    bad = any(cell["outcome"] in ("fail", "not run") for cell in matrix["cells"])
    raise typer.Exit(EXIT_FAILED if bad else EXIT_OK)


def measure(
    runner: SuiteRun, directory: Path, console: Console, jobs: int | None, workers: Cluster | None
) -> tuple[Matrix, Path]:
    """Make the runs of a suite in virtual time; the matrix, and its page, which is written with the badge.

    Raises:
        InputError, RunError, Interrupted: as `SuiteRun.run`.
    """
    from narrows_analysis import suite_page
    from narrows_formats import files

    from narrows.run.results import give_to_user
    from narrows.targets.registry import target_factory

    matrix = runner.run(target_factory("soft", None, None, directory, True), console, jobs, workers)
    page = suite_page.write_page(directory, matrix)
    suite_page.write_badge(directory / files.BADGE, matrix)
    for made in (directory / files.MATRIX, page, directory / files.BADGE):
        give_to_user(made)
    return matrix, page


@app.command(epilog=examples_of("suite compare"))
def compare(
    before: Annotated[Path, typer.Argument(help="Directory of a suite's results.", show_default=False)],
    after: Annotated[Path, typer.Argument(help="Another one.", show_default=False)],
    every: Annotated[
        bool, typer.Option("--all", help="List cells that only one of them has, too, as --json does.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two matrices: which cells changed."""
    from narrows.cli.machine_readable import print_json
    from narrows.suites.running import compared

    found = compared(_read(before), _read(after))
    if as_json:
        print_json([one._asdict() for one in found.changes])
        return
    changed = [one for one in found.changes if one.in_both]
    for one in found.changes if every else changed:
        repeated = f"n {one.n_before} and {one.n_after}" if one.in_both and one.n_before != one.n_after else ""
        notes = "; ".join(filter(None, (repeated, one.reason)))
        say(f"{one.case}, {one.sender}: {one.before} -> {one.after}" + (f" ({notes})" if notes else ""))
    counted = (f"{len(changed)} changed, " if changed else "") + f"{found.same} same"
    only = [(before, found.only_before), (after, found.only_after)]
    alone = "".join(f"; only in {place}: {number}" for place, number in only if number)
    say(f"{found.same + len(changed)} cells compared: {counted}{alone}")


def _read(directory: Path) -> Matrix:
    from narrows_formats import files, suite_matrix

    try:
        return suite_matrix.read(directory)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{directory / files.MATRIX}: cannot be read: {reason}; allowed: the directory of a suite's results"
        ) from error


def _print_matrix(matrix: Matrix) -> None:
    from narrows_formats import suite_matrix
    from rich.table import Table
    from rich.text import Text

    from narrows.cli.machine_readable import results_console

    senders = [one["name"] for one in matrix["senders"]]
    found = {(cell["case"], cell["sender"]): cell for cell in matrix["cells"]}
    table = Table("case", *senders, title=f"{matrix['suite']}, {matrix['variant']}")
    for case in matrix["cases"]:
        shown = [found[case["name"], sender] for sender in senders]
        table.add_row(case["name"], *(Text(_outcome(one), STYLES.get(one["outcome"], "yellow")) for one in shown))
    console = results_console()
    console.print(table)
    for cell in matrix["cells"]:
        if cell["reason"]:
            say(f"{cell['case']}, {cell['sender']}: {cell['outcome']}: {cell['reason']}")
    say(f"{matrix['suite']}: {suite_matrix.in_words(matrix)}")


def _outcome(cell: Cell) -> str:
    return cell["outcome"] + (f" (n={cell['n']})" if cell["n"] > 1 else "")
