# SPDX-License-Identifier: Apache-2.0
"""A run of a batch that is still to be made."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from narrows.errors import RunError
from narrows.run.progress import Page
from narrows.run.results import remove_run
from narrows.run.runner import CheckedRun, Outcome, execute


@dataclass(frozen=True)
class Task:
    """A run that is to be made.

    Attributes:
        name: its directory below the batch's; empty if it is that one.
        run: what was checked for it.
        target: as ``--target`` names it.
        directory: where its results go.
        title: what its progress is shown under.
    """

    name: str
    run: CheckedRun
    target: str
    directory: Path
    title: str = ""

    @property
    def expected_s(self) -> float:
        """Seconds that it will take, roughly."""
        return self.run.environment.expected_s(self.run.plan)

    @property
    def worker_options(self) -> tuple[str, ...]:
        """The options of ``narrows run`` by which a worker of a cluster makes the same run, in virtual time."""
        return ("--target", self.target, "--virtual", "--kernel", self.run.environment.kernel)

    def make(self, console: Console, page: Page | None) -> tuple[Outcome | RunError, float]:
        """Make it; returns what became of it, also if it failed before any traffic flowed, and the seconds it took.

        Raises:
            Interrupted: it was stopped before any traffic flowed.
        """
        began = time.monotonic()
        if self.name:
            # An earlier attempt is replaced. A directory that a user named for one run is not.
            remove_run(self.directory)
        try:
            ended: Outcome | RunError = execute(self.run, self.directory, console, self.title, page)
        except RunError as error:
            ended = error
        return ended, time.monotonic() - began


# Of each task its number, what became of it, and how many seconds it took.
Made = Generator[tuple[int, Outcome | RunError, float], None, None]
