# SPDX-License-Identifier: Apache-2.0
"""What is said between a guest and this machine: its progress, and a driver's commands and their answers."""

from __future__ import annotations

import json
import signal
from asyncio import Event
from typing import Any

from narrows.run.measurement import TRAFFIC
from narrows.run.progress import RunProgress
from narrows.run.sampler import FlowRate, LinkState, Snapshot
from narrows.run.stepping import Driver
from narrows.virtual.guard import Guard
from narrows.virtual.guest import Guest


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

    async def until_ended(self) -> dict[str, Any]:
        """Listen until the guest has ended; returns how it said that it ended, empty if it did not say so."""
        ended: dict[str, Any] = {}
        async for line in self._guest.lines():
            event = json.loads(line)
            self.up.set()
            if self._driver is not None and "driver" in event:
                self._answer(event["driver"], self._driver)
            else:
                ended = self._tell(event) or ended
        return ended

    async def pass_commands_on(self) -> None:
        """Tell the guest what the driver says; without a driver any more it ends in order."""
        if self._driver is None:
            return
        while (command := await self._driver.receive()) is not None:
            self._guard.pause(False)
            self._guest.say(json.dumps(command))
        self.driver_ended = True
        self._guard.pause(False)
        self._guest.say(signal.SIGTERM.name)

    def _answer(self, answer: dict[str, Any], driver: Driver) -> None:
        """Pass an answer on to the driver, for whose next command the guest stands still until its traffic is over.

        The driver may have ended while the guest made the answer: then nothing would let it go on.
        """
        is_awaited = "over" not in answer and not self.driver_ended
        self._guard.pause(is_awaited)
        if is_awaited:
            self._guest.halt()
        driver.tell(answer)

    def _tell(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Pass an event on; returns it if it says how the run ended."""
        if "phase" in event:
            self._progress.phase(event["phase"], event["total_s"])
            self._guard.phase(event["total_s"], event["phase"] == TRAFFIC)
        elif "snapshot" in event:
            self._progress.show(_snapshot(event["snapshot"]))
        elif "note" in event:
            self._progress.note(event["note"])
        elif "up" not in event:
            return event
        return None


def _snapshot(data: dict[str, Any]) -> Snapshot:
    flows = {name: tuple(FlowRate(**rate) for rate in data[name]) for name in ("flows", "groups")}
    links = tuple(LinkState(**link) for link in data["links"])
    return Snapshot(**{**data, **flows, "links": links})
