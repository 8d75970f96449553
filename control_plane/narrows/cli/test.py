# SPDX-License-Identifier: Apache-2.0
"""``narrows test``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli.options import Jobs, JunitFile, KernelName, LocalTarget, Quiet, Virtual, check_new_file, mode_of
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, InputError, RunError
from narrows.plain_text import say
from narrows.targets.registry import LOCAL, target_factory

if TYPE_CHECKING:
    from rich.console import Console

    from narrows.batch.sweep import RunMode
    from narrows.experiment.sweep import Series
    from narrows.run.verdicts import Verdict


@dataclass(frozen=True)
class _Tested:
    """What became of a file: ``error`` says why its runs are not all complete, empty if they are."""

    error: str
    verdicts: list[Verdict]
    interrupted: bool = False

    @property
    def passed(self) -> bool:
        """Whether all that it expects was met."""
        return not self.error and all(verdict.passed for verdict in self.verdicts)


def test(
    files: Annotated[list[Path], typer.Argument(help="Experiment files with `expect`.", show_default=False)],
    target: LocalTarget = "soft",
    virtual: Virtual = False,
    kernel: KernelName = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for the results, one for each file.", show_default="results/NAME-TIME"),
    ] = None,
    junit: JunitFile = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Verdicts as JSON on standard output.")] = False,
) -> None:
    """Run experiments, and check what they expect.

    A verdict a line on standard output; progress goes to standard error. Ends with 1 if an expectation is not met.
    """

    from narrows.cli.machine_readable import print_json
    from narrows.experiment.sweep import load_series
    from narrows.run.results import default_directory
    from narrows.terminal import Terminal

    if target not in LOCAL:
        raise InputError(f"--target {target}: allowed: {', '.join(LOCAL)}")
    check_new_file("--junit", junit)
    mode = mode_of(target, virtual, kernel, jobs)
    # All files are read before the first run.
    series = [load_series(file) for file in files]
    for file, one in zip(files, series, strict=True):
        if not one.experiment.expect:
            raise InputError(f"{file}: has no expect; allowed: files that expect something")
    console = Terminal(stderr=True, quiet=quiet)
    suites, code = [], EXIT_OK
    for file, one in zip(files, series, strict=True):
        directory = default_directory(one.experiment.name) if out is None else out / one.experiment.name
        began = time.monotonic()
        tested = _run(one, directory, console, mode, jobs, virtual)
        suites.append((str(file), time.monotonic() - began, tested.verdicts, tested.error))
        code = max(code, EXIT_OK if tested.passed else EXIT_FAILED)
        if not as_json:
            _show(file, tested, directory)
        if tested.interrupted:
            code = EXIT_INTERRUPTED
            break
    if as_json:
        found = [
            {"file": file, "error": error or None, "expectations": [verdict.as_json() for verdict in verdicts]}
            for file, _, verdicts, error in suites
        ]
        print_json(found)
    if junit is not None:
        from narrows_formats import storage

        from narrows.run import verdicts as xml

        storage.write_bytes(junit, xml.junit(suites))
    raise typer.Exit(code)


def _run(series: Series, directory: Path, console: Console, mode: RunMode, jobs: int | None, virtual: bool) -> _Tested:
    """Make a file's runs, and judge them."""
    from narrows.batch.sweep import run_series
    from narrows.run import verdicts

    make_target = target_factory(mode.target, None, None, directory, virtual)
    try:
        for outcome in run_series(series, make_target, directory, console, None, mode, jobs):
            if not outcome.is_analysed:
                return _Tested(f"{outcome.status} run: {outcome.reason}", [], outcome.interrupted)
    except RunError as error:
        return _Tested(str(error), [])
    return _Tested("", list(verdicts.judge(series, directory)))


def _show(file: Path, tested: _Tested, directory: Path) -> None:
    for verdict in tested.verdicts:
        say(f"{file}: {verdict.line}")
    if tested.error:
        say(f"{file}: ERROR  {tested.error}")
    say(f"{file}: results in {directory}")
