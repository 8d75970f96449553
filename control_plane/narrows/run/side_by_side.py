# SPDX-License-Identifier: Apache-2.0
"""Several runs at once, each in a process of its own, with one display for all of them."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from narrows.errors import Interrupted, RunError
from narrows.run.runner import CheckedRun, Outcome, execute
from narrows.run.workers import CONTEXT, worker_pool

LOOK_EVERY_S = 0.25
LINE_EVERY_S = 10.0


@dataclass(frozen=True)
class Wanted:
    """A run, where its results go, and what it is called."""

    run: CheckedRun
    directory: Path
    title: str


@dataclass
class _Shown:
    """What is known of a run under way."""

    title: str
    began: float
    phase: str = ""
    pace: dict[str, float] = field(default_factory=dict)

    def words(self) -> str:
        """What it does: its own time, ours, and how much longer."""
        parts = [self.phase]
        if self.pace:
            parts.append(f"{self.pace['time_s']:.3f} s of {self.pace['total_s']:g} s")
        parts.append(f"{time.monotonic() - self.began:.0f} s so far")
        if "left_s" in self.pace:
            parts.append(f"about {self.pace['left_s']:.0f} s left")
        return ", ".join(part for part in parts if part)


class _Told:
    """The page of a run in a process of its own: what is published goes to the display."""

    def __init__(self, number: int) -> None:
        self._number = number

    def publish(self, kind: str, data: Any) -> None:
        """See `narrows.run.progress.Page`."""
        if kind in ("phase", "pace"):
            _queue[0].put((self._number, kind, data))


# In a process that makes runs: what takes its news.
_queue: list[Any] = []


Ended = Outcome | RunError | Interrupted


def _listen_on(queue: Any) -> None:
    _queue.append(queue)


def _run(wanted: Wanted, number: int) -> tuple[Ended, float]:
    began = time.monotonic()
    ended: Ended
    try:
        ended = execute(wanted.run, wanted.directory, Console(quiet=True), wanted.title, _Told(number))
    except (RunError, Interrupted) as error:
        ended = error
    return ended, time.monotonic() - began


def execute_side_by_side(
    wanted: Sequence[Wanted], at_once: int, console: Console
) -> Generator[tuple[int, Ended, float], None, None]:
    """Make runs and give each one's number, outcome and seconds when it has ended.

    Args:
        wanted: the runs.
        at_once: how many of them may be under way.
        console: where progress goes.
    """
    queue = CONTEXT.Queue()
    display = _Display(wanted, console)
    with worker_pool(at_once, _listen_on, queue) as pool, display:
        futures: dict[Future[tuple[Ended, float]], int]
        futures = {pool.submit(_run, one, number): number for number, one in enumerate(wanted)}
        while futures:
            ended, _ = wait(futures, timeout=LOOK_EVERY_S, return_when="FIRST_COMPLETED")
            display.look(queue)
            for future in ended:
                number = futures.pop(future)
                display.ended(number)
                yield number, *future.result()


class _Display:
    """The runs under way, a line each; where lines cannot be overwritten, now and then."""

    def __init__(self, wanted: Sequence[Wanted], console: Console) -> None:
        self._wanted = wanted
        self._console = console
        self._shown: dict[int, _Shown] = {}
        self._next_line = time.monotonic() + LINE_EVERY_S
        self._live = Live(get_renderable=self._table, console=console, transient=True, refresh_per_second=4)

    def __enter__(self) -> None:
        if self._console.is_terminal:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def look(self, queue: Any) -> None:
        """Take in what runs have told."""
        while not queue.empty():
            number, kind, data = queue.get()
            shown = self._shown.setdefault(number, _Shown(self._wanted[number].title, time.monotonic()))
            if kind == "phase":
                shown.phase, shown.pace = data["text"], {}
            else:
                shown.pace = data
        if not self._console.is_terminal and time.monotonic() > self._next_line:
            self._next_line += LINE_EVERY_S
            for shown in self._shown.values():
                self._console.print(f"{shown.title}: {shown.words()}", highlight=False, markup=False, soft_wrap=True)

    def ended(self, number: int) -> None:
        """A run is not shown any more."""
        self._shown.pop(number, None)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for shown in list(self._shown.values()):
            table.add_row(shown.title, shown.words())
        return table
