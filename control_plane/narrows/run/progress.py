# SPDX-License-Identifier: Apache-2.0
"""What the user sees during a run: live figures on a terminal, otherwise a line from time to time, and a page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from narrows.plain_text import plain
from narrows.run import snapshot_text
from narrows.run.sampler import Snapshot

# Where lines cannot be overwritten, figures are printed at this interval.
LINE_EVERY_S = 5.0
PACE_EVERY_S = 10.0


class Page(Protocol):
    """Where progress is shown beside the terminal."""

    def publish(self, kind: str, data: Any) -> None:
        """Show an event, with what belongs to it; `narrows.live.server.LivePage` says which there are."""


@dataclass(frozen=True)
class PageOfRun:
    """A page for one of several runs: what is published has the run's number."""

    number: int
    show: Callable[[str, Any], None]

    def publish(self, kind: str, data: Any) -> None:
        """See `Page`."""
        self.show(kind, {**data, "run": self.number})


class RunProgress:
    """Progress of one run; a context manager."""

    live = True
    """Whether a terminal shows figures that change, and other places lines of them."""

    def __init__(self, console: Console, title: str, setting: str = "", page: Page | None = None) -> None:
        """``title`` begins every line; ``setting`` says on the page what the run is."""
        self._console = console
        self._title = title
        self._setting = setting
        self._page = page
        self._terminal = console.is_terminal and self.live
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", style="dim", markup=False),
            console=console,
        )
        self._snapshot: Snapshot | None = None
        self._next_line_s = LINE_EVERY_S
        self._next_pace = time.monotonic() + PACE_EVERY_S
        self._task: TaskID | None = None
        self._live = Live(get_renderable=self._render, console=console, transient=True, refresh_per_second=4)

    def __enter__(self) -> Self:
        """Begin to display."""
        if self._page is not None:
            self._page.publish("run", {"title": self._title, "setting": self._setting})
        if self._terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the live figures away."""
        if self._terminal:
            self._live.stop()

    def files_in(self, directory: Path) -> None:
        """Processes of the run can read what is in this directory as long as it lasts."""

    def phase(self, text: str, total_s: float | None = None) -> None:
        """Begin a phase; ``total_s`` is how long it will take, if that is known."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(plain(f"{self._title}: {text}"), total=total_s, detail="")
        self._snapshot = None
        if not self._terminal:
            lasts = f" ({total_s:g} s)" if total_s else ""
            self._console.print(f"{self._title}: {text}{lasts}", highlight=False)
        if self._page is not None:
            self._page.publish("phase", {"text": text})

    def show(self, snapshot: Snapshot) -> None:
        """Show figures."""
        if self._page is not None:
            self._page.publish("snapshot", snapshot.as_json())
        self._snapshot = snapshot
        if self._task is not None:
            parts = [snapshot_text.left(snapshot), snapshot_text.running(snapshot), snapshot_text.queue(snapshot)]
            detail = ", ".join(part for part in parts if part)
            self._progress.update(self._task, completed=snapshot.time_s, detail=detail)
        if self.live and not self._terminal and snapshot.time_s >= self._next_line_s:
            self._next_line_s += LINE_EVERY_S
            self._console.print(
                f"{self._title}: {snapshot_text.line(snapshot)}", highlight=False, markup=False, soft_wrap=True
            )

    def pace(self, time_s: float, total_s: float, remaining_s: float | None) -> None:
        """How far a run in virtual time is: its own time of ``total_s``, and our time until it gets there."""
        figures = {
            "time_s": time_s,
            "total_s": total_s,
            **({} if remaining_s is None else {"remaining_s": remaining_s}),
        }
        if self._page is not None:
            self._page.publish("pace", figures)
        left = "" if remaining_s is None else f", about {remaining_s:.0f} s left"
        if self._task is not None:
            self._progress.update(self._task, completed=time_s, detail=f"{time_s:.3f} s of {total_s:g} s{left}")
        if not self._terminal and time.monotonic() >= self._next_pace:
            self._next_pace = time.monotonic() + PACE_EVERY_S
            self._console.print(f"{self._title}: {time_s:.3f} s of {total_s:g} s{left}", highlight=False)

    def mark(self, marks: Sequence[tuple[float, str]]) -> None:
        """What will happen at times, in seconds since the experiment's start, for the page's figures."""
        if self._page is not None and marks:
            self._page.publish("marks", {"marks": [{"x": time_s, "label": label} for time_s, label in marks]})

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, highlight=False)

    def _render(self) -> Group:
        # Called by the display's own thread as well: read once.
        snapshot = self._snapshot
        return Group(self._progress, *([] if snapshot is None else [snapshot_text.table(snapshot)]))
