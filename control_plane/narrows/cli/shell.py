# SPDX-License-Identifier: Apache-2.0
"""``narrows shell``."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from narrows_formats import files

from narrows.cli.options import KernelName, LocalTarget, Settings, Virtual, mode_of
from narrows.errors import InputError
from narrows.plain_text import note_line
from narrows.targets.registry import LOCAL, target_factory

if TYPE_CHECKING:
    from narrows.experiment.model import Experiment
    from narrows.run.runner import Outcome

FILE_SUFFIXES = (".yaml", ".yml")
# Of a shell without a name.
SHELL = "/bin/sh"
# Options of the command are its own.
CONTEXT = {"allow_interspersed_args": False}


def shell(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE] [--] [COMMAND]...",
            help="An experiment file (.yaml) with the links and flows; then the command and its arguments, or "
            "nothing for your shell.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Rate of the link, towards the command.", show_default="20Mbit")
    ] = None,
    upload: Annotated[str | None, typer.Option(help="Rate of its other direction.", show_default="the same")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="In place of --rate: a trace in Mahimahi's (mm-link's) format.", show_default=False),
    ] = None,
    upload_trace: Annotated[
        Path | None, typer.Option(help="In place of --upload: such a trace.", show_default=False)
    ] = None,
    buffer: Annotated[str | None, typer.Option(help="Depth of both queues.", show_default="1bdp")] = None,
    rtt: Annotated[str | None, typer.Option(help="Base round-trip time.", show_default="40ms")] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            help="How both queues are managed: a kind, or a mapping, as `queue` of an experiment.",
            show_default="tail-drop",
        ),
    ] = None,
    loss: Annotated[str | None, typer.Option(help="Random loss in both directions.", show_default="0")] = None,
    settings: Settings = None,
    nat: Annotated[
        bool, typer.Option("--nat", help="Let the command reach this machine's network, through the link.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="A program at the other end, which listens at {port} before the command starts.",
            show_default=False,
        ),
    ] = None,
    target: LocalTarget = "soft",
    virtual: Virtual = False,
    kernel: KernelName = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the results; must not exist.", show_default="results/shell-TIME")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Show the numbers on a local web page as well.")] = False,
    live_port: Annotated[
        int | None,
        typer.Option(help="TCP port of that page, on 127.0.0.1; implies --live.", show_default="any free one"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but what the command writes.")] = False,
) -> None:
    """Run a command, or a shell, behind a bottleneck.

    Its exit code is the command's, or 128 plus the number of the signal that ended it. Messages about the run go to
    standard error; while the command runs, numbers are in the terminal's title and in the file $NARROWS_FIGURES.
    """
    if target not in LOCAL:
        raise InputError(f"--target {target}: allowed: {', '.join(LOCAL)}")
    file, command = split(words or [])
    if virtual and not command:
        raise InputError("--virtual: a guest has no terminal, and does not wait for input; allowed: with a COMMAND")
    live_page = None
    if live or live_port is not None:
        from narrows.live.server import LivePage

        # Its port is this machine's, of which a user namespace has none.
        live_page = LivePage(live_port or 0)
    if not virtual:
        _have_networks(nat)
    from narrows.cli.run import show
    from narrows.experiment import shell_links as shells
    from narrows.run.progress import PageOfRun
    from narrows.run.results import check_free, default_directory
    from narrows.run.runner import execute
    from narrows.run.shell_run import ShellProgress, check_shell, exit_code
    from narrows.terminal import Terminal

    mode = mode_of(target, virtual, kernel)
    given = {"rate": rate, "upload": upload, "trace": trace, "upload-trace": upload_trace, "buffer": buffer, "rtt": rtt,
             "queue": queue, "loss": loss}  # fmt: skip
    options = {name: None if value is None else str(value) for name, value in given.items()}
    experiment, origin = _experiment(file, options, settings or (), command, server)
    console = Terminal(stderr=True, quiet=quiet)
    directory = out or default_directory(shells.NAME)
    check_free(directory)
    made = target_factory(target, None, None, directory, virtual)(experiment)
    run = check_shell(experiment, made, origin, nat=nat, environment=mode.environment)
    for note in run.notes:
        console.print(note_line(note), style="yellow", highlight=False, markup=False, soft_wrap=True)
    with contextlib.ExitStack() as stack:
        page = None
        if live_page is not None:
            stack.enter_context(live_page)
            console.print(f"live view: {live_page.url}", soft_wrap=True, highlight=False)
            live_page.publish("runs", {"titles": [shells.NAME]})
            page = PageOfRun(0, live_page.publish)
        outcome = execute(run, directory, console, shells.NAME, page, ShellProgress)
        if page is not None:
            page.publish("ended", {"status": outcome.status, "remaining_s": 0.0})
    if virtual:
        _hand_on(outcome)
    show(outcome, console)
    raise typer.Exit(exit_code(outcome))


def _have_networks(nat: bool) -> None:
    """Check that this process can make network namespaces, as root or in a user namespace.

    Raises:
        InputError: it cannot.
    """
    if nat and os.geteuid() != 0:
        raise InputError("--nat: needs root, since it changes this machine's network; fix: run with sudo")
    from narrows.hosts.user_namespace import enter

    enter()


def split(words: list[str]) -> tuple[Path | None, list[str]]:
    """The experiment file, if there is one, and the command.

    Raises:
        InputError: an option follows the file.
    """
    rest, file = list(words), None
    if rest and rest[0].endswith(FILE_SUFFIXES):
        file = Path(rest.pop(0))
        if rest and rest[0].startswith("-") and rest[0] != "--":
            raise InputError(f"{rest[0]}: after {file}; allowed: before it, since what follows is the command")
    if rest[:1] == ["--"]:
        rest.pop(0)
    return file, rest


def _experiment(
    file: Path | None, options: dict[str, str | None], settings: list[str] | tuple[()], command: list[str],
    server: str | None,
) -> tuple[Experiment, str]:  # fmt: skip
    """The experiment of a file or of options, and what error messages about it begin with."""
    from narrows.experiment import shell_links as shells

    data: dict[str, object]
    if file is not None:
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise InputError(f"--{given[0]}: beside {file}; allowed: --set FIELD=VALUE")
        data, origin = shells.read(file, settings), str(file)
    else:
        data, origin = shells.by_options(options, settings), "shell"
    words = command or [os.environ.get("SHELL") or SHELL]
    program = shutil.which(words[0])
    if program is None:
        raise InputError(f"{words[0]}: is not there, or cannot be executed; allowed: a program")
    wanted = shells.Command(
        (str(Path(program).absolute()), *words[1:]), str(Path.cwd()),
        None if server is None else shells.server_words(server),
    )  # fmt: skip
    return shells.experiment_of(data, wanted, origin), origin


def _hand_on(outcome: Outcome) -> None:
    """Write what a command in a guest has written."""
    from narrows.experiment.shell_links import DOWNLOAD

    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        with contextlib.suppress(OSError):
            stream.buffer.write((outcome.directory / files.HOSTS / f"{DOWNLOAD}-1" / f"client.{name}").read_bytes())
            stream.flush()
