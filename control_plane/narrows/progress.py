# SPDX-License-Identifier: Apache-2.0
"""What the user sees while a run is under way: a live line on a terminal, one line a phase elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from narrows.targets.base import QueueStats


class RunProgress:
    """Progress of one run; a context manager."""

    def __init__(self, console: Console, title: str) -> None:
        """``title`` begins every line."""
        self._console = console
        self._title = title
        self._live = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}", style="dim"),
            console=console,
            transient=True,
            disable=not self._live,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        """Begin to display."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the live line away."""
        self._progress.stop()

    def phase(self, text: str, total_s: float | None = None) -> None:
        """Begin a phase; ``total_s`` is how long it will take, if that is known."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(f"{self._title}: {text}", total=total_s, detail="")
        if not self._live:
            lasts = f" ({total_s:g} s)" if total_s else ""
            self._console.print(f"{self._title}: {text}{lasts}", highlight=False)

    def queue(self, elapsed_s: float, active: int, queue: QueueStats) -> None:
        """Show a reading of the bottleneck's queue."""
        if self._task is not None:
            if queue.depth_bytes is None:
                seen = f"{queue.dequeued_packets} packets through"
            else:
                seen = f"queue {queue.depth_bytes / 1000:.0f} kB, {queue.dropped_packets} drops"
            self._progress.update(self._task, completed=elapsed_s, detail=f"{active} flows, {seen}")

    def note(self, text: str) -> None:
        """A line that stays."""
        self._progress.console.print(text, highlight=False)
