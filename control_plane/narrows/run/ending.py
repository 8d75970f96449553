# SPDX-License-Identifier: Apache-2.0
"""How a measurement ends: what makes it less than complete, and the signals that end it early."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

from narrows.errors import RunError
from narrows.run.measured import Status
from narrows.run.stop_signals import already_ending, stop_signals_call


class Ending:
    """A measurement is complete, unless it is degraded; every reason is kept."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.status: Status = "complete"
        self.reasons: list[str] = []
        self._signal: signal.Signals | None = None
        self._has_begun = False

    def degrade(self, status: Status, reason: str) -> None:
        """Note why the run is not complete; one that has failed stays failed."""
        if self.status != "failed":
            self.status = status
        self.reasons.append(reason)

    def interrupt(self) -> None:
        """Note that the run was cut short by the signal that came, if one did."""
        self.degrade("partial", f"interrupted by {self._signal.name if self._signal else 'the system'}")

    def begin(self) -> None:
        """From now on the run ends in order, which no signal cuts short."""
        self._has_begun = True

    @contextlib.contextmanager
    def remembering_failure(self) -> Iterator[None]:
        """A failure of one finishing step must not keep the others from being done."""
        try:
            yield
        except RunError as error:
            self.degrade("failed", str(error))
        except OSError as error:  # a full disk, or too many open files
            self.degrade("failed", f"{error.filename}: {error.strerror}" if error.filename else str(error))

    @contextlib.contextmanager
    def cancelling(self, task: asyncio.Task[object], note: Callable[[str], None]) -> Iterator[None]:
        """The first signal cancels a task, unless it is ending already; each is answered with a ``note``."""

        def stop(number: signal.Signals) -> None:
            if self._signal is not None or self._has_begun:
                note(already_ending(number))
                return
            self._signal = number
            # Before it is said: a terminal that was closed takes no words.
            task.cancel()
            note(f"{number.name}: stopping, and removing what was made ...")

        with stop_signals_call(stop):
            yield
