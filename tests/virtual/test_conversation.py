# SPDX-License-Identifier: Apache-2.0
"""What a guest and this machine say to each other, when the driver of the run ends meanwhile."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from narrows.onhost import wire
from narrows.run.driver import Answer, Command, MadeAt, RunUntil
from narrows.virtual.conversation import Conversation
from narrows.virtual.messages import DriverAnswer


class Guest:
    """Makes an answer, which it was asked for before its driver ended."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.halted = False

    async def lines(self) -> AsyncIterator[bytes]:
        while not self.heard:
            await asyncio.sleep(0)
        yield wire.dumps(DriverAnswer(MadeAt(1))).encode()

    def say(self, word: str) -> None:
        self.heard.append(word)
        self.halted = False

    def halt(self) -> None:
        self.halted = True


class Guard:
    def pause(self, is_paused: bool) -> None:
        self.is_paused = is_paused


class Driver:
    def __init__(self, *commands: Command) -> None:
        self._commands = list(commands)

    async def receive(self) -> Command | None:
        return self._commands.pop(0) if self._commands else None

    def tell(self, answer: Answer) -> None:
        pass


@pytest.mark.parametrize("commands", [(), (RunUntil(1),)])
def test_a_guest_whose_driver_has_ended_is_not_halted(commands: tuple[Command, ...]) -> None:
    async def talk() -> None:
        guest, guard = Guest(), Guard()
        talking: Any = Conversation(guest, guard, None, Driver(*commands))  # type: ignore[arg-type]
        ending = asyncio.create_task(talking.pass_commands_on())
        await talking.until_ended()
        await ending
        assert guest.heard[-1] == signal.SIGTERM.name and talking.driver_ended
        assert not guest.halted and not guard.is_paused

    asyncio.run(talk())
