# SPDX-License-Identifier: Apache-2.0
"""The command line. Exit codes: 0 done, 1 a run failed, 2 bad input or usage, 130 interrupted."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from narrows.cli import (
    analyze,
    benchmark,
    calibrate,
    check,
    clean,
    collect,
    compare,
    doctor,
    export,
    kernel,
    new,
    pack,
    plan,
    report,
    run,
    runs,
    schema,
    shell,
    suite,
    test,
    tune,
)
from narrows.cli.added import Commands
from narrows.cli.examples import examples_of
from narrows.cli.streams import outlive_readers
from narrows.errors import EXIT_FAILED, EXIT_INTERRUPTED, NarrowsError
from narrows.plain_text import say
from narrows.search_path import SEARCH_PATH

# Objects that a command makes before garbage is looked for; by default it is after 700. Imported modules, most of what
# short commands make, would be gone through again and again, which takes a tenth of their time.
OBJECTS_AT_ONCE = 50_000
# Why a file cannot be written that is no fault of ours.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)

app = typer.Typer(
    name="narrows",
    cls=Commands,
    help="Congestion-control experiments in a bottleneck made of a P4 switch.",
    no_args_is_help=True,
    # Without: it would import a Markdown parser for every --help.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # Commands of commands inherit it.
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 a run failed, 2 bad input or usage, 130 interrupted.",
)
for command in (
    new.new,
    run.run,
    runs.runs,
    check.check,
    test.test,
    tune.tune,
    report.report,
    pack.pack,
    plan.plan,
    compare.compare,
    analyze.analyze,
    export.export,
    collect.collect,
    doctor.doctor,
    calibrate.calibrate,
    benchmark.benchmark,
    clean.clean,
    schema.schema,
):
    app.command(epilog=examples_of(command.__name__))(command)
app.command(context_settings=shell.CONTEXT, epilog=examples_of("shell"))(shell.shell)
app.add_typer(kernel.app, name="kernel")
app.add_typer(suite.app, name="suite")


def _show_version(wanted: bool) -> None:
    if wanted:
        from narrows import __version__

        say(f"narrows {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Congestion-control experiments in a bottleneck made of a P4 switch."""


def main() -> None:
    """Entry point: errors become one message and an exit code."""
    gc.set_threshold(OBJECTS_AT_ONCE)
    outlive_readers()
    if os.geteuid() == 0 and "SUDO_UID" in os.environ:
        # As root on a user's behalf, programs started by name are the system's, even with the user's PATH.
        os.environ["PATH"] = os.pathsep.join([SEARCH_PATH, os.environ.get("PATH", "")])
    # What takes long outside a measurement, the analysis, ends the same way for every signal.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    atexit.register(_ignore_stop_signals)
    try:
        app()
    except NarrowsError as error:
        from narrows.experiment.lines import with_line

        _print_error(map(with_line, str(error).splitlines()))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        _print_error([f"{error.filename or 'a file'} cannot be written: {error.strerror}"])
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    finally:
        # All goes with the process, and Python would look for garbage in it before.
        gc.freeze()


def _print_error(lines: Iterable[str]) -> None:
    from narrows.terminal import Terminal

    console = Terminal(stderr=True)
    for line in lines:
        console.print(f"narrows: {line}", style="red", highlight=False, markup=False, soft_wrap=True)


def _ignore_stop_signals() -> None:
    # The exit code is settled, and Python gives these signals back to the system before it takes its modules apart.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
