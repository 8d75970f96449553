# SPDX-License-Identifier: Apache-2.0
"""Runs on this machine: one after the other, or several at once, each in a process of its own, with one display."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from narrows.batch import pool
from narrows.batch.task import Made, Task
from narrows.errors import RunError
from narrows.run.progress import Page, PageOfRun
from narrows.run.runner import Outcome
from narrows.terminal import Terminal

LOOK_EVERY_S = 0.25
LINE_EVERY_S = 10.0


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
        if "remaining_s" in self.pace:
            parts.append(f"about {self.pace['remaining_s']:.0f} s left")
        return ", ".join(part for part in parts if part)


# In a process that makes runs: what takes its news.
_queue: list[Any] = []


def _listen_on(queue: Any) -> None:
    _queue.append(queue)


def _send(kind: str, data: Any) -> None:
    _queue[0].put((kind, data))


def _make(task: Task, number: int) -> tuple[Outcome | RunError, float]:
    return task.make(Terminal(quiet=True), PageOfRun(number, _send))


def one_by_one(tasks: Sequence[Task], console: Console, page: Page | None) -> Made:
    """Make runs one after the other in this process; progress goes to ``console`` and ``page``.

    Raises:
        Interrupted: one was stopped before any traffic flowed.
    """
    for number, task in enumerate(tasks):
        yield number, *task.make(console, None if page is None else PageOfRun(number, page.publish))


def side_by_side(tasks: Sequence[Task], at_once: int, console: Console, page: Page | None) -> Made:
    """Make runs, ``at_once`` at a time, and give each one's number, outcome and seconds when it has ended.

    Progress goes to ``console`` and ``page``.

    Raises:
        Interrupted: one was stopped before any traffic flowed.
    """
    queue = pool.queue()
    display = _Display(tasks, console, page)
    with pool.worker_pool(at_once, _listen_on, queue) as workers, display:
        futures: dict[Future[tuple[Outcome | RunError, float]], int]
        futures = {workers.submit(_make, task, number): number for number, task in enumerate(tasks)}
        while futures:
            ended, _ = wait(futures, timeout=LOOK_EVERY_S, return_when="FIRST_COMPLETED")
            display.look(queue)
            for future in ended:
                number = futures.pop(future)
                display.ended(number)
                yield number, *future.result()


class _Display:
    """The runs under way, a line each; where lines cannot be overwritten, now and then. The page has all they say."""

    def __init__(self, tasks: Sequence[Task], console: Console, page: Page | None) -> None:
        self._tasks = tasks
        self._console = console
        self._page = page
        self._shown: dict[int, _Shown] = {}
        self._over: set[int] = set()
        self._next_line = time.monotonic() + LINE_EVERY_S
        self._live = Live(get_renderable=self._table, console=console, transient=True, refresh_per_second=4)

    def __enter__(self) -> None:
        if self._console.is_terminal:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def look(self, queue: Any) -> None:
        """Take in what runs have published."""
        while not queue.empty():
            kind, data = queue.get()
            number = data["run"]
            if number in self._over:
                continue  # Its outcome came by a shorter path.
            if self._page is not None:
                self._page.publish(kind, data)
            shown = self._shown.setdefault(number, _Shown(self._tasks[number].title, time.monotonic()))
            if kind == "phase":
                shown.phase, shown.pace = data["text"], {}
            elif kind == "pace":
                shown.pace = data
        if not self._console.is_terminal and time.monotonic() > self._next_line:
            self._next_line += LINE_EVERY_S
            for shown in self._shown.values():
                self._console.print(f"{shown.title}: {shown.words()}", highlight=False, markup=False, soft_wrap=True)

    def ended(self, number: int) -> None:
        """Stop showing a run."""
        self._over.add(number)
        self._shown.pop(number, None)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for shown in list(self._shown.values()):
            table.add_row(shown.title, shown.words())
        return table
