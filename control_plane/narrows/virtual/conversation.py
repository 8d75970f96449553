# SPDX-License-Identifier: Apache-2.0
"""What is said between a guest and this machine: its progress, and a driver's commands and their answers."""

from __future__ import annotations

import signal
from asyncio import Event

from narrows.onhost import wire
from narrows.run.driver import Answer, Driver, Over
from narrows.run.measurement import TRAFFIC
from narrows.run.progress import RunProgress
from narrows.run.sampler import Snapshot
from narrows.virtual.guard import Guard
from narrows.virtual.guest import Guest
from narrows.virtual.messages import DriverAnswer, Ending, Note, Phase


class Conversation:
    """With one guest."""

    def __init__(self, guest: Guest, guard: Guard, progress: RunProgress, driver: Driver | None) -> None:
        """Nothing is said before `until_ended`; ``driver`` drives the run, if there is one."""
        self._guest = guest
        self._guard = guard
        self._progress = progress
        self._driver = driver
        self.up = Event()
        """The guest has said something."""
        self.driver_ended = False
        """Whether the run was ended because its driver had."""

    async def until_ended(self) -> Ending | None:
        """Listen until the guest has ended; returns how it said that its run ended, None if it did not say so."""
        ending: Ending | None = None
        async for line in self._guest.lines():
            message = wire.loads(line)
            self.up.set()
            if isinstance(message, Ending):
                ending = message
            else:
                self._pass_on(message)
        return ending

    async def pass_commands_on(self) -> None:
        """Tell the guest what the driver says; without a driver any more it ends in order."""
        if self._driver is None:
            return
        while (command := await self._driver.receive()) is not None:
            self._guard.pause(False)
            self._guest.say(wire.dumps(command))
        self.driver_ended = True
        self._guard.pause(False)
        self._guest.say(signal.SIGTERM.name)

    def _pass_on(self, message: object) -> None:
        """Show what there is to show, and give the driver its answer."""
        match message:
            case Phase(text, total_s):
                self._progress.phase(text, total_s)
                self._guard.phase(total_s, text == TRAFFIC)
            case Snapshot():
                self._progress.show(message)
            case Note(text):
                self._progress.note(text)
            case DriverAnswer(answer) if self._driver is not None:
                self._answer(answer, self._driver)

    def _answer(self, answer: Answer, driver: Driver) -> None:
        """Pass an answer on to the driver, for whose next command the guest stands still until its traffic is over.

        The driver may have ended while the guest made the answer: then nothing would let it go on.
        """
        is_awaited = not (isinstance(answer, Over) or self.driver_ended)
        self._guard.pause(is_awaited)
        if is_awaited:
            self._guest.halt()
        driver.tell(answer)
