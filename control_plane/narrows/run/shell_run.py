# SPDX-License-Identifier: Apache-2.0
"""A command behind an experiment's links, in our terminal: its run, and what is shown of it meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

from narrows_formats import files, storage

from narrows.errors import EXIT_FAILED, InputError
from narrows.experiment.model import Experiment
from narrows.experiment.shell_links import with_shell
from narrows.hosts import uplink
from narrows.run import snapshot_text
from narrows.run.environment import THIS_MACHINE, Environment
from narrows.run.progress import RunProgress
from narrows.run.runner import CheckedRun, Outcome, check
from narrows.run.sampler import Snapshot
from narrows.targets.base import Target
from narrows.traffic.terminal_command import FIGURES

# Of a shell whose command was ended by a signal, as in sh.
SIGNALLED = 128
# xterm's control sequences, which others know or ignore: keep the title, set it, have it again.
KEEP_TITLE, SET_TITLE, OLD_TITLE = "\x1b[22;0t", "\x1b]2;{}\x07", "\x1b[23;0t"


class ShellProgress(RunProgress):
    """Nothing is written over what a command shows: figures are in the terminal's title, and a file has them."""

    live = False

    def __enter__(self) -> ShellProgress:
        """Keep the terminal's title."""
        super().__enter__()
        self._file: Path | None = None
        self._title_set = False
        self._shown_s = -1
        return self

    def files_in(self, directory: Path) -> None:
        """See `RunProgress.files_in`."""
        self._file = directory / FIGURES
        self._file.write_text("")

    def show(self, snapshot: Snapshot) -> None:
        """Show figures."""
        super().show(snapshot)
        line = snapshot_text.line(snapshot)
        if self._file is not None:
            storage.write_text(self._file, f"{line}\n")
        if self._console.is_terminal and not self._console.is_dumb_terminal and not self._console.quiet:
            if not self._title_set:
                self._write(KEEP_TITLE)
                self._title_set = True
            if (second := int(snapshot.time_s)) != self._shown_s:
                self._write(SET_TITLE.format(line))
                self._shown_s = second

    def phase(self, text: str, total_s: float | None = None) -> None:
        """Begin a phase."""
        if self._title_set:
            self._write(OLD_TITLE)
            self._title_set = False
        super().phase(text, total_s)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._console.file.fileno(), text.encode())


def check_shell(
    experiment: Experiment, target: Target, origin: str, *, nat: bool, environment: Environment = THIS_MACHINE
) -> CheckedRun:
    """Everything that can be known to go wrong before anything is created; see `narrows.run.runner.check`.

    Args:
        experiment: of `narrows.experiment.shell_links.experiment_of`.
        target: the switch.
        origin: what error messages begin with.
        nat: whether the command reaches this machine's network.
        environment: where it will be run; in real time the command has our terminal.

    Raises:
        InputError: one line for every reason why it cannot be done.
    """
    run = check(experiment, target, origin, environment)
    here = not environment.kernel
    notes = run.notes
    if nat:
        problems = [] if here else ["--nat: a guest has no network beyond it; allowed: without --virtual"]
        problems += uplink.problems()
        if experiment.ip_version != 4:
            problems.append(f"{origin}: ip_version: is 6; allowed with --nat: 4")
        if problems:
            raise InputError("\n".join(problems))
        notes = (*notes, *uplink.notes())
    return replace(run, plan=with_shell(run.plan, terminal=here, nat=nat), notes=notes)


def exit_code(outcome: Outcome) -> int:
    """What the command ended with; of one that did not, a failure's."""
    try:
        flows = json.loads((outcome.directory / files.RUN).read_text(encoding="utf-8"))["flows"]
        found = next(one["application"]["client"] for one in flows if "client" in one.get("application", {}))
    except (OSError, ValueError, KeyError, StopIteration):
        return EXIT_FAILED
    if found["signal"] is not None:
        return SIGNALLED + signal.Signals[found["signal"]]
    code = int(found["exit_code"])
    return code or (EXIT_FAILED if outcome.status == "failed" else 0)
