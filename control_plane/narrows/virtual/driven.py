# SPDX-License-Identifier: Apache-2.0
"""The driver of a run as its guest knows it: commands come from outside, and no time passes until they arrive."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from narrows.onhost import wire
from narrows.run.driver import Answer, Command
from narrows.virtual.clock_pause import ClockPause
from narrows.virtual.messages import DriverAnswer


class Outside(Protocol):
    """Takes what the guest says."""

    def send(self, message: object) -> None:
        """One of `narrows.virtual.messages`."""


class GuestDriver:
    """See `narrows.run.driver.Driver`."""

    def __init__(self, outside: Outside, pause: ClockPause) -> None:
        """``outside`` takes the answers."""
        self._outside = outside
        self._pause = pause
        self._commands: deque[Command] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._come: asyncio.Event | None = None

    def take(self, line: str) -> None:
        """A command from the outside; called by the thread that listens."""
        self._commands.append(wire.loads(line))
        if self._loop is not None and self._come is not None:
            self._loop.call_soon_threadsafe(self._come.set)

    async def receive(self) -> Command | None:
        """The next command."""
        self._loop, self._come = asyncio.get_running_loop(), asyncio.Event()
        self._pause.begin()
        try:
            while not self._commands:
                self._come.clear()
                await self._come.wait()
            return self._commands.popleft()
        finally:
            self._pause.end()

    def tell(self, answer: Answer) -> None:
        """An answer."""
        self._outside.send(DriverAnswer(answer))
